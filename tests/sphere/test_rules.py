"""Bandwidths on the sphere: against integrals by quadrature, exact errors, and all pairs by the formula."""

from __future__ import annotations

from types import ModuleType

import numpy as np
import pytest
from scipy import integrate, optimize, special, stats

import cukde
from cukde import sphere
from tests.sphere.test_density import reference, unit

AT_THE_END = pytest.mark.filterwarnings("ignore:the best bandwidth is the largest among those given")


def _sample(d: int, kappa: float, n: int, seed: int = 0) -> np.ndarray:
    return stats.vonmises_fisher(np.eye(d)[0], kappa).rvs(n, random_state=seed)


def _asymptotic(d: int, kappa: float, n: float) -> float:
    """The least of h^4 / 4 R + (4 pi h^2)^(-q/2) / n, with R the integral of the squared Laplacian, by quadrature."""
    q = d - 1
    constant = kappa ** (d / 2 - 1) / ((2 * np.pi) ** (d / 2) * special.ive(d / 2 - 1, kappa))  # times exp(-kappa)
    ring = 2 * np.pi ** (q / 2) / special.gamma(q / 2)

    def squared(angle: float) -> float:
        t = np.cos(angle)
        laplacian = constant * np.exp(kappa * (t - 1)) * kappa * (kappa * (1 - t * t) - q * t)
        return float(laplacian**2 * ring * np.sin(angle) ** (q - 1))

    roughness = integrate.quad(squared, 0, np.pi, limit=500, points=[min(3, 3 / np.sqrt(kappa))])[0]
    return float((q * (4 * np.pi) ** (-q / 2) / (n * roughness)) ** (1 / (q + 4)))


@pytest.mark.parametrize("d", [2, 3, 5])
@pytest.mark.parametrize("kappa", [0.8, 10.0, 3000.0])
def test_the_reference_rule_minimises_the_leading_terms(backend: ModuleType, d: int, kappa: float) -> None:
    X = _sample(d, kappa, 400)
    length = np.linalg.norm(X.mean(axis=0))
    rho = np.sqrt((length**2 - 1 / 400) / (1 - 1 / 400))

    def excess(log_k: float) -> float:
        k = np.exp(log_k)
        return float(special.ive(d / 2, k) / special.ive(d / 2 - 1, k) - rho)

    fitted = float(np.exp(optimize.brentq(excess, -5, 12, xtol=1e-14)))
    found = sphere.reference(backend.asarray(X))
    assert found == pytest.approx(_asymptotic(d, fitted, 400), rel=1e-7)
    assert sphere.reference(X, weights=np.full(400, 7.0)) == pytest.approx(found, rel=1e-12)


def test_of_narrow_data_it_is_silvermans_rule_in_the_plane() -> None:
    flat = np.random.default_rng(0).normal(scale=1e-4, size=(300, 2))
    X = np.c_[flat, np.sqrt(1 - (flat**2).sum(axis=1))]
    deviations = cukde.bandwidth.silverman(flat)
    assert sphere.reference(X) == pytest.approx(np.sqrt((deviations**2).mean()), rel=1e-4)


def test_of_data_all_around_it_is_wide_and_finite() -> None:
    lon = np.arange(-180.0, 180.0)
    assert 0.5 < sphere.reference(sphere.from_degrees(lon, 0 * lon)) < 4


@AT_THE_END
@pytest.mark.parametrize("d", [2, 3, 5])
@pytest.mark.parametrize("weighted", [False, True])
def test_likelihoods_are_those_of_all_pairs(backend: ModuleType, d: int, weighted: bool) -> None:
    X, h = unit(30, d), np.array([0.1, 0.4, 9.0])
    w = np.random.default_rng(2).uniform(0.2, 2, 30) if weighted else np.ones(30)
    rest = [np.arange(30) != i for i in range(30)]
    expected = [sum(w[i] * reference(X[r], X[[i]], b, w[r])[0] for i, r in enumerate(rest)) / w.sum() for b in h]
    given = {"weights": backend.asarray(w)} if weighted else {}
    found = sphere.cross_validate(backend.asarray(X), h, **given)
    np.testing.assert_allclose(found.scores, expected, rtol=1e-10)
    assert found.bandwidth == h[np.argmax(expected)]


