"""Estimates made of several densities."""
