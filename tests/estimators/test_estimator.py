"""``KernelDensity`` against the functions, float64 oracles and scikit-learn, and what scikit-learn builds of it."""

from __future__ import annotations

import doctest
import functools
import importlib
import os
import pickle
import re
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import sklearn
import sklearn.neighbors
from hypothesis import given, settings, strategies as st
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import cukde
from cukde import KernelDensity, NegativeDensityWarning
from tests import processes, reference, tolerances
from tests.private import dispatch, to_host

METHODS = ("kde", "sd", "laplace")
KERNELS = ("gaussian", "tophat", "epanechnikov", "exponential", "linear", "cosine")


def _data(d: int = 3, n: int = 60, m: int = 9, dtype: str = "float64") -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Data, queries among them, weights."""
    rng = np.random.default_rng(d)
    X, Y = rng.normal(size=(n, d)), 0.5 * rng.normal(size=(m, d))
    return X.astype(dtype), Y.astype(dtype), rng.uniform(0.5, 2, n)


def _oracle(method: str, X: np.ndarray, Y: np.ndarray, h: Any, w: np.ndarray | None) -> np.ndarray:
    if method == "laplace":
        with np.errstate(invalid="ignore"):
            return np.log(reference.laplace(X, Y, h, w)[0])
    return reference.log_kde(X, Y, h, w) if method == "kde" else reference.sd_kde(X, Y, h, weights=w, log=True)


def _allowed(method: str, backend: Any, dtype: str) -> float:
    """Error of a log density; Laplace's is relative to absolute terms, at most 20 times the sum for these queries."""
    if method == "sd":
        return tolerances.SD_DENSITY[dtype].value
    return tolerances.DENSITY[backend.device, dtype].value * (20 if method == "laplace" else 1)


# Densities


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("weighted", [False, True], ids=["equal", "weighted"])
@pytest.mark.parametrize("method", METHODS)
def test_log_densities_are_those_of_the_oracles(backend: Any, method: str, weighted: bool, dtype: str) -> None:
    X, Y, w = _data(dtype=dtype)
    fitted = KernelDensity(bandwidth=0.9, method=method).fit(
        backend.asarray(X), sample_weight=backend.asarray(w) if weighted else None
    )
    got = backend.asnumpy(fitted.score_samples(backend.asarray(Y)))
    want = _oracle(method, X, Y, 0.9, w if weighted else None)
    assert (got.dtype, got.shape) == (np.dtype(dtype), (9,))
    np.testing.assert_allclose(got, want, rtol=0, atol=_allowed(method, backend, dtype) + np.finfo(dtype).eps * 8)


