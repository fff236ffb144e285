"""Sums of cross-validation by Numba."""
