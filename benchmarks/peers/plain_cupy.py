"""What a CuPy user writes: Gram matrix, exponential, sums; in tiles of queries that fit in memory, or all at once.

Settings are CuPy's defaults: products by cuBLAS in the arrays' own precision. A tile has 2^30 elements at most, 4 GiB
of float32, by our choice.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import cupy as cp

_ELEMENTS = 2**30


def _exponent_tiles(X: Any, Y: Any, h: float) -> Iterator[tuple[slice, Any]]:
    norms = (X * X).sum(1)
    step = max(1, _ELEMENTS // len(X))
    for start in range(0, len(Y), step):
        rows = slice(start, start + step)
        y = Y[rows]
        squares = (y * y).sum(1)[:, None] + norms - 2 * (y @ X.T)
        yield rows, squares * (-0.5 / h**2)


def _constant(X: Any, h: float) -> float:
    n, d = X.shape
    return math.exp(-0.5 * d * math.log(2 * math.pi * h * h)) / n


def kde(X: Any, Y: Any, h: float) -> Any:
    """Density."""
    out = cp.empty(len(Y), X.dtype)
    for rows, exponents in _exponent_tiles(X, Y, h):
        out[rows] = cp.exp(exponents).sum(1)
    return out * _constant(X, h)


def sd_kde(X: Any, Y: Any, h: float) -> Any:
    """Density of the debiased data."""
    moved = cp.empty_like(X)
    for rows, exponents in _exponent_tiles(X, X, h):
        phi = cp.exp(exponents)
        moved[rows] = 0.5 * (X[rows] + phi @ X / phi.sum(1)[:, None])
    return kde(moved, Y, h)


def laplace_kde(X: Any, Y: Any, h: float) -> Any:
    """Laplace-corrected density, by one sweep over the pairs."""
    out = cp.empty(len(Y), X.dtype)
    for rows, exponents in _exponent_tiles(X, Y, h):
        out[rows] = (cp.exp(exponents) * (exponents + (1 + X.shape[1] / 2))).sum(1)
    return out * _constant(X, h)


def kernel_sum(X: Any, V: Any, Y: Any, h: float) -> Any:
    """Sums of one value a point."""
    out = cp.empty(len(Y), X.dtype)
    for rows, exponents in _exponent_tiles(X, Y, h):
        out[rows] = cp.exp(exponents) @ V
    return out
