"""Numba kernels of the one-dimensional fast Gauss transform; see :mod:`cukde._gauss_transform` for what they compute.

Shapes: K boxes of data, T boxes of queries, C columns (the weight first, then each of the values), P powers.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

_JIT: dict[str, Any] = {"nogil": True, "error_model": "numpy", "cache": True}
# Sums may be reordered; differences of a point and its centre may not, so they have a function of their own.
_FAST: dict[str, Any] = _JIT | {"fastmath": {"reassoc", "contract", "nsz", "arcp"}}

_STRIP = 128  # points whose powers stay in the fastest cache

# A pair summed on its own costs as much as so many multiply-adds of a translation (CPU with AVX2: 1.3 and 0.25 ns).
_PAIR = 5


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
                p[:count] = 1.0
                if w.size:
                    p[:count] = w[start:stop]
                if c > 0:
                    p[:count] *= V[c - 1, start:stop]
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
    wanted: Any,
    targets: Any,
    counts: Any,
    ids: Any,
    starts: Any,
    M: Any,
    mass: Any,
    whole: Any,
    table: Any,
    error: Any,
    least: Any,
    beyond: Any,
    tolerance: Any,
    B: Any,
    accepted: Any,
) -> None:
    """Write B (T, C, P) of those of the ``wanted`` boxes of queries that are accepted, and whether they are.

    ``table`` is T[o, k, l], ``whole`` (C,) the mass of all points. Boxes with so few pairs that summing those is cheaper
    are not accepted either.
    """
    reach = error.size // 2
    columns, order = M.shape[1], M.shape[2]
    for t in wanted:
        low = np.searchsorted(ids, targets[t] - reach)
        high = np.searchsorted(ids, targets[t] + reach, side="right")
        pairs = counts[t] * (starts[high] - starts[low])
        accepted[t] = pairs * _PAIR > columns * order * ((high - low) * order + counts[t])
        for c in range(columns):
            inside, off, near = 0.0, 0.0, 0.0
            for b in range(low, high):
                o = targets[t] - ids[b] + reach
                inside += mass[b, c]
                off += mass[b, c] * error[o]
                near += mass[b, c] * least[o]
            outside = max(0.0, whole[c] - inside * (1 - 1e-15))
            accepted[t] = accepted[t] and off + outside * beyond <= tolerance * near
        if accepted[t]:
            for b in range(low, high):
                for c in range(columns):
                    _add_product(table[targets[t] - ids[b] + reach], M[b, c], B[t, c])


@njit(**_JIT)
def evaluate(
    y: Any, place: Any, targets: Any, accepted: Any, B: Any, width: Any, slope: Any, total: Any, moments: Any
) -> Any:
    """Write the sums of queries whose box is accepted, (m,), and (m, k) moments; return how many are left.

    With one column and ``slope`` not 0, moments are ``slope`` times the derivative; otherwise of the other columns.
    """
    order, left = B.shape[2], 0
    for i in range(y.size):
        t = place[i]
        if t < 0 or not accepted[t]:
            left += 1
            continue
        b = B[t, 0]
        u = (np.float64(y[i]) - (targets[t] + 0.5) * width) / (0.5 * width)
        value, derivative = b[order - 1], 0.0
        if slope != 0.0:
            for power in range(order - 2, -1, -1):
                derivative = derivative * u + value
                value = value * u + b[power]
            moments[i, 0] = slope * derivative
        else:
            for power in range(order - 2, -1, -1):
                value = value * u + b[power]
        total[i] = value
        for c in range(1, B.shape[1]):
            b = B[t, c]
            value = b[order - 1]
            for power in range(order - 2, -1, -1):
                value = value * u + b[power]
            moments[i, c - 1] = value
    return left
