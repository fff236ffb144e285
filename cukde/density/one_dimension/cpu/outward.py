"""Sums for single queries of a line, by log-sum-exp over the boxes outward from the query.

Boxes are taken nearest first until all the points that are left add less than the tolerance to the sum of the absolute
terms: right wherever the query lies and however unequal the weights are. A box of few points is summed point by point.
Of one that holds many, and that many queries share, *tilted* moments are kept: with a = (x - centre)/h, |a| <= rho, and
a query at centre + lambda h,

    sum_j v_j exp(-(lambda - a_j)^2 / 2) = exp(-lambda^2/2) G(lambda),
    G(lambda) = sum_j v_j exp(lambda a_j - a_j^2/2),

and about a tilt lambda_0 no further than TILT/2 from lambda, with t = (lambda - lambda_0) rho, |t| <= 1/2,

    G(lambda) = sum_k t^k / k! sum_j (v_j exp(lambda_0 a_j - a_j^2/2)) (a_j / rho)^k.

Each term keeps its own relative accuracy, |t|^P / P! exp(1) at most, so nothing is lost by distance: 2e-18 for 16
powers, 4e-11 for 11. Between clusters of a million points a query then costs what it does inside them.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from cukde.core.cpu import loops
from cukde.core.cpu.jit import OPTIONS as _JIT, njit
from cukde.density.one_dimension.cpu.expansions import _add_powers, _sum_of_sizes
from cukde.density.pairs.cpu.tiles import _exp2

_FAST: dict[str, Any] = _JIT | {"fastmath": {"reassoc", "contract", "nsz", "arcp"}}

_STRIP = 256
_LOG2_E = math.log2(math.e)
# Tilts are so many bandwidths apart: |t| is at most half of that times rho, which is at most 1/4.
TILT = 4.0
# Points of a box, and queries within half a tilt, for which tilted moments are made: they cost as much as a box summed
# point by point for some eight queries.
_MANY, _SHARED = 64, 8
_SLOTS = 256  # boxes whose tilted moments are kept
_NONE = -1e300  # reference before any point: finite, so that differences of exponents stay numbers

SUM, MOMENTS, LAPLACE, VALUES = range(4)


@njit(**_FAST)
def _weighed(e: Any, log_weights: Any, count: Any) -> Any:
    """Add logarithms of weights, where there are any, to exponents; return the largest."""
    if log_weights.size:
        for j in range(count):
            e[j] += log_weights[j]
    largest = _NONE
    for j in range(count):
        largest = max(largest, e[j])
    return largest


@njit(**_FAST)
def _exponents(x: Any, y: Any, h: Any, log_weights: Any, u: Any, e: Any) -> Any:
    """Write (x - y) / h and the exponents, in natural units; return the largest of them."""
    for j in range(x.size):
        u[j] = (x[j] - y) / h
        e[j] = -0.5 * (u[j] * u[j])
    return _weighed(e, log_weights, x.size)


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
def _raised(state: Any, highest: Any, top: Any) -> Any:
    """Return the higher exponent, and make sums that stand beside the lower one stand beside it."""
    if top > highest:
        state *= math.exp(highest - top)
        highest = top
    return highest


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


@njit(**_FAST)
def _tilt(x: Any, centre: Any, h: Any, rho: Any, slope: Any, log_weights: Any, alpha: Any, e: Any) -> Any:
    """Write (x - centre) / (rho h) and exponents lambda_0 a - a^2/2 + log w; return the largest of them."""
    for j in range(x.size):
        a = (x[j] - centre) / h
        alpha[j] = a / rho
        e[j] = slope * a - 0.5 * (a * a)
    return _weighed(e, log_weights, x.size)


@njit(**_JIT)
def _tilted(
    x: Any, centre: Any, h: Any, rho: Any, slope: Any, log_weights: Any, V: Any, first: Any, M: Any, size: Any
) -> Any:
    """Write tilted moments over k! (C, P) and their sums of absolute terms (C,), beside the top that is returned.

    V (k, n) holds the values of all points, of which ``x`` are those from ``first`` on.
    """
    alpha, e, p = np.empty(_STRIP), np.empty(_STRIP), np.empty(_STRIP)
    top = _NONE
    for start in range(0, x.size, _STRIP):
        stop = min(start + _STRIP, x.size)
        log_w = log_weights[start:stop] if log_weights.size else log_weights
        top = max(top, _tilt(x[start:stop], centre, h, rho, slope, log_w, alpha, e))
    M[:], size[:] = 0.0, 0.0
    for start in range(0, x.size, _STRIP):
        stop = min(start + _STRIP, x.size)
        count = stop - start
        log_w = log_weights[start:stop] if log_weights.size else log_weights
        _tilt(x[start:stop], centre, h, rho, slope, log_w, alpha, e)
        _kernels(e, top, count)
        for c in range(size.size):
            for j in range(count):
                p[j] = e[j] if c == 0 else e[j] * V[c - 1, first + start + j]
            size[c] += _sum_of_sizes(p, count)
            _add_powers(alpha, p, count, M[c])
    factorial = 1.0
    for k in range(1, M.shape[1]):
        factorial *= k
        for c in range(M.shape[0]):
            M[c, k] /= factorial
    return top


@njit(**_JIT)
def _taylor(M: Any, t: Any) -> Any:
    """Value, derivative and half of the second derivative at t of the polynomial with coefficients M."""
    value, slope, curvature = 0.0, 0.0, 0.0
    for k in range(M.size - 1, -1, -1):
        curvature = curvature * t + slope
        slope = slope * t + value
        value = value * t + M[k]
    return value, slope, curvature


@njit(**_JIT)
def outward(
    y: Any,
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
    order: Any,
    output: Any,
    reference: Any,
    total: Any,
    moments: Any,
) -> None:
    """Write reference, total (m,) and moments (m, k) of the queries ``y`` (m,), which ascend.

    ``log_weights`` (n,) may be empty; V (k, n) are values, ``mass`` (K, C) those of boxes and ``whole`` (C,) of all.
    """
    columns, rho = whole.size, 0.5 * width / h
    u, e = np.empty(_STRIP), np.empty(_STRIP)
    # What is summed beside the highest exponent: absolute terms of each column, first the kernels; moments, or squares.
    state, left = np.empty(columns + moments.shape[1]), np.empty(columns)
    size, sums = state[:columns], state[columns:]
    # Tilted moments of the boxes last seen, each in the slot of its number.
    owner, tilt = np.full(_SLOTS, -1, np.int64), np.empty(_SLOTS)
    tilted, sizes, tops = np.empty((_SLOTS, columns, order)), np.empty((_SLOTS, columns)), np.empty(_SLOTS)
    for i in range(y.size):
        query = np.float64(y[i])
        near = np.float64(y[min(i + _SHARED, y.size - 1)]) - query <= 0.5 * TILT * h and i + _SHARED < y.size
        right = loops.lower_bound(ids, np.int64(min(max(np.floor(query / width), ids[0]), ids[-1] + 1)))
        left_box = right - 1
        highest = _NONE
        loops.copy(whole, left)
        state[:] = 0.0
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
            centre = (ids[b] + 0.5) * width
            offset = (query - centre) / h
            slope = TILT * np.rint(offset / TILT)
            slot = b % _SLOTS
            many = starts[b + 1] - starts[b] >= _MANY
            held = owner[slot] == b and tilt[slot] == slope
            if many and (held or near):
                if not held:
                    box_weights = log_weights[starts[b] : starts[b + 1]] if log_weights.size else log_weights
                    points = x[starts[b] : starts[b + 1]]
                    tops[slot] = _tilted(
                        points, centre, h, rho, slope, box_weights, V, starts[b], tilted[slot], sizes[slot]
                    )
                    owner[slot], tilt[slot] = b, slope
                t = (offset - slope) * rho
                top = tops[slot] - 0.5 * offset * offset
                highest = _raised(state, highest, top)
                scale = math.exp(top - highest)
                value, first, second = _taylor(tilted[slot, 0], t)
                first, second = first * rho, 2 * second * rho * rho  # derivatives of G: sums of a and of a^2
                size[0] += scale * value
                if output == MOMENTS:
                    sums[0] += scale * (first - offset * value)
                elif output == LAPLACE:
                    sums[0] += scale * 0.5 * (offset * offset * value - 2 * offset * first + second)
                elif output == VALUES:
                    for c in range(V.shape[0]):
                        sums[c] += scale * _taylor(tilted[slot, c + 1], t)[0]
                        size[c + 1] += scale * sizes[slot, c + 1] * math.exp(-abs(t))
            else:
                for start in range(starts[b], starts[b + 1], _STRIP):
                    stop = min(start + _STRIP, starts[b + 1])
                    count = stop - start
                    log_w = log_weights[start:stop] if log_weights.size else log_weights
                    top = _exponents(x[start:stop], query, h, log_w, u, e)
                    highest = _raised(state, highest, top)
                    size[0] += _kernels(e, highest, count)
                    if output in (MOMENTS, LAPLACE):
                        sums[0] += _weighted(e, u, count, output)
                    elif output == VALUES:
                        for c in range(V.shape[0]):
                            s, absolute = _product(e, V[c, start:stop])
                            sums[c] += s
                            size[c + 1] += absolute
            for c in range(columns):
                # What is left of a mass keeps what rounding may have hidden of it.
                left[c] = max(left[c] - mass[b, c], 1e-15 * whole[c])
        reference[i], total[i] = highest, size[0]
        if output == LAPLACE:
            moments[i, 0] = 1.5 * size[0] - sums[0]
        else:
            for c in range(sums.size):
                moments[i, c] = h * sums[c] if output == MOMENTS else sums[c]
