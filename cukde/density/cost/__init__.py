"""Costs of calls of the density family."""
