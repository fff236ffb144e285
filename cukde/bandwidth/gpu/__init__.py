"""Sums of cross-validation by CUDA kernels."""
