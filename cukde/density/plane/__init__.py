"""The fast Gauss transform of the plane."""
