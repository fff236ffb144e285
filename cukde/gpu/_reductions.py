"""Reductions over points, left on the device: what the check of a call's arguments asks for."""

from __future__ import annotations

import functools
from typing import Any

import cupy as cp
import numpy as np

# Columns that a mean is first taken of: enough for every multiprocessor.
_COLUMNS_OF_MEAN = 2**14


def all_finite(a: Any) -> Any:
    """Whether no entry is NaN or infinite: a boolean array of no dimensions, in one launch."""
    if a.dtype.kind != "f":
        return cp.ones((), dtype=bool)
    return _kernel_of_all_finite()(a)


def squared_radius(A: Any, centre: Any) -> Any:
    """Largest squared distance of a row to ``centre``, float64 of no dimensions; 0 where there are no rows."""
    if A.shape[0] == 0:
        return cp.zeros(())
    A = cp.ascontiguousarray(A)
    distances = cp.empty(A.shape[0])
    return _kernel_of_squared_distance()(A, centre, np.int64(A.shape[1]), distances).max()


def mean(A: Any) -> Any:
    """Mean of the rows, float64."""
    n, d = A.shape
    # A reduction of few columns keeps few multiprocessors busy: many rows side by side are many columns.
    fold = max(1, _COLUMNS_OF_MEAN // d)
    folded = n // fold * fold
    sums = A[:folded].reshape(folded // fold, fold * d).sum(axis=0, dtype=cp.float64).reshape(fold, d).sum(axis=0)
    return (sums + A[folded:].sum(axis=0, dtype=cp.float64)) / n


@functools.cache
def _kernel_of_all_finite() -> Any:
    return cp.ReductionKernel("T x", "bool y", "isfinite(x)", "a && b", "y = a", "true", "cukde_all_finite")


@functools.cache
def _kernel_of_squared_distance() -> Any:
    return cp.ElementwiseKernel(
        "raw T A, raw float64 centre, int64 d",
        "float64 y",
        """
        y = 0;
        for (long long k = 0; k < d; k++) {
            const double step = A[i * d + k] - centre[k];
            y += step * step;
        }
        """,
        "cukde_squared_distance",
    )
