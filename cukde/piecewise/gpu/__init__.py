"""Piecewise polynomials by CUDA kernels."""
