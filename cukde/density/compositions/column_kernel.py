"""The kernel of one column on a line, between bounds or around a period: its distribution function, and its logarithm.

Where ends and periods are, both are sums over images, as in :mod:`cukde.density.domains.distribution`: points are taken
from the end of the domain, or from 0 where there is a period.
"""

from __future__ import annotations

import math
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from cukde.density.compositions.columns import marginal_bandwidth
from cukde.density.domains.columns import image
from cukde.density.whitening import whitening_of

_REACH = 9.5  # bandwidths beyond which a kernel has nothing that counts in double precision
_FEW_NODES = 1024  # that are all taken at once
_UNIFORM = 1.5  # periods from which on the kernel is the same everywhere, to 5e-20


class Mixtures(NamedTuple):
    """Weights (r, k) of sum 1 of kernels in order, and their sums (r, k + 1) before each."""

    weights: Any
    below: Any

    @classmethod
    def of(cls, weights: Any, xp: Any) -> Mixtures:
        """Of weights."""
        below = xp.zeros((len(weights), weights.shape[1] + 1))
        below[:, 1:] = xp.cumsum(weights, axis=1)
        return cls(weights, below)

    def within(self, reach: float, of: Any, at: Any, x: Any, xp: Any) -> tuple[Any, Any, Any]:
        """Of the mixtures ``of`` (m,) what lies below the reach of ``at`` (m,), and weights and places within it."""
        first, last = (xp.searchsorted(x, at + side) for side in (-reach, reach))
        near = first[:, None] + xp.arange(int((last - first).max()) if len(at) else 0)
        inside, near = near < last[:, None], xp.minimum(near, len(x) - 1)
        return self.below[of, first], xp.where(inside, self.weights[of[:, None], near], 0.0), x[near]


class ColumnKernel(NamedTuple):
    """The kernel of a column with ends; infinite where there is none."""

    h: float
    low: float
    high: float
    period: float

    @classmethod
    def of(cls, problem: Any, k: int = 0) -> ColumnKernel:
        """That of a column of a problem without covariances."""
        h, d, domain = problem.whitening.bandwidth, problem.X.shape[1], problem.domain
        width = math.sqrt(float(h[k, k])) if h.ndim == 2 else float(h.reshape(-1)[k if h.size == d else 0])
        if domain is None:
            return cls(width, -math.inf, math.inf, math.inf)
        return cls(width, float(domain.ends[0, k]), float(domain.ends[1, k]), float(domain.period[k]))

    @property
    def _around(self) -> float:
        """What images repeat after; infinite where they do not."""
        return self.period if math.isfinite(self.period) else 2 * (self.high - self.low)

    @property
    def _turns(self) -> range:
        """Numbers of the repetitions within reach of the domain."""
        most = 0 if math.isinf(self._around) else math.ceil(_REACH * self.h / self._around) + 1
        return range(-most, most + 1)

    @property
    def _cells(self) -> range:
        """Numbers of the cells within reach: a repetition between walls has two."""
        return range(2 * self._turns.start, 2 * self._turns.stop)

    @property
    def uniform(self) -> bool:
        """Whether the kernel is the same everywhere."""
        return self.h >= _UNIFORM * self._around

    def _terms(self) -> tuple[float, list[tuple[float, float, float]]]:
        """A constant and terms of F(y) = constant + sum of sign Phi((offset + slope y - x) / h)."""
        if math.isfinite(self.period):
            both = [[(1.0, k * self.period, 1.0), (-1.0, k * self.period, 0.0)] for k in self._turns]
        elif math.isinf(self.low) and math.isinf(self.high):
            return 0.0, [(1.0, 0.0, 1.0)]
        elif math.isinf(self._around):  # one end at 0
            return float(math.isinf(self.low)), [(1.0, 0.0, 1.0), (-1.0, 0.0, -1.0)]
        else:
            both = [[(1.0, k * self._around, 1.0), (-1.0, k * self._around, -1.0)] for k in self._turns]
        return 0.0, [term for pair in both for term in pair]

    def distribution(self, y: Any, x: Any, of: Any, mixtures: Mixtures, backend: ModuleType) -> tuple[Any, Any]:
        """Mass up to ``y`` (m,), and the density there, of the mixtures ``of`` (m,), of kernels at ``x`` (k,).

        ``x`` are in order; those out of reach are all below or above. Errors are absolute, in units of 1 and of 1 / h.
        """
        xp, special = backend.xp, backend.special()
        if self.uniform:
            width = self._around if math.isfinite(self.period) else self.high - self.low
            return y / width, xp.full(len(y), 1 / width)
        constant, terms = self._terms()
        F, f = constant + 0.0 * (y + x.sum()), xp.zeros(len(y))  # unchecked, what is no number stays none
        few = len(x) <= _FEW_NODES
        weights = mixtures.weights[of] if few else None
        for sign, offset, slope in terms:
            at, nodes = offset + slope * y, x
            if not few:
                below, weights, nodes = mixtures.within(_REACH * self.h, of, at, x, xp)
                F += sign * below
            u = (at[:, None] - nodes) / self.h
            F += sign * (weights * special.ndtr(u)).sum(axis=1)
            if slope:
                f += (sign * slope) * (weights * xp.exp(-0.5 * u * u)).sum(axis=1)
        return F, f / (self.h * math.sqrt(2 * math.pi))

    def log_kernel(self, y: Any, x: Any, xp: Any) -> Any:
        """Logarithms (m, k) of the kernel at ``y`` (m,) about ``x`` (k,), whose images are 1 at their centres."""
        width = self.high - self.low
        if self.uniform:
            level = self.h * math.sqrt(2 * math.pi) / (self.period if math.isfinite(self.period) else width)
            return xp.full((len(y), len(x)), math.log(level))
        one_end = math.isinf(width) and not (math.isinf(self.low) and math.isinf(self.high))
        cells = [0, 1] if one_end else [0] if math.isinf(self._around) else [*self._cells]
        logs = None
        for cell in cells:
            u = (y[:, None] - image(x, cell, self.period, width)) / self.h
            term = -0.5 * u * u
            logs = term if logs is None else xp.logaddexp(logs, term)
        return logs


def log_kernels(problem: Any, X: Any, Y: Any) -> Any:
    """Logarithms (m, n) of a problem's kernels about points ``X`` at queries ``Y``, as passes sum them.

    No covariance links a column with ends with another.
    """
    xp, domain, whitening, centre = problem.xp, problem.domain, problem.whitening, problem.options.centre
    logs = xp.zeros((len(Y), len(X)))
    if domain is not None:
        ended = domain.bounded | domain.periodic
        for k in np.flatnonzero(ended).tolist():
            logs += ColumnKernel.of(problem, k).log_kernel(Y[:, k], X[:, k], xp)
        free = np.flatnonzero(~ended).tolist()
        if not free:
            return logs
        X, Y, centre = (a[..., free] for a in (X, Y, centre))
        whitening = whitening_of(marginal_bandwidth(whitening.bandwidth, free), len(free))
    X, Y = (whitening.apply(a, centre, xp) for a in (X, Y))
    for k in range(X.shape[1]):
        z = (Y[:, k, None].astype(np.float64) - X[:, k]) / whitening.h
        logs -= 0.5 * z * z
    return logs
