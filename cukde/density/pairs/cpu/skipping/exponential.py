"""Sums of the exponential kernel on the CPU without the pairs that cannot matter, by a bound for each query.

Exponents are in bits: a pair at distance r has e = log2(e) r / h, and adds its weight times 2^-e. With S what is kept
of a query's sum, rtol S + atol may be left out, in three parts.

1. Half of it: blocks beyond T of the box of some queries near each other, with M 2^-T at most that half for the least
   sum that the boxes allow any of them; M is the mass of all data.
2. Most of the rest: of the other blocks those beyond R of the query. They go into bins by the distance of their boxes,
   and those of the bins from one on are left out, together with part 1, if their masses times 2^-t, t the least
   exponent of a bin, add up to at most 7/8 of what is allowed.
3. The last eighth: blocks within R of which no point lies within R', with 2^-R' times their mass at most that.

S only grows, so that a bound holds for what was left out before. A query begins with a block that lies near, goes on
with those within two bandwidths, and then takes the others.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from cukde.core.cpu import threads
from cukde.core.cpu.jit import OPTIONS, njit
from cukde.density.pairs import frame as pairs_frame
from cukde.density.pairs.cpu.skipping import points as skipping_points
from cukde.density.pairs.cpu.skipping.points import BLOCK, Data
from cukde.density.pairs.cpu.skipping.terms import (
    INLINED,
    NOTHING,
    blocks_of_group,
    count_near,
    least_of,
    near_boxes,
    nearest_box,
    slack,
    squares_to,
    to_boxes,
    to_terms,
)
from cukde.density.sums import PartialSums

_QUERIES = 16  # that search for near blocks together
_QUERIES_OF_TASK = 128
_CHUNK = 32  # blocks after which a query looks again how far it has to go
_LOG2_E = math.log2(math.e)

# Bins of blocks by their least exponent, of so many bits each; the last is from T on, and the first is always taken.
_BINS, _STEP = 256, 0.25
_BY_BOXES = 0.875  # of what may be left out
_ANYWHERE = 0.5 * NOTHING  # a squared distance that no point lies at
_FIRST_BITS = 2 * _LOG2_E  # of the blocks that a query takes first


class Prepared(NamedTuple):
    """A pass whose points are in order."""

    data: Data
    log2_weights: np.ndarray  # (blocks, 64) in the dtype of the points; or empty
    queries: np.ndarray  # (m, d), in order and in the unit of the data
    order: np.ndarray  # (m,) int64: their rows
    scale: float  # bits of an exponent for a distance of points in that unit
    rtol: float
    atol: float  # beside the largest weight


class Taken(NamedTuple):
    """Numbers of pairs."""

    screened: int  # whose squared distance is taken
    summed: int


def prepare(
    X: np.ndarray, Y: np.ndarray, h: float, log_weights: np.ndarray | None, *, rtol: float, atol: float
) -> Prepared:
    """Put the points of a pass in order.

    Parameters
    ----------
    X, Y : array, shape (n, d) and (m, d)
        Of one dtype, finite.
    log_weights : array, shape (n,), optional
        Float64, finite. Default 0.
    rtol, atol : float
        What is left out of a query's sum is at most ``rtol`` times what is kept and ``atol``. One is above 0.
    """
    frame = pairs_frame.frame(X[:: max(1, len(X) // pairs_frame.rows(X.shape[1]))])
    order = skipping_points.ordered(X, frame)
    data = skipping_points.data(X, order, h, frame, log_weights=log_weights, local_factors=None, screened=False)
    order = skipping_points.ordered(Y, frame)
    queries = Y[order] * Y.dtype.type(data.unit)
    scale = _LOG2_E / (h * data.unit)
    log2_weights = data.log2_weights.astype(X.dtype)
    return Prepared(data, log2_weights, queries, order, scale, rtol, data.beside_largest(atol))


def run(prepared: Prepared) -> PartialSums:
    """Take the pass; every run gives the same bits."""
    m = len(prepared.queries)
    top, total = np.empty(m), np.empty(m)

    def task(first: int) -> None:
        threads.checkpoint()
        _taken(prepared, first, min(first + _QUERIES_OF_TASK, m), top, total)

    threads.run(task, range(0, m, _QUERIES_OF_TASK))
    out = PartialSums(np.empty(m), np.empty(m))
    out.reference[prepared.order] = top * math.log(2) + prepared.data.largest_log_weight
    out.total[prepared.order] = total
    return out


def tried(prepared: Prepared, queries: np.ndarray) -> Taken:
    """Count the pairs that single queries take, (k,) of those in order."""
    nothing = np.empty(len(prepared.queries))
    counts = threads.run(lambda i: _taken(prepared, i, i + 1, nothing, nothing), queries)
    return Taken(*map(int, np.sum(counts, axis=0)))


def _taken(prepared: Prepared, first: int, last: int, top: np.ndarray, total: np.ndarray) -> np.ndarray:
    """Write the sums of some queries; return the numbers of pairs screened and summed."""
    limits, counts = (prepared.rtol, prepared.atol), np.zeros(2, np.int64)
    _add(
        prepared.queries, first, last, prepared.data, prepared.log2_weights, prepared.scale, limits, top, total, counts
    )
    return counts


@njit(**INLINED)
def _to_bits(squares: Any, scale: Any, least: Any) -> Any:
    """Turn squared distances into bits, in place; count those below the least so far."""
    lower = np.int32(0)
    for j in range(BLOCK):
        bits = scale * np.sqrt(squares[j])
        squares[j] = bits
        lower += np.int32(bits < least)
    return lower


@njit(**OPTIONS)
def _add_block(
    points: Any,
    n: int,
    block: int,
    log2_weights: Any,
    scale: float,
    query: Any,
    limit: float,
    bits: Any,
    state: Any,
    counts: Any,
) -> None:
    """Add a block to the sum of a query, unless all of it lies beyond a squared distance.

    The state is a query's largest exponent in bits, and its sum about that; counts are those of :class:`Taken`.
    """
    real = bits.dtype.type
    counts[0] += BLOCK
    squares_to(points, block, query, bits)
    for j in range(n - block * BLOCK, BLOCK):
        bits[j] = NOTHING
    if count_near(bits, real(min(limit, _ANYWHERE))) == 0:
        return
    counts[1] += BLOCK
    lower = _to_bits(bits, real(scale), real(-state[0]))
    if log2_weights.size:
        for j in range(BLOCK):
            bits[j] -= log2_weights[block, j]
            lower += np.int32(bits[j] < -state[0])
    if lower > 0:
        least = np.float64(least_of(bits))
        if -least > state[0]:
            state[1] *= np.exp2(state[0] + least)
            state[0] = -least
    state[1] += to_terms(bits, real(-state[0]))


@njit(**OPTIONS)
def _allowed(least: float, limits: tuple[float, float]) -> float:
    """Logarithm of what may be left out of a sum of at least 2^-least."""
    rtol, atol = limits
    relative = np.log2(rtol) - least if rtol > 0.0 else -np.inf
    absolute = np.log2(atol) if atol > 0.0 else -np.inf
    larger, other = max(relative, absolute), min(relative, absolute)
    return larger + np.log2(1.0 + np.exp2(other - larger)) if larger > -np.inf else larger


@njit(**OPTIONS)
def _least_bits(far: float, mass: float, scale: float, d: int) -> float:
    """Minus the logarithm of what the points of a box add to a sum at least, within a squared distance."""
    return slack(d) * scale * np.sqrt(far) - np.log2(mass)


@njit(**OPTIONS)
def _furthest(whole: float, least: float, far: float, scale: float, limits: tuple[float, float]) -> float:
    """T for sums of at least 2^-least; a box within the squared distance ``far`` is kept."""
    return max(np.log2(whole) - _allowed(least, limits) + 1.0, scale * np.sqrt(far))


@njit(**OPTIONS)
def _find_near(
    queries: Any,
    data: Any,
    scale: float,
    limits: tuple[float, float],
    near: Any,
    far: Any,
    found: Any,
    low: Any,
    high: Any,
) -> Any:
    """Find the blocks within T of some queries (q, d); write their numbers and boxes, return how many there are, and T.

    The largest distance to a box bounds sums from below, and so T from above.
    """
    d, blocks, groups = queries.shape[1], data.blocks, data.groups
    begin, end = np.empty(d, queries.dtype), np.empty(d, queries.dtype)
    for c in range(d):
        begin[c], end[c] = queries[:, c].min(), queries[:, c].max()
    whole, least, count = groups.mass.sum(), np.inf, groups.mass.size
    to_boxes(groups.low, groups.high, begin, end, count, near, far)
    for g in range(count):
        least = min(least, _least_bits(far[g], groups.mass[g], scale, d))
    furthest = _furthest(whole, least, far[:count].min(), scale, limits)
    reach, count = slack(d) * (furthest / scale) ** 2, 0
    for g in range(groups.mass.size):
        if near[g] <= reach:
            count = blocks_of_group(blocks.low, blocks.high, g, count, found, low, high)
    to_boxes(low, high, begin, end, count, near, far)
    for i in range(count):
        least = min(least, _least_bits(far[i], blocks.mass[found[i]], scale, d))
    furthest = _furthest(whole, least, far[:count].min(), scale, limits)
    reach, kept = slack(d) * (furthest / scale) ** 2, 0
    for i in range(count):
        if near[i] > reach:
            continue
        found[kept] = found[i]
        for c in range(d):
            low[c, kept], high[c, kept] = low[c, i], high[c, i]
        kept += 1
    return kept, furthest


@njit(**INLINED)
def _to_bins(near: Any, count: int, scale: Any, least: Any, bins: Any) -> None:
    """Write the bins of some squared distances."""
    per_bin, zero, last = near.dtype.type(1.0 / _STEP), near.dtype.type(0), near.dtype.type(_BINS - 1)
    for k in range(count):
        bins[k] = np.int32(min(max((scale * np.sqrt(near[k]) - least) * per_bin, zero), last))


@njit(**OPTIONS)
def _allowed_of(state: Any, limits: tuple[float, float]) -> float:
    return _allowed(-np.log2(state[1]) - state[0], limits)


@njit(**OPTIONS)
def _first_left_out(left_out: Any, last: int, allowed: float) -> int:
    """The first bin, up to one, from which on all may be left out; at least 1."""
    while last > 1 and left_out[last - 1] <= allowed:
        last -= 1
    return last


@njit(**OPTIONS)
def _add(
    queries: Any,
    first: int,
    last: int,
    data: Any,
    log2_weights: Any,
    scale: float,
    limits: tuple[float, float],
    top: Any,
    total: Any,
    counts: Any,
) -> None:
    """Write the largest exponents, in bits, and the sums of some queries in order; add to the counts of pairs."""
    d, size, n, points = queries.shape[1], data.blocks.mass.size, data.n, data.points
    real, masses = queries.dtype.type, np.empty(size)
    near, far = np.empty(size, queries.dtype), np.empty(size, queries.dtype)
    low, high = np.empty((d, size), queries.dtype), np.empty((d, size), queries.dtype)
    found, bins, state = np.empty(size, np.int64), np.empty(size, np.int32), np.empty(2)
    # By bin: masses, first of each and then of all up to it, and what it and all later ones add beside 2^-T.
    mass, left_out = np.empty(_BINS), np.empty(_BINS)
    bits = np.empty(BLOCK, queries.dtype)
    beyond, factors = data.groups.mass.sum(), np.exp2(_STEP * np.arange(_BINS - 1, -1, -1))
    for begin in range(first, last, _QUERIES):
        end = min(begin + _QUERIES, last)
        count, furthest = _find_near(queries[begin:end], data, scale, limits, near, far, found, low, high)
        for k in range(count):
            masses[k] = data.blocks.mass[found[k]]
        start = furthest - _STEP * (_BINS - 1)
        inner = (min(_FIRST_BITS, furthest) / scale) ** 2
        for i in range(begin, end):
            query = queries[i]
            nearest = nearest_box(query, low, high, count, far)
            near_boxes(low, high, query, 0, count, near)
            state[0], state[1] = -NOTHING, 0.0
            _add_block(points, n, found[nearest], log2_weights, scale, query, _ANYWHERE, bits, state, counts)
            near[nearest] = NOTHING
            for k in range(count):
                if near[k] <= inner:
                    _add_block(points, n, found[k], log2_weights, scale, query, _ANYWHERE, bits, state, counts)
            _to_bins(near, count, real(scale / np.sqrt(slack(d))), real(start), bins)
            mass[:] = 0.0
            for k in range(count):
                mass[bins[k]] += masses[k] * (inner < near[k] < _ANYWHERE)
            added = beyond
            for b in range(_BINS - 1, -1, -1):
                added += mass[b] * factors[b]
                left_out[b] = added
            for b in range(1, _BINS):
                mass[b] += mass[b - 1]
            stop = _BINS
            within = 0.0
            for chunk in range(0, count, _CHUNK):
                allowed = _allowed_of(state, limits)
                stop = _first_left_out(left_out, stop, _BY_BOXES * np.exp2(allowed + furthest))
                within = max(within, mass[stop - 1])
                reach = np.log2(max(within, 1e-300) / (1.0 - _BY_BOXES)) - allowed
                reach = slack(d) * (max(0.0, reach) / scale) ** 2
                for k in range(chunk, min(chunk + _CHUNK, count)):
                    if bins[k] < stop and inner < near[k] < _ANYWHERE:
                        _add_block(points, n, found[k], log2_weights, scale, query, reach, bits, state, counts)
            top[i], total[i] = state
