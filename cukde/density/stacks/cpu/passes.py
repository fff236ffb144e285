"""Sums of Gaussian kernels of many small densities at once on the CPU: one pass over members and queries.

Threads take members, and of few members blocks of their queries. Pairs are squared differences, so that members need
neither a centre nor a scaled squared radius.
"""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np

from cukde.core.cpu import meanwhile, threads
from cukde.density.plan import compositions as plan_compositions
from cukde.density.stacks.cpu import blocks, few
from cukde.density.sums import PartialSums, moment_columns

OUTPUTS = {"sum": blocks.SUM, "moments": blocks.MOMENTS, "laplace": blocks.LAPLACE}

_LOG2_E = math.log2(math.e)

# Pairs of a task: some 50 us, which is much beside what a task costs, and little beside what a thread does at the end.
_PAIRS = 2**16

_ENTRIES = 2**18  # of points that are taken together

_FEWEST_QUERIES = 64  # of a task of one member, which transposes the data of the member


def means(X: np.ndarray) -> np.ndarray:
    """Means of the rows of members, (b, d) float64."""
    return np.full(X.shape[1], 1 / X.shape[1]) @ X.astype(np.float64, copy=False)


def look(A: np.ndarray, centres: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Largest squared distances of members' points to their centres (b,), and of each member whether all are finite.

    ``A`` (b, m, d), or (1, m, d) of points that members share.
    """
    radii, step = np.empty(len(centres)), max(1, _ENTRIES // max(1, A[:1].size))
    for start in range(0, len(centres), step):
        members = slice(start, start + step)
        points = A if len(A) == 1 else A[members]
        # Column by column, as a sum over few of them takes NumPy long.
        squares: Any = sum((points[..., k] - centres[members, None, k]) ** 2 for k in range(A.shape[2]))
        radii[members] = squares.max(axis=1, initial=0.0)
    return radii, np.broadcast_to(np.isfinite(A).all(axis=(1, 2)), radii.shape)


@meanwhile.answered_by(few.many)
def partial_sums(
    X: np.ndarray,
    Y: np.ndarray,
    h: np.ndarray,
    output: Literal["sum", "moments", "laplace"],
    *,
    log_weights: np.ndarray | None = None,
    precision: str,
) -> PartialSums:
    """Sum kernels of the data of each member at its queries; arrays of the result begin with the axis of members.

    Parameters
    ----------
    X : array, shape (b, n, d)
        Data, float32 or float64.
    Y : array, shape (b, m, d) or (1, m, d)
        Queries, in the second form shared by all members.
    h : array, shape (b,)
        Bandwidths, float64.
    output : {"sum", "moments", "laplace"}
        See :class:`cukde.density.sums.PartialSums`.
    log_weights : array, shape (b, n) or (1, n), optional
        Float64; -1e30 stands for the logarithm of zero. Default 0.
    precision : {"float32", "tf32", "ieee", "float64"}
        Pairs of float32 points are taken in float32 for the first two, and those of queries far from all data in double
        again; otherwise in double.

    Notes
    -----
    Every run gives the same bits once all is compiled.
    """
    dtype = np.promote_types(X.dtype, Y.dtype)
    if precision not in ("float32", "tf32"):
        dtype = np.dtype(np.float64)
    X, Y = np.ascontiguousarray(X, dtype), np.ascontiguousarray(Y, dtype)
    (b, n, d), m = X.shape, Y.shape[1]
    if plan_compositions.stack_is_few(b, n, m, d):
        return few.partial_sums(X, Y, h, output, log_weights)
    weights = np.empty((0, n)) if log_weights is None else log_weights * _LOG2_E
    reference, total = np.empty((b, m)), np.empty((b, m))
    moments = np.empty((b, m, moment_columns(output, d)))

    def task(piece: tuple[slice, slice]) -> None:
        threads.checkpoint()
        members, queries = piece
        shared = (a if len(a) < 2 else a[members] for a in (Y, weights))
        results = (a[members, queries] for a in (reference, total, moments))
        blocks.sums(X[members], *shared, h[members], OUTPUTS[output], queries.start, *results)

    threads.run(task, _tasks(b, n, m))
    return PartialSums(reference, total, moments if moments.shape[2] else None)


def _tasks(b: int, n: int, m: int) -> list[tuple[slice, slice]]:
    """Members and queries of each task: several members, or some queries of one."""
    if m == 0:
        return []
    members = max(1, _PAIRS // (n * m))
    queries = m if members > 1 else min(m, max(_FEWEST_QUERIES, _PAIRS // n))
    return [
        (slice(i, min(i + members, b)), slice(start, min(start + queries, m)))
        for i in range(0, b, members)
        for start in range(0, m, queries)
    ]
