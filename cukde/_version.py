"""The version, by itself: whoever needs it need not load the package."""

__version__ = "0.1.0"
