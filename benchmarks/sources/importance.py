"""Integrals of what a density estimate has wrong, by importance sampling, with bootstrap bands.

The points are half of the oracle p and half of a proposal r made of the estimate's own kernels, and a point counts by
1 / q with q = (p + r) / 2 whichever half it is of (the balance heuristic of Veach and Guibas 1995). r is the estimate
itself where that is a density. The Laplace-corrected kernel K (1 + d/2 - s), s = |y - x|^2 / (2 h^2), is negative
beyond s = 1 + d/2: r has K (1 + d/2 + s) / (1 + d) in its place, the sum of its absolute terms, which lies as far out
as the negative mass does. So r >= |estimate| / B, with B = 1, or 1 + d, and every weight is bounded, whatever the
sample: |estimate - p| / q <= 2 B, its square over q <= 2 B |estimate - p|, and max(-estimate, 0) / q <= 2 B.
A proposal that does not know the sample has no such bound: at small bandwidths its points fall between the kernels.

The integrals of p and of the estimate (1) and of p^2 are known: they are control variates, their factors by regression
within the halves.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from benchmarks.sources.oracle_mixture import Mixture

METRICS = ("mise", "miae", "negative_mass")

_REPLICATES = 500

_STEPS = 60  # of a grid of bandwidths, either way: a factor of 300


class Band(NamedTuple):
    """A mean over samples, and the ends of its 95% interval."""

    mean: float
    low: float
    high: float


class Draws(NamedTuple):
    """A sample, and what test points are made of: the same for all estimators and bandwidths of the sample."""

    X: Any  # (n, d) float32, where the estimator computes
    of_oracle: np.ndarray  # (m / 2, d) float32
    rows: np.ndarray  # (m / 2,): whose kernels the other points are of
    normals: np.ndarray  # (m / 2, d)
    exponentials: np.ndarray  # (m / 2,)
    turns: np.ndarray  # (m / 2,), uniform: which of a kernel's parts

    @staticmethod
    def of(oracle: Mixture, n: int, m: int, seed: int, asarray: Callable[[np.ndarray], Any] = np.asarray) -> Draws:
        """A sample of n points and m test points, m even."""
        if n < 1 or m < 2 or m % 2:
            raise ValueError(f"n must be at least 1 and m even, at least 2; got n={n}, m={m}")
        rng, half = np.random.default_rng([n, seed]), m // 2
        return Draws(
            asarray(oracle.sample(n, rng)),
            oracle.sample(half, rng),
            rng.integers(n, size=half),
            rng.standard_normal((half, oracle.d)),
            rng.exponential(size=half),
            rng.uniform(size=half),
        )

    def first(self, n: int) -> Draws:
        """The same with the first n points of the sample alone, which are a random part of it."""
        return self._replace(X=self.X[:n], rows=np.random.default_rng([n, 1]).integers(n, size=len(self.rows)))


class Fitted(Protocol):
    """An estimate of a density."""

    signed: bool

    def draw(self, draws: Draws) -> np.ndarray:
        """Points of the proposal r, (m / 2, d) float32."""

    def at(self, Y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The estimate and r at points, float64."""


def kernel_steps(draws: Draws, h: float, k: int, signed: bool) -> np.ndarray:
    """Draw from a kernel of k dimensions about 0, or from the absolute terms of its Laplace correction.

    Of K, s is Gamma(k/2); of K s it is Gamma(k/2 + 1), by one exponential more. Their shares are 1 + k/2 and k/2.
    """
    steps = draws.normals[:, :k]
    if signed:
        squares = (steps * steps).sum(axis=1)
        longer = np.sqrt(1 + 2 * draws.exponentials / squares)
        steps = steps * np.where(draws.turns * (1 + k) < k / 2, longer, 1.0)[:, None]
    return h * steps


def majorant(density: np.ndarray, signed: np.ndarray, k: int) -> np.ndarray:
    """Sum of the absolute terms of a Laplace-corrected density, over its integral, from KDE's density."""
    # The estimate is (1 + k/2) D - S with D the density and S >= 0; this is ((1 + k/2) D + S) / (1 + k).
    return ((2 + k) * density - signed) / (1 + k)


class Contributions(NamedTuple):
    """What the test points of one sample say, each half by itself: means over both halves are the integrals."""

    of: np.ndarray  # (2, m / 2, 3), in the order of METRICS
    mass: float  # integral of the estimate, which is 1
    mass_error: float  # its standard error
    mise_by_oracle: float  # as points of the oracle alone have it, weighted 1 / p
    miae_by_oracle: float
    largest_weight: float  # of |estimate - p| / q

    @property
    def means(self) -> np.ndarray:
        """The integrals, in the order of METRICS."""
        return np.asarray(self.of.mean(axis=(0, 1)))

    @property
    def errors(self) -> np.ndarray:
        """Standard errors of the integrals over this sample."""
        return _standard_error(self.of)


