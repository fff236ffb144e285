"""Effective numbers of rows: of Markov chains against closed forms, and in every rule for the bandwidth."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy.signal import lfilter

import cukde
from cukde import bandwidth
from cukde.bandwidth import chains as of_chains
from tests.conftest import Backend

RNG = np.random.default_rng(0)
RULES = ("scott", "silverman", "sd", "laplace", "positive")


def autoregressive(n: int, rho: float, seed: int = 0) -> np.ndarray:
    """A normal process of standard deviation 1 with autocorrelations rho^k."""
    rng = np.random.default_rng(seed)
    noise = rng.normal(size=n) * math.sqrt(1 - rho**2)
    noise[0] = rng.normal()
    return np.asarray(lfilter([1], [1, -rho], noise))


def by_loops(x: np.ndarray, chains: int) -> tuple[float, np.ndarray]:
    """Geyer's sequences as Stan and ArviZ write them, from sums over pairs; and autocorrelations as far as they go."""
    a = x.reshape(chains, -1)
    n = a.shape[1]
    centred = a - a.mean(axis=1)[:, None]
    acov = np.array([[row[: n - k] @ row[k:] / n for k in range(n)] for row in centred]).mean(axis=0)
    within = acov[0] * n / (n - 1)
    variance = acov[0] + (a.mean(axis=1).var(ddof=1) if chains > 1 else 0)
    rho = np.zeros(n)
    rho[0], rho[1] = 1, 1 - (within - acov[1]) / variance
    even, odd, t = rho[0], rho[1], 1
    while t < n - 3 and even + odd > 0:
        even, odd = (1 - (within - acov[t + i]) / variance for i in (1, 2))
        if even + odd >= 0:
            rho[t + 1], rho[t + 2] = even, odd
        t += 2
    last = t - 2
    if even > 0:
        rho[last + 1] = even
    for t in range(1, last - 1, 2):
        if rho[t + 1] + rho[t + 2] > rho[t - 1] + rho[t]:
            rho[t + 1] = rho[t + 2] = (rho[t - 1] + rho[t]) / 2
    size = float(x.size / (-1 + 2 * rho[: last + 1].sum() + rho[last + 1]))
    rho[last + 1 :] = rho[last + 1] / 2, *np.zeros(n - last - 2)
    return size, rho[1:]


@pytest.mark.parametrize("chains", [1, 4])
def test_sizes_are_those_of_geyers_sequences(backend: Backend, chains: int) -> None:
    X = np.stack([autoregressive(800, rho, seed) for seed, rho in enumerate((0.3, 0.8, 0.95))], axis=1)
    got = backend.asnumpy(bandwidth.effective_size(backend.asarray(1e6 + 1e-3 * X), chains=chains))
    np.testing.assert_allclose(got, [by_loops(column, chains)[0] for column in X.T], rtol=1e-6)
    assert got.dtype == np.float64


def test_lags_that_do_not_count_stay_where_the_data_are() -> None:
    rng = np.random.default_rng(3)
    for lags in (1, 2, 3, 4, 7, 8, 300):
        for correlations in (
            rng.normal(size=lags),
            0.9 ** np.arange(1, lags + 1),
            -np.ones(lags),
            np.full(lags, np.nan),
        ):
            kept = of_chains.before_the_end(correlations)
            assert len(kept) <= lags
            np.testing.assert_array_equal(of_chains.monotone(kept), of_chains.monotone(correlations))
    assert len(of_chains.before_the_end(rng.normal(size=10_000))) < 100


def test_sizes_of_an_autoregressive_process() -> None:
    for rho in (0.5, 0.9):
        size = bandwidth.effective_size(autoregressive(200_000, rho))
        np.testing.assert_allclose(size, 200_000 * (1 - rho) / (1 + rho), rtol=0.1)
    both = np.concatenate([RNG.normal(size=500), 3 + RNG.normal(size=500)])
    assert bandwidth.effective_size(both, chains=2)[0] < 10  # chains that lie apart
    assert bandwidth.effective_size(-autoregressive(1000, -0.7))[0] == 1000  # at most n


def error(h: float, rho: float, n: int) -> float:
    """The mean integrated squared error of a density of an autoregressive process, exactly."""

    def normal(variance: Any) -> Any:
        return 1 / np.sqrt(2 * np.pi * variance)

    k = np.arange(1, n)
    far = normal(2 + 2 * h * h)
    covariances = normal(2 * h * h + 2 * (1 - rho**k)) - far
    return float(
        far - 2 * normal(2 + h * h) + normal(2) + (normal(2 * h * h) - far + 2 * (1 - k / n) @ covariances) / n
    )


