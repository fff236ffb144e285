"""Sums to a tolerance by Numba."""