def contributions(fitted: Fitted, draws: Draws, oracle: Mixture) -> Contributions:
    """Integrands over the proposal's density at each test point."""
    half = len(draws.rows)
    Y = np.concatenate([draws.of_oracle, fitted.draw(draws)])
    p = oracle.density(Y)
    estimate, r = fitted.at(Y)
    q = (p + r) / 2
    off = np.abs(estimate - p)
    integrands = np.stack([off * off / q, off / q, np.maximum(-estimate, 0) / q], axis=1).reshape(2, half, 3)
    controls = np.stack([p * p / q / oracle.roughness, p / q, estimate / q], axis=1).reshape(2, half, 3) - 1
    whole = (estimate / q).reshape(2, half, 1)
    return Contributions(
        integrands - controls @ _factors(integrands, controls),
        float(whole.mean()),
        float(_standard_error(whole)[0]),
        float((off * off / p)[:half].mean()),
        float((off / p)[:half].mean()),
        float((off / q).max()),
    )


def _factors(integrands: np.ndarray, controls: np.ndarray) -> np.ndarray:
    """Least-squares factors of the controls, a column a metric, about the means of each half."""
    f, c = (a - a.mean(axis=1, keepdims=True) for a in (integrands, controls))
    # Of an estimate that is a density p / q and estimate / q add up to 2: the solution of least norm is as good as any.
    return np.linalg.lstsq(c.reshape(-1, c.shape[2]), f.reshape(-1, f.shape[2]), rcond=1e-9)[0]


def _standard_error(of: np.ndarray) -> np.ndarray:
    """Of the mean of the two halves' means."""
    return np.sqrt(of.var(axis=1, ddof=1).sum(axis=0) / of.shape[1]) / 2


def bands(samples: Sequence[np.ndarray], replicates: int = _REPLICATES) -> list[Band]:
    """Mean over samples of each metric, and percentile intervals of Efron's bootstrap in two stages.

    Samples are drawn again, and in each of them the test points of either half; ``samples`` are (halves, points,
    metrics) each. Errors that are exact for their sample have one half of one point.
    The spread of the samples' means has the noise of the points in it already: the band is wide enough while the noise
    of the points is at least half of what the samples differ by, and of three samples too narrow where it is not.
    """
    rng = np.random.default_rng(0)
    shares = rng.multinomial(len(samples), np.full(len(samples), 1 / len(samples)), size=replicates) / len(samples)
    again = np.zeros((replicates, samples[0].shape[2]))
    for place, of in enumerate(samples):
        for side, points in enumerate(of):
            again += shares[:, place, None] * (_counts(len(points), replicates, 2 * place + side) @ points) / len(of)
    means = np.mean([of.mean(axis=(0, 1)) for of in samples], axis=0)
    low, high = np.percentile(again, [2.5, 97.5], axis=0)
    return [Band(*(float(v) for v in values)) for values in zip(means, low, high, strict=True)]


@functools.lru_cache(maxsize=8)
def _counts(points: int, replicates: int, stream: int) -> np.ndarray:
    """How often each point is drawn in each replicate, over how many there are; the same in every call."""
    rng = np.random.default_rng([1, stream])
    drawn = rng.integers(points, size=(replicates, points)) + points * np.arange(replicates)[:, None]
    counts = np.bincount(drawn.ravel(), minlength=drawn.size)
    return counts.reshape(replicates, points).astype(np.float32) / np.float32(points)


class Integrated(NamedTuple):
    """Errors of an estimator over samples of one size."""

    h: float  # mean over the samples
    mise: Band
    miae: Band
    negative_mass: Band
    of_each: list[Contributions]

    def row(self) -> dict[str, Any]:
        """As rows of records have it."""
        found: dict[str, Any] = {"h": self.h}
        for name in METRICS:
            of: Band = getattr(self, name)
            found |= {name: of.mean, f"{name}_low": of.low, f"{name}_high": of.high}
        return found


def integrated(
    fit: Callable[[Any, float], Fitted], samples: Sequence[Draws], bandwidths: Sequence[float], oracle: Mixture
) -> Integrated:
    """Errors of what ``fit`` makes of each sample and its bandwidth."""
    of_each = [contributions(fit(s.X, h), s, oracle) for s, h in zip(samples, bandwidths, strict=True)]
    mise, miae, negative_mass = bands([one.of for one in of_each])
    return Integrated(float(np.mean(bandwidths)), mise, miae, negative_mass, of_each)


def minimising(
    fit: Callable[[Any, float], Fitted], samples: Sequence[Draws], oracle: Mixture, start: float
) -> Integrated:
    """Errors at the bandwidth of a grid through ``start`` that has the least MISE, by the same samples and points."""

    def mise(h: float) -> float:
        return float(np.mean([contributions(fit(s.X, h), s, oracle).means[0] for s in samples]))

    return integrated(fit, samples, [least(mise, start)] * len(samples), oracle)


def least(error: Callable[[float], float], start: float, step: float = 1.1) -> float:
    """Bandwidth of a grid of factors ``step`` from ``start`` at which the error stops falling either way."""
    seen: dict[int, float] = {}

    def at(k: int) -> float:
        if abs(k) > _STEPS:
            raise ValueError(
                f"the error has no minimum between {start * step**-_STEPS:.2g} and {start * step**_STEPS:.2g}"
            )
        if k not in seen:
            seen[k] = error(start * step**k)
        return seen[k]

    k = 0
    while at(k - 1) < at(k):
        k -= 1
    while at(k + 1) < at(k):
        k += 1
    return float(start * step**k)
