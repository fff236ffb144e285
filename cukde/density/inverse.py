"""Where a distribution function has given values: Newton's method between bounds, and bisection where it is slow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from cukde.core.warnings import ConvergenceWarning, of_user

TOLERANCE = 1e-11
"""Of the distribution function, relative to its value."""

_STEPS = 250  # more than halving a bracket takes, every other step, until its ends are neighbours


def inverse(
    at: Callable[[Any, Any], tuple[Any, Any]], q: Any, low: Any, high: Any, start: Any, xp: Any, *, within: float = 0.0
) -> Any:
    """Return where functions have the values ``q``, (m,) above 0, between ``low`` and ``high``, (m,), which change.

    ``at`` takes row numbers and points, and returns the distribution function and the density there. ``within`` is an
    error of the function that is allowed beside :data:`TOLERANCE`. Newton's method is that of the function's logarithm.
    """
    with np.errstate(all="ignore"):  # quotients of nothing, which bisection takes over
        out = xp.clip(start, low, high)
        last, before_last = high - low, high - low
        rest = xp.arange(len(q))
        for _ in range(_STEPS):
            here, level = out[rest], q[rest]
            F, f = at(rest, here)
            below = level > F
            low[rest], high[rest] = xp.where(below, here, low[rest]), xp.where(below, high[rest], here)
            spacing = 2 * np.finfo(np.float64).eps * xp.maximum(abs(low[rest]), abs(high[rest]))
            left = (abs(F - level) > TOLERANCE * level + within) & (high[rest] - low[rest] > spacing)
            rest, F, f, level, here = rest[left], F[left], f[left], level[left], here[left]
            if not len(rest):
                return out
            a, b = low[rest], high[rest]
            step = xp.log(F / level) * F / f
            usable = (here - step > a) & (here - step < b) & (2 * abs(step) < before_last[rest])
            middle = a + 0.5 * (b - a)
            before_last[rest] = last[rest]
            last[rest] = xp.where(usable, abs(step), 0.5 * (b - a))
            out[rest] = xp.where(usable, here - step, middle)
    of_user(f"{len(rest)} of {len(q)} quantiles are not exact to {TOLERANCE:g} of their levels", ConvergenceWarning)
    return out
