"""The fast Gauss transform by Numba CUDA."""
