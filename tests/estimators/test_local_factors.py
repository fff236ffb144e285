"""``KernelDensity`` with the local factors that a selection of ``abramson`` brings, against direct sums in float64."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from sklearn.base import clone

import cukde
from cukde import KernelDensity, bandwidth
from tests import reference
from tests.conftest import Backend
from tests.private import estimators_file as file, to_host

RNG = np.random.default_rng(5)
X = np.concatenate([RNG.standard_t(2, size=(60, 2)), RNG.normal(7, 0.2, size=(30, 2))])
W = RNG.exponential(size=90)
Y = np.concatenate([X[::9] + 0.1, [[40.0, -30.0]]])


def selected(h: Any) -> bandwidth.Selection:
    """A selection of "abramson" with this bandwidth."""
    return bandwidth.Selection("abramson", np.asarray(h), 0.0, "", ("abramson",), np.array([h]), np.zeros(1))


@settings(max_examples=12, deadline=None, derandomize=True)
@given(
    d=st.integers(1, 4),
    form=st.sampled_from(["number", "deviations", "covariance"]),
    weighted=st.booleans(),
    dtype=st.sampled_from(["float32", "float64"]),
    options=st.sampled_from([{}, {"rtol": 1e-3}, {"atol": 1e-5}, {"precision": "float64"}]),
    seed=st.integers(0, 99),
)
def test_densities_and_gradients(d: int, form: str, weighted: bool, dtype: str, options: Any, seed: int) -> None:
    rng = np.random.default_rng(seed)
    x, y = (rng.standard_t(2, size=(n, d)).astype(dtype) for n in (70, 15))
    w = rng.exponential(size=70) if weighted else None
    root = np.eye(d) + 0.3 * rng.uniform(-1, 1, (d, d))
    h = {"number": 0.7, "deviations": np.linspace(0.4, 1.2, d), "covariance": root @ root.T}[form]
    found = KernelDensity(bandwidth=selected(h), **options).fit(x, sample_weight=w)
    np.testing.assert_array_equal(found.bandwidth_, h)
    np.testing.assert_allclose(found.local_factors_, reference.abramson(x, h, 0.5, w), rtol=1e-5)
    want = reference.local(x, y, h, found.local_factors_, w)
    density = np.exp(want.log)
    rounding = 1e-4 if dtype == "float32" else 1e-9
    allowed = options.get("atol", 0) + (options.get("rtol", 0) + rounding) * density
    for _ in range(2):  # what the first call keeps serves the next one
        assert (abs(np.exp(found.score_samples(y)) - density) <= allowed).all()
        np.testing.assert_allclose(found.grad_log_density(y), want.score, rtol=10 * rounding, atol=10 * rounding)


def test_every_way_to_the_same_numbers(backend: Backend, tmp_path: Path) -> None:
    """Lazy queries, a domain, copies and files; without a row's own kernel; and another fit after the first."""
    x, y, w = map(backend.asarray, (X, Y, W))
    model = KernelDensity(bandwidth=selected(0.5)).fit(x, sample_weight=w)
    factors = backend.asnumpy(model.local_factors_)
    want = reference.local(X, Y, 0.5, factors, W)
    model.save(tmp_path / "model.npz")
    for same in (model, clone(model).fit(x, sample_weight=w), pickle.loads(pickle.dumps(model))):
        np.testing.assert_allclose(backend.asnumpy(same.score_samples(y)), want.log, rtol=1e-10)
    loaded = KernelDensity.load(tmp_path / "model.npz")
    np.testing.assert_allclose(to_host(loaded.score_samples(y)), want.log, rtol=1e-10)
    assert model.score(y) == pytest.approx(want.log.sum(), rel=1e-10)
    lazy = da.from_array(y, chunks=(4, 2))
    np.testing.assert_allclose(to_host(model.score_samples(lazy).compute()), want.log, rtol=1e-10)
    np.testing.assert_allclose(to_host(model.grad_log_density(lazy).compute()), want.score, rtol=1e-8)
    p = np.exp(reference.local(X, X, 0.5, factors, W).log)
    own = W / W.sum() / (2 * np.pi * 0.25 * factors**2)
    others = (p - own) / (1 - W / W.sum())
    got = backend.asnumpy(model.score_samples(x, leave_one_out=True))
    far = others > 1e-3 * p  # of the difference
    np.testing.assert_allclose(np.exp(got)[far], others[far], rtol=1e-8)
    ends = {"bounds": [(-60, None), None], "periods": [None, 50.0]}
    within = KernelDensity(bandwidth=selected(0.5), **ends).fit(x, sample_weight=w)
    of_domain = cukde.kde(X, Y, selected(0.5), weights=W, log=True, **ends)
    np.testing.assert_allclose(backend.asnumpy(within.score_samples(y)), of_domain, rtol=1e-9)
    model.set_params(bandwidth=0.5).fit(x, sample_weight=w)
    assert model.local_factors_ is None
    np.testing.assert_allclose(backend.asnumpy(model.score_samples(y)), reference.log_kde(X, Y, 0.5, W), rtol=1e-10)


