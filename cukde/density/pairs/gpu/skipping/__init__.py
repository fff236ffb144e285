"""Passes that leave out the pairs that cannot matter, with a bound on what they leave out."""
