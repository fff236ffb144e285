r"""Leave-one-out scores of bandwidths of the positive estimate.

Without row j its density is p_-j g(t_-j) / M, from the sums over all other rows; M, the mass of all data, is estimated
by the same random numbers for every bandwidth, so that scores are comparable.

The integral of the squared density is that of p^2 g^2 over M^2, with g^2 = 1 + 2t + 2t^2 + 2t (sqrt(1 + t^2) - 1). The
first two terms are known: p (1 + t) is the Laplace-corrected estimate L, so that p^2 (1 + 2t) = 2 p L - p^2, whose
integral is the mean over the data of the Laplace-corrected estimate of bandwidth sqrt(2) h. (Two kernels convolve to
one of sqrt(2) h, and h^2 Laplacian of that is half of its own correction.) The others are a mean under p, by the points
of the mass.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from cukde.bandwidth.data import Question
from cukde.bandwidth.one_by_one import OneByOne
from cukde.density import correction, results
from cukde.density.arguments import prepare
from cukde.density.domains.domain import arguments_of
from cukde.density.positive import api as positive, mass as positive_masses
from cukde.density.problem import Problem
from cukde.density.sums import to_density

_SAMPLES = 2048  # of a mass: its error is nearly the same for all bandwidths
_DOUBLE = np.dtype(np.float64)


class LeaveOneOutPositive(OneByOne):
    """The criterion as a function of the bandwidths, as :class:`cukde.bandwidth.scores.LeaveOneOut` is of others."""

    def __init__(self, of: Question) -> None:
        super().__init__(of)
        self._arguments = arguments_of(of.domain)
        self._points, self._weights, self.ranges = of.rows.counted(of.backend, weighted=of.weighted)
        n = len(self._points)
        self._mean_weights = of.backend.xp.full(n, 1 / n) if self._weights is None else self._weights

    def score(self, h: np.ndarray) -> float:
        """Score of (d,) deviations."""
        problem = self._problem(h)
        xp = problem.xp
        with problem.device:
            of_others = problem._replace(leave_one_out=True).sums("laplace")
            logs = results.positive(of_others, problem.log_constant, True, _DOUBLE, xp)
            if self.is_logarithmic:
                mass = positive.mass_of(problem, _SAMPLES, 0).value
                return float(self._mean_weights @ logs) - math.log(mass)
            mass, square = self._integrals(problem, self._problem(math.sqrt(2) * h))
            with np.errstate(over="ignore"):
                return float(2 * (self._mean_weights @ xp.exp(logs)) / mass - square / mass**2)

    def _problem(self, h: np.ndarray) -> Problem:
        width: Any = float(h[0]) if (h == h[0]).all() else h
        return prepare(self._points, None, width, self._weights, self.precision, **self._arguments)[0]

    def _integrals(self, problem: Problem, wider: Problem) -> tuple[float, float]:
        """The mass, and the integral of the squared estimate before it is divided by that."""
        at, sums, steps = positive_masses.at_samples(problem, _SAMPLES, np.random.default_rng(0))
        xp, t = at.xp, correction.relative(sums)
        rest = 2 * t * t + 2 * t * correction.excess(t, xp)
        corrected, _ = results.laplace(wider.sums("laplace"), *wider.epilogue(log=False)._replace(dtype=_DOUBLE), xp)
        with np.errstate(over="ignore"):
            p = to_density(sums, at.log_constant, False, _DOUBLE, xp)
            square = float(self._mean_weights @ corrected) + float((p * rest).mean())
        return positive_masses.estimated([positive_masses.part(sums, steps, 0.0, xp)]).value, square