def test_select_by_name_and_as_a_function_bring_them() -> None:
    found = bandwidth.select(X, ["kde", "abramson"], weights=W)
    assert found.method == "abramson"
    want = cukde.kde(X, Y, found, weights=W, log=True)
    for width in ("select", bandwidth.select, lambda X, weights: found):
        model = KernelDensity(bandwidth=width).fit(X, sample_weight=W)
        np.testing.assert_allclose(model.score_samples(Y), want, rtol=1e-12)
    only = KernelDensity(bandwidth=bandwidth.select(X, ["kde"], weights=W)).fit(X, sample_weight=W)
    assert only.local_factors_ is None


def test_samples_are_of_the_density(backend: Backend) -> None:
    """Mean and covariance within five standard errors."""
    h = np.array([[0.5, 0.2], [0.2, 0.3]])
    model = KernelDensity(bandwidth=selected(h)).fit(backend.asarray(X), sample_weight=backend.asarray(W))
    drawn, factors = map(backend.asnumpy, (model.sample(20_000, random_state=1), model.local_factors_))
    w = W / W.sum()
    mean = w @ X
    covariance = (X - mean).T * w @ (X - mean) + (w @ factors**2) * h
    assert (abs(drawn.mean(axis=0) - mean) < 5 * np.sqrt(np.diag(covariance) / 20_000)).all()
    squares = (drawn - mean)[:, :, None] * (drawn - mean)[:, None]
    assert (abs(squares.mean(axis=0) - covariance) < 5 * squares.std(axis=0) / np.sqrt(20_000)).all()


def test_a_row_drawn_is_moved_by_its_own_factor() -> None:
    """Of rows so far apart that each sample tells its row: the steps over those without factors are the factors."""
    far = 1e6 * np.arange(1.0, 6.0)[:, None]
    model = KernelDensity(bandwidth=selected(1.0)).fit(far)
    model.local_factors_ = np.array([0.5, 1.0, 2.0, 3.0, 0.1])
    plain = KernelDensity(bandwidth=1.0).fit(far)
    drawn, other = (e.sample(200, random_state=3) for e in (model, plain))
    rows = np.rint(other[:, 0] / 1e6).astype(int) - 1
    np.testing.assert_allclose((drawn - far[rows]) / (other - far[rows]), model.local_factors_[rows, None], rtol=1e-6)


def test_a_file_with_wrong_factors_is_refused(tmp_path: Path) -> None:
    KernelDensity(bandwidth=0.5).fit(X).save(tmp_path / "model.npz")
    values = file.read(tmp_path / "model.npz")
    for wrong in (np.ones(3), np.zeros(90), np.full(90, np.nan)):
        values["fitted"]["local_factors_"] = wrong
        file.write(tmp_path / "wrong.npz", values)
        with pytest.raises(ValueError, match=r"undamaged file .*local_factors must"):
            KernelDensity.load(tmp_path / "wrong.npz")


def test_refusals_say_what_to_do() -> None:
    with pytest.raises(ValueError, match=r"^bandwidth\b"):
        KernelDensity(bandwidth=selected(0.5)).fit(da.from_array(X))
    for width in (selected(0.5), lambda X: selected(0.5)):
        with pytest.raises(ValueError, match=r"^bandwidth\b"):
            KernelDensity(bandwidth=width, kernel="tophat").fit(X)
    with pytest.raises(ValueError, match=r"^bandwidth\b.*'sd'"):
        KernelDensity(bandwidth=selected(0.5), method="sd").fit(X)
    model = KernelDensity(bandwidth=selected(0.5)).fit(X).set_params(kernel="tophat")
    for call in (lambda: model.score_samples(Y), lambda: model.score(Y), lambda: model.sample(3)):
        with pytest.raises(ValueError, match=r"with the local factors of this fit; got 'tophat'.*fit again"):
            call()
