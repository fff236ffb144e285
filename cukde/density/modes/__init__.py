"""Modes of a density, by mean shift and Newton steps."""
