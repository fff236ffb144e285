"""Kendall's tau by CUDA kernels."""
