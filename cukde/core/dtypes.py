"""TODO"""

from __future__ import annotations

import functools

import numpy as np


@functools.lru_cache(maxsize=1024)
def promoted(*dtypes: np.dtype) -> np.dtype:
    """NumPy's promoted dtype, kept: a small call on a GPU would wait for it."""
    return np.result_type(*dtypes)


def arithmetic(dtype: np.dtype) -> np.dtype:
    """The dtype that values at x of ``dtype`` are computed in: float16 in float32, the others in their own."""
    return np.dtype(np.float32) if dtype.itemsize == 2 else dtype