@pytest.mark.parametrize(("rtol", "asked"), [(None, None), (0, 0.0), (1e-4, 1e-4), (1e-14, 1e-14), (7.0, 0.1)])
@pytest.mark.parametrize("method", METHODS)
def test_tolerances_are_those_of_the_functions(
    method: str, rtol: float | None, asked: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    of_estimators = importlib.import_module("cukde.estimators.kernel_density")
    seen, prepare = [], of_estimators.prepare
    X, Y, _ = _data()
    fitted = KernelDensity(bandwidth=0.9, method=method, rtol=rtol).fit(X)
    monkeypatch.setattr(of_estimators, "prepare", lambda *args, **kw: seen.append(kw["rtol"]) or prepare(*args, **kw))
    got = fitted.score_samples(Y)
    assert seen == [asked]
    np.testing.assert_allclose(got, _oracle(method, X, Y, 0.9, None), rtol=0, atol=20 * (asked or 0) + 1e-10)


@pytest.mark.parametrize("kernel", ["gaussian", "epanechnikov"])
@pytest.mark.parametrize("rtol", [0, 1e-3, 1e-8])
@pytest.mark.parametrize("d", [2, 3, 6])
def test_tolerances_are_promises(d: int, rtol: float, kernel: str) -> None:
    """Of so many rows that pairs are left out."""
    rng = np.random.default_rng(d)
    X, Y = rng.standard_normal((20_000, d)), rng.standard_normal((300, d))
    h = 0.2 * d**0.5
    got = KernelDensity(bandwidth=h, kernel=kernel, rtol=rtol).fit(X).score_samples(Y)
    with np.errstate(divide="ignore"):  # no data near
        of_kernel = np.log(reference.kernel_density(X, Y, h, kernel)[0]) if kernel != "gaussian" else None
    want = reference.log_kde(X, Y, h) if of_kernel is None else of_kernel
    some = want > -np.inf
    np.testing.assert_array_equal(got[~some], -np.inf)
    np.testing.assert_allclose(got[some], want[some], rtol=0, atol=rtol + 1e-11)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("form", ["deviations", "covariance"])
def test_bandwidths_of_every_form(backend: Any, method: str, form: str) -> None:
    X, Y, _ = _data()
    h: Any = np.array([0.8, 1.0, 1.2])
    if form == "covariance":
        h = np.diag(h**2) + 0.1
    fitted = KernelDensity(bandwidth=h, method=method).fit(backend.asarray(X))
    got = backend.asnumpy(fitted.score_samples(backend.asarray(Y)))
    np.testing.assert_allclose(got, _oracle(method, X, Y, h, None), rtol=0, atol=_allowed(method, backend, "float64"))


@pytest.mark.parametrize("d", [1, 3])
@pytest.mark.parametrize("rule", ["scott", "silverman"])
def test_words_are_scikit_learns_unscaled_rules(rule: str, d: int) -> None:
    X, Y, _ = _data(d)
    ours, theirs = (
        of(bandwidth=rule).fit(10 * X) for of in (KernelDensity, sklearn.neighbors.KernelDensity)
    )  # the spread does not matter
    assert ours.bandwidth_ == pytest.approx(theirs.bandwidth_, rel=1e-15)
    np.testing.assert_allclose(ours.score_samples(Y), theirs.score_samples(Y), rtol=1e-7)


def _made(name: str, X: Any, w: Any, method: str) -> Any:
    """What :mod:`cukde.bandwidth` makes of the data for a name of the estimator."""
    rule, _, form = name.partition("_")
    if name == "cross_validate":
        objective: Any = "least_squares" if method == "laplace" else "likelihood"
        return cukde.bandwidth.cross_validate(X, method, objective=objective, weights=w).bandwidth
    return getattr(cukde.bandwidth, rule)(X, weights=w, **({"covariance": True} if form == "covariance" else {}))


NAMES = ("scott_deviations", "silverman_deviations", "scott_covariance", "silverman_covariance", "sd", "laplace")


@pytest.mark.parametrize(
    ("name", "method"),
    [*((name, "kde") for name in NAMES), *(("cross_validate", method) for method in METHODS), ("isj", "kde")],
)
def test_names_of_the_rules(backend: Any, name: str, method: str) -> None:
    X, Y, w = _data(1 if name == "isj" else 3)
    X *= 7  # the spread matters
    X, Y, w = map(backend.asarray, (X, Y, w))
    of_method = {"kde": cukde.kde, "sd": cukde.sd_kde, "laplace": cukde.laplace_kde}[method]
    for weights in (None, w):
        h = backend.asnumpy(_made(name, X, weights, method))
        fitted = KernelDensity(bandwidth=name, method=method).fit(X, sample_weight=weights)
        np.testing.assert_array_equal(fitted.bandwidth_, h)
        np.testing.assert_array_equal(
            backend.asnumpy(of_method(X, Y, name, weights=weights)),
            backend.asnumpy(of_method(X, Y, h, weights=weights)),
        )


def test_functions_are_bandwidths(backend: Any) -> None:
    X, _, w = _data()
    X, w = backend.asarray(X), backend.asarray(w)
    seen = []

    def rule(X: Any, weights: Any = None) -> float:
        seen.append((type(X), X.shape, weights is None))
        return 0.7

    assert KernelDensity(bandwidth=rule).fit(X).bandwidth_ == 0.7
    assert KernelDensity(bandwidth=rule, kernel="tophat").fit(X, sample_weight=w).bandwidth_ == 0.7
    assert seen == [(type(X), X.shape, True), (type(X), X.shape, False)]
    for function in (cukde.bandwidth.scott, cukde.bandwidth.cross_validate):
        found = clone(KernelDensity(bandwidth=function, method="sd")).fit(X, sample_weight=w)
        name = {"scott": "scott_deviations"}.get(function.__name__, function.__name__)
        np.testing.assert_array_equal(found.bandwidth_, backend.asnumpy(_made(name, X, w, "sd")))
    found = KernelDensity(bandwidth=functools.partial(cukde.bandwidth.cross_validate, bandwidths=[0.2, 0.6, 9])).fit(X)
    assert found.bandwidth_.tolist() == [0.6] * 3
    with pytest.raises(TypeError, match=r"function that returns numbers; .* returned 'scott'"):
        KernelDensity(bandwidth=lambda X: "scott").fit(X)


def test_rules_in_a_search() -> None:
    X, _, _ = _data(1)
    grid = {"bandwidth": ["scott", "isj", "silverman_deviations", cukde.bandwidth.scott, 0.3]}
    assert np.isfinite(GridSearchCV(KernelDensity(), grid, cv=3).fit(X).cv_results_["mean_test_score"]).all()


def test_an_offset_costs_debiased_data_no_accuracy(backend: Any) -> None:
    X, Y, _ = ((np.round(a * 256) / 256).astype(np.float32) for a in _data())  # exact with the offset
    here, there = (
        backend.asnumpy(
            KernelDensity(bandwidth=0.9, method="sd")
            .fit(backend.asarray(X + np.float32(offset)))
            .score_samples(backend.asarray(Y + np.float32(offset)))
        )
        for offset in (0, 1e4)
    )
    np.testing.assert_allclose(there, here, rtol=0, atol=tolerances.SD_DENSITY["float32"].value)


def test_far_queries_have_finite_log_densities(backend: Any) -> None:
    X, _, _ = _data()
    Y = np.full((2, 3), 1e6)
    for method in ("kde", "sd"):
        got = KernelDensity(bandwidth=0.9, method=method).fit(backend.asarray(X)).score_samples(backend.asarray(Y))
        want = _oracle(method, X, Y, 0.9, None)
        np.testing.assert_allclose(backend.asnumpy(got), want, rtol=1e-10)


@pytest.mark.parametrize("weighted", [False, True], ids=["equal", "weighted"])
@pytest.mark.parametrize("kernel", KERNELS)
def test_kernels_are_scikit_learns(backend: Any, kernel: str, weighted: bool) -> None:
    X, Y, w = _data(3)
    Y[0] = 1e3  # beyond the reach of the compact ones
    theirs = sklearn.neighbors.KernelDensity(bandwidth=1.3, kernel=kernel).fit(X, sample_weight=w if weighted else None)
    ours = KernelDensity(bandwidth=1.3, kernel=kernel).fit(
        backend.asarray(X), sample_weight=backend.asarray(w) if weighted else None
    )
    got = backend.asnumpy(ours.score_samples(backend.asarray(Y)))
    np.testing.assert_allclose(got, theirs.score_samples(Y), rtol=1e-9)
    assert np.isfinite(got[1:]).all()
    assert (got[0] == -np.inf) == (kernel not in ("gaussian", "exponential"))


@pytest.mark.parametrize("kernel", KERNELS[1:])
def test_kernels_take_bandwidths_of_every_form(backend: Any, kernel: str) -> None:
    X, Y, _ = _data(2)
    L = np.array([[1.5, 0.0], [0.7, 1.2]])
    got = KernelDensity(bandwidth=L @ L.T, kernel=kernel).fit(backend.asarray(X)).score_samples(backend.asarray(Y))
    # The same in coordinates in which the covariance is 1.
    unit = KernelDensity(bandwidth=1.0, kernel=kernel).fit(np.linalg.solve(L, X.T).T)
    want = np.asarray(unit.score_samples(np.linalg.solve(L, Y.T).T)) - np.log(1.5 * 1.2)
    np.testing.assert_allclose(backend.asnumpy(got), want, rtol=1e-9)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize(
    ("metric", "options"),
    [
        ("manhattan", None),
        ("chebyshev", None),
        ("minkowski", {"p": 3}),
        ("seuclidean", {"V": [1.0, 2.0, 3.0]}),
        ("minkowski", {"p": 2}),
    ],
    ids=["manhattan", "chebyshev", "minkowski-3", "seuclidean", "minkowski-2"],
)
def test_metrics_are_scikit_learns(metric: str, options: dict[str, Any] | None, kernel: str) -> None:
    X, Y, w = _data(3)
    Y[0] = 50
    ours, theirs = (
        of(bandwidth=2.0, kernel=kernel, metric=metric, metric_params=options).fit(X, sample_weight=w).score_samples(Y)
        for of in (KernelDensity, sklearn.neighbors.KernelDensity)
    )
    np.testing.assert_allclose(ours, theirs, rtol=1e-9)
    assert np.isfinite(ours[1:]).all()


def test_distances_are_taken_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    X, Y, _ = _data(2, n=50, m=23)
    fitted = KernelDensity(metric="haversine", bandwidth=0.1).fit(X)
    whole = fitted.score_samples(Y)
    monkeypatch.setattr("cukde.density.metric_density._BLOCK_ELEMENTS", 5 * 50)
    np.testing.assert_array_equal(fitted.score_samples(Y), whole)


def test_where_the_constant_of_the_plane_is_wrong_it_says_so() -> None:
    """Of the globe, by quadrature: 1 - h^2 / 3 for a narrow Gaussian, and 0.64 at a bandwidth of 1.2."""
    X, _, _ = _data(2, n=50, m=23)
    KernelDensity(metric="haversine", bandwidth=0.17).fit(X)
    with pytest.warns(cukde.BandwidthRangeWarning, match=r"integrate to 0\.637 over the globe; cukde\.sphere"):
        fitted = KernelDensity(metric="haversine", bandwidth=1.2).fit(X[:1])
    lat = np.arcsin(np.linspace(-1, 1, 4001)[1:-1])
    p = np.exp(fitted.score_samples(np.stack([lat, np.full_like(lat, X[0, 1])], axis=1)))
    assert p.max() == pytest.approx(1 / (2 * np.pi * 1.44), rel=1e-3)
    with pytest.warns(cukde.BandwidthRangeWarning, match="integrate to 0.886"):
        KernelDensity(metric="haversine", bandwidth=1.2, kernel="tophat").fit(X)


def test_a_metric_on_the_gpu_is_refused_with_the_way_out(device: Any) -> None:
    X, Y, _ = (device.asarray(a) for a in _data())
    estimator = KernelDensity(metric="manhattan")
    with pytest.raises(ValueError, match=r'metric must be "euclidean" on the GPU; got \'manhattan\': .*backend="cpu"'):
        estimator.fit(X)
    got = estimator.set_params(backend="cpu").fit(X).score_samples(Y)
    assert isinstance(got, np.ndarray)


# Score, gradient


@pytest.mark.parametrize("method", METHODS)
def test_score_is_the_sum_of_log_densities(backend: Any, method: str) -> None:
    X, Y, _ = (backend.asarray(a) for a in _data(dtype="float32"))
    fitted = KernelDensity(bandwidth=0.9, method=method).fit(X)
    got = fitted.score(Y)
    assert type(got) is float
    assert got == pytest.approx(backend.asnumpy(fitted.score_samples(Y)).sum(dtype=np.float64), rel=1e-14)


def test_laplace_score_of_negative_densities_is_minus_infinity_with_one_warning(backend: Any) -> None:
    X, Y, _ = _data()
    Y[:4] += 6  # a few bandwidths out, where the kernel is negative
    assert (reference.laplace(X, Y, 0.9)[0] <= 0).sum() == 4
    fitted = KernelDensity(bandwidth=0.9, method="laplace").fit(backend.asarray(X))
    assert np.isnan(backend.asnumpy(fitted.score_samples(backend.asarray(Y)))).tolist() == [True] * 4 + [False] * 5
    with pytest.warns(NegativeDensityWarning, match="negative at some rows") as caught:
        assert fitted.score(backend.asarray(Y)) == -np.inf
    assert len(caught) == 1
    assert caught[0].filename == __file__


def test_a_search_ranks_negative_densities_last_and_warns_once() -> None:
    X = _data(n=60)[0]
    script = f"""
import numpy as np, cukde
from sklearn.model_selection import GridSearchCV
X = np.array({X.tolist()})
search = GridSearchCV(cukde.KernelDensity(method="laplace"), {{"bandwidth": [0.05, 0.1, 3.0]}}, cv=3).fit(X)
found = search.cv_results_
print(search.best_params_["bandwidth"], found["mean_test_score"][:2], found["rank_test_score"])
"""
    out, err = processes.finished(processes.start("-c", script))
    assert out == "3.0 [-inf -inf] [2 2 1]\n"
    assert err.count("NegativeDensityWarning") == 1
    assert "Traceback" not in err


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("method", ["kde", "sd"])
def test_gradient_is_the_score_of_the_oracle(backend: Any, method: str, dtype: str) -> None:
    X, Y, w = _data(dtype=dtype)
    fitted = KernelDensity(bandwidth=0.9, method=method).fit(backend.asarray(X), sample_weight=backend.asarray(w))
    got = backend.asnumpy(fitted.grad_log_density(backend.asarray(Y)))
    points = reference.debias(X, 0.9, weights=w) if method == "sd" else X
    assert (got.dtype, got.shape) == (np.dtype(dtype), (9, 3))
    # times r/h, the reach of a sum, below 4 here
    atol = 4 / 0.9 * _allowed(method, backend, dtype)
    np.testing.assert_allclose(got, reference.score(points, Y, 0.9, w), rtol=0, atol=atol)


@pytest.mark.parametrize("options", [{"kernel": "linear"}, {"metric": "manhattan"}, {"method": "laplace"}])
def test_what_has_no_gradient_says_so(options: dict[str, Any]) -> None:
    X, Y, _ = _data()
    with pytest.raises(NotImplementedError, match=r"^grad_log_density\b"):
        KernelDensity(**options).fit(X).grad_log_density(Y)


# Dtypes, copies, devices


@pytest.mark.parametrize(
    ("data", "queries", "result"),
    [
        ("float16", "float16", "float32"),
        ("float32", "float32", "float32"),
        ("float32", "float64", "float64"),
        ("float64", "float32", "float64"),
        ("int32", "float32", "float64"),
        ("float32", "int64", "float64"),
        ("bool", "bool", "float64"),
    ],
)
@pytest.mark.parametrize("options", [{}, {"method": "sd"}, {"kernel": "linear"}, {"metric": "manhattan"}])
def test_dtypes(options: dict[str, Any], data: str, queries: str, result: str) -> None:
    X, Y, _ = _data()
    X, Y = (2 * X).astype(data), Y.astype(queries)
    fitted = KernelDensity(bandwidth=3.0, **options).fit(X)
    got = fitted.score_samples(Y)
    assert got.dtype == result
    want = KernelDensity(bandwidth=3.0, **options).fit(X.astype(float)).score_samples(Y.astype(float))
    np.testing.assert_allclose(got, want, rtol=3e-5 if result == "float32" else 1e-6)
    if options.get("kernel") is None:
        assert fitted.sample(2).dtype == {"float16": "float32", "float32": "float32"}.get(data, "float64")


@pytest.mark.parametrize("method", METHODS)
def test_precision_is_passed_on(method: str) -> None:
    X, Y, _ = _data(dtype="float32")
    got = KernelDensity(bandwidth=0.9, method=method, precision="float64").fit(X).score_samples(Y)
    assert got.dtype == np.float32
    np.testing.assert_allclose(got, _oracle(method, X, Y, 0.9, None), rtol=2e-7)


def test_data_may_change_after_the_fit(backend: Any) -> None:
    X, Y, w = (backend.asarray(a) for a in _data())
    fitted = KernelDensity().fit(X, sample_weight=w)
    before = backend.asnumpy(fitted.score_samples(Y)).copy()
    X += 1
    w[:10] = 0
    np.testing.assert_array_equal(backend.asnumpy(fitted.score_samples(Y)), before)


def test_backend_cpu_takes_arrays_of_any_device_and_returns_numpy(backend: Any) -> None:
    X, Y, w = _data()
    fitted = KernelDensity(backend="cpu").fit(backend.asarray(X), sample_weight=backend.asarray(w))
    got = fitted.score_samples(backend.asarray(Y))
    assert isinstance(got, np.ndarray)
    np.testing.assert_allclose(got, reference.log_kde(X, Y, 1.0, w), rtol=0, atol=1e-12)


@pytest.mark.gpu
def test_backend_gpu_copies_there_and_back() -> None:
    import cupy

    X, Y, w = _data()
    fitted = KernelDensity(backend="gpu").fit(X, sample_weight=w)
    assert isinstance(fitted.points_, cupy.ndarray)
    got = fitted.score_samples(Y)
    assert isinstance(got, np.ndarray)
    np.testing.assert_allclose(got, reference.log_kde(X, Y, 1.0, w), rtol=0, atol=1e-12)
    assert isinstance(fitted.sample(2), np.ndarray)
    assert isinstance(fitted.score_samples(cupy.asarray(Y)), cupy.ndarray)


class OnGpu:
    __cuda_array_interface__: dict[str, Any] = {}  # noqa: RUF012 - the protocol's own name and form
    shape = (3, 2)


def test_queries_on_the_gpu_are_refused_by_an_estimator_on_the_cpu() -> None:
    fitted = KernelDensity().fit(np.eye(2))
    for call in (fitted.score_samples, fitted.score, fitted.grad_log_density):
        with pytest.raises(TypeError, match=r"fitted on the CPU; .* cupy.asnumpy\(X\)"):
            call(OnGpu())
    with pytest.raises(TypeError, match=r"^sample_weight\b"):
        KernelDensity().fit(np.eye(2), sample_weight=OnGpu())


def test_backend_gpu_needs_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatch, "why_no_gpu", lambda: "none is here")
    with pytest.raises(RuntimeError, match=r"^backend\b"):
        KernelDensity(backend="gpu").fit(np.eye(2))


