"""The fast Gauss transform of two or three columns by CUDA."""