@pytest.mark.parametrize("rho", [0.0, 0.5, 0.9, 0.99])
def test_the_bandwidth_is_the_best_for_the_process(backend: Backend, rho: float) -> None:
    """The number for means would be far too wide where rows are near in time and yet apart, and n too narrow."""
    n = 20_000
    widths = np.geomspace(0.05, 1.5, 300)
    least = min(error(h, rho, n) for h in widths)
    x = autoregressive(n, rho)
    h = float(backend.asnumpy(bandwidth.silverman(backend.asarray(x), n_eff="autocorrelation"))[0])
    assert error(h / x.std(), rho, n) < 1.03 * least
    if rho == 0.99:
        assert error(bandwidth.silverman(x)[0], rho, n) > 1.1 * least
    if rho == 0.9:
        assert error(bandwidth.silverman(x, n_eff=bandwidth.effective_size(x)[0])[0], rho, n) > 1.3 * least


@pytest.mark.parametrize("refused", [0.0, 0.4])
def test_the_number_is_that_of_the_formula(backend: Backend, refused: float) -> None:
    """Of columns with autocorrelations of their own, and of rows that stay."""
    n = 600
    X = np.stack([autoregressive(n, rho, seed) for seed, rho in enumerate((0.2, 0.9))], axis=1)
    for i in range(1, n):
        if RNG.uniform() < refused:
            X[i] = X[i - 1]
    h = backend.asnumpy(bandwidth.silverman(backend.asarray(X), n_eff="autocorrelation"))
    s = h / X.std(axis=0, ddof=1)
    np.testing.assert_allclose(s[0], s[1])
    correlations = np.stack([by_loops(column, 1)[1] for column in X.T], axis=1)
    total = 0.0
    for k, r in enumerate(correlations, 1):
        if r.any():
            same = np.mean([(X[i : i + k + 1] == X[i]).all() for i in range(n - k)])
            near = s[0] ** 2 / (s[0] ** 2 + np.maximum((1 - r) / (1 - same), 0))
            w = same + (1 - same) * np.sqrt(near.prod()) * near.mean()
            total += (1 - k / n) * (w - (s[0] ** 2 / (1 + s[0] ** 2)) ** 2)
    np.testing.assert_allclose(bandwidth.silverman(X, n_eff=n / (1 + 2 * total)), h, rtol=3e-4)
    assert total > 0.3


def test_rows_that_stay_count_once(backend: Backend) -> None:
    X = RNG.normal(size=(1500, 2))
    stays = backend.asarray(np.repeat(X, 4, axis=0))
    for name in RULES:
        got = getattr(bandwidth, name)(stays, n_eff="autocorrelation")
        np.testing.assert_allclose(backend.asnumpy(got), getattr(bandwidth, name)(X), rtol=0.01)
    got = bandwidth.silverman(stays, covariance=True, n_eff="autocorrelation")
    np.testing.assert_allclose(backend.asnumpy(got), bandwidth.silverman(X, covariance=True), rtol=0.02, atol=2e-3)
    got = bandwidth.isj(stays[:, 0], n_eff="autocorrelation")
    np.testing.assert_allclose(backend.asnumpy(got), bandwidth.isj(X[:, 0]), rtol=0.02)


@pytest.mark.parametrize("name", RULES)
def test_a_number_stands_for_that_of_rows(backend: Backend, name: str) -> None:
    """Factors of the deviation depend on the number alone; weights leave their own share of it."""
    rule = getattr(bandwidth, name)
    X, few = RNG.normal(size=(400, 2)), RNG.normal(size=(50, 2))
    got = backend.asnumpy(rule(backend.asarray(X), n_eff=np.float64(50)))
    np.testing.assert_allclose(got / X.std(axis=0, ddof=1), rule(few) / few.std(axis=0, ddof=1), rtol=1e-9)
    np.testing.assert_array_equal(rule(X, n_eff=400), rule(X))
    w = np.repeat([1.0, 3.0], 200)
    kish = w.sum() ** 2 / (w @ w)
    np.testing.assert_allclose(
        rule(X, weights=w, n_eff=50) / rule(X, weights=w), rule(X, n_eff=50 * kish / 400) / rule(X, n_eff=kish)
    )


def test_isj_takes_a_number() -> None:
    x = RNG.normal(size=2000)
    ratio = bandwidth.isj(x, n_eff=200) / bandwidth.isj(x)
    assert 1.3 < ratio[0] < 2.0  # 10^(1/5) = 1.58, of a curvature that is estimated anew
    inside = bandwidth.isj(x, n_eff=200, bounds=[(-9, 9)])
    np.testing.assert_allclose(inside, bandwidth.isj(x, n_eff=200), rtol=1e-4)


