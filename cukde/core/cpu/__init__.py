"""Arrays in host memory, compiled loops, threads."""
