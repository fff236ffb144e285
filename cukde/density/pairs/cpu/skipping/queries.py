"""Numba loops over queries and blocks of data, which leave out the pairs that cannot matter.

With S what is kept of a query's sum and M the mass of all data, a pair may be left out where its exponent, in bits and
without its weight, is below -T,

    T = log2(M / (tolerance (S + F))).

All that is left out then adds at most M 2^-T = tolerance (S + F), whatever the weights are; F is 0 unless some absolute
error, tolerance F, is allowed beside the relative one. S only grows, so that the bound
holds for what was left out before. A query begins with a block that lies near, and takes the others whose boxes lie
within T of it.

For a Laplace-corrected density T is larger by log2 G, where G >= 1 + |1 + d/2 - q| at q = ln 2 T, in natural units. As
exp(-q) (1 + |1 + d/2 - q|) falls with q, the sum over what is left out of weights times 1 + |factor| is then at most
tolerance S. So the sum of weights S is off by at most tolerance S; that with factors, L, by as much, which is no more
than tolerance times the sum of its absolute terms, those of 1 + d/2 and of q; and t = L / S - 1 by the sum over what is
left out of weights times |factor - L / S|, over S: as |L / S| <= 1 + |t|, at most tolerance (1 + |t|).

Of sums of values every column of those has its own S and M, of absolute values times weights, and so has the sum of
weights alone. What counts is the least S / M. A column that is zero near a query has none: the query then takes all
blocks until it has one.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from cukde.core.cpu import loops
from cukde.core.cpu.jit import OPTIONS, njit
from cukde.density.pairs.cpu.skipping.points import BLOCK, rounded
from cukde.density.pairs.cpu.skipping.terms import (
    FURTHEST,
    NOTHING,
    add_lost_squares,
    add_moments,
    add_values,
    blocks_of_group,
    count_near,
    least_of,
    near_boxes,
    nearest_box,
    slack,
    squares_to,
    to_bits,
    to_boxes,
    to_laplace_terms,
    to_terms,
)
from cukde.density.pairs.cpu.tiles import _JIT

SUM, MOMENTS, LAPLACE, VALUES, GRADIENT = range(5)
CODES = {"sum": SUM, "moments": MOMENTS, "laplace": LAPLACE, "values": VALUES}  # GRADIENT: of local factors

QUERIES = 64
"""Of a block of queries, which search for near data together."""

_LN2 = math.log(2.0)
# G of a bound of T before is 1 + d/2 + |T| and this: T + log2 G has a smaller factor, as ln G < 19 + 0.3 |T|.
_ROOM = 20.0
# Exponents in single precision round with their size: queries that lie so many bits from all data are summed in double.
_FAR = -20.0
# Of values a column may have only far terms: those so many bits below the largest kernel are taken in double, as single
# precision would round their exponents by more, and twice as far has no numbers for them.
_SINGLE_BITS = 64.0
_CHUNK = 32  # blocks that one call sums at a query

# State of a query: its largest exponent, in bits; its sum about that; and S about that, which is its sum, but of values
# the least share of a column's whole mass that its sum of absolute terms is.
_TOP, _TOTAL, _SIZE = range(3)


@njit(**_JIT)
def _screened(screen: Any, blocks: Any, query: Any, limits: Any, squares: Any) -> int:
    """Keep the numbers of blocks of which a squared distance is within the limit; return how many there are."""
    kept = 0
    for i in range(blocks.size):
        squares_to(screen, blocks[i], query, squares)
        blocks[kept] = blocks[i]
        kept += count_near(squares, limits[i]) > 0
    return kept


@njit(**OPTIONS)
def _add(
    points: Any,
    n: int,
    chosen: Any,
    log2_weights: Any,
    factors: Any,
    values: Any,
    scale: float,
    query: Any,
    reach: float,
    output: int,
    own: int,
    lost: Any,
    lost_query: Any,
    bits: Any,
    distances: Any,
    state: Any,
    moments: Any,
    sizes: Any,
) -> int:
    """Add chosen blocks of ``n`` points to the sums of a query, but those that lie beyond its reach, in bits.

    The point ``own`` is left out.

    Arithmetic is in the dtype of the query, which is that of ``bits`` and ``distances``, (64,). Return how many blocks
    were taken: fewer than all if the next one needs double precision.
    """
    real = bits.dtype.type
    limit, factor, constant = real(min(reach, NOTHING)), real(scale), real(1.0 + 0.5 * query.size)
    taken: int = chosen.size
    for i in range(chosen.size):
        block = chosen[i]
        squares_to(points, block, query, bits)
        if lost.shape[0] > 0:
            add_lost_squares(points, lost, block, query, lost_query, bits)
        for j in range(n - block * BLOCK, BLOCK):
            bits[j] = NOTHING
        if own >= 0 and own // BLOCK == block:
            bits[own % BLOCK] = NOTHING
        if factors.size:
            for j in range(BLOCK):
                bits[j] *= factors[block, j]
        near, lower = to_bits(bits, factor, limit, real(-state[_TOP]))
        if near == 0:
            continue
        if output == LAPLACE:
            for j in range(BLOCK):
                distances[j] = bits[j]
        if log2_weights.size:
            for j in range(BLOCK):
                bits[j] -= log2_weights[block, j]
                lower += np.int32(bits[j] < -state[_TOP])
        if lower > 0:
            least = np.float64(least_of(bits))
            if -least > state[_TOP]:
                ratio = np.exp2(state[_TOP] + least)
                state[_TOTAL] *= ratio
                for c in range(moments.size):
                    moments[c] *= ratio
                if values is not None:
                    for c in range(sizes.size):
                        sizes[c] *= ratio
                state[_TOP] = -least
        if values is not None:
            far = bits.itemsize == 4 and reach + state[_TOP] > _SINGLE_BITS
            if far and _count_between(bits, real(_SINGLE_BITS - state[_TOP]), min(limit, real(0.5 * NOTHING))) > 0:
                taken = i
                break
        top = real(-state[_TOP])
        if output == LAPLACE:
            total, moment = to_laplace_terms(bits, distances, top, constant)
            moments[0] += moment
        else:
            total = to_terms(bits, top)
        state[_TOTAL] += total
        if output == GRADIENT:
            for j in range(BLOCK):
                bits[j] *= factors[block, j]
        if output in (MOMENTS, GRADIENT):
            add_moments(bits, points, block, query, moments)
            if lost.shape[0] > 0:
                add_moments(bits, lost, block, lost_query, moments)
        if values is not None:
            add_values(bits, values.blocks, block, values.signed, moments, sizes)
    state[_SIZE] = state[_TOTAL]
    if values is not None:
        state[_SIZE] = _least_share(state[_TOTAL] / values.weight, sizes, values.mass)
    return taken


@njit(**_JIT)
def _count_between(bits: Any, low: Any, high: Any) -> Any:
    count = np.int32(0)
    for j in range(BLOCK):
        count += np.int32(bits[j] > low) & np.int32(bits[j] <= high)
    return count


@njit(**OPTIONS)
def _least_share(least: float, sizes: Any, mass: Any) -> float:
    """Least share that sums of absolute terms are of their masses, or ``least``; zero columns have no mass."""
    for c in range(sizes.size):
        if mass[c] > 0.0:
            least = min(least, sizes[c] / mass[c])
    return least


@njit(**OPTIONS)
def _add_in(
    double: bool,
    both: Any,
    points: Any,
    n: int,
    chosen: Any,
    log2_weights: Any,
    factors: Any,
    values: Any,
    scale: float,
    reach: float,
    output: int,
    state: Any,
    moments: Any,
    sizes: Any,
) -> None:
    """Add blocks in the dtype of the data where that serves, or in double; ``both`` are a query and room for each."""
    query, own, bits, distances, double_query, double_bits, double_distances, lost, lost_query = both
    taken = 0
    if not double:
        taken = _add(
            points,
            n,
            chosen,
            log2_weights,
            factors,
            values,
            scale,
            query,
            reach,
            output,
            own,
            lost,
            lost_query,
            bits,
            distances,
            state,
            moments,
            sizes,
        )
    if taken < chosen.size:
        _add(
            points,
            n,
            chosen[taken:],
            log2_weights,
            factors,
            values,
            scale,
            double_query,
            reach,
            output,
            own,
            lost,
            lost_query,
            double_bits,
            double_distances,
            state,
            moments,
            sizes,
        )


@njit(**OPTIONS)
def _most_bits(far: float, boxes: Any, b: int, scale: float, d: int) -> float:
    """Minus the logarithm of what the points of a box add to the sum of a query at least, up to a distance."""
    if not boxes.mass[b] > 0.0:
        return np.inf
    bits: float = slack(d) * scale * boxes.sharpest[b] * far - np.log2(boxes.mass[b])
    return bits


@njit(**OPTIONS)
def _bits(least: float, floor: float, allowed: float, output: int, d: int) -> float:
    """T of a query whose sum is at least 2^-least; ``allowed`` is the logarithm of the tolerance over the mass.

    ``floor`` is F. T is larger by what squared distances have lost by rounding.
    """
    if floor > 0.0:
        least = -np.log2(np.exp2(-least) + floor)
    bits = least - allowed
    if output == LAPLACE:
        bits += np.log2(1.0 + 0.5 * d + abs(bits) + _ROOM)
    return slack(d) * bits


@njit(**OPTIONS)
def _find_near(
    queries: Any,
    blocks: Any,
    groups: Any,
    scale: float,
    floor: float,
    allowed: float,
    output: int,
    near: Any,
    far: Any,
    found: Any,
    low: Any,
    high: Any,
) -> tuple[int, float]:
    """Find the blocks that may matter to any of some queries (q, d); write their numbers and boxes.

    Return the count, which is at least one, and a bound on T: the largest distance to a block bounds what it adds from
    below, and so T from above.
    """
    d, count, least, nearest = queries.shape[1], 0, np.inf, np.inf
    begin, end = np.empty(d, queries.dtype), np.empty(d, queries.dtype)
    for c in range(d):
        begin[c], end[c] = queries[:, c].min(), queries[:, c].max()
    to_boxes(groups.low, groups.high, begin, end, groups.mass.size, near, far)
    for g in range(groups.mass.size):
        least = min(least, _most_bits(far[g], groups, g, scale, d))
        nearest = min(nearest, scale * groups.softest[g] * near[g])
    bits = max(_bits(least, floor, allowed, output, d), nearest)
    for g in range(groups.mass.size):
        if scale * groups.softest[g] * near[g] > bits:
            continue
        count = blocks_of_group(blocks.low, blocks.high, g, count, found, low, high)
    to_boxes(low, high, begin, end, count, near, far)
    nearest = np.inf
    for i in range(count):
        least = min(least, _most_bits(far[i], blocks, found[i], scale, d))
        nearest = min(nearest, scale * blocks.softest[found[i]] * near[i])
    bits = max(_bits(least, floor, allowed, output, d), nearest)
    kept = 0
    for i in range(count):
        if scale * blocks.softest[found[i]] * near[i] > bits:
            continue
        found[kept] = found[i]
        for c in range(d):
            low[c, kept], high[c, kept] = low[c, i], high[c, i]
        kept += 1
    return kept, bits


@njit(**OPTIONS)
def sums(
    queries: Any,
    lost_queries: Any,
    own: Any,
    first: int,
    last: int,
    data: Any,
    values: Any,
    tolerance: float,
    atol: float,
    output: int,
    double: bool,
    reference: Any,
    total: Any,
    moments: Any,
    counts: Any,
) -> None:
    """Sums of the queries from ``first`` to ``last``, which stand in order.

    Parameters
    ----------
    queries : array, shape (m, d)
        In the dtype and unit of the points.
    lost_queries : array, shape (m, d) or (0, d)
        What these have lost by rounding, where the data have lost something.
    own : array, shape (m,) or (0,)
        Int64, places of the data that queries leave out, -1: none.
    data : Data
        See :mod:`cukde.density.pairs.cpu.skipping.points`. Of output "values" masses are shares of the whole.
    values : Values
        See :mod:`cukde.density.pairs.cpu.skipping.values`; of other outputs None, for which loops without are compiled.
    tolerance, atol : float
        What is left out of a sum is at most the former, above 0, times what is kept, and the latter beside.
    output : int
        One of the codes.
    double : bool
        Take pairs in double even if points are in single precision: needed for weights and factors.
    reference, total : array, shape (m,)
        Results, natural logarithms and sums, without the largest weight.
    moments : array, shape (m, d), (m, 1), (m, k) or (m, 0)
        Moments in the unit of the points, sums with Laplace factors, or sums of values.
    counts : array, shape (2,), int64
        Points that are screened, and points that are summed, are added to these.
    """
    d, blocks = queries.shape[1], data.blocks.mass.size
    scale, n = data.scale, data.n
    points, log2_weights, factors, softest = data.points, data.log2_weights, data.factors, data.blocks.softest
    screen, screen_error = data.screen.points, data.screen.error
    screened, doubles = screen_error.size > 0, queries.itemsize == 8
    whole = data.mass if values is None else 1.0
    allowed, floor = np.log2(tolerance / whole), min(atol / tolerance, 1e300)
    near, far = np.empty(blocks, queries.dtype), np.empty(blocks, queries.dtype)
    low, high = np.empty((d, blocks), queries.dtype), np.empty((d, blocks), queries.dtype)
    found, queue, limits = np.empty(blocks, np.int64), np.empty(_CHUNK, np.int64), np.empty(_CHUNK, np.float32)
    bits, distances = np.empty(BLOCK, queries.dtype), np.empty(BLOCK, queries.dtype)
    double_bits, double_distances, double_query = np.empty(BLOCK), np.empty(BLOCK), np.empty(d)
    nothing_lost = np.empty(0, queries.dtype)
    squares, rounded_queries = np.empty(BLOCK, np.float32), np.empty((QUERIES, d), np.float32)
    states, own_moments, errors = np.empty((QUERIES, 3)), np.empty((QUERIES, moments.shape[1])), np.empty(QUERIES)
    sizes = np.empty((QUERIES, moments.shape[1]))
    nearest, in_double = np.empty(QUERIES, np.int64), np.empty(QUERIES, np.bool_)
    for begin in range(first, last, QUERIES):
        end = min(begin + QUERIES, last)
        count, furthest = _find_near(
            queries[begin:end], data.blocks, data.groups, scale, floor, allowed, output, near, far, found, low, high
        )
        for i in range(end - begin):
            loops.copy(queries[begin + i], double_query)
            lost_query = lost_queries[begin + i] if lost_queries.shape[0] > 0 else nothing_lost
            both = (
                queries[begin + i],
                own[begin + i] if own.size else -1,
                bits,
                distances,
                double_query,
                double_bits,
                double_distances,
                data.lost,
                lost_query,
            )
            nearest[i] = nearest_box(queries[begin + i], low, high, count, far)
            queue[0] = found[nearest[i]]
            counts[1] += BLOCK
            in_double[i] = double
            while True:
                states[i], own_moments[i], sizes[i], states[i, _TOP] = 0.0, 0.0, 0.0, -NOTHING
                _add_in(
                    in_double[i],
                    both,
                    points,
                    n,
                    queue[:1],
                    log2_weights,
                    factors,
                    values,
                    scale,
                    np.inf if values is None else furthest,
                    output,
                    states[i],
                    own_moments[i],
                    sizes[i],
                )
                if in_double[i] or states[i, _TOP] >= _FAR:
                    break
                in_double[i] = True
            in_double[i] |= doubles
            if screened and in_double[i]:
                errors[i] = rounded(double_query, data.screen, rounded_queries[i])
        # Some blocks for all queries, so that they stay in a cache.
        for start in range(0, count, _CHUNK):
            stop = min(start + _CHUNK, count)
            for i in range(end - begin):
                state = states[i]
                least = -np.log2(state[_SIZE]) - state[_TOP] if state[_SIZE] > 0.0 else np.inf
                reach = min(_bits(least, floor, allowed, output, d), furthest)
                near_boxes(low, high, queries[begin + i], start, stop, near)
                waiting = 0
                for k in range(start, stop):
                    queue[waiting] = found[k]
                    waiting += scale * softest[found[k]] * near[k] <= reach and k != nearest[i]
                if waiting == 0:
                    continue
                if screened and in_double[i]:
                    counts[0] += waiting * BLOCK
                    for w in range(waiting):
                        b = queue[w]
                        # Rounding has moved the two points by less than their errors.
                        limit = np.sqrt(reach / (softest[b] * data.screen.bits)) + errors[i] + screen_error[b]
                        limits[w] = min(slack(d) * limit * limit, FURTHEST)
                    waiting = _screened(screen, queue[:waiting], rounded_queries[i], limits, squares)
                counts[1] += waiting * BLOCK
                loops.copy(queries[begin + i], double_query)
                lost_query = lost_queries[begin + i] if lost_queries.shape[0] > 0 else nothing_lost
                both = (
                    queries[begin + i],
                    own[begin + i] if own.size else -1,
                    bits,
                    distances,
                    double_query,
                    double_bits,
                    double_distances,
                    data.lost,
                    lost_query,
                )
                _add_in(
                    in_double[i],
                    both,
                    points,
                    n,
                    queue[:waiting],
                    log2_weights,
                    factors,
                    values,
                    scale,
                    reach,
                    output,
                    state,
                    own_moments[i],
                    sizes[i],
                )
        for i in range(end - begin):
            reference[begin + i], total[begin + i] = states[i, _TOP] * _LN2, states[i, _TOTAL]
            loops.copy(own_moments[i], moments[begin + i])
