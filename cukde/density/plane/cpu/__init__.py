"""The fast Gauss transform of the plane by Numba."""
