"""Names of rules for the bandwidth in the arguments of functions."""

from __future__ import annotations

import copy
import functools
import inspect
import pickle
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st
from scipy import optimize

import cukde
from cukde import bandwidth
from cukde.density import rules_by_name
from tests import reference
from tests.private import to_host

RNG = np.random.default_rng(3)
X = RNG.normal(size=(40, 2)) @ np.array([[1.0, 0.5], [0.0, 5.0]])
Y = RNG.normal(size=(7, 2))
W = RNG.exponential(size=40)
Z = RNG.normal(size=(30, 2))

FUNCTIONS: dict[str, Callable[..., Any]] = {
    "kde": lambda X, Y, h, w: cukde.kde(X, Y, h, weights=w),
    "score": lambda X, Y, h, w: cukde.score(X, Y, h, weights=w),
    "density_and_score": lambda X, Y, h, w: cukde.density_and_score(X, Y, h, weights=w)[1],
    "debias": lambda X, Y, h, w: cukde.debias(X, h, weights=w),
    "score_bandwidth of debias": lambda X, Y, h, w: cukde.debias(X, 1.0, score_bandwidth=h, weights=w),
    "sd_kde": lambda X, Y, h, w: cukde.sd_kde(X, Y, h, weights=w),
    "score_bandwidth of sd_kde": lambda X, Y, h, w: cukde.sd_kde(X, Y, 1.0, score_bandwidth=h, weights=w),
    "laplace_kde": lambda X, Y, h, w: cukde.laplace_kde(X, Y, h, weights=w),
    "marginal": lambda X, Y, h, w: cukde.marginal(X, 1, Y[:, 0], h, weights=w),
    "conditional": lambda X, Y, h, w: cukde.conditional(X, {0: 0.5}, Y[:, 0], h, weights=w),
    "conditional_cdf": lambda X, Y, h, w: cukde.conditional_cdf(X, {0: Y[:, 1]}, Y[:, 0], h, weights=w),
    "conditional_quantile": lambda X, Y, h, w: cukde.conditional_quantile(X, {0: 0.5}, [0.2, 0.7], h, weights=w),
    "conditional_sample": lambda X, Y, h, w: cukde.conditional_sample(
        X, {0: 0.5}, h, size=5, random_state=0, weights=w
    ),
    "regions": lambda X, Y, h, w: X[0] * 0 + cukde.regions(X, h, 0.5, accuracy=0.1, weights=w).area,
    "density_ratio": lambda X, Y, h, w: cukde.density_ratio(X, Y, X[:5], h, weights=w),
    "density_interval": lambda X, Y, h, w: cukde.density_interval(X, Y, h, weights=w).high,
    "hdr_threshold": lambda X, Y, h, w: cukde.hdr_threshold(X, h, [0.5, 0.9], weights=w),
    "evaluate_grid": lambda X, Y, h, w: cukde.evaluate_grid(X, ([0.0, 1.0], [0.0, 2.0, 4.0]), h, weights=w),
    "modes": lambda X, Y, h, w: cukde.modes(X, h, weights=w).points,
    "abramson": lambda X, Y, h, w: bandwidth.abramson(X, h, weights=w),
}


@pytest.mark.parametrize("name", ["scott", "silverman_covariance"])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_name_is_what_the_rule_makes_of_data_and_weights(backend: Any, function: str, name: str) -> None:
    x, y, w = map(backend.asarray, (X, Y, W))
    rule, _, form = name.partition("_")
    options = {"covariance": True} if form else {}
    call = FUNCTIONS[function]
    for weights in (None, w):
        h = getattr(bandwidth, rule)(x, weights=weights, **options)
        got, want = (backend.asnumpy(call(x, y, one, weights)) for one in (name, h))
        np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-14)


