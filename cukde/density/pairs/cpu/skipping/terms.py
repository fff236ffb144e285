"""Numba loops over one block of data and one query: squared distances, exponents in bits, and what they add to sums.

A block is (d, 64), among others in ``points``; loops of a known length over its columns become vector instructions.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from cukde.core.cpu.jit import OPTIONS, njit
from cukde.density.pairs.cpu.skipping.points import BLOCK, BLOCKS_OF_GROUP
from cukde.density.pairs.cpu.tiles import _JIT, _exp2

INLINED: dict[str, Any] = _JIT | {"forceinline": True}
"""Options of :func:`cukde.core.cpu.jit.njit` for a loop that is part of another."""

NOTHING = 1e38
"""Squared distance of a place without a point; no point lies as far."""

FURTHEST = 3e38
"""Largest squared distance that single precision is asked about."""

_LN2 = math.log(2.0)


@njit(**OPTIONS)
def slack(d: int) -> float:
    """Factor of a bound in bits, for what squared distances of so many dimensions may have lost by rounding."""
    return 1.0 + 1e-5 + 2.4e-7 * d


@njit(**INLINED)
def to_boxes(low: Any, high: Any, begin: Any, end: Any, count: int, near: Any, far: Any) -> None:
    """Write the least and the largest squared distance of boxes (d, boxes) to a box from ``begin`` to ``end``, (d,)."""
    near[:count] = 0
    far[:count] = 0
    zero = near.dtype.type(0)
    for c in range(begin.size):
        lows, highs, least, largest = low[c], high[c], begin[c], end[c]
        for b in range(count):
            gap = max(max(lows[b] - largest, least - highs[b]), zero)
            reach = max(highs[b] - least, largest - lows[b])
            near[b] += gap * gap
            far[b] += reach * reach


@njit(**INLINED)
def blocks_of_group(low: Any, high: Any, group: int, count: int, found: Any, found_low: Any, found_high: Any) -> int:
    """Write the numbers and boxes of a group's blocks behind ``count`` others; return how many there are then."""
    for b in range(group * BLOCKS_OF_GROUP, min((group + 1) * BLOCKS_OF_GROUP, low.shape[1])):
        found[count] = b
        for c in range(low.shape[0]):
            found_low[c, count], found_high[c, count] = low[c, b], high[c, b]
        count += 1
    return count


@njit(**INLINED)
def near_boxes(low: Any, high: Any, query: Any, start: int, stop: int, near: Any) -> None:
    """Write the least squared distances of some boxes (d, boxes) to a query."""
    near = near[start:stop]
    for b in range(near.size):
        near[b] = 0
    zero = near.dtype.type(0)
    for c in range(query.size):
        y, lows, highs = query[c], low[c, start:stop], high[c, start:stop]
        for b in range(near.size):
            gap = max(max(lows[b] - y, y - highs[b]), zero)
            near[b] += gap * gap


@njit(**OPTIONS)
def nearest_box(query: Any, low: Any, high: Any, count: int, distances: Any) -> int:
    """The box whose middle lies nearest to a query."""
    distances[:count] = 0
    for c in range(query.size):
        lows, highs, twice = low[c], high[c], query[c] + query[c]
        for i in range(count):
            difference = (lows[i] - twice) + highs[i]
            distances[i] += difference * difference
    best = 0
    for i in range(1, count):
        if distances[i] < distances[best]:
            best = i
    return best


@njit(**INLINED)
def squares_to(points: Any, block: int, query: Any, out: Any) -> None:
    """Write the squared distances of a block (d, 64) to a query."""
    d = query.size
    y0 = query[0]
    if d == 1:
        for j in range(BLOCK):
            t0 = points[block, 0, j] - y0
            out[j] = t0 * t0
    elif d == 2:
        y1 = query[1]
        for j in range(BLOCK):
            t0, t1 = points[block, 0, j] - y0, points[block, 1, j] - y1
            out[j] = t0 * t0 + t1 * t1
    else:
        y1, y2 = query[1], query[2]
        for j in range(BLOCK):
            t0, t1, t2 = points[block, 0, j] - y0, points[block, 1, j] - y1, points[block, 2, j] - y2
            out[j] = t0 * t0 + t1 * t1 + t2 * t2
    for c in range(3, d):
        y = query[c]
        for j in range(BLOCK):
            t = points[block, c, j] - y
            out[j] += t * t


@njit(**INLINED)
def add_lost_squares(points: Any, lost: Any, block: int, query: Any, lost_query: Any, squares: Any) -> None:
    """Add to squared distances what the points of a block and the query have lost by rounding."""
    for c in range(query.size):
        y, lost_y = query[c], lost_query[c]
        for j in range(BLOCK):
            high, low = points[block, c, j] - y, lost[block, c, j] - lost_y
            squares[j] += low * (high + high + low)


@njit(**INLINED)
def count_near(squares: Any, limit: Any) -> Any:
    """Number of squares up to a limit: unlike the least of them, the compiler finds it many at a time."""
    count = np.int32(0)
    for j in range(BLOCK):
        count += np.int32(squares[j] <= limit)
    return count


@njit(**INLINED)
def to_bits(squares: Any, scale: Any, reach: Any, least: Any) -> Any:
    """Turn squared distances into bits, in place; count those up to a reach, and those below the least so far."""
    near, lower = np.int32(0), np.int32(0)
    for j in range(BLOCK):
        bits = scale * squares[j]
        squares[j] = bits
        near += np.int32(bits <= reach)
        lower += np.int32(bits < least)
    return near, lower


@njit(**INLINED)
def least_of(values: Any) -> Any:
    least = values[0]
    for j in range(1, BLOCK):
        least = min(least, values[j])
    return least


@njit(**INLINED)
def to_terms(bits: Any, least: Any) -> Any:
    """Turn minus exponents into terms about the least, in place; return their sum."""
    total = bits.dtype.type(0)
    for j in range(BLOCK):
        term = _exp2(least - bits[j])
        bits[j] = term
        total += term
    return total


@njit(**INLINED)
def to_laplace_terms(bits: Any, distances: Any, least: Any, constant: Any) -> Any:
    """Sum of terms, and of terms times Laplace factors, ``constant`` - ln 2 distance in bits."""
    total = moment = bits.dtype.type(0)
    ln2 = bits.dtype.type(_LN2)
    for j in range(BLOCK):
        term = _exp2(least - bits[j])
        total += term
        moment += term * (constant - ln2 * distances[j])
    return total, moment


@njit(**INLINED)
def add_values(terms: Any, values: Any, block: int, signed: Any, sums: Any, sizes: Any) -> None:
    """Add terms times values of a block (k, 64) to sums (k,), and the absolute products to sizes (k,)."""
    for c in range(signed.size):
        total = size = terms.dtype.type(0)
        if signed[c]:
            for j in range(BLOCK):
                product = terms[j] * values[block, c, j]
                total += product
                size += abs(product)
        else:
            for j in range(BLOCK):
                total += terms[j] * values[block, c, j]
            size = abs(total)
        sums[c] += total
        sizes[c] += size


@njit(**INLINED)
def add_moments(terms: Any, points: Any, block: int, query: Any, moments: Any) -> None:
    """Add terms times differences to moments (d,)."""
    for c in range(query.size):
        y, moment = query[c], terms.dtype.type(0)
        for j in range(BLOCK):
            moment += terms[j] * (points[block, c, j] - y)
        moments[c] += moment
