"""Many densities of one size at once."""
