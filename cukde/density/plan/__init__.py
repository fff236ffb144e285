"""Which pass takes the pairs of a call, by sizes and options alone."""
