"""Numba kernels of the one-dimensional fast Gauss transform; see :mod:`cukde.density.one_dimension.plan`.

Shapes: K boxes of data, T boxes of queries, C columns (the weight first, then each of the values), P powers, Q sums at
queries (one of each column, and the Laplace-corrected one).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cukde.core.cpu import loops
from cukde.core.cpu.jit import OPTIONS as _JIT, njit

# Sums may be reordered; differences of a point and its centre may not, so they have a function of their own.
_FAST: dict[str, Any] = _JIT | {"fastmath": {"reassoc", "contract", "nsz", "arcp"}}

_FUSED: dict[str, Any] = _JIT | {"fastmath": {"contract"}}

_STRIP = 128  # points whose powers stay in the fastest cache


@njit(**_JIT)
def _coordinates(x: Any, centre: Any, unit: Any, out: Any) -> None:
    for j in range(x.size):
        out[j] = (x[j] - centre) / unit


@njit(**_FAST)
def _add_powers(a: Any, p: Any, count: Any, out: Any) -> None:
    """Add sum_j p_j a_j^k to out[k]; ``p`` is used up."""
    for k in range(out.size):
        total = 0.0
        for j in range(count):
            total += p[j]
            p[j] *= a[j]
        out[k] += total


@njit(**_FAST)
def _sum_of_sizes(p: Any, count: Any) -> Any:
    total = 0.0
    for j in range(count):
        total += abs(p[j])
    return total


@njit(**_JIT)
def moments(
    first: Any, last: Any, ids: Any, starts: Any, x: Any, w: Any, V: Any, width: Any, M: Any, mass: Any
) -> None:
    """Write M (K, C, P) and the masses of |v| (K, C) of some boxes.

    ``w`` (n,) are weights, or empty for ones; V (C - 1, n) the values.
    """
    a, p = np.empty(_STRIP), np.empty(_STRIP)
    for b in range(first, last):
        centre = (ids[b] + 0.5) * width
        for start in range(starts[b], starts[b + 1], _STRIP):
            stop = min(start + _STRIP, starts[b + 1])
            count = stop - start
            _coordinates(x[start:stop], centre, 0.5 * width, a)
            for c in range(M.shape[1]):
                for j in range(count):
                    weight = w[start + j] if w.size else 1.0
                    p[j] = weight * V[c - 1, start + j] if c > 0 else weight
                mass[b, c] += _sum_of_sizes(p, count)
                _add_powers(a, p, count, M[b, c])


@njit(**_FAST)
def _add_product(T: Any, M: Any, B: Any) -> None:
    """Add sum_k M_k T[k, l] to B_l."""
    for k in range(M.size):
        row, m = T[k], M[k]
        for j in range(B.size):
            B[j] += m * row[j]


@njit(**_JIT)
def translate(
    selected: Any,
    targets: Any,
    counts: Any,
    ids: Any,
    starts: Any,
    M: Any,
    mass: Any,
    whole: Any,
    before: Any,
    table: Any,
    error: Any,
    least: Any,
    beyond: Any,
    tolerance: Any,
    pair: Any,
    B: Any,
    accepted: Any,
) -> None:
    """Write B (T, C, L) of those of the ``selected`` boxes of queries that are accepted, and whether they are.

    ``table`` is T[o, k, l] for l < L, ``whole`` (C,) the mass of all points. For the distribution
    function ``before`` (K + 1,) is that left of each box, all of which counts; otherwise it is empty.
    Boxes with so few pairs that summing them is less work, at ``pair`` multiply-adds each, are not accepted either.
    """
    reach = error.size // 2
    columns, order = M.shape[1], M.shape[2]
    for t in selected:
        low = loops.lower_bound(ids, targets[t] - reach)
        high = loops.lower_bound(ids, targets[t] + reach + 1)
        pairs = counts[t] * (starts[high] - starts[low])
        to_left = before[low] if before.size else 0.0
        accepted[t] = pairs * pair > columns * order * ((high - low) * order + counts[t])
        for c in range(columns):
            inside, off, near = 0.0, 0.0, to_left
            for b in range(low, high):
                o = targets[t] - ids[b] + reach
                inside += mass[b, c]
                off += mass[b, c] * error[o]
                near += mass[b, c] * least[o]
            outside = max(0.0, whole[c] - inside * (1 - 1e-15))
            accepted[t] = accepted[t] and off + outside * beyond <= tolerance * near
        if accepted[t]:
            B[t, 0, 0] = to_left
            for b in range(low, high):
                for c in range(columns):
                    _add_product(table[targets[t] - ids[b] + reach], M[b, c], B[t, c])


@njit(**_FUSED)
def _horner(B: Any, c: Any, t: Any, u: Any) -> Any:
    """Values of the polynomials of sum ``c`` and four rows ``t`` of B (T, Q, P), each at a point of its own.

    One polynomial waits for each of its own steps; four beside each other keep the processor busy: 2.6 times faster.
    """
    (t0, t1, t2, t3), (u0, u1, u2, u3) = t, u
    last = B.shape[2] - 1
    v0, v1, v2, v3 = B[t0, c, last], B[t1, c, last], B[t2, c, last], B[t3, c, last]
    for k in range(last - 1, -1, -1):
        v0, v1 = v0 * u0 + B[t0, c, k], v1 * u1 + B[t1, c, k]
        v2, v3 = v2 * u2 + B[t2, c, k], v3 * u3 + B[t3, c, k]
    return v0, v1, v2, v3


@njit(**_FUSED)
def _horner_with_slope(B: Any, c: Any, t: Any, u: Any) -> Any:
    """The same, and the derivatives."""
    (t0, t1, t2, t3), (u0, u1, u2, u3) = t, u
    last = B.shape[2] - 1
    v0, v1, v2, v3 = B[t0, c, last], B[t1, c, last], B[t2, c, last], B[t3, c, last]
    d0, d1, d2, d3 = 0.0, 0.0, 0.0, 0.0
    for k in range(last - 1, -1, -1):
        d0, d1, d2, d3 = d0 * u0 + v0, d1 * u1 + v1, d2 * u2 + v2, d3 * u3 + v3
        v0, v1 = v0 * u0 + B[t0, c, k], v1 * u1 + B[t1, c, k]
        v2, v3 = v2 * u2 + B[t2, c, k], v3 * u3 + B[t3, c, k]
    return (v0, v1, v2, v3), (d0, d1, d2, d3)


@njit(**_JIT)
def _coordinate(y: Any, box: Any, targets: Any, accepted: Any, width: Any) -> Any:
    """Row of a query's box in B, its coordinate there, and 1 if it is left: then some box stands for its own."""
    t, left = box, 0
    if t < 0 or not accepted[t]:
        t, left = 0, 1
    return t, (np.float64(y) - (targets[t] + 0.5) * width) / (0.5 * width), left


