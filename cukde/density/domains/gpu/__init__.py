"""Products of one-dimensional sums by CUDA."""
