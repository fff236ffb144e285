"""Piecewise polynomials by Numba."""
