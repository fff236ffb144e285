r"""Sums of the normal distribution function for single queries of a line, Numba kernels of the CPU.

With u = (y - x)/h, Phi(u) = exp(-u^2/2) q(-u) where u < 0, and 1 - exp(-u^2/2) q(u) elsewhere; q(a), half of
erfcx(a/sqrt(2)), is Mills' ratio over sqrt(2 pi). Terms keep their exponents apart: log w - u^2/2 of points right of
the query, log w of those left of it. So a sum is accurate, relative to itself, however far to the left of the data the
query lies.

Boxes come from the left: of those that are further than the window the mass, added up before, is one term; then boxes
are summed until the points that are left add less than the tolerance to what there is. A box of few points is summed
point by point. Of one with many the query lies lambda bandwidths to the right of the centre; a = (x - centre)/h is rho
at most, either way:

- where lambda > -3, Taylor's series of Phi(lambda - a) in a, by the moments that the box has;
- elsewhere, by the tilted moments of :mod:`cukde.density.one_dimension.cpu.outward`, about a tilt lambda_0 with
  |tau| = |lambda - lambda_0| at most 2,

      sum_j v_j Phi(lambda - a_j) = exp(-lambda^2/2) sum_j v_j exp(lambda_0 a_j - a_j^2/2) b(a_j),

  b(a) = exp(tau a) q(a - lambda), and b by its series in a, the product of those of its factors. With z = -lambda
  q(a + z) = sum_i c_i a^i, c_0 = q(z), c_i = -s_i c_{i-1}, by the continued fraction s_i = 1 / (z + (i + 1) s_{i+1}),
  whose terms are all positive.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from cukde.core.cpu import loops
from cukde.core.cpu.jit import OPTIONS as _JIT, njit
from cukde.density.one_dimension import erfcx
from cukde.density.one_dimension.cpu.outward import (
    _MANY,
    _NONE,
    _SHARED,
    _SLOTS,
    _STRIP,
    TILT,
    _raised,
    _tilted,
    _weighed,
)

_ROOT_HALF = math.sqrt(0.5)
_ROOT_2_PI = math.sqrt(2 * math.pi)
_WHOLE = 8.5  # from here on Phi is rounded to 1
_PLAIN = -3.0  # from here on Phi is large enough for a series whose error is not relative
_LEFT_OUT = 1e-3  # part of the tolerance that points left out may make up: it takes a box or two more
_LEVELS = 12  # of the continued fraction below the last that is used, where one begins with what they tend to


half_erfcx = njit(**_JIT)(erfcx.half_erfcx)


@njit(**_JIT)
def _terms(x: Any, y: Any, h: Any, q: Any, e: Any) -> None:
    """Write factors and exponents of Phi((y - x) / h)."""
    for j in range(x.size):
        u = (y - x[j]) / h
        if u >= _WHOLE:
            q[j], e[j] = 1.0, 0.0
            continue
        exponent = -0.5 * (u * u)
        tail = half_erfcx(abs(u) * _ROOT_HALF)
        if u >= 0.0:
            q[j], e[j] = 1 - math.exp(exponent) * tail, 0.0
        else:
            q[j], e[j] = tail, exponent


@njit(**_JIT)
def _add_points(x: Any, y: Any, h: Any, log_weights: Any, q: Any, e: Any, state: Any, highest: Any) -> Any:
    """Add the terms of points to ``state`` (1,), which stands beside an exponent; return the exponent."""
    for start in range(0, x.size, _STRIP):
        stop = min(start + _STRIP, x.size)
        count = stop - start
        _terms(x[start:stop], y, h, q, e)
        highest = _raised(
            state, highest, _weighed(e, log_weights[start:stop] if log_weights.size else log_weights, count)
        )
        total = 0.0
        for j in range(count):
            total += q[j] * math.exp(e[j] - highest)
        state[0] += total
    return highest


@njit(**_JIT)
def accumulate(mass: Any, before: Any, after: Any) -> None:
    """Write the masses (K + 1,) before each box, and of it and all after it, compensated: accurate to some eps."""
    for backward in range(2):
        out = after if backward else before
        total, lost = 0.0, 0.0
        for b in range(mass.size):
            box = mass.size - 1 - b if backward else b
            term = mass[box] - lost
            raised = total + term
            lost = (raised - total) - term
            total = raised
            out[box if backward else b + 1] = total
    before[0], after[mass.size] = 0.0, 0.0


@njit(**_JIT)
def _by_moments(M: Any, distance: Any, rho: Any) -> Any:
    """Sum of Phi of a box ``distance`` bandwidths to the left, by its moments M (P,) about its centre."""
    kernel = math.exp(-0.5 * distance * distance)
    tail = kernel * half_erfcx(abs(distance) * _ROOT_HALF)
    total = M[0] * (1 - tail if distance >= 0.0 else tail)
    # The coefficients -(He_{k-1} phi)(at) rho^k / (k! sqrt(2 pi)), by He_k = at He_{k-1} - (k - 1) He_{k-2}.
    before, this = 0.0, -kernel / _ROOT_2_PI * rho
    for k in range(1, M.size):
        total += this * M[k]
        before, this = this, (distance * this * rho - (k - 1) * before * rho * rho / k) / (k + 1)
    return total


@njit(**_JIT)
def _by_tilted(M: Any, z: Any, tau: Any, rho: Any, c: Any) -> Any:
    """Sum over k of M_k k! rho^k [a^k] exp(tau a) q(a + z), of tilted moments over k!; ``c`` (P,) is scratch."""
    last = c.size - 1
    level = last + _LEVELS
    s = 2 / (z + math.sqrt(z * z + 4 * level))
    for i in range(level - 1, 0, -1):
        s = 1 / (z + (i + 1) * s)
        if i <= last:
            c[i] = s
    c[0] = half_erfcx(z * _ROOT_HALF)
    for i in range(1, c.size):
        c[i] *= -c[i - 1] * rho
    total, factorial = 0.0, 1.0
    for k in range(c.size):
        factorial *= max(k, 1)
        coefficient, power = 0.0, 1.0
        for j in range(k + 1):
            coefficient += c[k - j] * power
            power *= tau * rho / (j + 1)
        total += coefficient * factorial * M[k]
    return total


@njit(**_JIT)
def outward(
    y: Any,
    ids: Any,
    starts: Any,
    x: Any,
    log_weights: Any,
    moments: Any,
    before: Any,
    after: Any,
    width: Any,
    h: Any,
    reach: Any,
    tolerance: Any,
    reference: Any,
    total: Any,
) -> None:
    """Write reference and total (m,) of the queries ``y`` (m,), which ascend.

    ``moments`` (K, P) are those of the boxes, ``before`` and ``after`` from :func:`accumulate`; ``log_weights`` (n,)
    may be empty.
    """
    order, rho = moments.shape[1], 0.5 * width / h
    q, e, c = np.empty(_STRIP), np.empty(_STRIP), np.empty(order)
    state = np.empty(1)
    none = np.empty((0, 0))
    # Tilted moments of the boxes last seen, each in the slot of its number.
    owner, tilt, tops = np.full(_SLOTS, -1, np.int64), np.empty(_SLOTS), np.empty(_SLOTS)
    tilted, size = np.empty((_SLOTS, 1, order)), np.empty(1)
    log_tolerance = math.log(_LEFT_OUT * tolerance)
    for i in range(y.size):
        query = np.float64(y[i])
        near = np.float64(y[min(i + _SHARED, y.size - 1)]) - query <= 0.5 * TILT * h and i + _SHARED < y.size
        # As floating-point numbers: the box of a query may be beyond any integer.
        first_box = np.floor(query / width) - reach
        b = loops.lower_bound(ids, np.int64(min(max(first_box, ids[0]), ids[-1] + 1)))
        state[0], highest = 0.0, _NONE
        if before[b] > 0.0:
            state[0], highest = 1.0, math.log(before[b])
        while b < ids.size:
            apart = max(0.0, (ids[b] * width - query) / h)
            if state[0] > 0.0 and (
                after[b] == 0.0
                or math.log(after[b]) - 0.5 * apart * apart <= log_tolerance + highest + math.log(state[0])
            ):
                break
            centre = (ids[b] + 0.5) * width
            offset = (query - centre) / h
            slope = TILT * np.rint(offset / TILT)
            slot = b % _SLOTS
            many = starts[b + 1] - starts[b] >= _MANY
            held = owner[slot] == b and tilt[slot] == slope
            if many and offset > _PLAIN and moments[b, 0] > 0.0:
                top = math.log(moments[b, 0])
                highest = _raised(state, highest, top)
                state[0] += math.exp(top - highest) * (_by_moments(moments[b], offset, rho) / moments[b, 0])
            elif many and offset <= _PLAIN and (held or near):
                if not held:
                    box_weights = log_weights[starts[b] : starts[b + 1]] if log_weights.size else log_weights
                    points = x[starts[b] : starts[b + 1]]
                    tops[slot] = _tilted(
                        points, centre, h, rho, slope, box_weights, none, starts[b], tilted[slot], size
                    )
                    owner[slot], tilt[slot] = b, slope
                top = tops[slot] - 0.5 * offset * offset
                highest = _raised(state, highest, top)
                state[0] += math.exp(top - highest) * _by_tilted(tilted[slot, 0], -offset, offset - slope, rho, c)
            else:
                box_weights = log_weights[starts[b] : starts[b + 1]] if log_weights.size else log_weights
                highest = _add_points(x[starts[b] : starts[b + 1]], query, h, box_weights, q, e, state, highest)
            b += 1
        reference[i], total[i] = highest, state[0]