def test_every_name_in_kde(backend: Any) -> None:
    x, y = backend.asarray(X[:, 1].copy()), backend.asarray(Y[:, 0].copy())
    rules = {name: getattr(bandwidth, name.removesuffix("_deviations"), None) for name in rules_by_name.names()}
    for name, rule in rules.items():
        if name == "cross_validate":
            h = bandwidth.cross_validate(x).bandwidth
        elif name == "select":
            h = bandwidth.select(x, ["kde", "abramson"])
        elif rule is None:
            h = getattr(bandwidth, name.removesuffix("_covariance"))(x, covariance=True)
        else:
            h = rule(x)
        np.testing.assert_array_equal(*(backend.asnumpy(cukde.kde(x, y, one)) for one in (name, h)))
    assert {name for name in bandwidth.__all__ if name not in ("abramson", "effective_size", "select")} <= rules.keys()
    assert (
        backend.asnumpy(cukde.cdf(x, y, "isj")).tolist() == backend.asnumpy(cukde.cdf(x, y, rules["isj"](x))).tolist()
    )
    values = backend.asarray(W)
    np.testing.assert_array_equal(
        *(backend.asnumpy(cukde.kernel_sum(x, values, y, h)) for h in ("sd", bandwidth.sd(x)))
    )


@pytest.mark.parametrize(("method", "function"), [("sd", cukde.sd_kde), ("laplace", cukde.laplace_kde)])
def test_cross_validation_is_for_the_density_of_the_function(method: Any, function: Any) -> None:
    objective: Any = "likelihood" if method == "sd" else "least_squares"
    h = bandwidth.cross_validate(X, method, objective=objective, weights=W).bandwidth
    np.testing.assert_array_equal(function(X, Y, "cross_validate", weights=W), function(X, Y, h, weights=W))
    stack = np.stack([X, X])
    np.testing.assert_allclose(
        function(stack, Y, "cross_validate", weights=W)[1], function(X, Y, h, weights=W), rtol=1e-9
    )


def test_the_denominator_has_its_own(backend: Any) -> None:
    x, z, y = map(backend.asarray, (X, Z, Y))
    got = cukde.density_ratio(x, z, y, "scott", denominator_bandwidth="silverman", denominator_weights=None)
    want = cukde.density_ratio(x, z, y, bandwidth.scott(x), denominator_bandwidth=bandwidth.silverman(z))
    np.testing.assert_array_equal(backend.asnumpy(got), backend.asnumpy(want))


def test_of_a_stack_each_member_has_its_own(backend: Any) -> None:
    stack, y = backend.asarray(np.stack([X, 3 * X])), backend.asarray(Y)
    for weights in (None, backend.asarray(W), backend.asarray(np.stack([W, W[::-1]]))):
        for call in (
            lambda x, w: cukde.kde(x, y, "silverman", weights=w),
            lambda x, w: cukde.sd_kde(x, y, "sd", score_bandwidth="scott_covariance", weights=w),
        ):
            got = backend.asnumpy(call(stack, weights))
            for i in range(2):
                one = weights if weights is None or weights.ndim == 1 else weights[i]
                np.testing.assert_allclose(got[i], backend.asnumpy(call(stack[i], one)), rtol=1e-11)
    assert backend.asnumpy(cukde.kde(stack[:0], y, 1.0)).shape == (0, 7)


def test_rules_have_the_domain_of_the_density(backend: Any) -> None:
    x, y = backend.asarray(X), backend.asarray(Y)
    for domain in ({"periods": [None, 3.0]}, {"bounds": [(X[:, 0].min(), None), None]}):
        for name in ("scott", "silverman", "sd", "laplace", "positive", "cross_validate"):
            found = getattr(bandwidth, name)(x, **domain)
            h = found.bandwidth if name == "cross_validate" else found
            got, want = (backend.asnumpy(cukde.kde(x, y, one, **domain)) for one in (name, h))
            np.testing.assert_array_equal(got, want)
            e = cukde.KernelDensity(bandwidth=getattr(bandwidth, name), **domain).fit(x)
            np.testing.assert_array_equal(to_host(e.bandwidth_), backend.asnumpy(h))
    for call, message in (
        (lambda: cukde.kde(x, y, "scott_covariance", periods=[None, 3.0]), "periods must be None with covariance"),
        (lambda: bandwidth.silverman(x, covariance=True, periods=[None, 3.0]), "periods must be None with covariance"),
        (lambda: cukde.sd_kde(x, y, "cross_validate", periods=[None, 3.0]), 'but for method="kde" or "positive"; got'),
    ):
        with pytest.raises(ValueError, match=message):
            call()


