"""The estimator by the positive method: densities, gradients, exact samples, files and Dask collections."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import pytest
from scipy import stats
from sklearn.base import clone

import cukde
from cukde import KernelDensity
from cukde.estimators import rejection
from tests import reference
from tests.conftest import Backend

RNG = np.random.default_rng(3)
X, Y = RNG.standard_normal((80, 2)), RNG.standard_normal((30, 2))
W = RNG.exponential(size=80)


def fitted(backend: Backend, X: np.ndarray = X, weights: Any = None, **options: Any) -> KernelDensity:
    e = KernelDensity(method="positive", **({"bandwidth": 0.4} | options))
    return e.fit(backend.asarray(X), sample_weight=backend.asarray(weights))


@pytest.mark.parametrize("weighted", [False, True], ids=["equal", "weighted"])
def test_densities_and_gradients_are_those_of_the_functions(backend: Backend, weighted: bool) -> None:
    w = W if weighted else None
    e = fitted(backend, weights=w)
    options = {"weights": backend.asarray(w)}
    data, queries = backend.asarray(X), backend.asarray(Y)
    mass = cukde.positive_mass(data, 0.4, **options)
    assert (e.mass_, e.mass_error_) == pytest.approx((mass.value, mass.error), rel=1e-10)
    for _ in range(2):  # the second call has what the first one kept
        log_p = backend.asnumpy(e.score_samples(queries))
        want = backend.asnumpy(cukde.positive_kde(data, queries, 0.4, log=True, **options))
        np.testing.assert_allclose(log_p, want, rtol=0, atol=1e-11)
    got = backend.asnumpy(e.grad_log_density(queries))
    np.testing.assert_allclose(got, reference.positive(X, Y, 0.4, w).score, rtol=0, atol=1e-9)
    own = backend.asnumpy(e.score_samples(data, leave_one_out=True))
    want = backend.asnumpy(cukde.positive_kde(data, data, 0.4, log=True, leave_one_out=True, **options))
    np.testing.assert_allclose(own, want, rtol=0, atol=1e-11)


def test_samples_are_of_the_density(backend: Backend) -> None:
    data = np.array([-1.0, 0.0, 0.2, 4.0])[:, None]
    e = fitted(backend, data, np.array([1.0, 2.0, 1.0, 3.0]), bandwidth=0.7)
    draws = np.sort(backend.asnumpy(e.sample(4000, random_state=0))[:, 0])
    y = np.linspace(-8, 12, 8001)
    p = np.exp(backend.asnumpy(e.score_samples(backend.asarray(y[:, None]))))
    below = np.interp(draws, y, np.cumsum(p) * (y[1] - y[0]))
    assert stats.kstest(below, "uniform").pvalue > 1e-3
    again = backend.asnumpy(e.sample(4000, random_state=0))
    np.testing.assert_array_equal(np.sort(again[:, 0]), draws)


def test_samples_lie_within_bounds() -> None:
    e = KernelDensity(method="positive", bandwidth=0.5, bounds=[(-2.5, None), None], periods=[None, 7.0])
    e.fit(X.clip(-2.4, None))
    points = e.sample(500, random_state=1)
    assert (points[:, 0] >= -2.5).all()
    assert ((points[:, 1] >= 0) & (points[:, 1] < 7)).all()
    assert np.isfinite(e.score_samples(points)).all()
    with pytest.raises(NotImplementedError, match="needs bounds and periods to be None"):
        e.grad_log_density(points)


def test_a_share_of_points_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rejection, "_MOST", 64)
    e = KernelDensity(method="positive", bandwidth=0.4).fit(X)
    assert e.sample(200, random_state=2).shape == (200, 2)


def test_files_keep_the_mass(tmp_path: Path) -> None:
    e = KernelDensity(method="positive", bandwidth=0.4).fit(X)
    e.save(tmp_path / "e.npz")
    loaded = KernelDensity.load(tmp_path / "e.npz")
    assert (loaded.mass_, loaded.mass_error_) == (e.mass_, e.mass_error_)
    np.testing.assert_array_equal(loaded.score_samples(Y), e.score_samples(Y))
    other = clone(e).set_params(method="kde").fit(X)
    assert not hasattr(other, "mass_")
    e.set_params(method="kde").fit(X)
    assert not hasattr(e, "mass_")


def test_a_fit_without_a_mass_leaves_the_last_one() -> None:
    X = np.random.default_rng(0).normal(size=(40, 2))
    fitted = cukde.KernelDensity(bandwidth=0.5, method="positive").fit(X)
    want = fitted.score_samples(X), fitted.mass_
    with pytest.raises(ValueError, match="bandwidths"):
        fitted.fit(X * 1e151)
    np.testing.assert_array_equal(fitted.score_samples(X), want[0])
    assert fitted.mass_ == want[1]


def test_dask_collections() -> None:
    e = KernelDensity(method="positive", bandwidth=0.4).fit(da.from_array(X, chunks=(50, 2)))
    want = KernelDensity(method="positive", bandwidth=0.4).fit(X)
    assert float(e.mass_.compute()) == pytest.approx(want.mass_, abs=4 * want.mass_error_)
    error = np.log(float(e.mass_.compute()) / want.mass_)
    np.testing.assert_allclose(e.score_samples(Y), want.score_samples(Y) - error, rtol=0, atol=1e-10)
    np.testing.assert_allclose(e.grad_log_density(Y), want.grad_log_density(Y), rtol=0, atol=1e-9)
    assert e.sample(50, random_state=0).shape == (50, 2)