@njit(**_FUSED)
def evaluate(
    y: Any, boxes: Any, targets: Any, accepted: Any, B: Any, width: Any, slope: Any, total: Any, moments: Any
) -> Any:
    """Write the sums of queries whose box is accepted, (m,), and (m, k) moments; return 0 if no query is left.

    With ``slope`` not 0, moments are ``slope`` times the derivative of the first sum; otherwise the other sums.
    """
    m, left = y.size, 0
    if targets.size == 0:
        total[:], moments[:] = 1.0, 0.0
        return m
    for i in range(0, m, 4):
        # The last query is taken again where there are no four.
        i1, i2, i3 = min(i + 1, m - 1), min(i + 2, m - 1), min(i + 3, m - 1)
        t0, u0, left0 = _coordinate(y[i], boxes[i], targets, accepted, width)
        t1, u1, left1 = _coordinate(y[i1], boxes[i1], targets, accepted, width)
        t2, u2, left2 = _coordinate(y[i2], boxes[i2], targets, accepted, width)
        t3, u3, left3 = _coordinate(y[i3], boxes[i3], targets, accepted, width)
        left += left0 + left1 + left2 + left3
        t, u = (t0, t1, t2, t3), (u0, u1, u2, u3)
        if slope != 0.0:
            (v0, v1, v2, v3), (d0, d1, d2, d3) = _horner_with_slope(B, 0, t, u)
            moments[i, 0], moments[i1, 0] = slope * d0, slope * d1
            moments[i2, 0], moments[i3, 0] = slope * d2, slope * d3
        else:
            v0, v1, v2, v3 = _horner(B, 0, t, u)
        # A query that is left has some number, and no reason for a warning.
        total[i], total[i1] = 1.0 if left0 else v0, 1.0 if left1 else v1
        total[i2], total[i3] = 1.0 if left2 else v2, 1.0 if left3 else v3
        for c in range(1, B.shape[1]):
            v0, v1, v2, v3 = _horner(B, c, t, u)
            moments[i, c - 1], moments[i1, c - 1], moments[i2, c - 1], moments[i3, c - 1] = v0, v1, v2, v3
    return left
