"""The warnings a caller may want to filter by category."""


class NegativeDensityWarning(UserWarning):
    """A Laplace-corrected density was negative somewhere and was clipped to zero there."""
