r"""Leave-one-out scores of bandwidths on a domain with walls and periods.

Without row j the density at x_j has neither the row nor any of its images,

    p_-j(x_j) = (p(x_j) - w_j K(x_j, x_j)) / (1 - w_j),

with the domain's kernel K of a point at itself, a product of columns. Where that is nearly all of p(x_j) the sum over
the other rows is had by itself: such rows are few, and lie apart from all others.

Reflected and wrapped Gaussians are a semigroup in h^2 as the Gaussian is, for they solve the same equation of diffusion
without flow through walls: int K_h(x, u) K_h(x, v) dx = K_g(u, v) with g = sqrt(2) h. So the integral of the squared
density is sum_j w_j p_g(x_j), of the same data.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from cukde.bandwidth.data import Question, largest, with_lonely
from cukde.bandwidth.one_by_one import OneByOne
from cukde.density.api import kde
from cukde.density.domains.domain import Domain
from cukde.density.leave_one_out import log_rest

# An own term is taken off a density of which at least this part is left: the rest has then lost two digits of fifteen.
_LEAST_REST = 1e-2
_FEW = 256  # rows of which all pairs are taken at once

# Images are taken as far as they can matter: so many bandwidths beyond half a turn; and a kernel so many turns wide is
# even to the last digit.
_REACH, _EVEN = 9.0, 2.0


class LeaveOneOutInDomain(OneByOne):
    """The criterion as a function of the bandwidths, as :class:`cukde.bandwidth.scores.LeaveOneOut` is without one."""

    def __init__(self, of: Question) -> None:
        assert of.domain is not None
        super().__init__(of)
        rows, domain, xp = of.rows, of.domain, of.backend.xp
        self._domain = domain
        kept = rows.weights > 0
        self._anchored = domain.anchored(rows.points[kept], xp)
        self._points = domain.restored(self._anchored, xp)  # on a bound, where their dtype rounds it
        self._weights, self._weighted = rows.weights[kept] / rows.total, of.weighted
        self.ranges: np.ndarray = of.backend.asnumpy(largest(abs(self._points - self._points[0]), xp))
        self._log_rest = log_rest(xp.log(self._weights), xp)

    def score(self, h: np.ndarray) -> float:
        """Score of (d,) deviations."""
        xp = self._backend.xp
        logs = self._without_each(h) - self._log_rest
        if self.is_logarithmic:
            return float(self._weights @ logs)
        with np.errstate(over="ignore", invalid="ignore"):
            squared = xp.exp(self._at_rows(math.sqrt(2) * h))
            return float(self._weights @ (2 * xp.exp(logs) - squared))

    def _without_each(self, h: np.ndarray) -> Any:
        """Logarithms of the sums over all other rows, whose weights do not add up to 1."""
        xp = self._backend.xp
        whole = self._at_rows(h)
        own = xp.log(self._weights) + self._log_kernel(self._anchored, self._anchored, h)
        with np.errstate(divide="ignore", invalid="ignore"):
            rest = -xp.expm1(own - whole)
        lonely = ~(rest >= _LEAST_REST)
        out = whole + xp.log(xp.where(lonely, 1.0, rest))

        def of_others(data: Any, queries: Any) -> Any:
            w, points = self._weights[data], self._points
            return self._log_density(h, points[data], points[queries], w) + xp.log(w.sum())

        return with_lonely(out, lonely, _FEW, lambda rows: self._of_few(rows, h), of_others, xp)

    def _of_few(self, rows: Any, h: np.ndarray) -> Any:
        """The same among few rows, by all their pairs. One row has nothing."""
        xp, v = self._backend.xp, self._anchored[rows]
        logs = xp.log(self._weights[rows]) + self._log_kernel(v[:, None], v[None], h)
        logs[xp.arange(len(rows)), xp.arange(len(rows))] = -np.inf
        top = xp.maximum(logs.max(axis=1), -1e300)
        with np.errstate(divide="ignore"):
            return top + xp.log(xp.exp(logs - top[:, None]).sum(axis=1))

    def _log_density(self, h: np.ndarray, X: Any, Y: Any, weights: Any) -> Any:
        """Log density of some rows at some."""
        return kde(X, Y, h, weights=weights, log=True, check_finite=False, **self._domain.arguments)

    def _at_rows(self, h: np.ndarray) -> Any:
        """Log density at each row, which is among the data."""
        X = self._points
        return self._log_density(h, X, X, self._weights if self._weighted else None)

    def _log_kernel(self, u: Any, v: Any, h: np.ndarray) -> Any:
        """Logarithm of the domain's kernel of points (..., d) from its origin."""
        columns = range(len(h))
        return sum(
            _log_of_column(u[..., k], v[..., k], float(h[k]), self._domain, k, self._backend.xp) for k in columns
        )


def _log_of_column(u: Any, v: Any, h: float, domain: Domain, k: int, xp: Any) -> Any:
    """The same of one column, by all images that matter beside the nearest one."""
    cell, period = float(domain.cell[k]), float(domain.period[k])
    around = period if math.isfinite(period) else 2 * cell
    if math.isfinite(cell) and h > _EVEN * around:
        return xp.full(xp.broadcast_shapes(u.shape, v.shape), -math.log(cell))
    mirrored = bool(domain.bounded[k])
    turns = range(1)
    if math.isfinite(cell):
        reach = math.ceil(_REACH * h / around) + 1
        turns = range(-reach, reach + 1)
    total: Any = None
    for turn in turns:
        for image in (v, -v) if mirrored else (v,):
            away = (u - image - turn * around if turn else u - image) / h
            log_term = -0.5 * away * away
            total = log_term if total is None else xp.logaddexp(total, log_term)
    return total - 0.5 * math.log(2 * math.pi) - math.log(h)
