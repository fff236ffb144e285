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
_UNIFORM = 1.5  # periods from which on the kernel is the same everywhere, to 5e-20


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

    def distribution(self, y: Any, x: Any, weights: Any, backend: ModuleType) -> tuple[Any, Any]:
        """Mass up to ``y`` (m,), and the density there, of kernels at ``x`` (k,) with ``weights`` (m, k) of sum 1.

        Errors are absolute, in units of 1 and of 1 / h.
        """
        xp, special = backend.xp, backend.special()
        if self.uniform:
            width = self._around if math.isfinite(self.period) else self.high - self.low
            return y / width, xp.full(len(y), 1 / width)
        constant, terms = self._terms()
        F, f = xp.full(len(y), constant), xp.zeros(len(y))
        for sign, offset, slope in terms:
            u = ((offset + slope * y)[:, None] - x) / self.h
            F += sign * (weights * special.ndtr(u)).sum(axis=1)
            if slope:
                f += (sign * slope) * (weights * xp.exp(-0.5 * u * u)).sum(axis=1)
        return F, f / (self.h * math.sqrt(2 * math.pi))

    def log_kernel(self, y: Any, x: Any, xp: Any) -> Any:
        """Logarithms (m, k) of the kernel at ``y`` (m,) about ``x`` (k,), but for a constant."""
        if self.uniform:
            return xp.zeros((len(y), len(x)))
        width = self.high - self.low
        one_end = math.isinf(width) and not (math.isinf(self.low) and math.isinf(self.high))
        cells = [0, 1] if one_end else [0] if math.isinf(self._around) else [*self._cells]
        logs = None
        for cell in cells:
            u = (y[:, None] - image(x, cell, self.period, width)) / self.h
            term = -0.5 * u * u
            logs = term if logs is None else xp.logaddexp(logs, term)
        return logs


def log_kernels(problem: Any, X: Any, Y: Any) -> Any:
    """Logarithms (m, n) of a problem's kernels about points ``X`` at queries ``Y``, but for a constant.

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
