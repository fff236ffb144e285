"""What benchmarks share: records of runs, the commit that they are of, calibrations, and comparisons."""
