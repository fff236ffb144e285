"""The CPU backend: NumPy arrays, Numba kernels, BLAS for the products."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from typing import Any

import numpy as np

from cukde.cpu import density

__all__ = ["all_finite", "asarray", "asnumpy", "density", "device_of", "mean", "squared_radius", "to_floats", "xp"]

xp = np


def asarray(a: Any) -> np.ndarray:
    """Take anything array-like (lists, pandas, polars, DLPack in host memory) as a NumPy array."""
    if not hasattr(a, "__array__") and hasattr(a, "__dlpack__"):
        return np.from_dlpack(a)
    return np.asarray(a)


def asnumpy(a: Any) -> np.ndarray:
    """Return the array itself: it is on the host."""
    return np.asarray(a)


def device_of(a: Any) -> contextlib.AbstractContextManager[Any]:
    """Nothing to choose: there is one CPU."""
    return contextlib.nullcontext()


def all_finite(a: np.ndarray) -> np.bool:
    """Whether no entry is NaN or infinite."""
    return np.isfinite(a).all()


def mean(A: np.ndarray) -> np.ndarray:
    """Mean of the rows, float64."""
    out: np.ndarray = A.mean(axis=0, dtype=np.float64)
    return out


def squared_radius(A: np.ndarray, centre: np.ndarray) -> float:
    """Largest squared distance of a row to ``centre``; 0 where there are no rows."""
    largest = 0.0
    with np.errstate(over="ignore", invalid="ignore"):
        for rows in np.array_split(A, max(1, A.size // 2**20)):  # bounded temporaries
            if len(rows):
                largest = np.maximum(largest, np.square(rows - centre).sum(axis=1).max())
    return float(largest)


def to_floats(figures: Iterable[Any]) -> list[float]:
    """Return scalars of the backend as Python floats."""
    return [float(figure) for figure in figures]