# Frames


def _polars(X: np.ndarray, names: list[str]) -> Any:
    return pytest.importorskip("polars").DataFrame({name: X[:, k] for k, name in enumerate(names)})


@pytest.mark.parametrize("frame", [lambda X, names: pd.DataFrame(X, columns=names), _polars], ids=["pandas", "polars"])
def test_frames_have_names(backend: Any, frame: Callable[..., Any]) -> None:
    X, Y, _ = _data()
    names = ["height", "weight", "age"]
    fitted = KernelDensity().fit(frame(X, names))
    assert fitted.feature_names_in_.tolist() == names
    assert fitted.n_features_in_ == 3
    np.testing.assert_array_equal(
        fitted.score_samples(frame(Y, names)), KernelDensity().fit(X).score_samples(np.ascontiguousarray(Y))
    )
    with pytest.raises(ValueError, match="feature names"):
        fitted.score_samples(frame(Y, names[::-1]))


# Samples


@pytest.mark.parametrize("kernel", ["gaussian", "tophat"])
@pytest.mark.parametrize("weighted", [False, True], ids=["equal", "weighted"])
def test_samples_are_scikit_learns(backend: Any, kernel: str, weighted: bool) -> None:
    X, _, w = _data()
    ours = KernelDensity(bandwidth=0.3, kernel=kernel).fit(
        backend.asarray(X), sample_weight=backend.asarray(w) if weighted else None
    )
    theirs = sklearn.neighbors.KernelDensity(bandwidth=0.3, kernel=kernel).fit(X, sample_weight=w if weighted else None)
    got = backend.asnumpy(ours.sample(50, random_state=3))
    np.testing.assert_allclose(got, theirs.sample(50, random_state=3), rtol=1e-12)
    np.testing.assert_array_equal(backend.asnumpy(ours.sample(50, random_state=3)), got)
    assert not np.array_equal(backend.asnumpy(ours.sample(50, random_state=4)), got)
    assert backend.asnumpy(ours.sample()).shape == (1, 3)
    one, same, other = (backend.asnumpy(ours.sample(50, np.random.default_rng(seed))) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one, same)
    assert not np.array_equal(one, other)


