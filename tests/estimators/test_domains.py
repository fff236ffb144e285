"""``KernelDensity`` on domains with walls and periods, against the functions of densities."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

import cukde
from cukde import KernelDensity
from tests.conftest import Backend

RNG = np.random.default_rng(2)
X = np.stack([RNG.exponential(size=80), RNG.uniform(-50, 50, 80), RNG.beta(2, 5, 80)], axis=1)
Y = np.concatenate([X[:15] + 0.01, [[-0.5, 3.0, 0.5], [0.0, 3.0, 1.5]]])
W = RNG.uniform(0.1, 2, 80)
DOMAIN: dict[str, Any] = {"bounds": [(0, None), None, (0, 1)], "periods": [None, 24.0, None]}
H = [0.2, 1.0, 0.1]
FUNCTIONS: dict[str, Any] = {"kde": cukde.kde, "sd": cukde.sd_kde, "laplace": cukde.laplace_kde}


@pytest.mark.parametrize("method", FUNCTIONS)
def test_densities_are_those_of_the_domain(backend: Backend, method: str) -> None:
    model = KernelDensity(bandwidth=H, method=method, **DOMAIN).fit(*map(backend.asarray, (X,)), sample_weight=W)
    y = backend.asarray(Y)
    want = FUNCTIONS[method](X, Y, H, weights=W, log=True, **DOMAIN)
    for _ in range(2):  # what the first call keeps serves the next one
        got = backend.asnumpy(model.score_samples(y))
        np.testing.assert_allclose(got, want, rtol=0, atol=1e-10)
    assert (got[-2:] == -np.inf).all()
    assert method == "laplace" or model.score(y) == -np.inf
    if method == "kde":
        got = backend.asnumpy(model.grad_log_density(y))
        np.testing.assert_allclose(got, cukde.score(X, Y, H, weights=W, **DOMAIN), rtol=1e-9, atol=1e-9)
    lazy = KernelDensity(bandwidth=H, method=method, **DOMAIN).fit(da.from_array(X, chunks=(30, 3)), sample_weight=W)
    np.testing.assert_allclose(lazy.score_samples(Y), want, rtol=0, atol=1e-10)


def test_tolerances_are_kept_with_images() -> None:
    want = KernelDensity(bandwidth=0.1, **DOMAIN).fit(X).score_samples(Y)[:-2]
    got = KernelDensity(bandwidth=0.1, rtol=1e-4, atol=1e-6, **DOMAIN).fit(X).score_samples(Y)[:-2]
    assert (abs(np.exp(got) - np.exp(want)) <= 1e-6 + 1e-4 * np.exp(want)).all()


@pytest.mark.parametrize("method", ["kde", "sd"])
def test_samples_lie_within_and_follow_the_density(method: str) -> None:
    """The distribution function of a bounded and of a periodic column, within a few standard errors."""
    model = KernelDensity(bandwidth=[0.3, 3.0, 0.2], method=method, **DOMAIN).fit(X, sample_weight=W)
    drawn = model.sample(4000, random_state=0)
    assert (drawn >= 0).all()
    assert (drawn[:, 2] <= 1).all()
    assert (drawn[:, 1] < 24).all()
    centres = cukde.debias(X, [0.3, 3.0, 0.2], weights=W, **DOMAIN) if method == "sd" else X
    for k, (low, high) in ((1, (0, 24)), (2, (0, 1))):
        edges = np.linspace(low, high, 9)
        fine = low + (high - low) * (np.arange(4000) + 0.5) / 4000
        ends = {"bounds": [DOMAIN["bounds"][k]], "periods": [DOMAIN["periods"][k]]}
        p = cukde.kde(centres[:, k], fine, [0.3, 3.0, 0.2][k], weights=W, **ends).reshape(8, -1).mean(axis=1)
        share = p * (high - low) / 8
        counted = np.histogram(drawn[:, k], edges)[0] / 4000
        assert abs(share.sum() - 1) < 1e-5
        assert (abs(counted - share) < 4.5 * np.sqrt(share / 4000)).all()


def test_it_is_saved_pickled_and_cloned_with_its_domain(tmp_path: Path) -> None:
    model = KernelDensity(bandwidth=H, method="sd", **DOMAIN).fit(X)
    model.save(tmp_path / "model")
    loaded = KernelDensity.load(tmp_path / "model")
    for other in (loaded, pickle.loads(pickle.dumps(model)), clone(model).fit(X)):
        np.testing.assert_array_equal(other.score_samples(Y), model.score_samples(Y))
        np.testing.assert_array_equal(other.sample(5, random_state=1), model.sample(5, random_state=1))
    np.testing.assert_array_equal(loaded.fit(X).score_samples(Y), model.score_samples(Y))


def test_the_domain_of_the_fit_counts() -> None:
    model = KernelDensity(bandwidth=0.2, bounds=[(0, None)]).fit(X[:, :1])
    before = model.score_samples(Y[:, :1])
    model.set_params(bounds=None)
    np.testing.assert_array_equal(model.score_samples(Y[:, :1]), before)
    assert np.isfinite(model.fit(X[:, :1]).score_samples(Y[:, :1])).all()


def test_a_search_has_domains_in_its_grid() -> None:
    grid = {"bandwidth": [0.05, 0.2], "bounds": [None, [(0, None)]]}
    found = GridSearchCV(KernelDensity(), grid, cv=3).fit(X[:, :1])
    assert found.best_params_ == {"bandwidth": 0.2, "bounds": [(0, None)]}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_rounded_bounds_hold_debiased_data(dtype: str) -> None:
    """Data on bounds that are no numbers of their dtype, in memory and lazily."""
    x = np.linspace(0.1, 0.7, 30).astype(dtype)[:, None]
    x[-1] = 0.7
    options: dict[str, Any] = {"bandwidth": 0.05, "method": "sd", "bounds": [(0.1, 0.7)]}
    plain, lazy = (KernelDensity(**options).fit(a) for a in (x, da.from_array(x, chunks=(20, 1))))
    want = plain.score_samples(x)
    assert np.isfinite(want).all()
    np.testing.assert_allclose(lazy.score_samples(x), want, rtol=0, atol=1e-5 if dtype == "float32" else 1e-12)
    drawn = plain.sample(200, random_state=0)
    assert drawn.dtype == np.dtype(dtype)
    assert np.isfinite(plain.score_samples(drawn)).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kernel": "tophat"}, 'bounds must be None but for kernel="gaussian" and metric="euclidean"; got .tophat.'),
        ({"metric": "manhattan"}, r"^bounds\b"),
        ({"bounds": [(0, 1)] * 2}, r"^bounds\b.*3"),
        ({"bounds": [(0, 0.1), None, None]}, r"^X\b.*80.*0"),
        ({"bandwidth": np.eye(3) + 0.1}, "bandwidth must not correlate a bounded column with another"),
        ({"periods": [2.0, None, None]}, "a column must have bounds or a period, not both"),
    ],
)
def test_what_does_not_fit_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        KernelDensity(**({"bandwidth": H} | DOMAIN | options)).fit(X)


def test_a_file_with_wrong_ends_is_refused(tmp_path: Path) -> None:
    model = KernelDensity(bandwidth=H, **DOMAIN).fit(X)
    model._ends = model._ends[:, :2]
    model.save(tmp_path / "model")
    with pytest.raises(ValueError, match="bounds and periods do not fit points of 3 columns"):
        KernelDensity.load(tmp_path / "model")


@pytest.mark.parametrize("method", ["kde", "sd", "laplace"])
def test_rows_leave_out_their_own_kernels_and_images(method: Any) -> None:
    rng = np.random.default_rng(0)
    points = np.stack([rng.exponential(size=40), rng.normal(0, 40, 40)], axis=1)
    domain: Any = {"bounds": [(0, None), None], "periods": [None, 360]}
    function = {"kde": cukde.kde, "sd": cukde.sd_kde, "laplace": cukde.laplace_kde}[method]
    for weights in (None, rng.exponential(size=40)):
        e = cukde.KernelDensity(bandwidth=[0.3, 20.0], method=method, **domain).fit(points, sample_weight=weights)
        want = function(points, points, [0.3, 20.0], weights=weights, log=True, leave_one_out=True, **domain)
        np.testing.assert_allclose(e.score_samples(points, leave_one_out=True), want, rtol=1e-11, atol=1e-12)
