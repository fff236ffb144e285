"""Integrated squared errors of estimates of a known density: on a grid in one dimension, by points in more.

In more dimensions half of the points are of the density f and half of a majorant r of the estimate
(:meth:`benchmarks.bandwidth.estimates.Fitted.majorant`), and a point counts by 1 / q with q = (f + r) / 2 whichever
half it is of (the balance heuristic of Veach and Guibas 1995). Weights are bounded, whatever the sample and the
bandwidth. The integrals of f (1) and of f^2 are known: they are control variates, their factors by regression.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from benchmarks.bandwidth.estimates import Draws, Fitted
from benchmarks.bandwidth.normal_mixtures import Mixture

# Of the grid. It reaches 6 deviations of every component and 1.5 beyond, four bandwidths of a rule for 100 rows. Its
# steps are about 0.002, the trapezoid rule's error for normals of that deviation and more is below 3e-9.
_STEPS = 2**13
_DEVIATIONS, _BEYOND = 6, 1.5


class Errors(NamedTuple):
    """Of one estimate."""

    ise: float
    standard_error: float  # of ise; 0 of the grid
    negative_mass: float
    mass: float  # the integral of the estimate


class OnGrid:
    """Trapezoid rule, which for smooth functions that end at 0 is exact to rounding once it resolves them."""

    def __init__(self, oracle: Mixture, dtype: Any, xp: ModuleType) -> None:
        """Evaluate the density, on the host in double."""
        reach = _DEVIATIONS * oracle.deviations[:, 0] + _BEYOND
        low, high = (oracle.means[:, 0] - reach).min(), (oracle.means[:, 0] + reach).max()
        at = np.linspace(low, high, _STEPS + 1)[:, None].astype(dtype)
        self._at, self._step = xp.asarray(at), (high - low) / _STEPS
        self._exact = xp.asarray(oracle.density(at))

    def __call__(self, fitted: Fitted) -> Errors:
        found = fitted.density(self._at)
        off = found - self._exact
        squares, negative, mass = ((off * off).sum(), -found[found < 0].sum(), found.sum())
        return Errors(float(squares) * self._step, 0.0, float(negative) * self._step, float(mass) * self._step)


class ByPoints:
    """Importance sampling."""

    def __init__(self, oracle: Mixture, draws: Draws, rng: np.random.Generator, dtype: Any, xp: ModuleType) -> None:
        """Draw the points of the density, as many as there are draws."""
        self._oracle, self._draws, self._xp = oracle, draws, xp
        self._at = xp.asarray(oracle.sample(len(draws.rows), rng).astype(dtype))
        self._exact = oracle.density(self._at, xp)

    def __call__(self, fitted: Fitted) -> Errors:
        xp = self._xp
        theirs = fitted.draw(self._draws)
        found, of_majorant = [], []
        for at in (self._at, theirs):  # apart: each call is then as large as those of the other methods
            density = fitted.density(at)
            found.append(density)
            of_majorant.append(fitted.majorant(at, density))
        p = xp.stack([self._exact, self._oracle.density(theirs, xp)])
        estimate, r = xp.stack(found), xp.stack(of_majorant)
        q = (p + r) / 2
        off = estimate - p
        integrands = xp.stack([off * off / q, xp.maximum(-estimate, 0) / q], axis=-1)  # (2, m, 2)
        controls = xp.stack([p * p / q / self._oracle.roughness, p / q], axis=-1) - 1
        centred = [a - a.mean(axis=1, keepdims=True) for a in (integrands, controls)]
        f, c = (a.reshape(-1, 2) for a in centred)
        factors = xp.linalg.solve(c.T @ c + 1e-12 * float((c * c).sum()) * xp.eye(2), c.T @ f)
        of = integrands - controls @ factors
        means = of.mean(axis=(0, 1))
        error = xp.sqrt(of.var(axis=1, ddof=1).sum(axis=0) / of.shape[1]) / 2
        return Errors(float(means[0]), float(error[0]), max(float(means[1]), 0.0), float((estimate / q).mean()))
