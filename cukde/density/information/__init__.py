"""Entropy, mutual information and divergence, of log densities at the data."""
