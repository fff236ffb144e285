"""Sums over all pairs by CUDA kernels."""
