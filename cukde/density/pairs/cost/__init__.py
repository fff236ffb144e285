"""Costs of sums over all pairs."""
