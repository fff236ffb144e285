"""Arrays in host memory. Apart from :mod:`cukde.cpu`, which loads Numba, so that arguments are read without it."""

from __future__ import annotations

from typing import Any

import numpy as np


def asarray(a: Any) -> np.ndarray:
    """Take anything array-like (lists, pandas, polars, DLPack in host memory) as a NumPy array."""
    if not hasattr(a, "__array__") and hasattr(a, "__dlpack__"):
        return np.from_dlpack(a)
    return np.asarray(a)
