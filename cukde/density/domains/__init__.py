"""Bounded and periodic domains."""
