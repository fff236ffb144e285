"""Stacks by the difference kernel."""
