"""The fast Gauss transform of one column."""
