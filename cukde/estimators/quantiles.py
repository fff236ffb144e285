"""Quantiles of a kernel density estimate of one column: where its distribution function has given values."""

from __future__ import annotations

from typing import Any

import numpy as np

from cukde.core.warnings import ConvergenceWarning, of_user
from cukde.density.problem import Problem

TOLERANCE = 1e-11
"""Of the distribution function, relative to its value or, on the right, to what is left of 1."""

_STEPS = 250  # more than halving a bracket takes, every other step, until its ends are neighbours


def lower(problems: tuple[Problem, Problem], deviation: float, q: Any, weights: Any) -> Any:
    """Return quantiles of levels ``q``, (m,) above 0 and up to 1/2.

    The problems are of the same data, each with a store of its own: one for the distribution function, one for the
    density. Newton's method on the logarithm of the
    distribution function, between bounds that hold for every mixture; where it leaves them or is slow, bisection.
    """
    distribution, density = problems
    xp = distribution.xp
    special = distribution.backend.special()
    x = distribution.X[:, 0]
    order = xp.argsort(x)
    shares = xp.cumsum(weights[order])
    start = x[order[xp.clip(xp.searchsorted(shares, q), 0, len(x) - 1)]]
    with np.errstate(all="ignore"):  # far bounds and quotients of nothing, which bisection takes over
        width = deviation * special.ndtri(q)
        low, high = x.min() + width, x.max() + width
        # The bounds are met where all data are one point: rounding may then put the level beyond them.
        room = 4 * np.finfo(np.float64).eps * (xp.maximum(abs(low), abs(high)) + deviation)
        low, high = low - room, high + room
        out = xp.clip(start, low, high)
        last, before_last = high - low, high - low
        rest = xp.arange(len(q))
        for _ in range(_STEPS):
            at = out[rest][:, None]
            F = distribution.at(at, "q", gaussian=False).distribution(log=False)
            f = density.at(at, "q", gaussian=False).density(log=False)
            here, level = at[:, 0], q[rest]
            below = level > F
            low[rest], high[rest] = xp.where(below, here, low[rest]), xp.where(below, high[rest], here)
            spacing = 2 * np.finfo(np.float64).eps * xp.maximum(abs(low[rest]), abs(high[rest]))
            left = (abs(F - level) > TOLERANCE * level) & (high[rest] - low[rest] > spacing)
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
    of_user(
        f"{len(rest)} of {len(q)} quantiles are not exact to {TOLERANCE:g} of their levels",
        ConvergenceWarning,
    )
    return out