@AT_THE_END
@pytest.mark.parametrize("weighted", [False, True])
def test_least_squares_are_those_of_a_quadrature(backend: ModuleType, weighted: bool) -> None:
    X, h = unit(30, 2), np.array([0.05, 0.4, 9.0])
    w = np.random.default_rng(2).uniform(0.2, 2, 30) if weighted else np.ones(30)
    angles = np.arange(4000) * (2 * np.pi / 4000)
    circle = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    expected = []
    for b in h:
        square = (np.exp(reference(X, circle, b, w)) ** 2).mean() * 2 * np.pi
        rest = [np.arange(30) != i for i in range(30)]
        others = sum(w[i] * np.exp(reference(X[r], X[[i]], b, w[r])[0]) for i, r in enumerate(rest)) / w.sum()
        expected.append(2 * others - square)
    given = {"weights": backend.asarray(w)} if weighted else {}
    found = sphere.cross_validate(backend.asarray(X), h, "least_squares", **given)
    np.testing.assert_allclose(found.scores, expected, rtol=1e-6)


@AT_THE_END
def test_least_squares_in_space_are_those_of_the_product_of_two_kernels() -> None:
    """kappa r / sinh(kappa r), with r the length of the sum of two points, d = 3."""
    X, h = unit(40, 3), 0.2
    kappa = h**-2
    r = np.linalg.norm(X[:, None] + X, axis=2)
    log_c = np.log(kappa / (2 * np.pi)) - np.log1p(-np.exp(-2 * kappa))  # times exp(-kappa)
    x = kappa * r
    product = np.exp(2 * log_c + x - 2 * kappa) * 2 * np.pi * -np.expm1(-2 * x) / x
    kernel = np.exp(log_c + kappa * (X @ X.T - 1))
    np.fill_diagonal(kernel, 0)
    expected = 2 * kernel.sum() / (40 * 39) - product.mean()
    found = sphere.cross_validate(X, [0.01, h, 9.0], "least_squares")
    assert found.scores[1] == pytest.approx(expected, rel=1e-7)


@pytest.mark.parametrize("objective", ["likelihood", "least_squares"])
def test_it_finds_narrow_groups(objective: str) -> None:
    X = np.concatenate([_sample(3, 400.0, 150, 1), -_sample(3, 400.0, 150, 2)])
    found = sphere.cross_validate(X, objective=objective)
    assert 0.01 < found.bandwidth < 0.06 < sphere.reference(X)
    assert found.score == found.scores.max()
    best = sphere.cross_validate(X, np.linspace(0.5, 2, 101) * found.bandwidth, objective)
    assert best.bandwidth == pytest.approx(found.bandwidth, rel=0.1)  # a step of the grid
    p = sphere.kde(X, X, found)
    np.testing.assert_array_equal(p, sphere.kde(X, X, found.bandwidth))


def test_of_uniform_data_it_is_wide_and_of_copies_it_warns() -> None:
    X = np.random.default_rng(0).normal(size=(300, 3))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    assert sphere.cross_validate(X).bandwidth > 0.4
    twice = np.repeat(X[:20], 2, axis=0)
    with pytest.warns(cukde.BandwidthRangeWarning, match="share values"):
        sphere.cross_validate(twice)
    with pytest.warns(cukde.BandwidthRangeWarning, match="largest among those given"):
        sphere.cross_validate(X, [0.01, 0.02])


def test_what_is_refused() -> None:
    X = unit(9, 3)
    with pytest.raises(ValueError, match="objective"):
        sphere.cross_validate(X, objective="mise")  # type: ignore[arg-type]
    for wrong in ([], [[0.1]], [[0.1], [0.1, 0.2]], [0.0], ["a"]):
        with pytest.raises((ValueError, TypeError), match="bandwidths"):
            sphere.cross_validate(X, wrong)
    with pytest.raises(ValueError, match="at least 2 rows"):
        sphere.reference(X[:1])