def test_a_chain_around_a_period() -> None:
    angles = np.cumsum(RNG.normal(0, 20, 4000))
    got = [bandwidth.silverman((angles + turn) % 360, periods=[360], n_eff="autocorrelation") for turn in (0, 77)]
    np.testing.assert_allclose(*got, rtol=1e-6)
    assert got[0][0] > 1.1 * bandwidth.silverman(angles % 360, periods=[360])[0]


@pytest.mark.parametrize("objective", ["likelihood", "least_squares"])
def test_scores_are_means_over_every_kth_row(backend: Backend, objective: Any) -> None:
    X, tried, w = RNG.normal(size=(90, 2)), np.geomspace(0.2, 1.5, 5), RNG.uniform(1, 2, 90)
    found = bandwidth.cross_validate(backend.asarray(X), "kde", tried, objective, weights=backend.asarray(w), n_eff=30)
    of_each = [bandwidth.cross_validate(X[s::3], "kde", tried, objective, weights=w[s::3]).scores for s in range(3)]
    np.testing.assert_allclose(backend.asnumpy(found.scores), np.mean(of_each, axis=0), rtol=1e-9)
    assert float(found.bandwidth[0]) == tried[np.mean(of_each, axis=0).argmax()]


def test_searches_take_chains() -> None:
    x = RNG.normal(size=400)
    stays = np.repeat(x, 5)
    for options in ({}, {"per_dimension": True}):
        want = bandwidth.cross_validate(x, **options).bandwidth
        np.testing.assert_allclose(bandwidth.cross_validate(stays, n_eff=400, **options).bandwidth, want, rtol=0.1)
        got = bandwidth.cross_validate(stays, n_eff="autocorrelation", **options).bandwidth
        np.testing.assert_allclose(got, want, rtol=0.4)  # an estimate, of 300 to 460
    got = bandwidth.select(stays, ["kde"], n_eff="autocorrelation").bandwidth
    np.testing.assert_allclose(got, bandwidth.select(x, ["kde"]).bandwidth, rtol=0.3)
    walk = autoregressive(3000, 0.95)
    assert bandwidth.cross_validate(walk, n_eff="autocorrelation").bandwidth > bandwidth.cross_validate(walk).bandwidth
    full = bandwidth.cross_validate(np.repeat(RNG.normal(size=(200, 2)), 3, axis=0), n_eff=200, covariance=True)
    assert full.bandwidth.shape == (2, 2)


@pytest.mark.parametrize("wrong", [0, -1, 41, math.nan, True, "chains", [3]])
@pytest.mark.parametrize("name", ["scott", "isj", "cross_validate", "select"])
def test_wrong_numbers_are_named(name: str, wrong: Any) -> None:
    with pytest.raises((TypeError, ValueError), match=r"^n_eff must"):
        getattr(bandwidth, name)(RNG.normal(size=40), n_eff=wrong)


def test_other_errors() -> None:
    x = RNG.normal(size=40)
    with pytest.raises(ValueError, match=r"^n_eff must leave more than one"):
        bandwidth.scott(x, n_eff=0.5)
    with pytest.raises(TypeError, match="unexpected keyword argument"):
        bandwidth.abramson(x, 1.0, n_eff=3)  # type: ignore[call-arg]
    for chains in (0, 3, 10):
        with pytest.raises(ValueError, match=r"^chains must"):
            bandwidth.effective_size(x, chains=chains)
    for bad in (np.ones(40), np.r_[x, np.nan]):
        with pytest.raises(ValueError, match=r"^X must"):
            bandwidth.effective_size(bad)


def test_frames_and_tensors_are_taken() -> None:
    pandas = pytest.importorskip("pandas")
    X = np.stack([autoregressive(300, 0.5), autoregressive(300, 0.9)], axis=1)
    frame = pandas.DataFrame(X, columns=["a", "b"])
    np.testing.assert_array_equal(bandwidth.effective_size(frame), bandwidth.effective_size(X))
    want = bandwidth.scott(X, n_eff="autocorrelation")
    np.testing.assert_array_equal(bandwidth.scott(frame, n_eff="autocorrelation"), want)
    h = bandwidth.scott(X.astype(np.float32), n_eff="autocorrelation")
    np.testing.assert_allclose(h, want, rtol=1e-3)
    assert cukde.kde(X, X, h).shape == (300,)
