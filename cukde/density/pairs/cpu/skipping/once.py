"""Numba loops over pairs of blocks of the same data, which take each pair once, for the sums at both of its points.

A point's own term is 1, so that exponents need no reference. Sums over a point's own block come first, and bound what
may be left out (:mod:`cukde.density.pairs.cpu.skipping.queries`); a pair counts if it may matter to either point.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cukde.core.cpu.jit import OPTIONS, njit
from cukde.density.pairs.cpu.skipping.points import BLOCK
from cukde.density.pairs.cpu.skipping.terms import (
    FURTHEST,
    INLINED,
    NOTHING,
    count_near,
    slack,
    squares_to,
    to_bits,
    to_boxes,
    to_terms,
)


@njit(**INLINED)
def _add_to_both(terms: Any, points: Any, block: int, query: Any, total: Any, moments: Any, own: Any, i: int) -> None:
    """Add terms of a block to its points' totals (64,) and moments (d, 64), and to query i of ``own``, (64, d)."""
    for j in range(BLOCK):
        total[j] += terms[j]
    for c in range(query.size):
        y, moment = query[c], terms.dtype.type(0)
        for j in range(BLOCK):
            part = terms[j] * (points[block, c, j] - y)
            moments[c, j] -= part
            moment += part
        own[i, c] += moment


@njit(**INLINED)
def _box_distances(points: Any, block: int, low: Any, high: Any, other: int, near: Any) -> None:
    """Write the least squared distances of the points of a block to the box of another, (64,)."""
    for j in range(BLOCK):
        near[j] = 0
    zero = near.dtype.type(0)
    for c in range(low.shape[0]):
        least, largest = low[c, other], high[c, other]
        for j in range(BLOCK):
            gap = max(max(least - points[block, c, j], points[block, c, j] - largest), zero)
            near[j] += gap * gap


@njit(**OPTIONS)
def own_blocks(data: Any, first: int, last: int, allowed: float, total: Any, moments: Any, reach: Any) -> None:
    """Write the sums over the points' own blocks, and the bits from which on pairs may be left out.

    Parameters
    ----------
    data : Data
        Without weights and factors.
    first, last : int
        Blocks.
    allowed : float
        Logarithm of the tolerance over the number of data, to base 2.
    total, reach : array, shape (blocks, 64)
        Float64.
    moments : array, shape (blocks, d, 64)
        Likewise, in the unit of the points.
    """
    points, d = data.points, data.points.shape[1]
    real = points.dtype.type
    bits, query, own = np.empty(BLOCK, points.dtype), np.empty(d, points.dtype), np.empty(d)
    for block in range(first, last):
        stop = min(BLOCK, data.n - block * BLOCK)
        total[block], moments[block], reach[block] = 0.0, 0.0, 0.0
        for i in range(stop):
            for c in range(d):
                query[c], own[c] = points[block, c, i], 0.0
            squares_to(points, block, query, bits)
            bits[stop:] = NOTHING
            to_bits(bits, real(data.scale), real(NOTHING), real(0))
            total[block, i] = to_terms(bits, real(0))
            for c in range(d):
                moment = 0.0
                for j in range(stop):
                    moment += np.float64(bits[j] * (points[block, c, j] - query[c]))
                moments[block, c, i] = moment
            reach[block, i] = slack(d) * (-np.log2(total[block, i]) - allowed)


@njit(**OPTIONS)
def between(
    data: Any,
    rows: tuple[int, int],
    columns: tuple[int, int],
    reach: Any,
    furthest: Any,
    total: Any,
    moments: Any,
) -> int:
    """Add the pairs of some blocks with later ones to the sums at both points; return how many have been added.

    ``rows`` and ``columns`` are the first of some blocks and the end; ``furthest`` (blocks,) is the largest reach of a
    block; other arguments are those of :func:`own_blocks`.
    """
    points, scale, n, d = data.points, data.scale, data.n, data.points.shape[1]
    low, high, screen, screen_error = data.blocks.low, data.blocks.high, data.screen.points, data.screen.error
    real, screened = points.dtype.type, screen_error.size > 0 and points.itemsize == 8
    factor = real(scale)
    near, far = np.empty(columns[1] - columns[0], points.dtype), np.empty(columns[1] - columns[0], points.dtype)
    to_point, bits = np.empty(BLOCK, points.dtype), np.empty(BLOCK, points.dtype)
    squares, rounded = np.empty(BLOCK, np.float32), np.empty(d, np.float32)
    query, begin, end = np.empty(d, points.dtype), np.empty(d, points.dtype), np.empty(d, points.dtype)
    own_total, own_moments, added = np.empty(BLOCK), np.empty((BLOCK, d)), 0
    other_total, other_moments = np.empty(BLOCK, points.dtype), np.empty((d, BLOCK), points.dtype)
    for block in range(rows[0], rows[1]):
        start = max(block + 1, columns[0])
        for c in range(d):
            begin[c], end[c] = low[c, block], high[c, block]
        to_boxes(low[:, start : columns[1]], high[:, start : columns[1]], begin, end, columns[1] - start, near, far)
        own_total[:], own_moments[:] = 0.0, 0.0
        stop = min(BLOCK, n - block * BLOCK)
        for other in range(start, columns[1]):
            if scale * near[other - start] > max(furthest[block], furthest[other]):
                continue
            other_total[:], other_moments[:] = 0, 0
            _box_distances(points, block, low, high, other, to_point)
            for i in range(stop):
                limit = max(reach[block, i], furthest[other])
                if scale * to_point[i] > limit:
                    continue
                if screened:
                    for c in range(d):
                        rounded[c] = screen[block, c, i]
                    squares_to(screen, other, rounded, squares)
                    # Rounding has moved the two points by less than their errors.
                    root = np.sqrt(limit / data.screen.bits) + screen_error[block] + screen_error[other]
                    if count_near(squares, np.float32(min(slack(d) * root * root, FURTHEST))) == 0:
                        continue
                for c in range(d):
                    query[c] = points[block, c, i]
                squares_to(points, other, query, bits)
                for j in range(n - other * BLOCK, BLOCK):
                    bits[j] = NOTHING
                if to_bits(bits, factor, real(limit), real(0))[0] == 0:
                    continue
                added += BLOCK
                own_total[i] += to_terms(bits, real(0))
                _add_to_both(bits, points, other, query, other_total, other_moments, own_moments, i)
            for j in range(BLOCK):
                total[other, j] += other_total[j]
            for c in range(d):
                for j in range(BLOCK):
                    moments[other, c, j] += other_moments[c, j]
        for i in range(stop):
            total[block, i] += own_total[i]
            for c in range(d):
                moments[block, c, i] += own_moments[i, c]
    return added
