"""Depthwise convolution by Numba and Fourier transforms."""
