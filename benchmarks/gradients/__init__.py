"""Benchmarks of gradients."""
