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
    slack,
    squares_to,
    to_bits,
    to_boxes,
    to_terms,
)
from cukde.density.pairs.cpu.tiles import _exp2

_ROWS = 4  # points that a block is taken with at a time: what is stored for one is read again after the others


@njit(**INLINED)
def _squares(points: Any, block: int, queries: Any, rows: Any, out: Any) -> None:
    """Write the squared distances of a block (d, 64) to four of the queries (., d), (4, 64)."""
    d = queries.shape[1]
    i0, i1, i2, i3 = rows[0], rows[1], rows[2], rows[3]
    first = 2 - d % 2
    y0, y1, y2, y3 = queries[i0, 0], queries[i1, 0], queries[i2, 0], queries[i3, 0]
    if first == 1:
        for j in range(BLOCK):
            x = points[block, 0, j]
            out[0, j], out[1, j] = (x - y0) * (x - y0), (x - y1) * (x - y1)
            out[2, j], out[3, j] = (x - y2) * (x - y2), (x - y3) * (x - y3)
    else:
        z0, z1, z2, z3 = queries[i0, 1], queries[i1, 1], queries[i2, 1], queries[i3, 1]
        for j in range(BLOCK):
            x, z = points[block, 0, j], points[block, 1, j]
            out[0, j] = (x - y0) * (x - y0) + (z - z0) * (z - z0)
            out[1, j] = (x - y1) * (x - y1) + (z - z1) * (z - z1)
            out[2, j] = (x - y2) * (x - y2) + (z - z2) * (z - z2)
            out[3, j] = (x - y3) * (x - y3) + (z - z3) * (z - z3)
    for c in range(first, d, 2):
        y0, y1, y2, y3 = queries[i0, c], queries[i1, c], queries[i2, c], queries[i3, c]
        z0, z1, z2, z3 = queries[i0, c + 1], queries[i1, c + 1], queries[i2, c + 1], queries[i3, c + 1]
        for j in range(BLOCK):
            x, z = points[block, c, j], points[block, c + 1, j]
            out[0, j] = out[0, j] + (x - y0) * (x - y0) + (z - z0) * (z - z0)
            out[1, j] = out[1, j] + (x - y1) * (x - y1) + (z - z1) * (z - z1)
            out[2, j] = out[2, j] + (x - y2) * (x - y2) + (z - z2) * (z - z2)
            out[3, j] = out[3, j] + (x - y3) * (x - y3) + (z - z3) * (z - z3)


@njit(**INLINED)
def _near(screen: Any, block: int, queries: Any, limits: Any, chosen: Any, count: int, squares: Any) -> int:
    """Keep, of the numbers of queries, those that some point of a block is within the limit of; return how many."""
    kept = 0
    for first in range(0, count, _ROWS):
        _squares(screen, block, queries, chosen[first : first + _ROWS], squares)
        for r in range(_ROWS):
            near, limit = np.int32(0), limits[chosen[first + r]]
            for j in range(BLOCK):
                near += np.int32(squares[r, j] <= limit)
            chosen[kept] = chosen[first + r]
            kept += int(near > 0 and first + r < count)
    return kept


@njit(**INLINED)
def _add(
    points: Any,
    block: int,
    size: int,
    queries: Any,
    rows: Any,
    count: int,
    narrow: bool,
    factor: Any,
    terms: Any,
    total: Any,
    moments: Any,
    own_total: Any,
    own_moments: Any,
) -> None:
    """Add the terms of ``size`` points of a block with ``count`` of four queries to totals and moments of both.

    Moments of narrow blocks are about the block's first point, without what :func:`_about_itself` adds.
    """
    i0, i1, i2, i3 = rows[0], rows[1], rows[2], rows[3]
    zero = terms.dtype.type(0)
    _squares(points, block, queries, rows, terms)
    for r in range(_ROWS):
        for j in range(size, BLOCK):
            terms[r, j] = NOTHING
        added = zero
        if r < count:
            for j in range(BLOCK):
                term = _exp2(-factor * terms[r, j])
                terms[r, j] = term
                added += term
            own_total[rows[r]] += added
            if narrow:
                for c in range(queries.shape[1]):
                    own_moments[rows[r], c] -= (queries[rows[r], c] - points[block, c, 0]) * added
        else:
            for j in range(BLOCK):
                terms[r, j] = zero
    for j in range(BLOCK):
        total[j] += (terms[0, j] + terms[1, j]) + (terms[2, j] + terms[3, j])
    for c in range(queries.shape[1]):
        y0, y1, y2, y3 = queries[i0, c], queries[i1, c], queries[i2, c], queries[i3, c]
        m0 = m1 = m2 = m3 = zero
        if narrow:  # no differences: two operations of a pair and a dimension, instead of three or four
            about = points[block, c, 0]
            y0, y1, y2, y3 = y0 - about, y1 - about, y2 - about, y3 - about
            for j in range(BLOCK):
                x, w0, w1, w2, w3 = points[block, c, j] - about, terms[0, j], terms[1, j], terms[2, j], terms[3, j]
                moments[c, j] = moments[c, j] + w0 * y0 + w1 * y1 + w2 * y2 + w3 * y3
                m0 += w0 * x
                m1 += w1 * x
                m2 += w2 * x
                m3 += w3 * x
        else:
            for j in range(BLOCK):
                x = points[block, c, j]
                p0, p1 = terms[0, j] * (x - y0), terms[1, j] * (x - y1)
                p2, p3 = terms[2, j] * (x - y2), terms[3, j] * (x - y3)
                moments[c, j] -= (p0 + p1) + (p2 + p3)
                m0 += p0
                m1 += p1
                m2 += p2
                m3 += p3
        own_moments[i0, c] += m0
        own_moments[i1, c] += m1
        own_moments[i2, c] += m2
        own_moments[i3, c] += m3


