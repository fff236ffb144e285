r"""Densities between bounds whose slope at a bound is that of the data: ``boundary="linear"``.

A line is fitted to the data in the window of the kernel about a query y, cut off at the bounds (a local-linear density:
Jones 1993; Lejeune and Sarda 1992). In units of bandwidths h_k, with P_k, mu_k and v_k the mass, the mean and the
variance of the standard normal distribution cut off at the bounds, as seen from y_k, the density and its linear
correction are

    f(y) = S / prod_k P_k,    f(y) (1 + t),    t = - sum_k mu_k (s_k - mu_k) / v_k

with S the density of the whole space, and s the mean of the data less y under the weights of the kernel. f (1 + t) may
be negative; f exp(t) is not, and has a bias of the same order h^2 (Jones and Foster 1996, who take it for the product).

A covariance may link a bounded column with free ones: given the bounded columns these are a regression and a normal
part of mean 0, which the cut leaves as they are, so that the fit has the same value at y.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from cukde.density import results
from cukde.density.domains.domain import Domain
from cukde.density.domains.images import Problem

_NODES = 16  # of quadrature between bounds less than a bandwidth apart, where differences of masses would cancel
_FAR = 40.0  # bandwidths to a bound that does not matter


def density(problem: Problem, *, log: bool) -> Any:
    """Return the density of a problem with bounds at its queries, or its logarithm; 0 outside."""
    xp, domain, whitening = problem.xp, problem.domain, problem.whitening
    unbounded = np.full(len(domain.low), np.inf)
    around = Domain(-unbounded, unbounded, domain.period) if domain.periodic.any() else None
    sums = problem._replace(domain=around, outside=None).sums("moments")
    shift = whitening.smooth(results.gradient(sums, whitening, xp), xp)
    out = sums.reference + xp.log(sums.total) + problem.log_constant
    Y = problem.X if problem.Y is None else problem.Y
    h = whitening.bandwidth
    deviations = np.sqrt(np.diag(h)) if h.ndim == 2 else np.broadcast_to(h, len(domain.low)).astype(np.float64)
    for k in map(int, np.flatnonzero(domain.bounded)):
        width = float(deviations[k])
        low, high = (xp.clip((float(end) - Y[:, k]) / width, -_FAR, _FAR) for end in domain.ends[:, k])
        narrow = float(domain.high[k] - domain.low[k]) < width
        log_mass, mean, variance = _between(low, high, problem.backend, narrow=narrow)
        out -= log_mass + mean * (shift[:, k] / width - mean) / variance
    if problem.outside is not None:
        out = xp.where(problem.outside, -np.inf, out)
    return results.cast(out if log else xp.exp(out), problem.dtype)


def _between(low: Any, high: Any, backend: Any, *, narrow: bool) -> tuple[Any, Any, Any]:
    """Logarithm of the mass, mean and variance of the standard normal distribution between bounds, (m,) each."""
    xp = backend.xp
    if narrow:
        nodes, weights = map(xp.asarray, np.polynomial.legendre.leggauss(_NODES))
        half = 0.5 * (high - low)
        z = (low + half)[:, None] + half[:, None] * nodes
        p = weights * xp.exp(-0.5 * z * z)
        total = p.sum(axis=1)
        mean = (p * z).sum(axis=1) / total
        variance = (p * (z - mean[:, None]) ** 2).sum(axis=1) / total
        return xp.log(half * total) - 0.5 * math.log(2 * math.pi), mean, variance
    special = backend.special()
    mass = special.ndtr(high) - special.ndtr(low)
    at_low, at_high = (xp.exp(-0.5 * z * z) / (math.sqrt(2 * math.pi) * mass) for z in (low, high))
    mean = at_low - at_high
    return xp.log(mass), mean, 1 + low * at_low - high * at_high - mean * mean
