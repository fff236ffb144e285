"""The sources' tables, measured anew on the hardware that is there: ``python -m benchmarks.sources``."""