@njit(**INLINED)
def _about_itself(points: Any, block: int, total: Any, moments: Any) -> None:
    """Bring moments of a block's points, (d, 64), from about the first of them to about each."""
    for c in range(moments.shape[0]):
        about = points[block, c, 0]
        for j in range(BLOCK):
            moments[c, j] -= (points[block, c, j] - about) * total[j]


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
    narrow: Any,
) -> tuple[int, int]:
    """Add pairs of some blocks with later ones to the sums at both points; return how many were screened and added.

    ``rows`` and ``columns`` are the first of some blocks and the end; ``furthest`` (blocks,) is the largest reach of a
    block; of ``narrow`` blocks (blocks,) moments may be sums of products of coordinates; other arguments are those of
    :func:`own_blocks`.
    """
    points, screen, n, d = data.points, data.screen, data.n, data.points.shape[1]
    low, high, factor, wider = screen.low, screen.high, points.dtype.type(data.scale), np.float32(slack(d))
    near, far = np.empty(columns[1] - columns[0], np.float32), np.empty(columns[1] - columns[0], np.float32)
    begin, end, to_point = np.empty(d, np.float32), np.empty(d, np.float32), np.empty(BLOCK, np.float32)
    squares, terms = np.empty((_ROWS, BLOCK), np.float32), np.empty((_ROWS, BLOCK), points.dtype)
    rounded, queries = np.empty((BLOCK, d), np.float32), np.empty((BLOCK, d), points.dtype)
    chosen, limits, roots = np.empty(BLOCK + _ROWS, np.int64), np.empty(BLOCK, np.float32), np.empty(BLOCK, np.float32)
    own_total, own_moments, screened, added = np.empty(BLOCK), np.empty((BLOCK, d)), 0, 0
    other_total, other_moments = np.empty(BLOCK, points.dtype), np.empty((d, BLOCK), points.dtype)
    for block in range(rows[0], rows[1]):
        start = max(block + 1, columns[0])
        for c in range(d):
            begin[c], end[c] = low[c, block], high[c, block]
            for i in range(BLOCK):
                rounded[i, c], queries[i, c] = screen.points[block, c, i], points[block, c, i]
        to_boxes(low[:, start : columns[1]], high[:, start : columns[1]], begin, end, columns[1] - start, near, far)
        own_total[:], own_moments[:] = 0.0, 0.0
        stop = min(BLOCK, n - block * BLOCK)
        for i in range(BLOCK):
            roots[i] = np.sqrt(max(reach[block, i], 0.0))
        largest = np.sqrt(max(furthest[block], 0.0))
        for other in range(start, columns[1]):
            # Rounding has moved two points by less than their errors.
            error = screen.error[block] + screen.error[other]
            root_of_other = np.float32(np.sqrt(max(furthest[other], 0.0)))
            if near[other - start] > min(wider * (max(largest, root_of_other) + error) ** 2, FURTHEST):
                continue
            _box_distances(screen.points, block, low, high, other, to_point)
            for i in range(BLOCK):
                root = max(roots[i], root_of_other) + error
                limits[i] = min(wider * root * root, FURTHEST)
            count = 0
            for i in range(stop):
                chosen[count] = i
                count += to_point[i] <= limits[i]
            chosen[count : count + _ROWS] = 0
            screened += count * BLOCK
            count = _near(screen.points, other, rounded, limits, chosen, count, squares)
            if count == 0:
                continue
            added += count * BLOCK
            chosen[count : count + _ROWS] = chosen[0]
            other_total[:], other_moments[:] = 0, 0
            size, both_narrow = min(BLOCK, n - other * BLOCK), narrow[block] and narrow[other]
            for first in range(0, count, _ROWS):
                _add(
                    points,
                    other,
                    size,
                    queries,
                    chosen[first : first + _ROWS],
                    count - first,
                    both_narrow,
                    factor,
                    terms,
                    other_total,
                    other_moments,
                    own_total,
                    own_moments,
                )
            if both_narrow:
                _about_itself(points, other, other_total, other_moments)
            for j in range(BLOCK):
                total[other, j] += other_total[j]
            for c in range(d):
                for j in range(BLOCK):
                    moments[other, c, j] += other_moments[c, j]
        for i in range(stop):
            total[block, i] += own_total[i]
            for c in range(d):
                moments[block, c, i] += own_moments[i, c]
    return screened, added
