"""Sums of kernels of bounded support on the CPU over the blocks that a query reaches: nothing else adds anything."""

from __future__ import annotations

from typing import Any

import numpy as np

from cukde.core.cpu import threads
from cukde.core.cpu.jit import OPTIONS, njit
from cukde.density.kernels import Kernel
from cukde.density.pairs import counting, frame as pairs_frame
from cukde.density.pairs.cpu.radial_tiles import (
    CODES,
    EPANECHNIKOV,
    LINEAR,
    TOPHAT,
    cosine_factor_double,
    cosine_factor_single,
    value,
)
from cukde.density.pairs.cpu.skipping import points as skipping_points
from cukde.density.pairs.cpu.skipping.points import BLOCK
from cukde.density.pairs.cpu.skipping.terms import INLINED, blocks_of_group, near_boxes, slack, squares_to, to_boxes
from cukde.density.plan import cpu as plan_cpu

_QUERIES = 64  # that search for near blocks together


def pays(X: np.ndarray, Y: np.ndarray, h: float) -> bool:
    """Whether few enough pairs lie within a bandwidth, by a sample; not where points are not numbers."""
    if not plan_cpu.radial_may_skip(len(X), len(Y)):
        return False
    if not all(np.isfinite(a).all() for a in (X, Y)):
        return False
    return X.shape[1] <= plan_cpu.FEW_COLUMNS or plan_cpu.bounded_pays(counting.within(X, Y, h))


def sums(
    X: np.ndarray,
    Y: np.ndarray,
    h: float,
    kernel: Kernel,
    weights: np.ndarray | None,
    edge: tuple[float, float],
) -> np.ndarray:
    """Return the sums of a kernel at the queries, (m,) float64.

    Parameters
    ----------
    X, Y : array, shape (n, d) and (m, d)
        Of one dtype, finite, in a unit that brings ``h`` below 2. Squared distances are summed in it.
    weights : array, shape (n,), optional
        Float64. Default 1.
    edge : tuple of two floats
        Squared distances in bandwidths between which a pair is taken in double.
    """
    frame = pairs_frame.frame(X[:: max(1, len(X) // pairs_frame.rows(X.shape[1]))])
    order = skipping_points.ordered(X, frame)
    data = skipping_points.data(X, order, h, frame, log_weights=None, local_factors=None, screened=False)
    in_blocks = np.ones((1, BLOCK)) if weights is None else skipping_points.in_blocks(weights, order, len(data.points))
    order = skipping_points.ordered(Y, frame)
    queries = Y[order] * Y.dtype.type(data.unit)
    total, code, squared_h = np.empty(len(Y)), CODES[kernel], (h * data.unit) ** 2

    def task(first: int) -> None:
        threads.checkpoint()
        last = min(first + _QUERIES, len(Y))
        _add(queries, first, last, data, in_blocks, code, edge, squared_h, total)

    threads.run(task, range(0, len(Y), _QUERIES))
    out = np.empty_like(total)
    out[order] = total
    return out


@njit(**INLINED)
def _sum(squares: Any, weights: Any, of: int, code: int) -> float:
    """Sum weights times kernels over a block, from squared distances in bandwidths; 1 and more add nothing."""
    one, total = squares.dtype.type(1), 0.0
    if code == TOPHAT:
        for j in range(BLOCK):
            total += weights[of, j] if squares[j] < one else 0.0
    elif code == EPANECHNIKOV:
        for j in range(BLOCK):
            total += weights[of, j] * np.float64(one - min(squares[j], one))
    elif code == LINEAR:
        for j in range(BLOCK):
            total += weights[of, j] * np.float64(one - np.sqrt(min(squares[j], one)))
    elif squares.itemsize == 4:
        for j in range(BLOCK):
            q = min(squares[j], one)
            total += weights[of, j] * np.float64((one - q) * cosine_factor_single(q))
    else:
        for j in range(BLOCK):
            q = min(squares[j], one)
            total += weights[of, j] * ((one - q) * cosine_factor_double(q))
    return total


@njit(**INLINED)
def _relate(squares: Any, scale: Any, low: Any, high: Any) -> Any:
    """Turn squared distances into bandwidths; count those below 1, and those at the edge, from low to high."""
    inside, at_edge = np.int32(0), np.int32(0)
    for j in range(BLOCK):
        q = scale * squares[j]
        squares[j] = q
        inside += np.int32(q < low)
        at_edge += np.int32(q >= low) & np.int32(q <= high)
    return inside, at_edge


@njit(**OPTIONS)
def _add(
    queries: Any,
    first: int,
    last: int,
    data: Any,
    weights: Any,
    code: int,
    edge: tuple[float, float],
    squared_h: float,
    total: Any,
) -> None:
    """Write the sums of some queries, which stand in order."""
    d, groups, blocks, n = queries.shape[1], data.groups, data.blocks, data.n
    real, reach = queries.dtype.type, slack(queries.shape[1]) * squared_h
    scale, least, largest = real(1.0 / squared_h), real(edge[0]), real(edge[1])
    size = max(groups.mass.size, blocks.mass.size)
    near, far = np.empty(size, queries.dtype), np.empty(size, queries.dtype)
    low, high = np.empty((d, size), queries.dtype), np.empty((d, size), queries.dtype)
    found, squares = np.empty(size, np.int64), np.empty(BLOCK, queries.dtype)
    begin, end = np.empty(d, queries.dtype), np.empty(d, queries.dtype)
    for c in range(d):
        begin[c], end[c] = queries[first:last, c].min(), queries[first:last, c].max()
    to_boxes(groups.low, groups.high, begin, end, groups.mass.size, near, far)
    count = 0
    for g in range(groups.mass.size):
        if near[g] <= reach:
            count = blocks_of_group(blocks.low, blocks.high, g, count, found, low, high)
    for i in range(first, last):
        query = queries[i]
        near_boxes(low, high, query, 0, count, near)
        added = 0.0
        for k in range(count):
            if near[k] > reach:
                continue
            b = found[k]
            squares_to(data.points, b, query, squares)
            for j in range(n - b * BLOCK, BLOCK):
                squares[j] = real(4.0 * reach)
            inside, at_edge = _relate(squares, scale, least, largest)
            of = b if weights.shape[0] > 1 else 0
            if at_edge > 0:
                for j in range(min(BLOCK, n - b * BLOCK)):
                    if squares[j] >= least and squares[j] <= largest:
                        q = 0.0
                        for c in range(d):
                            difference = np.float64(data.points[b, c, j]) - np.float64(query[c])
                            q += difference * difference
                        added += weights[of, j] * value(code, q / squared_h)
                        squares[j] = real(2.0)
            if inside > 0:
                added += _sum(squares, weights, of, code)
        total[i] = added
