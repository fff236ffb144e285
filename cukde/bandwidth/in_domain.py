r"""Leave-one-out scores of bandwidths on a domain with walls and periods.

Reflected and wrapped Gaussians are a semigroup in h^2 as the Gaussian is, for they solve the same equation of diffusion
without flow through walls: int K_h(x, u) K_h(x, v) dx = K_g(u, v) with g = sqrt(2) h. So the integral of the squared
density is sum_j w_j p_g(x_j), of the same data.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from cukde.bandwidth.data import Question, largest
from cukde.bandwidth.one_by_one import OneByOne
from cukde.density.api import kde


class LeaveOneOutInDomain(OneByOne):
    """The criterion as a function of the bandwidths, as :class:`cukde.bandwidth.scores.LeaveOneOut` is without one."""

    def __init__(self, of: Question) -> None:
        assert of.domain is not None
        super().__init__(of)
        rows, domain, xp = of.rows, of.domain, of.backend.xp
        self._domain = domain
        kept = rows.weights > 0
        self._points = domain.restored(domain.anchored(rows.points[kept], xp), xp)  # on a bound, where rounding puts it
        self._weights, self._weighted = rows.weights[kept] / rows.total, of.weighted
        self.ranges: np.ndarray = of.backend.asnumpy(largest(abs(self._points - self._points[0]), xp))

    def score(self, h: np.ndarray) -> float:
        """Score of (d,) deviations."""
        xp = self._backend.xp
        logs = self._at_rows(h, leave_one_out=True)
        if self.is_logarithmic:
            return float(self._weights @ logs)
        with np.errstate(over="ignore", invalid="ignore"):
            squared = xp.exp(self._at_rows(math.sqrt(2) * h))
            return float(self._weights @ (2 * xp.exp(logs) - squared))

    def _at_rows(self, h: np.ndarray, *, leave_one_out: bool = False) -> Any:
        """Log density at each row."""
        X, weights = self._points, self._weights if self._weighted else None
        alone: dict[str, Any] = {**self._domain.arguments, "leave_one_out": leave_one_out}
        return kde(X, X, h, weights=weights, log=True, check_finite=False, **alone)
