"""What every family shares; it knows none of them."""
