r"""Reference rules of fourth order: bandwidths of the least integrated squared error for normal data.

For n rows of :math:`p = N(0, I)` the mean integrated squared error is, to first order in the noise of the data (and
exactly for the Laplace-corrected estimate, which is linear in them),

.. math:: \int (\bar p - p)^2 + \frac1n \Big(\int E_z[W(y, z)^2]\,dy - \int \bar p^2\Big).

Here :math:`\bar p` is the estimate from infinite data, and :math:`W(y, z)` what a row at z adds to it at y. In units of
:math:`\int p^2 = (4\pi)^{-d/2}` it is 1 - 2 O + S, of the overlap :math:`O = \int p \bar p` and the square
:math:`S = (1 - \frac1n) \int \bar p^2 + \frac1n \int E[W^2]`. Each method states the two as logarithms, so that nothing
leaves the range of numbers in hundreds of dimensions.

``laplace``. With :math:`s = h^2` the Fourier transform :math:`\kappa = (1 + s k^2/2)\, e^{-s k^2/2}` of the kernel, and
the moments of :math:`k^2` under :math:`e^{-c k^2}`, give

.. math::

    O = c_1^{-d/2} \Big(1 + \frac{s d}{4 c_1}\Big), \quad
    \int \bar p^2 = c_2^{-d/2} \Big(1 + \frac{s d}{2 c_2} + \frac{s^2 d (d+2)}{16 c_2^2}\Big), \quad
    \int E[W^2] = \frac{(d+2)(d+8)}{16}\, h^{-d}

with :math:`c_1 = 1 + s/2` and :math:`c_2 = 1 + s`.

``sd``. Scores of normals are linear, so that moved points stay normal. With deviation :math:`a_k` after k steps,

.. math:: a_0 = 1, \quad a_{k+1} = 1 - \frac{h^2}{2 (a_k^2 + h^2)}, \quad \bar p = N(0, v), \quad v = a_k^2 + h^2,

:math:`O = ((1 + v)/2)^{-d/2}` and :math:`\int \bar p^2 = v^{-d/2}`. :mod:`cukde.bandwidth.moved_normal` has
:math:`\int E[W^2]` of one and of two steps; more steps take that of two.

``positive``. Let :math:`\tau^2 = 1 + s`, :math:`u = |y|^2 / \tau^2` and :math:`t = \frac{s}{2 \tau^2} (d - u)`, which
is :math:`L/p - 1` of the smoothed normal. With :math:`g(t) = t + \sqrt{1 + t^2}` and the mass
:math:`M = \int N(y; 0, \tau^2)\, g(t)\,dy`,

.. math::

    \bar p = \frac{g(t)}{M} N(y; 0, \tau^2), \qquad
    W = \frac{K(y - z)}{M} \big[g - g' (1 + t) + g' (1 + \tfrac d2 - q)\big], \quad q = \frac{|y - z|^2}{2 s},

where the mass is taken to be that of infinite data. As :math:`K^2 = (4 \pi s)^{-d/2} N(0, s/2)`, a row is from
:math:`N(\frac{y}{b}, \frac{s}{2b})` given y, with :math:`b = 1 + s/2`. All integrals are means over :math:`|y|^2`,
which is twice a Gamma variable of shape d/2 times a variance.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from cukde.bandwidth import moved_normal

LogParts = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Logarithms of O, of the integral of the squared mean and of the integral of E[W^2], of each bandwidth."""

# Logarithms of bandwidths, in deviations, that are searched: of 2 to 1e15 rows, in 1 to 10,000 dimensions, the best lie
# between 0.01 and 3. Each round keeps two of the steps.
_RANGE, _POINTS, _ROUNDS = (-5.0, 2.0), 33, 4

# Nodes of means over Gamma variables, and the logarithm of what their tails may hold.
_NODES, _TAIL = 512, 40.0


def factor(method: str, n: float, d: int, steps: int = 1) -> float:
    """The bandwidth of a method for ``n`` rows of ``d`` columns, in standard deviations."""
    return _factor(method, float(f"{n:.9g}"), d, steps)  # sums of weights round


@functools.lru_cache(maxsize=1024)
def _factor(method: str, n: float, d: int, steps: int) -> float:
    parts: Callable[[np.ndarray], LogParts]
    if method == "sd":
        parts = functools.partial(_sd, d=d, steps=steps)
    else:
        parts = functools.partial({"laplace": _laplace, "positive": _positive}[method], d=d)
    return math.exp(_lowest(lambda t: _log_odds(parts(np.exp(t)), n)))


