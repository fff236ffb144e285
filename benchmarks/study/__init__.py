"""Kernels that are there to be measured against, not to be used; their sources are in ``kernels_cu/study``."""
