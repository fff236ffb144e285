"""Reference rules for the bandwidth."""
