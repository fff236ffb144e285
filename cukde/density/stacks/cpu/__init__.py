"""Stacks by Numba."""
