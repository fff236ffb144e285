"""Mass of the bivariate normal in rectangles, by Owen's function, to rounding."""

from __future__ import annotations

import math
from types import ModuleType
from typing import Any

import numpy as np

# Of Owen's integral over 0 to 1, whose poles at +-i leave an error of 4.6^(-2 nodes).
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(20)
_SQUARES = (0.5 * (_NODES + 1)) ** 2
_SHARES = _WEIGHTS / (4 * math.pi)

_FAR = 40.0  # deviations beyond which a normal variable is not
_ORIGIN = 1e-300  # stands for 0, so that quotients are numbers


def masses(low: Any, high: Any, correlation: Any, backend: ModuleType) -> Any:
    r"""Return the mass of standard normal pairs in rectangles, (n,) float64, to some 1e-15.

    ``low`` and ``high`` are (n, 2), with infinities; ``correlation`` is (n,), between -1 and 1. With Owen's function

    .. math:: T(h, a) = \frac{1}{2\pi} \int_0^a \frac{\exp(-h^2 (1 + x^2) / 2)}{1 + x^2} dx

    the mass below (h, k) is :math:`\tfrac12 (\Phi(h) + \Phi(k)) - T(h, q_h / h) - T(k, q_k / k)`, less one half where
    h and k differ in sign, with :math:`q_h = (k - \rho h) / \sqrt{1 - \rho^2}` and :math:`q_k` likewise.

    Source: Owen, D. B. (1956). Tables for computing bivariate normal probabilities. *Ann. Math. Statist.* 27.
    """
    xp = backend.xp
    low, high = (xp.clip(a, -_FAR, _FAR) for a in (low, high))
    conditional = xp.sqrt((1 - correlation) * (1 + correlation))
    corners = [(high, high, 1), (low, low, 1), (low, high, -1), (high, low, -1)]
    parts = [sign * _below(h[:, 0], k[:, 1], correlation, conditional, backend) for h, k, sign in corners]
    return xp.clip(sum(parts), 0, 1)


def _below(h: Any, k: Any, correlation: Any, conditional: Any, backend: ModuleType) -> Any:
    xp, special = backend.xp, backend.special()
    h, k = (xp.where(a == 0, _ORIGIN, a) for a in (h, k))
    out = 0.5 * (special.ndtr(h) + special.ndtr(k)) - 0.5 * ((h < 0) != (k < 0))
    for one, other in ((h, k), (k, h)):
        # other - correlation * one, without a difference of nearly equal numbers where both are nearly one variable.
        same = (other - one) + (1 - correlation) * one
        opposite = (other + one) - (1 + correlation) * one
        out = out - _owen(one, xp.where(correlation > 0, same, opposite) / conditional, backend)
    return out


def _owen(h: Any, q: Any, backend: ModuleType) -> Any:
    """Return T(h, q / h)."""
    xp, special = backend.xp, backend.special()
    sign = xp.where((h < 0) != (q < 0), -1.0, 1.0)
    h, q = abs(h), abs(q)
    larger, smaller = xp.maximum(h, q), xp.minimum(h, q)
    ratio = smaller / larger
    x = ratio[:, None] ** 2 * xp.asarray(_SQUARES)
    near = ratio * ((xp.exp(-0.5 * larger[:, None] ** 2 * (1 + x)) / (1 + x)) @ xp.asarray(_SHARES))
    # T(h, a) = 1/4 - Z(h) Z(a h) - T(a h, 1 / a) for a > 0, with Z = Phi - 1/2.
    quarter = 0.25 * (1 - special.erf(h * math.sqrt(0.5)) * special.erf(q * math.sqrt(0.5)))
    return sign * xp.where(q > h, quarter - near, near)