def test_errors_come_before_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: Any, **__: Any) -> Any:
        raise AssertionError("a rule was applied")

    for name in rules_by_name.names():
        monkeypatch.setitem(rules_by_name._RULES, name, (never, lambda of: {}))
    for call, message in (
        (lambda: cukde.kde(X, Y[:, :1], "scott"), r"^Y\b.*2"),
        (lambda: cukde.kde(X, Y, "scott", weights=W[1:]), r"^weights\b"),
        (lambda: cukde.kde(X, Y, "scott", precision="half"), r"^precision\b"),
        (lambda: cukde.kde(X, Y, "best"), "h must be a number, an array or one of 'scott', .*; got 'best'"),
        (lambda: cukde.debias(X, 1.0, score_bandwidth="best"), r"^score_bandwidth\b"),
        (lambda: cukde.kde(da.from_array(X), Y, "scott"), "h must be a number or an array here; got 'scott': a rule"),
        (lambda: cukde.sd_kde(da.from_array(X), Y, 1.0, score_bandwidth="sd"), r"^score_bandwidth\b"),
        (lambda: cukde.marginal(da.from_array(X), 1, Y[:, 0], "scott"), "h must be a number or an array here"),
        (lambda: cukde.density_ratio(da.from_array(X), Z, Y, "scott"), "h must be a number or an array here"),
        (lambda: cukde.evaluate_grid(da.from_array(X), [[0.0], [0.0]], "scott"), "h must be a number or an array here"),
    ):
        with pytest.raises(ValueError, match=message):
            call()


def test_a_warning_of_cross_validation_comes_through() -> None:
    doubles = np.repeat(X, 2, axis=0)
    with warnings.catch_warnings(record=True, action="always") as caught:
        cukde.kde(doubles, Y, "cross_validate")
    assert [one.category for one in caught] == [cukde.BandwidthRangeWarning]


METHODS = {
    "debias": "sd",
    "sd_kde": "sd",
    "laplace_kde": "laplace",
    "positive_kde": "positive",
    "positive_mass": "positive",
}
"""Of functions whose density is not that of kde."""

TAKE_FACTORS = {"kde", "score", "density_and_score", "hdr_threshold", "abramson", "modes", "marginal"}
TAKE_FACTORS |= {"conditional", "density_ratio", "evaluate_grid", "kde KernelDensity"}

MORE: dict[str, Callable[..., Any]] = {
    "positive_kde": lambda X, Y, h, w: cukde.positive_kde(X, Y, h, weights=w),
    "positive_mass": lambda X, Y, h, w: cukde.positive_mass(X, h, weights=w).value,
    "positive KernelDensity": lambda X, Y, h, w: _estimator("positive", h, X, Y, w),
    "sd KernelDensity": lambda X, Y, h, w: _estimator("sd", h, X, Y, w),
    "kde KernelDensity": lambda X, Y, h, w: _estimator("kde", h, X, Y, w),
    "sd plot": lambda X, Y, h, w: _plotted("sd", h, X, w),
    "kde plot": lambda X, Y, h, w: _plotted("kde", h, X, w),
}


@functools.cache
def _selected(*methods: Any) -> bandwidth.Selection:
    return bandwidth.select(X, methods, weights=W)


def _estimator(method: str, h: Any, X: Any, Y: Any, w: Any) -> Any:
    return cukde.KernelDensity(bandwidth=h, method=method).fit(X, sample_weight=w).score_samples(Y)


def _plotted(method: str, h: Any, X: Any, w: Any) -> np.ndarray:
    plt = pytest.importorskip("matplotlib.pyplot")
    ax = cukde.plot.contours(X, h, ax=plt.figure().gca(), method=method, weights=w, points=30)
    vertices = [path.vertices for drawn in ax.collections for path in drawn.get_paths()]
    plt.close(ax.figure)
    return np.concatenate(vertices)


