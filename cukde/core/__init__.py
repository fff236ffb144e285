"""Code that all families share, and that knows none of them."""
