"""Density estimates of few principal components, lifted back: the approximate rival that lowers the dimension.

The lifted estimate is a density of all d dimensions: the estimate of the first k components times a normal density of
each of the others, with its deviation in the sample. It takes the others to be normal, and independent of the first and
of each other: what is not so is lost at any n.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from benchmarks.sources.estimates import Estimate, Method
from benchmarks.sources.importance import Draws
from cukde.core import dispatch


class Principal(NamedTuple):
    """Principal components of a sample, where it lives."""

    mean: Any  # (d,)
    axes: Any  # (d, d), a column an axis, the longest first
    deviations: Any  # (d,)
    k: int  # that are kept

    @staticmethod
    def of(X: Any, k: int) -> Principal:
        """The first k of them, 1 <= k < d."""
        if not 1 <= k < X.shape[1]:
            raise ValueError(f"k must be from 1 to {X.shape[1] - 1}, fewer than the columns; got {k}")
        backend = dispatch.backend(X)
        mean = X.mean(axis=0, dtype=backend.xp.float64).astype(X.dtype)
        centred = X - mean
        # The d axes on the host: what the GPU library would take for them is a solver that nothing else here needs.
        covariance = backend.asnumpy(centred.T @ centred).astype(np.float64) / (len(X) - 1)
        variances, axes = np.linalg.eigh(covariance)
        axes, deviations = axes[:, ::-1], np.sqrt(variances[::-1])
        axes, deviations = (backend.xp.asarray(a.astype(X.dtype)) for a in (axes, deviations))
        return Principal(mean, axes, deviations, k)

    def project(self, A: Any) -> Any:
        """The first k components of rows, (rows, k)."""
        return (A - self.mean) @ self.axes[:, : self.k]

    def density_of_rest(self, A: Any) -> Any:
        """Normal density of the other components, (rows,)."""
        xp, rest = dispatch.backend(A).xp, self.deviations[self.k :]
        z = (A - self.mean) @ self.axes[:, self.k :] / rest
        return xp.exp(-0.5 * (z * z).sum(axis=1)) / xp.prod(rest * math.sqrt(2 * math.pi))


def lifted(method: Method, k: int, X: Any, Y: Any, h: float) -> Any:
    """Lifted density at Y, principal components and all: what is timed."""
    principal = Principal.of(X, k)
    return method.estimate(principal.project(X), principal.project(Y), h) * principal.density_of_rest(Y)


class LiftedEstimate:
    """A lifted estimate at one sample and bandwidth, as :mod:`benchmarks.sources.importance` integrates it."""

    def __init__(self, method: Method, k: int, X: Any, h: float) -> None:
        self.signed = method.signed
        self._principal, self._backend = Principal.of(X, k), dispatch.backend(X)
        self._inner = Estimate(method, self._principal.project(X), h)

    def draw(self, draws: Draws) -> np.ndarray:
        """Points of the estimate, or of its absolute terms, and normal ones of the other components."""
        mean, axes, deviations = (self._backend.asnumpy(a) for a in self._principal[:3])
        k = self._principal.k
        rest = draws.normals[:, k:] * deviations[k:]
        return (mean + np.hstack([self._inner.draw(draws), rest]) @ axes.T).astype(np.float32)

    def at(self, Y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The estimate and the density that :meth:`draw` draws from."""
        y = self._backend.xp.asarray(Y)
        rest = np.asarray(self._backend.asnumpy(self._principal.density_of_rest(y)), np.float64)
        estimate, proposal = self._inner.at(self._backend.asnumpy(self._principal.project(y)))
        return estimate * rest, proposal * rest