@pytest.mark.parametrize("chosen", ["kde", "sd", "positive", "abramson"])
@pytest.mark.parametrize("function", [*FUNCTIONS, *MORE])
def test_a_selection_is_a_bandwidth_of_its_method(function: str, chosen: str) -> None:
    """Of the same method it is its bandwidth, with its local factors where there are any; of others it is refused."""
    call = (FUNCTIONS | MORE)[function]
    found = _selected(chosen)
    method = METHODS.get(function, function.split()[0] if " " in function and function in MORE else "kde")
    if chosen == method:
        np.testing.assert_array_equal(call(X, Y, found, W), call(X, Y, found.bandwidth, W))
        return
    if chosen == "abramson" and function == "kde plot":  # tests/plot looks at what is drawn
        assert np.isfinite(call(X, Y, found, W)).all()
        return
    if chosen == "abramson" and function in TAKE_FACTORS:
        factors = bandwidth.abramson(X, found.bandwidth, weights=W)
        options, h = {"weights": W, "local_factors": factors}, found.bandwidth

        def adaptive(y: Any, first: float) -> Any:
            return cukde.kde(X, np.insert(y, 0, first, axis=1), h, **options)

        want = {
            "kde": lambda: cukde.kde(X, Y, found.bandwidth, **options),
            "score": lambda: cukde.score(X, Y, found.bandwidth, **options),
            "density_and_score": lambda: cukde.density_and_score(X, Y, found.bandwidth, **options)[1],
            "hdr_threshold": lambda: reference_levels(cukde.kde(X, X, found.bandwidth, leave_one_out=True, **options)),
            "abramson": lambda: factors,
            "modes": lambda: highest(found.bandwidth, factors),
            "marginal": lambda: cukde.kde(X[:, 1], Y[:, 0], h[1], **options),
            "conditional": lambda: adaptive(Y[:, :1], 0.5) / cukde.kde(X[:, 0], [0.5], h[0], **options),
            "density_ratio": lambda: (
                cukde.kde(X, X[:5], h, **options) / cukde.kde(Y, X[:5], h, local_factors=bandwidth.abramson(Y, h))
            ),
            "evaluate_grid": lambda: np.stack([adaptive([[0.0], [2.0], [4.0]], a) for a in (0.0, 1.0)]),
            "kde KernelDensity": lambda: cukde.kde(X, Y, found.bandwidth, log=True, **options),
        }[function]()
        got = call(X, Y, found, W)
        np.testing.assert_allclose(got, want, **{"modes": {"rtol": 0, "atol": 1e-6}}.get(function, {"rtol": 1e-12}))
        return
    with pytest.raises(
        ValueError, match=r"must be a bandwidth of method .*got a Selection of method .*: write "
    ) as caught:
        call(X, Y, found, W)
    if method != "laplace":  # what it says to write
        advised = _selected(method)
        assert f"cukde.bandwidth.select(X, [{method!r}])" in str(caught.value)
        assert np.isfinite(call(X, Y, advised, W)).all()


def highest(h: Any, factors: np.ndarray) -> np.ndarray:
    """Maxima of the density with local factors that a search from each row finds, highest first."""
    tops: list[Any] = []
    for x in X:

        def minus_log(y: np.ndarray) -> tuple[float, np.ndarray]:
            found = reference.local(X, y[None], h, factors, W)
            return -found.log[0], -found.score[0]

        tops.append(optimize.minimize(minus_log, x, jac=True, options={"gtol": 1e-10}))
    _, first = np.unique([np.append(round(top.fun, 8), top.x.round(5)) for top in tops], axis=0, return_index=True)
    return np.array([tops[i].x for i in first])


def reference_levels(density: np.ndarray) -> np.ndarray:
    """The highest of the densities that so much of the weight has or exceeds."""
    order = np.argsort(-density)
    held = np.cumsum(W[order]) / W.sum()
    return density[order][[int((held < share).sum()) for share in (0.5, 0.9)]]


@pytest.mark.parametrize("function", sorted({*FUNCTIONS, *MORE} - {"positive_mass", "positive KernelDensity"}))
def test_select_by_name_is_among_what_the_function_computes(function: str) -> None:
    call, method = (
        (FUNCTIONS | MORE)[function],
        METHODS.get(function, function.split()[0] if function in MORE else "kde"),
    )
    if method == "laplace":
        with pytest.raises(ValueError, match=r'"select" is not for method=.laplace.*write "cross_validate"'):
            call(X, Y, "select", W)
        assert np.isfinite(call(X, Y, "cross_validate", W)).all()
        return
    takes = function in TAKE_FACTORS - {"abramson", "effective_size"} or function == "kde plot"
    methods = ["kde", "abramson"] if takes else [method]
    found = _selected(*methods)
    np.testing.assert_allclose(call(X, Y, "select", W), call(X, Y, found, W), rtol=1e-12)
    cross_validated = bandwidth.cross_validate(X, weights=W)
    np.testing.assert_array_equal(call(X, Y, cross_validated, W), call(X, Y, cross_validated.bandwidth, W))


