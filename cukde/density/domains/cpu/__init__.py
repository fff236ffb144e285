"""Products of one-dimensional sums by Numba."""
