"""The sources' tables and figures, measured anew on the hardware that is there: ``python -m benchmarks.sources``."""