def _within(got: np.ndarray, want: np.ndarray, error: np.ndarray) -> None:
    """Five standard errors, with a fixed seed."""
    assert (np.abs(got - want) < 5 * error).all(), (got, want, error)


@pytest.mark.parametrize("method", ["kde", "sd"])
@pytest.mark.parametrize("form", ["scalar", "deviations", "covariance"])
def test_moments_of_samples(method: str, form: str) -> None:
    X, _, w = _data(2)
    w[:20] = 0
    H = {"scalar": np.eye(2), "deviations": np.diag([0.25, 4.0]), "covariance": np.array([[1.0, 0.8], [0.8, 1.0]])}[
        form
    ]
    h = {"scalar": 1.0, "deviations": np.sqrt(np.diag(H)), "covariance": H}[form]
    fitted = KernelDensity(bandwidth=h, method=method).fit(X, sample_weight=w)
    points = reference.debias(X, h, weights=w) if method == "sd" else X
    n = 40_000
    Z = fitted.sample(n, random_state=0)
    mean, covariance = np.average(points, axis=0, weights=w), np.cov(points.T, aweights=w, ddof=0) + H
    _within(Z.mean(axis=0), mean, np.sqrt(np.diag(covariance) / n))
    deviations = np.sqrt(np.diag(covariance))
    _within(np.cov(Z.T), covariance, 2 * np.outer(deviations, deviations) / np.sqrt(n))


