"""Sums over all pairs of a query and a point."""
