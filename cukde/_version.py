"""The version, by itself: whoever needs it need not load the package."""

__version__ = "0.3.0"
