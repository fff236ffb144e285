"""Piecewise polynomials, their fits, and functions made of them."""
