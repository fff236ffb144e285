"""What calls of the density family cost."""
