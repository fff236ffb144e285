"""Sums over all pairs in float64 by differences, a block of queries at a time: what results are held against."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cukde.core.gpu import arrays as core_arrays

# Kernel values in memory at a time.
_ELEMENTS = 2**27


def exponents(X: Any, Y: Any, h: float) -> Iterator[tuple[slice, Any]]:
    """Rows of queries and their exponents -|y - x|^2 / (2 h^2), shape (rows, n)."""
    xp = core_arrays.xp
    step = max(1, _ELEMENTS // len(X))
    for start in range(0, len(Y), step):
        y = Y[start : start + step].astype(xp.float64)
        squares = xp.zeros((len(y), len(X)))
        for k in range(X.shape[1]):
            squares += (y[:, k : k + 1] - X[:, k].astype(xp.float64)) ** 2
        yield slice(start, start + len(y)), squares / (-2 * h * h)


def log_sums(X: Any, Y: Any, h: float) -> Any:
    """Logarithm of the kernel sums."""
    return log_sums_and_shift(X, Y, h)[0]


def log_sums_and_shift(X: Any, Y: Any, h: float) -> tuple[Any, Any]:
    """Logarithm of the kernel sums, and the mean shift."""
    xp = core_arrays.xp
    logs, shift = xp.empty(len(Y)), xp.empty(Y.shape)
    for rows, e in exponents(X, Y, h):
        top = e.max(axis=1)
        phi = xp.exp(e - top[:, None])
        logs[rows] = top + xp.log(phi.sum(axis=1))
        shift[rows] = phi @ X.astype(xp.float64) / phi.sum(axis=1)[:, None] - Y[rows].astype(xp.float64)
    return logs, shift


def score_and_reach(X: Any, Y: Any, h: float) -> tuple[Any, Any]:
    """Gradients of the log density; and the mean distance of the data that count, in bandwidths and at least 1."""
    xp = core_arrays.xp
    score, reach = xp.empty(Y.shape), xp.empty(len(Y))
    for rows, e in exponents(X, Y, h):
        phi = xp.exp(e - e.max(axis=1)[:, None])
        phi /= phi.sum(axis=1)[:, None]
        score[rows] = (phi @ X.astype(xp.float64) - Y[rows].astype(xp.float64)) / (h * h)
        reach[rows] = xp.maximum(1, (phi * xp.sqrt(-2 * e)).sum(axis=1))
    return score, reach


def laplace(X: Any, Y: Any, h: float) -> tuple[Any, Any]:
    """Sums of phi (1 + d/2 + exponent), and of the absolute terms, those of the factor among them."""
    xp = core_arrays.xp
    constant = 1 + X.shape[1] / 2
    total, size = xp.empty(len(Y)), xp.empty(len(Y))
    for rows, e in exponents(X, Y, h):
        phi = xp.exp(e)
        total[rows], size[rows] = (phi * (constant + e)).sum(axis=1), (phi * (constant - e)).sum(axis=1)
    return total, size
