"""What sums over all pairs cost."""
