"""Samples of the kernels beside the Gaussian: their radii and their densities, by tests of fit."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import integrate, stats

from cukde import KernelDensity
from tests.conftest import Backend

KERNELS: dict[str, Any] = {
    "tophat": lambda t: np.where(t < 1, 1.0, 0.0),
    "epanechnikov": lambda t: np.where(t < 1, 1 - t * t, 0.0),
    "exponential": lambda t: np.exp(-t),
    "linear": lambda t: np.where(t < 1, 1 - t, 0.0),
    "cosine": lambda t: np.where(t < 1, np.cos(np.pi * t / 2), 0.0),
}
RNG = np.random.default_rng(0)


def distribution(kernel: str, d: int) -> Any:
    """The distribution function of the distance from the centre, from the kernel itself."""
    t = np.linspace(0, 60 + 3 * d if kernel == "exponential" else 1, 200_001)
    mass = integrate.cumulative_simpson(KERNELS[kernel](t) * t ** (d - 1), x=t, initial=0)
    return lambda at: np.interp(at, t, mass / mass[-1])


@pytest.mark.parametrize("d", [1, 2, 5, 30])
@pytest.mark.parametrize("kernel", KERNELS)
def test_radii_and_directions_are_those_of_the_kernel(kernel: str, d: int) -> None:
    n = 20_000
    Z = KernelDensity(kernel=kernel, bandwidth=2.0).fit(np.full((1, d), 7.0)).sample(n, random_state=5) - 7
    radii = np.linalg.norm(Z, axis=1)
    assert stats.kstest(radii / 2, distribution(kernel, d)).pvalue > 1e-4
    assert abs((Z / radii[:, None]).mean(axis=0)).max() < 5 / math.sqrt(n * d)
    assert (radii < 2).all() or kernel == "exponential"


@pytest.mark.parametrize("kernel", KERNELS)
def test_samples_follow_the_density(backend: Backend, kernel: str) -> None:
    """Counts in cells against the integral of the density, with weights and deviations of each column."""
    X, w = RNG.normal(size=(8, 2)) * [1, 10], RNG.uniform(0.5, 2, 8)
    model = KernelDensity(kernel=kernel, bandwidth=[1.0, 8.0]).fit(backend.asarray(X), sample_weight=backend.asarray(w))
    n = 5000
    Z = backend.asnumpy(model.sample(n, random_state=1))
    assert Z.shape == (n, 2)
    same = (
        KernelDensity(kernel=kernel, bandwidth=[1.0, 8.0]).fit(X, sample_weight=w).sample(n, np.random.RandomState(1))
    )
    np.testing.assert_allclose(Z, same)
    edges = [np.linspace(-3, 3, 7), np.linspace(-30, 30, 7)]
    steps = 60
    fine = [(e[:-1, None] + (np.arange(steps) + 0.5) / steps * np.diff(e)[:, None]).reshape(-1) for e in edges]
    grid = np.stack(np.meshgrid(*fine, indexing="ij"), axis=-1).reshape(-1, 2)
    plain = KernelDensity(kernel=kernel, bandwidth=[1.0, 8.0]).fit(X, sample_weight=w)
    p = np.exp(plain.score_samples(grid)).reshape(6, steps, 6, steps).mean(axis=(1, 3)) * 10.0
    counts = np.histogram2d(*Z.T, bins=edges)[0]
    want, got = np.append(p, 1 - p.sum()), np.append(counts, n - counts.sum())
    kept = want * n > 5
    statistic = ((got - n * want)[kept] ** 2 / (n * want[kept])).sum()
    assert stats.chi2(kept.sum() - 1).sf(statistic) > 1e-4


def test_covariances_and_generators() -> None:
    H = np.array([[2.0, 1.5], [1.5, 2.0]])
    model = KernelDensity(kernel="cosine", bandwidth=H).fit(np.zeros((1, 2)))
    Z = model.sample(20_000, np.random.default_rng(3))
    radius = np.linalg.norm(Z @ np.linalg.inv(np.linalg.cholesky(H)).T, axis=1)
    assert stats.kstest(radius, distribution("cosine", 2)).pvalue > 1e-4
    np.testing.assert_array_equal(model.sample(9, np.random.default_rng(3)), model.sample(9, np.random.default_rng(3)))
    assert KernelDensity(kernel="linear").fit(np.zeros((1, 2), np.float32)).sample(3).dtype == np.float32
