"""Kernel density estimation, its bias-reduced forms and the score."""
