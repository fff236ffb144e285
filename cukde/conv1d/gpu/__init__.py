"""Depthwise convolution by CUDA kernels and Fourier transforms."""
