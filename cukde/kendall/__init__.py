"""Kendall's tau."""
