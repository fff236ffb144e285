"""Kendall's tau by Numba."""
