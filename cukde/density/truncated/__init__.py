"""Sums to a tolerance, in two and three dimensions."""
