"""Covariances by cross-validation: scores and gradients against all pairs, and what they gain."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import cukde
from cukde import bandwidth
from cukde.bandwidth import data
from cukde.bandwidth.covariances import OfCovariance
from cukde.core import dispatch
from tests.conftest import Backend

RNG = np.random.default_rng(3)


def score(X: np.ndarray, factor: np.ndarray, w: np.ndarray | None) -> float:
    """The mean log density at rows by all the others, of all pairs."""
    w = np.full(len(X), 1 / len(X)) if w is None else w / w.sum()
    z = X @ np.linalg.inv(factor).T
    exponents = 0.5 * ((z[:, None] - z[None]) ** 2).sum(axis=-1)
    np.fill_diagonal(exponents, np.inf)
    least = exponents.min(axis=1)
    logs = np.log(np.exp(least[:, None] - exponents) @ w) - least - np.log1p(-w)
    return float(w @ logs - len(factor) / 2 * np.log(2 * np.pi) - np.log(np.diag(factor)).sum())


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("d", [2, 3, 8])
def test_scores_and_gradients_are_those_of_all_pairs(backend: Backend, d: int, weighted: bool) -> None:
    n = backend.size(120, 40)
    X = RNG.normal(size=(n, d)) @ RNG.normal(size=(d, d)) + 1e3
    X[0] += 30  # far from all others
    w = RNG.uniform(0.1, 2, n) if weighted else None
    there = dispatch.backend(backend.asarray(X))
    rows = data.rows(backend.asarray(X), backend.asarray(w), there)
    criterion = OfCovariance(data.Question(rows, None, weighted, "kde", "likelihood", "float64", there))
    factor = np.linalg.cholesky(0.3 * np.cov(X.T))
    value, excess = criterion.with_derivatives(factor)
    assert value == pytest.approx(score(X, factor, w), abs=1e-9)
    got, want = np.linalg.solve(factor.T, excess), np.zeros((d, d))
    for i, j in zip(*np.tril_indices(d), strict=True):
        step = np.zeros((d, d))
        step[i, j] = 1e-5 * np.sqrt(factor[i, i] * factor[j, j])
        want[i, j] = (score(X, factor + step, w) - score(X, factor - step, w)) / (2 * step[i, j])
    np.testing.assert_allclose(np.tril(got), want, rtol=1e-5, atol=1e-6 * abs(want).max())


def turned(n: int, d: int) -> np.ndarray:
    """Two long clusters that lie along no axis."""
    X = RNG.normal(size=(n, d)) * 0.1
    X += RNG.uniform(-2, 2, (n, 1))  # no row lies alone
    X[: n // 2, 0] += 2
    return X


@pytest.mark.long
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("d", [2, 4])
def test_a_covariance_scores_above_deviations(backend: Backend, d: int, dtype: str) -> None:
    X = turned(backend.size(400, 60), d).astype(dtype)
    found = bandwidth.cross_validate(backend.asarray(X), covariance=True)
    H = backend.asnumpy(found.bandwidth)
    diagonal = bandwidth.cross_validate(X, per_dimension=True)
    assert H.shape == (d, d)
    np.testing.assert_allclose(H, H.T, rtol=1e-12)
    assert found.score > diagonal.score + 0.02
    assert found.score == pytest.approx(score(X.astype(np.float64), np.linalg.cholesky(H), None), abs=1e-3)


@pytest.mark.long
@pytest.mark.parametrize("d", [2, 4])
def test_the_gain_is_that_of_fresh_rows(d: int) -> None:
    found, gains = [], []
    for _ in range(6):  # one draw may be off by several times the standard error over its rows
        X, fresh = turned(400, d), turned(4000, d)
        found.append(bandwidth.cross_validate(X, covariance=True))
        diagonal = bandwidth.cross_validate(X, per_dimension=True)
        gains.append((cukde.kde(X, fresh, found[-1], log=True) - cukde.kde(X, fresh, diagonal, log=True)).mean())
    assert min(gains) > 0.03
    assert np.mean([each.gain for each in found]) == pytest.approx(np.mean(gains), rel=0.5)
    assert np.mean([each.gain / each.gain_error for each in found]) > 2.5


def test_normal_data_lose_little() -> None:
    X, fresh = RNG.normal(size=(500, 3)), RNG.normal(size=(4000, 3))
    found, diagonal = bandwidth.cross_validate(X, covariance=True), bandwidth.cross_validate(X, per_dimension=True)
    loss = (cukde.kde(X, fresh, diagonal, log=True) - cukde.kde(X, fresh, found, log=True)).mean()
    assert loss < 0.03
    assert found.score >= diagonal.score
    assert found.gain < 3 * found.gain_error  # nothing that a user would take it for


def test_results_are_taken_for_bandwidths_and_follow_names() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(turned(200, 3), columns=list("abc"))
    found = bandwidth.cross_validate(frame, covariance=True)
    swapped = frame[["c", "a", "b"]]
    np.testing.assert_allclose(cukde.kde(swapped, swapped, found), cukde.kde(frame, frame, found), rtol=1e-9)
    model = cukde.KernelDensity(bandwidth=found.bandwidth).fit(frame.to_numpy())
    np.testing.assert_allclose(model.score_samples(frame.to_numpy()), cukde.kde(frame, None, found, log=True))
    assert repr(found).startswith("CovarianceValidation(bandwidth=")


def test_a_single_column_has_its_square() -> None:
    x = RNG.normal(size=100)
    found = bandwidth.cross_validate(x, covariance=True)
    np.testing.assert_array_equal(found.bandwidth, bandwidth.cross_validate(x, per_dimension=True).bandwidth[None] ** 2)
    assert found.gain == 0


def test_weights_of_zero_do_not_count() -> None:
    X = turned(100, 2)
    padded, w = np.concatenate([X, [[50, 50]]]), np.r_[np.ones(100), 0]
    got, want = (
        bandwidth.cross_validate(padded, weights=w, covariance=True),
        bandwidth.cross_validate(X, covariance=True),
    )
    np.testing.assert_allclose(got.bandwidth, want.bandwidth, rtol=1e-2, atol=1e-3)


@pytest.mark.parametrize(
    "options",
    [{"method": "sd"}, {"objective": "least_squares"}, {"bounds": [(0, None), None]}, {"covariance": "full"}],
    ids=str,
)
def test_others_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises((TypeError, ValueError), match=r"^covariance must"):
        bandwidth.cross_validate(abs(RNG.normal(size=(30, 2))), **({"covariance": True} | options))


def test_dependent_columns_are_named() -> None:
    X = RNG.normal(size=(40, 2))
    with pytest.raises(ValueError, match=r"^X must have columns that do not depend"):
        bandwidth.cross_validate(np.c_[X, X.sum(axis=1)], covariance=True)


@pytest.mark.parametrize("scale", [1e-170, 1e160])
@pytest.mark.parametrize("d", [1, 2])
def test_variances_beyond_the_range_of_float64_are_refused(d: int, scale: float) -> None:
    with pytest.raises(ValueError, match=r"^X must have a spread whose square is in the range of float64"):
        bandwidth.cross_validate(RNG.normal(size=(40, d)) * scale, covariance=True)
