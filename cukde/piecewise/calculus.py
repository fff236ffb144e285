"""Derivatives, antiderivatives and integrals of piecewise polynomials with a local origin, in float64 on the host.

Coefficients c (k, m, ...) belong to powers of x - knots[i], the leading one first; knots (m + 1,) increase or decrease.
"""

from __future__ import annotations

import math

import numpy as np

from cukde.piecewise import pieces


def derivative(c: np.ndarray, nu: int) -> np.ndarray:
    """Return the coefficients of the derivative of order nu; a single zero if nu is above the degree."""
    k = len(c)
    if nu >= k:
        return np.zeros((1, *c.shape[1:]))
    factors = np.array([math.perm(power, nu) for power in range(k - 1, nu - 1, -1)], np.float64)
    return _by_power(c[: k - nu], factors)


def antiderivative(c: np.ndarray, knots: np.ndarray, nu: int, origin: int = 0) -> np.ndarray:
    """Return the coefficients of the antiderivative of order nu.

    It is continuous, and it and its first nu - 1 derivatives are 0 at ``knots[origin]``.
    """
    for _ in range(nu):
        primitive = _primitive(c)
        steps = _horner(primitive, np.diff(knots))
        primitive[-1, origin + 1 :] = np.cumsum(steps[origin:-1], axis=0)
        primitive[-1, :origin] = -np.cumsum(steps[:origin][::-1], axis=0)[::-1]
        c = primitive
    return c


def integral(c: np.ndarray, knots: np.ndarray, a: float, b: float) -> np.ndarray:
    """Integrate from a to b over increasing knots, beyond which the edge pieces go on."""
    if a > b:
        return -integral(c, knots, b, a)
    first, last = np.searchsorted(knots[1:-1], [a, b], side="right")
    primitive = _primitive(c[:, first : last + 1])
    starts = knots[first : last + 1]
    low, high = np.zeros(len(starts)), knots[first + 1 : last + 2] - starts
    low[0], high[-1] = a - starts[0], b - starts[-1]
    with np.errstate(invalid="ignore", over="ignore"):
        parts = _horner(primitive, high) - _horner(primitive, low)
        out: np.ndarray = parts.sum(axis=0)
    return out


def integral_over_period(c: np.ndarray, knots: np.ndarray, a: float, b: float) -> np.ndarray:
    """Integrate from a to b over increasing knots, beyond which the function is periodic."""
    if a > b:
        return -integral_over_period(c, knots, b, a)
    first, last = float(knots[0]), float(knots[-1])
    if not math.isfinite(b - a):
        return np.full(c.shape[2:], np.nan)
    periods, rest = divmod(b - a, last - first)
    a = first + (a - first) % (last - first)
    b = a + rest
    out = integral(c, knots, a, min(b, last))
    if b > last:
        out = out + integral(c, knots, first, first + (b - last))
    return out + periods * integral(c, knots, first, last) if periods else out


def clamped(c: np.ndarray, knots: np.ndarray, local: bool = True) -> tuple[np.ndarray, np.ndarray]:
    """Return coefficients and knots with a constant piece on either side, which keeps the end value."""
    if knots[0] == knots[1]:  # the end is in the next piece
        c, knots = c[:, 1:], knots[1:]
    ends = np.zeros((len(c), 2, *c.shape[2:]))
    ends[-1] = _horner(c[:, [0, -1]], knots[[0, -1]] - (knots[[0, -2]] if local else 0))
    outward = np.sign(knots[-1] - knots[0]) * np.inf
    before, after = 2 * knots[0] - knots[1], 2 * knots[-1] - knots[-2]
    if before == knots[0] or not np.isfinite(before):
        before = np.nextafter(knots[0], -outward)
    if after == knots[-1] or not np.isfinite(after):
        after = np.nextafter(knots[-1], outward)
    return np.concatenate([ends[:, :1], c, ends[:, 1:]], axis=1), np.concatenate([[before], knots, [after]])


def _primitive(c: np.ndarray) -> np.ndarray:
    """Return the antiderivative of each piece by itself, 0 at its origin."""
    primitive = np.zeros((len(c) + 1, *c.shape[1:]))
    primitive[:-1] = _by_power(c, 1 / np.arange(len(c), 0, -1.0))
    return primitive


def _by_power(c: np.ndarray, factors: np.ndarray) -> np.ndarray:
    out: np.ndarray = c * factors.reshape(-1, *[1] * (c.ndim - 1))
    return out


def _horner(c: np.ndarray, u: np.ndarray) -> np.ndarray:
    """Evaluate piece i at u[i]; (m, ...)."""
    return pieces.horner(c, u.reshape(-1, *[1] * (c.ndim - 2)))