def _log_odds(parts: LogParts, n: float) -> np.ndarray:
    """Logarithm of MISE / (1 - MISE), which keeps its digits where MISE is near 0 and near 1; infinite above 1."""
    log_overlap, log_mean_square, log_square = parts
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        log_total = np.logaddexp(np.log1p(-1 / n) + log_mean_square, log_square - np.log(n))
        log_gain = log_overlap + np.log(2 - np.exp(log_total - log_overlap))  # of 1 - MISE
        return np.nan_to_num(np.log(-np.expm1(log_gain)) - log_gain, nan=np.inf)


def _lowest(function: Callable[[np.ndarray], np.ndarray]) -> float:
    """Where a function of the logarithm of the bandwidth is the least."""
    low, high = _RANGE
    for _ in range(_ROUNDS):
        t = np.linspace(low, high, _POINTS)
        values = function(t)
        i = min(max(int(values.argmin()), 1), _POINTS - 2)
        low, high = t[i - 1], t[i + 1]
    left, right = values[i - 1] - values[i], values[i + 1] - values[i]
    bend = left + right  # of the parabola through the three
    return float(t[i] + (t[1] - t[0]) * (0.5 * (left - right) / bend if 0 < bend < math.inf else 0.0))


def _laplace(h: np.ndarray, d: int) -> LogParts:
    s = h * h
    c1, c2 = 1 + s / 2, 1 + s
    log_overlap = np.log1p(s * d / (4 * c1)) - d / 2 * np.log(c1)
    log_mean_square = np.log1p(s * d / (2 * c2) + s * s * d * (d + 2) / (16 * c2 * c2)) - d / 2 * np.log(c2)
    return log_overlap, log_mean_square, np.log((d + 2) * (d + 8) / 16) - d * np.log(h)


def _sd(h: np.ndarray, d: int, steps: int) -> LogParts:
    a = moved_normal.deviations(h, steps)[-1]
    v = a * a + h * h
    return -d / 2 * np.log((1 + v) / 2), -d / 2 * np.log(v), moved_normal.log_square(h, d, min(steps, 2))


def _positive(h: np.ndarray, d: int) -> LogParts:
    nodes, shares = _gamma(d)
    s = (h * h)[:, None]
    t2 = 1 + s

    def at(variance: Any) -> tuple[Any, Any, Any, Any]:
        """|y|^2 at nodes, and t, g and its derivative, for means over N(0, variance)."""
        y2 = 2 * variance * nodes
        t = s / (2 * t2) * (d - y2 / t2)
        g = np.exp(np.arcsinh(t))
        return y2, t, g, g / np.hypot(1, t)

    t = at(t2)[1]
    log_mass = np.log1p((np.hypot(1, t) - 1) @ shares)  # the mean of t is 0
    g = at(t2 / (1 + t2))[2]
    log_overlap = d / 2 * np.log(2 / (1 + t2[:, 0])) + np.log(g @ shares) - log_mass
    g = at(t2 / 2)[2]
    log_mean_square = -d / 2 * np.log(t2[:, 0]) + np.log((g * g) @ shares) - 2 * log_mass
    b = 1 + s / 2
    y2, t, g, slope = at(b)
    # |y - z|^2 / (2 s) is that of a normal of variance s / (2 b) about y s / (2 b).
    far, near = y2 * s / (8 * b * b), 1 / (4 * b)
    q, q2 = far + d * near, (far + d * near) ** 2 + 2 * d * near**2 + 4 * far * near
    beside, most = g - slope * (1 + t), 1 + d / 2
    squares = beside**2 + 2 * beside * slope * (most - q) + slope**2 * (most * most - 2 * most * q + q2)
    return log_overlap, log_mean_square, np.log(squares @ shares) - d * np.log(h) - 2 * log_mass


@functools.lru_cache(maxsize=64)
def _gamma(d: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and their shares of means over a Gamma variable of shape d/2: the trapezoidal rule in its logarithm."""
    part = 2 * _TAIL / d
    w = math.log(d / 2) + np.linspace(-part - math.sqrt(2 * part), math.sqrt(2 * part), _NODES)
    nodes = np.exp(w)
    return nodes, np.exp(d / 2 * w - nodes - math.lgamma(d / 2)) * (w[1] - w[0])
