"""Dtypes of results and of the arithmetic."""

from __future__ import annotations

import functools

import numpy as np


@functools.lru_cache(maxsize=1024)
def promoted(*dtypes: np.dtype) -> np.dtype:
    """Return NumPy's promoted dtype, cached: it takes a good part of a small GPU call."""
    return np.result_type(*dtypes)


def arithmetic(dtype: np.dtype) -> np.dtype:
    """Return the dtype of the arithmetic on ``dtype``: float32 for float16, otherwise ``dtype`` itself."""
    return np.dtype(np.float32) if dtype.itemsize == 2 else dtype


def of_results(*dtypes: np.dtype) -> np.dtype:
    """Return the dtype of what is computed of such arrays: float16 rises to float32, integers to float64."""
    dtype = promoted(*dtypes)
    if dtype.kind != "f":
        return np.dtype(np.float64)
    return arithmetic(dtype)
