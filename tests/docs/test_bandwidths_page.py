"""What docs/bandwidths.md says of other libraries' bandwidths."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.stats import gaussian_kde
from sklearn.model_selection import LeaveOneOut, cross_val_score
from sklearn.neighbors import KernelDensity

import cukde
from cukde import bandwidth
from tests.private import reference_factor

RNG = np.random.default_rng(0)
X = RNG.normal(size=(200, 2)) @ np.array([[1.0, 0.5], [0.0, 3.0]])
Y = RNG.normal(size=(20, 2))
WEIGHTS = RNG.exponential(size=200)
SAME = 1e-10


def test_scipys_covariance_is_a_bandwidth() -> None:
    peer = gaussian_kde(X.T, weights=WEIGHTS)
    np.testing.assert_allclose(cukde.kde(X, Y, peer.covariance, weights=WEIGHTS), peer(Y.T), rtol=SAME)


def test_scipys_factor_scales_the_covariance() -> None:
    peer = gaussian_kde(X.T, bw_method=0.3)
    np.testing.assert_allclose(cukde.kde(X, Y, 0.3**2 * np.cov(X, rowvar=False)), peer(Y.T), rtol=SAME)
    line = gaussian_kde(X[:, 0], bw_method=0.3)
    np.testing.assert_allclose(cukde.kde(X[:, 0], Y[:, 0], 0.3 * np.std(X[:, 0], ddof=1)), line(Y[:, 0]), rtol=SAME)


def test_a_rule_goes_to_scipy_as_a_factor() -> None:
    x, y = X[:, 0], Y[:, 0]
    h = bandwidth.isj(x)
    peer = gaussian_kde(x, bw_method=float(h[0] / np.std(x, ddof=1)))
    np.testing.assert_allclose(cukde.kde(x, y, h), peer(y), rtol=SAME)


def test_scikit_learns_bandwidth_is_a_deviation() -> None:
    peer = KernelDensity(bandwidth=0.4).fit(X)
    np.testing.assert_allclose(cukde.kde(X, Y, 0.4, log=True), peer.score_samples(Y), rtol=1e-7)


def test_a_rule_goes_to_scikit_learn_by_scaled_columns() -> None:
    h = bandwidth.silverman(X)
    peer = KernelDensity(bandwidth=1).fit(X / h)
    np.testing.assert_allclose(cukde.kde(X, Y, h, log=True), peer.score_samples(Y / h) - np.log(h).sum(), rtol=1e-7)


@pytest.mark.parametrize("rule", ["scott", "silverman"])
def test_scikit_learns_rules_are_factors(rule: str) -> None:
    factor = KernelDensity(bandwidth=rule).fit(X).bandwidth_
    np.testing.assert_allclose(getattr(bandwidth, rule)(X), factor * np.std(X, axis=0, ddof=1), rtol=SAME)


@pytest.mark.parametrize("h", [0.5, np.array([0.5, 1.0]), np.array([[0.3, 0.1], [0.1, 0.6]])])
def test_a_factor_is_one_of_each_points_bandwidth(h: Any) -> None:
    factors = bandwidth.abramson(X, h)
    widths = [f**2 * h if np.ndim(h) == 2 else f * h for f in factors]
    by_points = np.mean([cukde.kde(x[None], Y, width) for x, width in zip(X, widths, strict=True)], axis=0)
    np.testing.assert_allclose(cukde.kde(X, Y, h, local_factors=factors), by_points, rtol=SAME)
    assert np.log(factors).mean() == pytest.approx(0, abs=SAME)


@pytest.mark.parametrize(("n", "ratio"), [(1_000, 1.4), (100_000, 1.8)])
def test_the_gradient_wants_more_than_silverman(n: int, ratio: float) -> None:
    # Of the mean integrated squared error of the derivative, exact for a normal distribution and its Gaussian kernel.
    k = np.linspace(0, 60, 60_001)
    normal = np.exp(-k * k)

    def error(h: float) -> float:
        kernel = np.exp(-((h * k) ** 2) / 2)
        return float((k * k * (normal * (1 - kernel) ** 2 + kernel**2 * (1 - normal) / n)).sum())

    rule = (4 / (5 * n)) ** (1 / 7)
    assert error(rule) < 1.1 * min(error(h) for h in rule * np.linspace(0.7, 1.5, 81))
    assert rule / (4 / (3 * n)) ** 0.2 == pytest.approx(ratio, abs=0.06)


def test_the_likelihood_is_scikit_learns_with_leave_one_out() -> None:
    scores = cross_val_score(KernelDensity(bandwidth=0.7), X[:60], cv=LeaveOneOut())
    assert bandwidth.cross_validate(X[:60], "kde", [0.7]).score == pytest.approx(scores.mean(), rel=1e-7)


@pytest.mark.parametrize(("method", "power"), [("kde", -1 / 5), ("sd", -1 / 9), ("laplace", -1 / 9)])
def test_the_best_bandwidth_of_a_sample_is_carried_over(method: str, power: float) -> None:
    rule = getattr(bandwidth, {"kde": "silverman"}.get(method, method))
    x = np.tile(X[:, 0], 8)  # of the same deviation but for the divisor
    if method == "kde":
        np.testing.assert_allclose(rule(x), rule(X[:, 0]) * 8**power, rtol=5e-3)
        return
    assert rule(x) < rule(X[:, 0]) * 8**power  # so few rows: the rule falls faster
    few, many = (reference_factor(method, n, 1) for n in (1e9, 8e9))
    np.testing.assert_allclose(many, few * 8**power, rtol=5e-3)