def test_radii_of_a_tophat_are_those_of_a_uniform_ball() -> None:
    X, n, d = np.zeros((2, 3)), 20_000, 3
    Z = KernelDensity(kernel="tophat", bandwidth=2.0).fit(X).sample(n, random_state=1)
    shares = (np.linalg.norm(Z, axis=1) / 2) ** d  # uniform between 0 and 1
    assert shares.max() < 1
    _within(np.quantile(shares, [0.1, 0.5, 0.9]), np.array([0.1, 0.5, 0.9]), np.full(3, 0.5 / np.sqrt(n)))
    _within(Z.mean(axis=0), np.zeros(3), np.full(3, 2 / np.sqrt(n)))


def test_rows_without_weight_are_never_drawn() -> None:
    X = np.arange(5.0)[:, None]
    Z = KernelDensity(bandwidth=1e-9).fit(X, sample_weight=[0, 1, 0, 3, 0]).sample(500, random_state=0)
    rows, counts = np.unique(np.round(Z), return_counts=True)
    assert rows.tolist() == [1, 3]
    assert 2 < counts[1] / counts[0] < 4.5


def test_what_cannot_be_sampled_says_so() -> None:
    with pytest.raises(NotImplementedError, match=r"^sample\b"):
        KernelDensity(method="laplace").fit(np.eye(3)).sample()
    with pytest.raises(ValueError, match=r"^kernel\b"):
        KernelDensity().fit(np.eye(3)).set_params(kernel="box").sample()


# What stays between calls


