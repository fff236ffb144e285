"""The mixture of normals that the studies of errors sample: its density, and the exact errors of linear estimators.

In 16 dimensions it is the sources': eight components of unit covariance, means 2 N(0, I) drawn once, each coordinate
then divided by its deviation; the mixture's own mean and deviation, not a sample's, or the density were not known.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, eq=False)
class Mixture:
    """Equal shares of normals that have one diagonal covariance."""

    means: np.ndarray  # (k, d)
    variances: np.ndarray  # (d,), of each component

    @staticmethod
    @functools.cache
    def standardised(d: int = 16, components: int = 8, seed: int = 0) -> Mixture:
        """The sources' mixture, of mean 0 and deviation 1 in every coordinate."""
        means = 2 * np.random.default_rng(seed).standard_normal((components, d))
        means -= means.mean(axis=0)
        scale = np.sqrt(1 + (means**2).mean(axis=0))
        return Mixture(means / scale, 1 / scale**2)

    @property
    def d(self) -> int:
        return len(self.variances)

    def sample(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """Draw points, (n, d) float32."""
        component = rng.integers(len(self.means), size=n)
        deviations = np.sqrt(self.variances)
        return (self.means[component] + deviations * rng.standard_normal((n, self.d))).astype(np.float32)

    def density(self, Y: np.ndarray) -> np.ndarray:
        """At the rows of Y, (m,) float64."""
        total = np.zeros(len(Y))
        for mean in self.means:
            total += np.exp(-0.5 * ((Y - mean) ** 2 / self.variances).sum(axis=1))
        return total / len(self.means) * np.prod(2 * np.pi * self.variances) ** -0.5

    @functools.cached_property
    def roughness(self) -> float:
        """Integral of the squared density: the error of the estimate that is 0 everywhere."""
        return float(_normals(self._between, 2 * self.variances, 0).mean())

    def expected_ise(self, n: int, h: float, *, laplace: bool = False) -> float:
        """Exact MISE of KDE, or of Laplace-corrected KDE, for n points at bandwidth h.

        Theorem 2.1 of Marron and Wand (1992) in d dimensions; and its like for the kernel K - (h^2 / 2) Laplacian K,
        whose convolution with itself is K2 - h^2 Laplacian K2 + (h^4 / 4) Laplacian^2 K2 with K2 of variance 2 h^2.
        """
        orders: tuple[float, ...] = (1.0, -h * h, h**4 / 4) if laplace else (1.0,)
        twice = _sum_of_orders(self._between, 2 * self.variances + 2 * h * h, orders).mean()
        orders = (1.0, -h * h / 2) if laplace else (1.0,)
        once = _sum_of_orders(self._between, 2 * self.variances + h * h, orders).mean()
        of_kernel = (4 * math.pi * h * h) ** (-self.d / 2)
        if laplace:
            of_kernel *= (self.d + 2) * (self.d + 8) / 16
        return float(of_kernel / n + (1 - 1 / n) * twice - 2 * once + self.roughness)

    @functools.cached_property
    def _between(self) -> np.ndarray:
        return self.means[:, None] - self.means


def _sum_of_orders(u: np.ndarray, variances: np.ndarray, factors: tuple[float, ...]) -> np.ndarray:
    """Sum over k of a factor times the k-th power of the Laplacian of a centred normal density at u."""
    terms = (factor * _normals(u, variances, k) for k, factor in enumerate(factors))
    return sum(terms, start=np.zeros(u.shape[:-1]))


def _normals(u: np.ndarray, variances: np.ndarray, order: int) -> np.ndarray:
    """Centred normal density of diagonal covariance at u (..., d), its Laplacian, or the Laplacian of that."""
    density = np.exp(-0.5 * (u * u / variances).sum(axis=-1)) * np.prod(2 * np.pi * variances) ** -0.5
    ratio = (u * u / variances**2).sum(axis=-1) - (1 / variances).sum()  # of the Laplacian to the density
    if order == 2:
        ratio = ratio**2 + 2 * (1 / variances**2).sum() - 4 * (u * u / variances**3).sum(axis=-1)
    return density * ratio if order else density
