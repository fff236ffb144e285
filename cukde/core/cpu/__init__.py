"""The CPU backend's shared parts: arrays in host memory, compiled loops and threads."""
