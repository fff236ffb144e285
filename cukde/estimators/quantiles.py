"""Quantiles of a kernel density estimate of one column: where its distribution function has given values."""

from __future__ import annotations

from typing import Any

import numpy as np

from cukde.density.inverse import inverse
from cukde.density.problem import Problem


def lower(problems: tuple[Problem, Problem], deviation: float, q: Any, weights: Any) -> Any:
    """Return quantiles of levels ``q``, (m,) above 0 and up to 1/2.

    The problems are of the same data, each with a store of its own: one for the distribution function, one for the
    density. Bounds hold for every mixture.
    """
    distribution, density = problems
    xp = distribution.xp
    special = distribution.backend.special()
    x = distribution.X[:, 0]
    order = xp.argsort(x)
    shares = xp.cumsum(weights[order])
    start = x[order[xp.clip(xp.searchsorted(shares, q), 0, len(x) - 1)]]

    def at(rows: Any, y: Any) -> tuple[Any, Any]:
        F = distribution.at(y[:, None], "q", gaussian=False).distribution(log=False)
        return F, density.at(y[:, None], "q", gaussian=False).density(log=False)

    with np.errstate(all="ignore"):  # far bounds
        width = deviation * special.ndtri(q)
        low, high = x.min() + width, x.max() + width
        # The bounds are met where all data are one point: rounding may then put the level beyond them.
        room = 4 * np.finfo(np.float64).eps * (xp.maximum(abs(low), abs(high)) + deviation)
        return inverse(at, q, low - room, high + room, start, xp)
