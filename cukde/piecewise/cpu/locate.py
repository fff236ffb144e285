"""The piece in which a point lies, found by a table over equal buckets of the range and comparisons with knots.

Buckets are monotonic in x, rounding included. So the piece of a point is at least the number of knots in earlier
buckets, and exceeds it by at most the number of knots in the point's own bucket. Bisection among these is exact, for it
compares with the knots themselves. Knots within a quarter of a piece of equal spacing need no table: with buckets that
are pieces shifted by a half, a point in bucket b lies in piece b or b + 1.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import int64, uint32

from cukde.core.cpu.jit import OPTIONS as _JIT, njit
from cukde.piecewise.plan import BUCKETS_A_PIECE, FEW_KNOTS, NEAR_UNIFORM


class Search(NamedTuple):
    """The table that finds the piece of a point; numbers have the dtype of x."""

    knots: np.ndarray  # starts of the pieces, then NaN up to where bisection reads
    guide: np.ndarray  # (buckets,) uint32: inner knots in earlier buckets; empty for uniform knots
    origin: Any
    scale: Any  # buckets per unit of x
    shift: Any  # of buckets upwards
    top: Any  # the last bucket
    stride: np.uint32  # of the first comparison, a power of two, or 0


def search(knots: np.ndarray) -> Search:
    """Build the table for strictly increasing knots (m + 1,)."""
    number, m = knots.dtype.type, len(knots) - 1
    with np.errstate(over="ignore", invalid="ignore"):
        span = float(knots[-1]) - float(knots[0])
        place = (knots - knots[0]) * number(m / span)
        uniform = bool((np.abs(place - np.arange(m + 1)) <= NEAR_UNIFORM).all())
    if uniform:
        most = 1 if m > 1 else 0
        guide, scale, top = np.empty(0, np.uint32), number(m / span), number(m - 1)
    else:
        for ratio in BUCKETS_A_PIECE:
            buckets = ratio * m
            with np.errstate(over="ignore"):
                scale, top = number(buckets / span), number(buckets - 1)
            counts = np.bincount(_buckets(knots[1:-1], knots[0], scale, top), minlength=buckets)
            most = int(counts.max())
            if most <= FEW_KNOTS:
                break
        guide = (np.cumsum(counts) - counts).astype(np.uint32)
    stride = 1 << most.bit_length() >> 1
    padded = np.concatenate([knots[:-1], np.full(2 * stride, np.nan, knots.dtype)])
    return Search(padded, guide, knots[0], scale, number(0.5 if uniform else 0), top, np.uint32(stride))


def _buckets(x: np.ndarray, origin: Any, scale: Any, top: Any) -> np.ndarray:
    """Return the buckets as :func:`locate` computes them."""
    with np.errstate(over="ignore", invalid="ignore"):
        place = (x - origin) * scale
    place = np.where(place > 0, place, 0)
    return np.where(place < top, place, top).astype(np.int64)


@njit(**_JIT)
def locate(x: Any, table: Any, piece: Any) -> None:
    """Write the piece of each point: the first or the last for points beyond the ends, and any for NaN.

    Pieces are unsigned, since Numba tests signed indices for negative ones, which costs as much as the search.
    """
    origin, scale, shift, top = table.origin, table.scale, table.shift, table.top
    knots, guide = table.knots, table.guide
    zero = origin * 0
    for p in range(x.size):
        place = (x[p] - origin) * scale - shift
        place = place if place > zero else zero  # NaN too
        place = place if place < top else top
        piece[p] = uint32(int64(place))
    if guide.size > 0:
        for p in range(x.size):
            piece[p] = guide[piece[p]]
    stride = table.stride
    while stride > 0:
        for p in range(x.size):
            i = piece[p]
            piece[p] = i + stride * uint32(x[p] >= knots[i + stride])
        stride = stride >> uint32(1)