@pytest.mark.parametrize("weighted", [False, True], ids=["equal", "weighted"])
@pytest.mark.parametrize(
    ("n", "m", "d", "h"),
    [(200, 20, 2, 0.9), (900, 90, 3, 0.3), (5000, 900, 1, 0.05), (5000, 900, 2, 0.4), (5000, 900, 3, [0.05, 0.1, 0.1])],
    ids=["few", "products", "line", "plane", "left-out"],
)
def test_later_calls_give_what_the_first_would(n: int, m: int, d: int, h: Any, weighted: bool) -> None:
    """Whatever passes keep of the data."""
    rng = np.random.default_rng([n, d])
    X, w = rng.standard_normal((n, d)), rng.random(n) * (rng.random(n) > 0.1) if weighted else None
    fitted = KernelDensity(bandwidth=h).fit(X, sample_weight=w)
    for Y in (rng.standard_normal((m, d)), 3 * rng.standard_normal((m, d)), rng.standard_normal((1, d))):
        want = cukde.kde(X, Y, h, weights=w, log=True)
        np.testing.assert_allclose(fitted.score_samples(Y), want, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(fitted.grad_log_density(Y), cukde.score(X, Y, h, weights=w), rtol=1e-9, atol=1e-9)


def test_later_calls_notice_what_has_changed(backend: Any) -> None:
    X, Y, w = (backend.asarray(a) for a in _data(dtype="float32"))
    fitted = KernelDensity(bandwidth=[0.9] * X.shape[1]).fit(X)

    def check(X: Any, h: Any, weights: Any = None, Y: Any = Y, **options: Any) -> None:
        got, want = fitted.score_samples(Y), cukde.kde(X, Y, h, weights=weights, log=True, **options)
        assert got.dtype == want.dtype
        np.testing.assert_array_equal(backend.asnumpy(got), backend.asnumpy(want))

    check(X, fitted.bandwidth_)
    check(X, fitted.bandwidth_, Y=Y.astype("float64"))
    fitted.bandwidth_ *= 2
    check(X, fitted.bandwidth_)
    fitted.set_params(precision="float64", rtol=1e-3)
    check(X, fitted.bandwidth_, precision="float64", rtol=1e-3)
    fitted.points_ = X[:5]
    check(X[:5], fitted.bandwidth_, precision="float64", rtol=1e-3)
    fitted.set_params(bandwidth=0.5, precision=None, rtol=0).fit(X, sample_weight=w)
    check(X, 0.5, fitted.sample_weight_)
    fitted.sample_weight_ = None
    check(X, 0.5)


def test_calls_leave_a_pickle_as_it_was() -> None:
    X, Y, _ = _data()
    fitted = KernelDensity(bandwidth=0.9).fit(X)
    before = pickle.dumps(fitted)
    fitted.score_samples(Y)
    assert pickle.dumps(fitted) == before


@pytest.mark.parametrize("wrong", [np.nan, np.inf, 1e200])
def test_later_queries_are_checked_as_the_first_are(backend: Any, wrong: float) -> None:
    X, Y, _ = _data()
    bad = Y.copy()
    bad[1, 0] = wrong
    fitted = KernelDensity(bandwidth=0.9).fit(backend.asarray(X))
    message = "must lie within" if wrong == 1e200 else "NaN|infinity"
    for _ in range(2):
        with pytest.raises(ValueError, match=message):
            fitted.score_samples(backend.asarray(bad))
        with pytest.raises(ValueError, match=r"features|columns"):
            fitted.score_samples(backend.asarray(Y[:, :-1]))
        assert np.isfinite(backend.asnumpy(fitted.score_samples(backend.asarray(Y)))).all()


# Kept: pickles and files


def _kept_by_pickle(fitted: KernelDensity, path: Path) -> KernelDensity:
    kept: KernelDensity = pickle.loads(pickle.dumps(fitted))
    return kept


def _kept_by_file(fitted: KernelDensity, path: Path) -> KernelDensity:
    fitted.save(path)
    return KernelDensity.load(path)


KEEP = pytest.mark.parametrize("keep", [_kept_by_pickle, _kept_by_file], ids=["pickle", "file"])


@KEEP
@pytest.mark.parametrize("without_gpu", [False, True], ids=["here", "without a GPU"])
@pytest.mark.parametrize(
    "options",
    [
        {"bandwidth": 0.7},
        {"bandwidth": np.array([0.5, 1.0, 2.0]), "method": "sd"},
        {"method": "laplace", "bandwidth": 2.0, "precision": "float64"},
        {"kernel": "cosine", "bandwidth": "scott"},
    ],
    ids=["kde", "sd", "laplace", "cosine"],
)
def test_what_is_kept_is_whole(
    backend: Any,
    options: dict[str, Any],
    without_gpu: bool,
    keep: Callable[..., KernelDensity],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    X, Y, w = _data(dtype="float32")
    fitted = KernelDensity(**options).fit(backend.asarray(X), sample_weight=backend.asarray(w))
    want = backend.asnumpy(fitted.score_samples(backend.asarray(Y)))
    if without_gpu:
        monkeypatch.setattr(dispatch, "why_no_gpu", lambda: "none is here")
    kept = keep(fitted, tmp_path / "kept")
    assert repr(kept) == repr(fitted)
    here = not without_gpu and backend.name == "cupy"
    got = kept.score_samples(backend.asarray(Y) if here else Y)
    assert isinstance(got, backend.xp.ndarray if here else np.ndarray)
    np.testing.assert_allclose(to_host(got), want, rtol=3e-5 if without_gpu else 0)
    assert kept.n_features_in_ == 3
    if options.get("kernel") is None and options.get("method") != "laplace":
        np.testing.assert_allclose(to_host(kept.sample(4, random_state=0)), to_host(fitted.sample(4, random_state=0)))


@KEEP
def test_names_and_metrics_are_kept(keep: Callable[..., KernelDensity], tmp_path: Path) -> None:
    X, Y, _ = _data()
    frame = pd.DataFrame(X, columns=["größe", "b", "c"])
    options = {"metric": "seuclidean", "metric_params": {"V": np.array([1.0, 2.0, 3.0])}}
    fitted = KernelDensity(**options, kernel="exponential", leaf_size=np.int64(3)).fit(frame)
    kept = keep(fitted, tmp_path / "kept.npz")
    assert kept.feature_names_in_.dtype == fitted.feature_names_in_.dtype
    Y = pd.DataFrame(Y, columns=frame.columns)
    np.testing.assert_array_equal(kept.score_samples(Y), fitted.score_samples(Y))


@pytest.mark.parametrize(
    "wrong",
    [
        {"X": np.zeros((9, 2)), "sample_weight": -np.ones(9)},
        {"X": pd.DataFrame({"a": [0.0, 1], "b": ["x", "y"]}), "sample_weight": [0, 0]},
    ],
    ids=["weights", "categories"],
)
def test_a_fit_that_raises_leaves_the_last_one(wrong: dict[str, Any], tmp_path: Path) -> None:
    X, Y, w = _data()
    frame = pd.DataFrame(X, columns=[*"abc"])
    fitted = KernelDensity().fit(frame, sample_weight=w)
    Y = pd.DataFrame(Y, columns=frame.columns)
    want = fitted.score_samples(Y)
    with pytest.raises((ValueError, TypeError)):
        fitted.fit(**wrong)
    assert fitted.n_features_in_ == 3
    fitted.save(tmp_path / "kept")
    for each in (fitted, KernelDensity.load(tmp_path / "kept")):
        np.testing.assert_array_equal(each.score_samples(Y), want)


def test_an_interrupted_fit_leaves_the_last_one() -> None:
    def interrupted(rows: Any) -> float:
        raise KeyboardInterrupt

    X, Y, _ = _data()
    fitted = KernelDensity().fit(X)
    want = fitted.score_samples(Y)
    with pytest.raises(KeyboardInterrupt):
        fitted.set_params(bandwidth=interrupted).fit(X[:, :2])
    np.testing.assert_array_equal(fitted.score_samples(Y), want)


def test_a_file_that_is_damaged_is_refused_or_whole(tmp_path: Path) -> None:
    X, Y, w = _data(2, n=8)
    fitted = KernelDensity().fit(X, sample_weight=w)
    want = fitted.score_samples(Y)
    path, damaged = tmp_path / "whole", tmp_path / "damaged"
    fitted.save(path)
    content = path.read_bytes()
    refused = 0
    for at in range(0, len(content), 13):
        damaged.write_bytes(content[:at] + bytes([content[at] ^ 0x55]) + content[at + 1 :])
        try:
            kept = KernelDensity.load(damaged)
        except ValueError:
            refused += 1
        else:  # a date of the archive, or the like
            np.testing.assert_array_equal(kept.score_samples(Y), want)
    assert refused > 60
    for length in (0, 10, len(content) // 2, len(content) - 1):
        damaged.write_bytes(content[:length])
        with pytest.raises(ValueError, match="undamaged file"):
            KernelDensity.load(damaged)


class Executed:
    def __reduce__(self) -> Any:
        return os.mkdir, ("executed",)


def _rewritten(path: Path, name: str, array: np.ndarray) -> None:
    with np.load(path) as arrays:
        held = {key: arrays[key] for key in arrays.files}
    assert name in held
    np.savez(path.open("wb"), **held | {name: array})  # type: ignore[arg-type]


def test_files_of_anything_else_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    others = [tmp_path / f"{kind}.npz" for kind in ("pickle", "array", "arrays", "zip", "object")]
    others[0].write_bytes(pickle.dumps(Executed()))
    np.save(others[1].open("wb"), np.eye(2))
    np.savez(others[2], points=np.eye(2))
    zipfile.ZipFile(others[3], "w").writestr("about.npy", "text")
    np.savez(others[4], about=np.array([Executed()], dtype=object))
    for path in others:
        with pytest.raises(ValueError, match=r"must be an undamaged file written by KernelDensity\.save"):
            KernelDensity.load(path)
    assert not (tmp_path / "executed").exists()
    with pytest.raises(FileNotFoundError):
        KernelDensity.load(tmp_path / "nothing")


@pytest.mark.parametrize(
    ("name", "array"),
    [
        ("points_", np.full((60, 3), np.nan)),
        ("points_", np.eye(2)),
        ("points_", np.zeros(3)),
        ("sample_weight_", np.ones(3)),
        ("sample_weight_", np.full(60, -1.0)),
        ("bandwidth_", np.array([1.0, -1.0, 1.0])),
        ("bandwidth_", np.ones(2)),
    ],
    ids=["NaN", "columns", "vector", "few weights", "negative weights", "negative bandwidth", "bandwidths"],
)
def test_a_file_whose_contents_do_not_fit_is_refused(name: str, array: np.ndarray, tmp_path: Path) -> None:
    X, _, w = _data()
    path = tmp_path / "kept.npz"
    KernelDensity(bandwidth=np.ones(3)).fit(X, sample_weight=w).save(path)
    _rewritten(path, f"value.fitted.{name}", array)
    with pytest.raises(ValueError, match="undamaged file"):
        KernelDensity.load(path)


def test_what_a_file_cannot_hold_is_refused_before_it_is_written(tmp_path: Path) -> None:
    path = tmp_path / "kept.npz"
    estimator = KernelDensity(metric="pyfunc", metric_params={"func": lambda a, b: float(np.abs(a - b).sum())})
    with pytest.raises(NotFittedError):
        estimator.save(path)
    with pytest.raises(TypeError, match="pickle the estimator"):
        estimator.fit(np.eye(3)).save(path)
    assert not path.exists()


# What scikit-learn builds


def test_clone_copies_parameters_and_no_fit() -> None:
    fitted = KernelDensity(bandwidth=0.3, kernel="linear", metric_params={}, method="kde").fit(np.eye(2))
    copied = clone(fitted)
    assert copied.get_params() == fitted.get_params()
    with pytest.raises(NotFittedError):
        copied.score_samples(np.eye(2))
    assert set(sklearn.neighbors.KernelDensity().get_params()) <= set(copied.get_params())


def test_grid_search_in_a_pipeline_finds_what_scikit_learns_does() -> None:
    X = _data(2, n=150)[0]
    best = []
    for of in (KernelDensity, sklearn.neighbors.KernelDensity):
        search = GridSearchCV(
            make_pipeline(StandardScaler(), of()), {"kerneldensity__bandwidth": [0.1, 0.4, 2.0]}, cv=3
        )
        best.append(search.fit(X))
    assert best[0].best_params_ == best[1].best_params_ == {"kerneldensity__bandwidth": 0.4}
    np.testing.assert_allclose(
        best[0].cv_results_["mean_test_score"], best[1].cv_results_["mean_test_score"], rtol=1e-10
    )


def test_weights_are_routed() -> None:
    X, Y, w = _data()
    with sklearn.config_context(enable_metadata_routing=True):
        pipeline = make_pipeline(StandardScaler(), KernelDensity().set_fit_request(sample_weight=True))
        pipeline[0].set_fit_request(sample_weight=False)
        pipeline.fit(X, sample_weight=w)
    np.testing.assert_array_equal(pipeline[1].sample_weight_, w)
    Z = StandardScaler().fit(X)
    want = reference.log_kde(Z.transform(X), Z.transform(Y), 1.0, w)
    np.testing.assert_allclose(pipeline.score_samples(Y), want, rtol=0, atol=1e-12)


# Errors


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kernel": "triangular"}, r"^kernel\b.*'gaussian'.*'triangular'"),
        ({"metric": "cosine"}, "metric must be one of .*got 'cosine'"),
        ({"metric": "haversine", "algorithm": "kd_tree"}, "invalid metric for algorithm='kd_tree'"),
        ({"metric": "seuclidean"}, "metric_params must fit metric='seuclidean'"),
        ({"metric": "haversine"}, r"^X\b.*'haversine'.*3"),
        ({"metric_params": {"q": 1}}, r"^metric_params\b"),
        ({"metric_params": [1]}, "metric_params must be a dictionary"),
        ({"method": "sd-kde"}, r"^method\b.*'kde'.*'sd'.*'laplace'"),
        ({"method": "sd", "kernel": "tophat"}, "method='sd' needs kernel=\"gaussian\"; got 'tophat'"),
        ({"method": "laplace", "kernel": "linear"}, r"^method\b.*'laplace'"),
        ({"method": "sd", "metric": "manhattan"}, "method='sd' needs metric=\"euclidean\"; got 'manhattan'"),
        ({"method": "laplace", "metric": "l1"}, r"^method\b.*'laplace'"),
        ({"bandwidth": "isj"}, r"^X\b.*3"),
        ({"bandwidth": "sd", "kernel": "linear"}, r"^bandwidth\b.*'sd'.*'linear'"),
        (
            {"bandwidth": cukde.bandwidth.scott, "metric": "l1"},
            "'scott_deviations' is a rule .* got 'gaussian' and 'l1'",
        ),
        ({"bandwidth": lambda X: -1.0}, r"^bandwidth\b"),
        ({"bandwidth": "wide"}, "or one of 'scott', 'silverman', 'scott_deviations', .*; got 'wide'"),
        ({"bandwidth": 0.0}, r"^bandwidth\b"),
        ({"bandwidth": -1}, "bandwidth must be positive"),
        ({"bandwidth": np.nan}, r"^bandwidth\b"),
        ({"bandwidth": [1.0, 2.0]}, r"^bandwidth\b.*3"),
        ({"bandwidth": -np.eye(3)}, r"^bandwidth\b"),
        ({"bandwidth": [1.0, 2.0, 3.0], "metric": "l1"}, "bandwidth must be a single number"),
        ({"algorithm": "brute"}, r"^algorithm\b"),
        ({"atol": -1}, "atol must be a number of at least 0"),
        ({"rtol": "0"}, r"^rtol\b"),
        ({"breadth_first": "yes"}, "breadth_first must be True or False"),
        ({"leaf_size": 0}, "leaf_size must be an integer"),
        ({"precision": "half"}, r"^precision\b"),
        ({"precision": "float32", "kernel": "linear"}, "precision must be None but for"),
        ({"backend": "cuda"}, r"^backend\b.*'auto'.*'cpu'.*'gpu'"),
    ],
    ids=lambda value: re.sub(r" at 0x\w+|\n", "", str(value)) if isinstance(value, dict) else "",
)
def test_bad_parameters_are_refused_by_fit(options: dict[str, Any], message: str) -> None:
    estimator = KernelDensity(**options)
    with pytest.raises(ValueError, match=message):
        estimator.fit(np.eye(3))
    assert not hasattr(estimator, "points_")


@pytest.mark.parametrize("options", [{"method": "sd"}, {"bandwidth": "scott"}, {"bandwidth": "silverman"}], ids=str)
def test_one_row_is_refused_where_it_says_nothing(backend: Any, options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"^X\b.*2.*1"):
        KernelDensity(**options).fit(backend.asarray(np.ones((1, 2))))
    one = KernelDensity().fit(backend.asarray(np.ones((1, 2))))
    np.testing.assert_allclose(backend.asnumpy(one.score_samples(one.points_)), -np.log(2 * np.pi), rtol=1e-12)


@pytest.mark.parametrize(
    ("X", "error"),
    [
        (np.ones(3), ValueError),
        (np.ones((2, 2, 2)), ValueError),
        (np.ones((0, 2)), ValueError),
        (np.ones((2, 0)), ValueError),
        (np.array([[1.0], [np.nan]]), ValueError),
        (np.array([[1.0], [np.inf]]), ValueError),
        (np.array([[-np.inf], [np.inf]]), ValueError),
        (np.ones((2, 2), complex), (ValueError, TypeError)),
    ],
    ids=["vector", "three axes", "no rows", "no columns", "NaN", "infinity", "both infinities", "complex"],
)
def test_bad_data_are_refused(backend: Any, X: np.ndarray, error: Any) -> None:
    with pytest.raises(error):
        KernelDensity().fit(backend.asarray(X))
    fitted = KernelDensity().fit(backend.asarray(np.ones((3, X.shape[-1] or 1))))
    with pytest.raises(error):
        fitted.score_samples(backend.asarray(X))


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1.0, 2.0], r"^sample_weight\b"),
        ([1.0, -2.0, 1.0], r"^sample_weight\b"),
        ([0.0, 0.0, 0.0], r"^sample_weight\b"),
        ([1.0, np.nan, 1.0], r"^sample_weight\b"),
    ],
    ids=["few", "negative", "zero", "NaN"],
)
def test_bad_weights_are_refused(backend: Any, weights: list[float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        KernelDensity().fit(backend.asarray(np.eye(3)), sample_weight=backend.asarray(np.array(weights)))


def test_nothing_is_known_before_the_fit(tmp_path: Path) -> None:
    X, estimator = np.eye(2), KernelDensity()
    calls: list[Callable[[], Any]] = [
        lambda: estimator.score_samples(X),
        lambda: estimator.score(X),
        lambda: estimator.grad_log_density(X),
        lambda: estimator.sample(),
        lambda: estimator.save(tmp_path / "kept"),
    ]
    for call in calls:
        with pytest.raises(NotFittedError, match="not fitted yet"):
            call()


def test_another_method_needs_another_fit() -> None:
    fitted = KernelDensity(method="sd").fit(np.eye(3)).set_params(method="laplace")
    with pytest.raises(ValueError, match="method was 'sd' in fit and is 'laplace' now: fit again"):
        fitted.score_samples(np.eye(3))


# The public name


def test_examples_of_the_documentation() -> None:
    runner = doctest.DocTestRunner()
    for example in doctest.DocTestFinder().find(cukde.KernelDensity, module=False):  # its module is the public one
        runner.run(example)
    assert runner.tries >= 10
    assert runner.failures == 0


@pytest.mark.parametrize("path", [1, True, b"name", None])
def test_a_path_is_no_number(path: Any) -> None:
    """The file of number 1 is standard output."""
    with pytest.raises(TypeError, match="path must be the path of a file, text or"):
        cukde.KernelDensity().fit([[0.0], [1.0]]).save(path)
    with pytest.raises(TypeError, match=r"^path\b"):
        cukde.KernelDensity.load(path)


def test_distances_whose_squares_leave_float64() -> None:
    estimator = cukde.KernelDensity(metric="manhattan").fit([[0.0], [1.0]])
    assert estimator.score_samples([[1e300]]).tolist() == [-np.inf]


UNIT_FREE = settings(max_examples=15, deadline=None, derandomize=True)


@UNIT_FREE
@given(
    st.sampled_from(["scott", "silverman"]),
    st.floats(-6, 6),
    st.integers(1, 4),
    st.integers(0, 99),
    st.sampled_from(["gaussian", "tophat"]),
)
def test_rules_without_a_unit_warn_of_data_of_another_spread(
    name: str, log_spread: float, d: int, seed: int, kernel: str
) -> None:
    """The bandwidth stays scikit-learn's; the warning names the rule that follows the data, which then has none."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(60, d))
    X[:, 0] *= 10**log_spread
    far = getattr(cukde.bandwidth, name)(X)[0] / getattr(cukde.bandwidth, name)(X / X.std(axis=0, ddof=1))[0]
    with warnings.catch_warnings(record=True, action="always") as caught:
        fitted = cukde.KernelDensity(bandwidth=name, kernel=kernel).fit(X, sample_weight=rng.uniform(0.5, 1, 60))
    assert fitted.bandwidth_ == sklearn.neighbors.KernelDensity(bandwidth=name).fit(X).bandwidth_
    if far > 9 or far < 1 / 9:
        (one,) = caught
        assert (one.category, one.filename) == (cukde.BandwidthRangeWarning, __file__)
        other = f'"{name}_deviations"' if kernel == "gaussian" else f"cukde.bandwidth.{name}(X)"
        assert f"write bandwidth={other}" in str(one.message)
    elif 1 / 7 < far < 1.9:
        assert not caught
    with warnings.catch_warnings(action="error"):
        h: Any = f"{name}_deviations" if kernel == "gaussian" else getattr(cukde.bandwidth, name)(X)
        cukde.KernelDensity(bandwidth=h, kernel=kernel).fit(X)


def test_nearly_all_mass_at_the_points_is_warned_of() -> None:
    """Deviations of 3 in each of 4 columns are no factor to speak of, but leave each row alone."""
    X = np.random.default_rng(0).normal(size=(500, 4))
    with warnings.catch_warnings(action="error"):
        cukde.KernelDensity(bandwidth="silverman").fit(X)
        cukde.KernelDensity(bandwidth="silverman").fit(3 * X[:, :1])
    with pytest.warns(cukde.BandwidthRangeWarning, match="silverman_deviations"):
        cukde.KernelDensity(bandwidth="silverman").fit(3 * X)
