"""Sums for single queries of a line, by log-sum-exp over the points outward from the query.

Boxes are taken nearest first until all the points that are left add less than the tolerance to the sum of the absolute
terms: right wherever the query lies and however unequal the weights are, at the cost of the points that matter.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit

from cukde.cpu._tiles import _exp2

_JIT: dict[str, Any] = {"nogil": True, "error_model": "numpy", "cache": True}
_FAST: dict[str, Any] = _JIT | {"fastmath": {"reassoc", "contract", "nsz", "arcp"}}

_STRIP = 256
_LOG2_E = math.log2(math.e)
_NONE = -1e300  # reference before any point: finite, so that differences of exponents stay numbers

SUM, MOMENTS, LAPLACE, VALUES = range(4)


@njit(**_FAST)
def _exponents(x: Any, y: Any, h: Any, log_weights: Any, u: Any, e: Any) -> Any:
    """Write (x - y) / h and the exponents, in natural units; return the largest of them."""
    largest = _NONE
    for j in range(x.size):
        u[j] = (x[j] - y) / h
        e[j] = -0.5 * (u[j] * u[j])
    if log_weights.size:
        for j in range(x.size):
            e[j] += log_weights[j]
    for j in range(x.size):
        largest = max(largest, e[j])
    return largest


@njit(**_FAST)
def _kernels(e: Any, reference: Any, count: Any) -> Any:
    """Turn exponents into kernels beside the reference; return their sum."""
    total = 0.0
    for j in range(count):
        k = _exp2((e[j] - reference) * _LOG2_E)
        e[j] = k
        total += k
    return total


@njit(**_FAST)
def _weighted(e: Any, u: Any, count: Any, output: Any) -> Any:
    """Sum of kernels times (x - y) / h, or times (x - y)^2 / (2 h^2)."""
    total = 0.0
    if output == MOMENTS:
        for j in range(count):
            total += e[j] * u[j]
    else:
        for j in range(count):
            total += e[j] * (0.5 * u[j] * u[j])
    return total


@njit(**_FAST)
def _product(e: Any, v: Any) -> Any:
    total, size = 0.0, 0.0
    for j in range(v.size):
        total += e[j] * v[j]
        size += e[j] * abs(v[j])
    return total, size


@njit(**_JIT)
def _enough(left: Any, size: Any, reference: Any, distance: Any, tolerance: Any) -> bool:
    """Whether masses ``left`` (C,) at this distance or beyond are within the tolerance of every column's sum."""
    if reference == _NONE:
        return False
    bound = math.log(1.5 + 0.5 * distance * distance) - 0.5 * distance * distance - math.log(tolerance) - reference
    for c in range(left.size):
        if left[c] > 0.0 and not (size[c] > 0.0 and math.log(left[c]) + bound <= math.log(size[c])):
            return False
    return True


@njit(**_JIT)
def outward(
    y: Any,
    place: Any,
    accepted: Any,
    ids: Any,
    starts: Any,
    x: Any,
    log_weights: Any,
    V: Any,
    mass: Any,
    whole: Any,
    width: Any,
    h: Any,
    tolerance: Any,
    output: Any,
    reference: Any,
    total: Any,
    moments: Any,
) -> None:
    """Write reference, total (m,) and moments (m, k) of the queries whose box is not accepted.

    ``log_weights`` (n,) may be empty; V (k, n) are values, ``mass`` (K, C) those of boxes and ``whole`` (C,) of all.
    """
    columns = whole.size
    u, e = np.empty(_STRIP), np.empty(_STRIP)
    left, size, sums = np.empty(columns), np.empty(columns), np.empty(moments.shape[1])
    for i in range(y.size):
        if place[i] >= 0 and accepted[place[i]]:
            continue
        query = np.float64(y[i])
        right = np.searchsorted(ids, np.int64(min(max(np.floor(query / width), ids[0]), ids[-1] + 1)))
        left_box = right - 1
        highest, kernels, squares = _NONE, 0.0, 0.0
        left[:], size[:], sums[:] = whole, 0.0, 0.0
        while left_box >= 0 or right < ids.size:
            to_left = (query - (ids[left_box] + 1) * width) / h if left_box >= 0 else np.inf
            to_right = (ids[right] * width - query) / h if right < ids.size else np.inf
            if _enough(left, size, highest, max(0.0, min(to_left, to_right)), tolerance):
                break
            if to_left < to_right:
                b = left_box
                left_box -= 1
            else:
                b = right
                right += 1
            for start in range(starts[b], starts[b + 1], _STRIP):
                stop = min(start + _STRIP, starts[b + 1])
                count = stop - start
                log_w = log_weights[start:stop] if log_weights.size else log_weights
                largest = _exponents(x[start:stop], query, h, log_w, u, e)
                if largest > highest:
                    factor = math.exp(highest - largest)
                    highest = largest
                    kernels *= factor
                    squares *= factor
                    size *= factor
                    sums *= factor
                added = _kernels(e, highest, count)
                kernels += added
                size[0] += added
                if output == MOMENTS:
                    sums[0] += _weighted(e, u, count, output)
                elif output == LAPLACE:
                    squares += _weighted(e, u, count, output)
                elif output == VALUES:
                    for c in range(V.shape[0]):
                        s, absolute = _product(e, V[c, start:stop])
                        sums[c] += s
                        size[c + 1] += absolute
            for c in range(columns):
                # What is left of a mass keeps what rounding may have hidden of it.
                left[c] = max(left[c] - mass[b, c], 1e-15 * whole[c])
        reference[i] = highest
        total[i] = 1.5 * kernels - squares if output == LAPLACE else kernels
        for c in range(sums.size):
            moments[i, c] = h * sums[c] if output == MOMENTS else sums[c]