def test_results_are_refused_where_they_do_not_fit() -> None:
    found, sd = bandwidth.select(X, ["kde"]), bandwidth.select(X, ["sd"])
    lazy = da.from_array(X)
    for call, message in (
        (
            lambda: cukde.kde(lazy, Y, found),
            r"h must be a number or an array here; got a Selection: write h=found\.band",
        ),
        (lambda: cukde.sd_kde(X, Y, sd, steps=2), 'h must be a number or "sd" for steps=2; got a Selection'),
        (lambda: cukde.debias(X, "select", own_point=False), r"^h\b"),
        (
            lambda: cukde.KernelDensity(bandwidth=sd, method="sd", steps=2).fit(X),
            r"^bandwidth\b",
        ),
        (lambda: cukde.KernelDensity(bandwidth=found, kernel="tophat").fit(X), r"^bandwidth\b.*'Selection'"),
        (
            lambda: cukde.KernelDensity(bandwidth=found).fit(lazy),
            r"^bandwidth\b",
        ),
        (
            lambda: cukde.kde(X, Y, bandwidth.select(X, ["abramson"]), local_factors=W),
            r'without local factors; got a Selection of method "kde" with local factors: write',
        ),
    ):
        with pytest.raises(ValueError, match=message):
            call()
    np.testing.assert_array_equal(cukde.kde(lazy, Y, found.bandwidth).compute(), cukde.kde(X, Y, found))


FRAMES = {"pandas": lambda frame: frame, "polars": pl.DataFrame, "arrow": pa.table}


@pytest.mark.parametrize("search", ["select", "cross_validate"])
@pytest.mark.parametrize("kind", FRAMES)
@settings(max_examples=4, deadline=None, derandomize=True)
@given(order=st.permutations("abc"))
def test_a_result_keeps_the_names_of_its_columns(search: str, kind: str, order: list[str]) -> None:
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(60, 3)) * [1, 100, 0.01], columns=list("abc"))
    options = {"methods": ["kde"]} if search == "select" else {}
    found = getattr(bandwidth, search)(FRAMES[kind](frame), **options)
    assert found.columns == ("a", "b", "c")
    want = cukde.kde(frame.to_numpy(), frame[:4].to_numpy(), found.bandwidth, log=True)
    moved = frame[order]
    data, queries = FRAMES[kind](moved), FRAMES[kind](moved[:4])
    for each in (found, pickle.loads(pickle.dumps(found)), copy.deepcopy(found)):
        np.testing.assert_allclose(np.asarray(cukde.kde(data, queries, each, log=True)), want, rtol=1e-12)
    fitted = cukde.KernelDensity(bandwidth=found).fit(data)
    np.testing.assert_allclose(fitted.score_samples(queries), want, rtol=1e-12)
    if search == "select":
        np.testing.assert_allclose(np.asarray(found.density(data, queries, log=True)), want, rtol=1e-12)
    with pytest.raises(ValueError, match=r"^h\b.*'a'"):
        cukde.kde(frame.rename(columns={"a": "other"}), frame[:4].to_numpy(), found)


@pytest.mark.parametrize("search", ["select", "cross_validate"])
def test_a_result_in_a_saved_estimator_fits_again(search: str, tmp_path: Path) -> None:
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(60, 2)) * [1, 100], columns=list("ab"))
    for X, moved in ((frame, frame[["b", "a"]]), (frame.to_numpy(), frame.to_numpy())):
        found = getattr(bandwidth, search)(X, **({"methods": ["kde"]} if search == "select" else {}))
        fitted = cukde.KernelDensity(bandwidth=found).fit(X)
        fitted.save(tmp_path / "fitted.npz")
        again = cukde.KernelDensity.load(tmp_path / "fitted.npz").fit(moved)
        np.testing.assert_allclose(again.score_samples(moved[:4]), fitted.score_samples(X[:4]), rtol=1e-12)


def test_the_reference_lists_the_names() -> None:
    said = inspect.getdoc(cukde.kde) or ""
    assert all(f'"{name}"' in said for name in rules_by_name.names() if not name.endswith("_deviations"))
