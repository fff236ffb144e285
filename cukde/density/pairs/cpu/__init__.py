"""Sums over all pairs by BLAS and Numba."""
