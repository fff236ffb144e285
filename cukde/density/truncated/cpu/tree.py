"""Sums of a Gaussian kernel at single queries over a tree of boxes, which leave out what cannot matter.

Points stand in the order of a curve; a leaf is a stretch of them, and a node above holds two nodes. A query walks the
tree, the nearer node first, and sums leaves. It leaves out a node of mass m whose nearest corner is a distance r away
where

    exp(-r^2 / 2 h^2) <= (rtol S - charged) / left,

with S the sum so far, ``left`` the mass that is neither summed nor left out, and ``charged`` the sum of the bounds
m exp(-r^2 / 2 h^2) of nodes left out before. What is charged then never exceeds rtol S, whatever comes in whatever
order, and the sum is accurate to rtol; all stands beside the largest exponent seen, so that this holds at any distance.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from cukde.core.cpu.jit import njit
from cukde.density.pairs.cpu.tiles import _exp2

_JIT: dict[str, Any] = {"nogil": True, "error_model": "numpy", "cache": True}
_FAST: dict[str, Any] = _JIT | {"fastmath": {"reassoc", "contract", "nsz", "arcp", "nnan", "ninf"}}

LEAF = 128
"""Points of a leaf."""

_DEEP = 128  # nodes that may wait: fewer than two for each level
_CLEARLY = 30.0  # bits below the bound from which a node is charged the same
# Exponents round with their size: beyond so many bits from all points queries are summed in double, as with weights.
_NEAR = -20.0
_LOG2_E = math.log2(math.e)


class Tree(NamedTuple):
    """Nodes level by level, the leaves first; node i of a level holds nodes 2 i and 2 i + 1 of the one below."""

    points: np.ndarray  # (d, n), in the order of the curve
    log2_weights: np.ndarray  # (n,) float64, or empty
    first: np.ndarray  # (levels + 1,) int64: where each level begins, and the end
    low: np.ndarray  # (nodes, d) float64
    high: np.ndarray
    mass: np.ndarray  # (nodes,)


def tree(points: np.ndarray, weights: np.ndarray, log_weights: np.ndarray) -> Tree:
    """Put a tree over points (d, n) that stand in order; weights may be empty."""
    d, n = points.shape
    sizes = [-(-n // LEAF)]
    while sizes[-1] > 1:
        sizes.append(-(-sizes[-1] // 2))
    first = np.concatenate([[0], np.cumsum(sizes)])
    low, high, mass = np.empty((first[-1], d)), np.empty((first[-1], d)), np.empty(first[-1])
    _build(points, weights, first, low, high, mass)
    return Tree(points, log_weights * _LOG2_E, first, low, high, mass)


@njit(**_JIT)
def _build(points: Any, weights: Any, first: Any, low: Any, high: Any, mass: Any) -> None:
    d, n = points.shape
    for leaf in range(first[1]):
        start, stop = leaf * LEAF, min((leaf + 1) * LEAF, n)
        mass[leaf] = stop - start
        if weights.size:
            mass[leaf] = weights[start:stop].sum()
        for k in range(d):
            low[leaf, k], high[leaf, k] = np.float64(points[k, start]), np.float64(points[k, start])
            for j in range(start + 1, stop):
                v = np.float64(points[k, j])
                low[leaf, k], high[leaf, k] = min(low[leaf, k], v), max(high[leaf, k], v)
    for level in range(1, first.size - 1):
        for i in range(first[level + 1] - first[level]):
            index, left = first[level] + i, first[level - 1] + 2 * i
            right = min(left + 1, first[level] - 1)
            mass[index] = mass[left] + (mass[right] if right > left else 0.0)
            for k in range(d):
                low[index, k] = min(low[left, k], low[right, k])
                high[index, k] = max(high[left, k], high[right, k])


@njit(**_FAST)
def _exponents(points: Any, start: Any, stop: Any, query: Any, scale: Any, log2_weights: Any, e: Any) -> Any:
    """Write exponents in bits; return the largest."""
    count = stop - start
    x, y = points[0, start:stop], points[1, start:stop]
    q, p = query[0], query[1]
    for j in range(count):
        u, v = (x[j] - q) * scale, (y[j] - p) * scale
        e[j] = -(u * u + v * v)
    if points.shape[0] == 3:
        z, r = points[2, start:stop], query[2]
        for j in range(count):
            w = (z[j] - r) * scale
            e[j] -= w * w
    if log2_weights.size:
        row_weights = log2_weights[start:stop]
        for j in range(count):
            e[j] += row_weights[j]
    largest = e[0]
    for j in range(count):
        largest = max(largest, e[j])
    return largest


@njit(**_FAST)
def _kernels(e: Any, count: Any, top: Any) -> Any:
    total = e.dtype.type(0)
    for j in range(count):
        total += _exp2(e[j] - top)
    return np.float64(total)


@njit(**_FAST)
def _sum(points: Any, start: Any, stop: Any, query: Any, scale: Any, top: Any) -> Any:
    """Sum of kernels without weights none of which has an exponent above ``top``: in one pass."""
    total = scale - scale  # zero of its type
    x, y = points[0, start:stop], points[1, start:stop]
    q, p = query[0], query[1]
    if points.shape[0] == 2:
        for j in range(x.size):
            u, v = (x[j] - q) * scale, (y[j] - p) * scale
            total += _exp2(-(u * u + v * v) - top)
    else:
        z, r = points[2, start:stop], query[2]
        for j in range(x.size):
            u, v, w = (x[j] - q) * scale, (y[j] - p) * scale, (z[j] - r) * scale
            total += _exp2(-(u * u + v * v + w * w) - top)
    return np.float64(total)


@njit(**_JIT)
def _squared_distance(low: Any, high: Any, node: Any, query: Any, scale: Any) -> Any:
    """Squared distance of a query to a box, in the unit in which it is an exponent in bits."""
    total = 0.0
    for k in range(low.shape[1]):
        q = np.float64(query[k])
        u = max(0.0, max(low[node, k] - q, q - high[node, k])) * scale
        total += u * u
    return total


@njit(**_JIT)
def _nearer_middle(low: Any, high: Any, one: Any, other: Any, query: Any) -> Any:
    """Whether the middle of a box is nearer to a query than that of another."""
    difference = 0.0
    for k in range(low.shape[1]):
        q = 2.0 * np.float64(query[k])
        difference += abs(low[one, k] + high[one, k] - q) - abs(low[other, k] + high[other, k] - q)
    return difference < 0.0


@njit(**_JIT)
def sums(
    Y: Any,
    rows: Any,
    points: Any,
    log2_weights: Any,
    first: Any,
    low: Any,
    high: Any,
    mass: Any,
    h: Any,
    rtol: Any,
    reference: Any,
    total: Any,
) -> int:
    """Write reference, in natural units, and total of the ``rows`` of queries Y (m, d), in the dtype of the points.

    Return how many pairs have been summed.
    """
    scale = math.sqrt(0.5 * _LOG2_E) / h
    single = points.dtype.type
    own_scale = single(scale)
    levels = first.size - 2
    n, whole = points.shape[1], mass[mass.size - 1]
    e, double_e = np.empty(LEAF, points.dtype), np.empty(LEAF)
    double_query = np.empty(points.shape[0])
    none = np.empty(0)
    pairs = 0
    waiting, level_of, distance_of = np.empty(_DEEP, np.int64), np.empty(_DEEP, np.int64), np.empty(_DEEP)
    for i in rows:
        query = Y[i]
        double_query[:] = query
        near_all = log2_weights.size == 0
        waiting[0], level_of[0], distance_of[0], count = 0, levels, 0.0, 1
        top, total_here, charged, left = 0.0, 0.0, 0.0, whole
        bound, ratio = np.inf, 0.0  # nodes from this squared distance on are left out, at most for this a unit of mass
        while count > 0:
            count -= 1
            node, level, distance = waiting[count], level_of[count], distance_of[count]
            index = first[level] + node
            if distance >= bound:
                charged += mass[index] * ratio * np.exp2(-min(distance - bound, _CLEARLY))
                left -= mass[index]
                continue
            if level > 0:
                below, size = first[level - 1], first[level] - first[level - 1]
                near, far = 2 * node, 2 * node + 1
                to_near = _squared_distance(low, high, below + near, query, scale)
                if far < size:
                    to_far = _squared_distance(low, high, below + far, query, scale)
                    # Boxes may overlap: of two that hold the query the one whose middle is nearer begins.
                    same = to_far == to_near
                    if to_far < to_near or (same and _nearer_middle(low, high, below + far, below + near, query)):
                        near, far, to_near, to_far = far, near, to_far, to_near
                    waiting[count], level_of[count], distance_of[count] = far, level - 1, to_far
                    count += to_far < bound
                    if to_far >= bound:
                        charged += mass[below + far] * ratio * np.exp2(-min(to_far - bound, _CLEARLY))
                        left -= mass[below + far]
                waiting[count], level_of[count], distance_of[count] = near, level - 1, to_near
                count += 1
                continue
            start, stop = node * LEAF, min((node + 1) * LEAF, n)
            pairs += stop - start
            begun = total_here > 0.0
            if begun and -distance <= top and log2_weights.size == 0:
                if near_all:
                    total_here += _sum(points, start, stop, query, own_scale, single(top))
                else:
                    total_here += _sum(points, start, stop, double_query, scale, top)
            else:
                highest = 0.0
                if near_all:
                    highest = np.float64(_exponents(points, start, stop, query, own_scale, none, e))
                    near_all = begun or highest >= _NEAR
                if not near_all:
                    highest = _exponents(points, start, stop, double_query, scale, log2_weights, double_e)
                if not begun or highest > top:
                    if begun:
                        factor = np.exp2(top - highest)
                        total_here *= factor
                        charged *= factor
                    top = highest
                if near_all:
                    total_here += _kernels(e, stop - start, single(top))
                else:
                    total_here += _kernels(double_e, stop - start, top)
            left -= mass[index]
            # Of what is left differences keep no more than rounding lets them.
            ratio = (rtol * total_here - charged) / max(left, 1e-14 * whole)
            bound = -(top + np.log2(ratio)) if ratio > 0.0 else np.inf
            if not begun:  # nodes that wait, from the top of the tree: most of the mass is far
                kept = 0
                for j in range(count):
                    if distance_of[j] >= bound:
                        other = first[level_of[j]] + waiting[j]
                        charged += mass[other] * ratio * np.exp2(-min(distance_of[j] - bound, _CLEARLY))
                        left -= mass[other]
                    else:
                        waiting[kept], level_of[kept] = waiting[j], level_of[j]
                        distance_of[kept] = distance_of[j]
                        kept += 1
                count = kept
                ratio = (rtol * total_here - charged) / max(left, 1e-14 * whole)
                bound = -(top + np.log2(ratio)) if ratio > 0.0 else np.inf
        reference[i] = top / _LOG2_E
        total[i] = total_here
    return pairs
