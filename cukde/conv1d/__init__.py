"""Depthwise one-dimensional convolution."""
