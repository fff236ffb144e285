"""Benchmarks of densities on the sphere."""
