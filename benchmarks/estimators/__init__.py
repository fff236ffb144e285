"""Benchmarks of estimators."""
