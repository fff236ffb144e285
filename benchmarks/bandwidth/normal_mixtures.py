"""Mixtures of normals whose density is known: the fifteen of Marron and Wand, and two families of them in d dimensions.

"balls": component k of a density of theirs becomes N(mean_k e_1, deviation_k^2 I), a ball in all dimensions with its
centre on the first axis, so that a density of two scales has two scales in every direction. "line": the first column
has their density and the other columns are independent normals of the same deviation, so that all structure lies in
one direction of d.

Marron, J. S. and Wand, M. P. (1992). Exact mean integrated squared error. *Annals of Statistics* 20, 712-736, table 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np


@dataclass(frozen=True, eq=False)
class Mixture:
    """Mixture of k normals in d dimensions with a diagonal covariance each."""

    name: str
    shares: np.ndarray  # (k,), of sum 1
    means: np.ndarray  # (k, d)
    deviations: np.ndarray  # (k, d)

    @property
    def d(self) -> int:
        return self.means.shape[1]

    def sample(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """Draw n points, (n, d) float64."""
        component = rng.choice(len(self.shares), n, p=self.shares)
        return self.means[component] + self.deviations[component] * rng.standard_normal((n, self.d))

    def log_density(self, Y: Any, xp: Any = np) -> Any:
        """At the rows of Y, (m,) float64, of the library ``xp``."""
        Y = Y.astype(xp.float64)
        logs = []
        for share, mean, deviation in zip(self.shares, self.means, self.deviations, strict=True):
            z = (Y - xp.asarray(mean)) / xp.asarray(deviation)
            constant = math.log(share) - 0.5 * self.d * math.log(2 * math.pi) - float(np.log(deviation).sum())
            logs.append(constant - 0.5 * (z * z).sum(axis=1))
        top = logs[0]
        for one in logs[1:]:
            top = xp.maximum(top, one)
        total = xp.zeros(len(Y))
        for one in logs:
            total += xp.exp(one - top)
        return top + xp.log(total)

    def density(self, Y: Any, xp: Any = np) -> Any:
        """At the rows of Y, (m,) float64."""
        return xp.exp(self.log_density(Y, xp))

    @cached_property
    def roughness(self) -> float:
        """Integral of the squared density: the error of the estimate that is 0 everywhere."""
        u = self.means[:, None] - self.means
        variances = self.deviations[:, None] ** 2 + self.deviations**2
        between = np.exp(-0.5 * (u * u / variances).sum(axis=-1)) / np.sqrt(np.prod(2 * math.pi * variances, axis=-1))
        return float(self.shares @ between @ self.shares)

    def smoothed(self, h: float) -> Mixture:
        """The same convolved with a normal of deviation h: the mean of a KDE."""
        return Mixture(self.name, self.shares, self.means, np.sqrt(self.deviations**2 + h * h))


def _mixture(name: str, *parts: tuple[float, float, float]) -> Mixture:
    """In one dimension, of (share, mean, deviation) each."""
    shares, means, deviations = np.array(parts).T
    return Mixture(name, shares / shares.sum(), means[:, None], deviations[:, None])


_NORMAL = (1.0, 0.0, 1.0)

MARRON_WAND = (
    _mixture("normal", _NORMAL),
    _mixture("skewed unimodal", (1 / 5, 0, 1), (1 / 5, 1 / 2, 2 / 3), (3 / 5, 13 / 12, 5 / 9)),
    _mixture("strongly skewed", *((1 / 8, 3 * ((2 / 3) ** k - 1), (2 / 3) ** k) for k in range(8))),
    _mixture("kurtotic", (2 / 3, 0, 1), (1 / 3, 0, 1 / 10)),
    _mixture("outlier", (1 / 10, 0, 1), (9 / 10, 0, 1 / 10)),
    _mixture("bimodal", (1 / 2, -1, 2 / 3), (1 / 2, 1, 2 / 3)),
    _mixture("separated bimodal", (1 / 2, -3 / 2, 1 / 2), (1 / 2, 3 / 2, 1 / 2)),
    _mixture("skewed bimodal", (3 / 4, 0, 1), (1 / 4, 3 / 2, 1 / 3)),
    _mixture("trimodal", (9 / 20, -6 / 5, 3 / 5), (9 / 20, 6 / 5, 3 / 5), (1 / 10, 0, 1 / 4)),
    _mixture("claw", (1 / 2, 0, 1), *((1 / 10, k / 2 - 1, 1 / 10) for k in range(5))),
    _mixture(
        "double claw", (49 / 100, -1, 2 / 3), (49 / 100, 1, 2 / 3), *((1 / 350, (k - 3) / 2, 1 / 100) for k in range(7))
    ),
    _mixture("asymmetric claw", (1 / 2, 0, 1), *((2 ** (1 - k) / 31, k + 1 / 2, 2**-k / 10) for k in range(-2, 3))),
    _mixture(
        "asymmetric double claw",
        *((46 / 100, 2 * k - 1, 2 / 3) for k in range(2)),
        *((1 / 300, -k / 2, 1 / 100) for k in range(1, 4)),
        *((7 / 300, k / 2, 7 / 100) for k in range(1, 4)),
    ),
    _mixture("smooth comb", *((2 ** (5 - k) / 63, (65 - 96 / 2**k) / 21, 32 / 63 / 2**k) for k in range(6))),
    _mixture(
        "discrete comb",
        *((2 / 7, (12 * k - 15) / 7, 2 / 7) for k in range(3)),
        *((1 / 21, 2 * k / 7, 1 / 21) for k in range(8, 11)),
    ),
)
"""Their densities, in their order."""

_BY_NAME = {one.name: one for one in MARRON_WAND}

BALLS = ("normal", "skewed unimodal", "kurtotic", "bimodal", "separated bimodal", "skewed bimodal", "trimodal")
LINES = ("strongly skewed", "skewed bimodal", "claw")
"""Of which densities there are such in more dimensions; of equal deviations balls and a line are one shape."""


def balls(of: Mixture, d: int) -> Mixture:
    """A ball for each component."""
    means = np.zeros((len(of.shares), d))
    means[:, :1] = of.means
    return Mixture(f"{of.name}, balls", of.shares, means, np.repeat(of.deviations, d, axis=1))


def line(of: Mixture, d: int) -> Mixture:
    """Their density in the first column, normals of its deviation in the others."""
    mean = of.shares @ of.means
    variance = of.shares @ (of.deviations**2 + (of.means - mean) ** 2)
    means, deviations = np.zeros((len(of.shares), d)), np.full((len(of.shares), d), math.sqrt(float(variance[0])))
    means[:, :1], deviations[:, :1] = of.means, of.deviations
    return Mixture(f"{of.name}, line", of.shares, means, deviations)


def family(d: int) -> tuple[Mixture, ...]:
    """The densities that are studied in d dimensions."""
    if d == 1:
        return MARRON_WAND
    return (*(balls(_BY_NAME[name], d) for name in BALLS), *(line(_BY_NAME[name], d) for name in LINES))
