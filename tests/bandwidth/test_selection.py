"""Choice of a method and a bandwidth by folds."""

from __future__ import annotations

import importlib
import math
import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st
from matplotlib.figure import Figure

import cukde
from cukde import BandwidthRangeWarning, KernelDensity, bandwidth, perf
from cukde.bandwidth import selection
from tests import reference
from tests.private import called
from tests.tolerances import CROSS_VALIDATION

RATES = {"kde": 1 / 6, "sd": 1 / 10, "positive": 1 / 10, "abramson": 1 / 6}
"""Powers of the number of rows by which the best bandwidth falls, in two dimensions."""


MASS_POINTS = 32


@pytest.fixture
def few_points_of_the_mass(monkeypatch: pytest.MonkeyPatch) -> None:
    """As few as an emulated kernel can afford."""
    monkeypatch.setattr("cukde.density.positive.api.SAMPLES", MASS_POINTS)


def _sample(n: int, dtype: str = "float64") -> np.ndarray:
    return (np.random.default_rng(1).standard_t(4, size=(n, 2)) * [1, 20] + [0, 300]).astype(dtype)


def _log_density(method: str, X: np.ndarray, Y: np.ndarray, h: np.ndarray, weights: np.ndarray | None) -> np.ndarray:
    if method == "sd":
        return reference.sd_kde(X, Y, h, weights=weights, log=True)
    if method == "abramson":
        return reference.log_local_kde(X, Y, h, reference.abramson(X, h, 0.5, weights), weights)[0]
    if method == "positive":  # its mass has tests of its own
        return reference.positive(X, Y, h, weights).log - np.log(
            cukde.positive_mass(X, h, weights=weights, samples=MASS_POINTS).value
        )
    return reference.log_kde(X, Y, h, weights)


def _score(method: str, X: np.ndarray, h: np.ndarray, weights: np.ndarray | None, order: np.ndarray) -> float:
    """Mean log density of rows left out, by the formulas."""
    logs, counts = [], []
    for fold in range(5):
        scored = order[fold::5]
        fitted = order[np.arange(len(order)) % 5 != fold]
        of_fitted = None if weights is None else weights[fitted]
        logs.append(_log_density(method, X[fitted], X[scored], h, of_fitted))
        counts.append(np.ones(len(scored)) if weights is None else weights[scored])
    return float(np.average(np.concatenate(logs), weights=np.concatenate(counts)))


@pytest.mark.usefixtures("few_points_of_the_mass")
@pytest.mark.parametrize("weighted", [False, True], ids=["equal", "weighted"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("method", selection.CANDIDATES)
def test_score_is_that_of_a_loop(backend: Any, method: str, dtype: str, weighted: bool) -> None:
    X = _sample(47, dtype)
    weights = np.random.default_rng(2).uniform(0.5, 2, size=47) if weighted else None
    found = bandwidth.select(backend.asarray(X), [method], weights=backend.asarray(weights))
    order = np.random.default_rng(0).permutation(47)
    h = backend.asnumpy(found.bandwidth)
    tried = h / (37 / 47) ** RATES[method]  # 37 rows are fitted in the first fold
    tolerance = CROSS_VALIDATION["kde" if method == "kde" else "sd", dtype].value
    assert found.score == pytest.approx(_score(method, X.astype("f8"), tried, weights, order), abs=tolerance)
    assert (found.method, found.methods) == (method, (method,))
    np.testing.assert_array_equal(h[None], backend.asnumpy(found.bandwidths))
    assert backend.asnumpy(found.scores) == found.score


def test_bandwidth_is_the_best_of_those_tried() -> None:
    X, order = _sample(60), np.random.default_rng(0).permutation(60)
    rule = bandwidth.silverman(X[order[np.arange(60) % 5 != 0]])
    h = [rule * 2 ** (step / 3) for step in range(-9, 7)]
    best = int(np.argmax([_score("kde", X, each, None, order) for each in h]))
    assert 0 < best < len(h) - 1
    found = bandwidth.select(X, ["kde"])
    np.testing.assert_allclose(found.bandwidth, h[best] * 0.8 ** RATES["kde"], rtol=1e-12)


@pytest.mark.usefixtures("few_points_of_the_mass")
def test_the_density_is_that_of_the_call(backend: Any) -> None:
    X = backend.asarray(_sample(80))
    for method in selection.CANDIDATES:
        found = bandwidth.select(X, [method])
        expected = eval(found.call, {"cukde": cukde, "X": X, "Y": X[:3], "h": found.bandwidth})
        np.testing.assert_allclose(backend.asnumpy(found.density(X, X[:3])), backend.asnumpy(expected), rtol=1e-12)
        logs = backend.asnumpy(found.density(X, X[:3], log=True))
        np.testing.assert_allclose(logs, np.log(backend.asnumpy(expected)), rtol=1e-10)


def test_data_of_two_scales_take_factors() -> None:
    X = np.random.default_rng(0).normal(size=(200, 2))
    X[:130] *= 0.05
    found = bandwidth.select(X)
    assert found.method == "abramson"
    assert found.methods == ("kde", "sd", "positive", "abramson")
    assert found.score == max(found.scores)
    assert f"method='{found.method}'" in repr(found)


def test_more_rows_than_are_compared_narrow_the_bandwidth() -> None:
    X = _sample(400)
    sampled = bandwidth.select(X, ["sd"], most_rows=100)
    best = sampled.bandwidth / (80 / 400) ** RATES["sd"]
    order = np.random.default_rng(0).permutation(400)[:100]
    assert sampled.score == pytest.approx(_score("sd", X, best, None, order), abs=1e-10)
    other = bandwidth.select(X, ["sd"], most_rows=100, random_state=1)
    assert other.score != sampled.score
    again = bandwidth.select(X, ["sd"], most_rows=100, random_state=0)
    assert again.score == sampled.score


def test_rows_without_weight_count_for_nothing() -> None:
    X, weights = _sample(60), np.ones(60)
    weights[::3] = 0
    found = bandwidth.select(X, ["kde"], weights=weights)
    other = X.copy()
    other[::3] = 1e3
    assert bandwidth.select(other, ["kde"], weights=weights).score == found.score


def test_domains_are_those_of_the_densities() -> None:
    X = np.random.default_rng(0).exponential(size=(200, 1))
    bounded, free = bandwidth.select(X, ["kde"], bounds=[(0, None)]), bandwidth.select(X, ["kde"])
    assert bounded.score > free.score
    inside = bounded.density(X, np.array([[-1.0], [0.0]]), bounds=[(0, None)])
    assert inside[0] == 0
    assert inside[1] > 0.5


def test_frames_and_missing_values() -> None:
    X = _sample(60)
    frame = pd.DataFrame(X, columns=["a", "b"])
    assert bandwidth.select(frame, ["kde"]).score == bandwidth.select(X, ["kde"]).score
    frame.loc[3, "a"] = np.nan
    kept = bandwidth.select(np.delete(X, 3, axis=0), ["kde"])
    assert bandwidth.select(frame, ["kde"], nan_policy="omit").score == kept.score


def test_shared_values_are_warned_of() -> None:
    X = np.repeat(np.random.default_rng(0).normal(size=(10, 1)), 30, axis=0)
    with pytest.warns(BandwidthRangeWarning, match=r"smallest of the grid.*rows share values.*or spread") as caught:
        bandwidth.select(X, ["kde"])
    assert caught[0].filename == __file__
    with warnings.catch_warnings():  # what it says to do
        warnings.simplefilter("error")
        values, counts = np.unique(X, axis=0, return_counts=True)
        assert bandwidth.select(values, ["kde"], weights=counts).bandwidth > 0.05
        spread = X + np.random.default_rng(1).uniform(-0.05, 0.05, size=X.shape)
        assert bandwidth.select(spread, ["kde"]).bandwidth > 0.005
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        bandwidth.select(_sample(60))


@pytest.mark.parametrize("name", ["select", "cross_validate"])
@pytest.mark.parametrize(
    "call",
    [
        lambda X, h: cukde.kde(X, X[:3], h),
        lambda X, h: cukde.kde(pd.DataFrame(X), X[:3], h),
        lambda X, h: cukde.modes(X, h),
        lambda X, h: cukde.hdr_threshold(X, h),
        lambda X, h: KernelDensity(bandwidth=h).fit(X),
        lambda X, h: KernelDensity(bandwidth=getattr(bandwidth, h)).fit(X),
        lambda X, h: importlib.import_module("cukde.plot").density(X, h, ax=Figure().subplots()),
    ],
)
def test_warnings_are_of_the_line_that_names_the_rule(call: Any, name: str) -> None:
    X = np.repeat(np.random.default_rng(0).normal(size=(10, 1)), 30, axis=0)
    with pytest.warns(BandwidthRangeWarning, match="smallest of the grid") as caught:
        call(X, name)
    assert {warning.filename for warning in caught} == {__file__}


@settings(max_examples=10, deadline=None, derandomize=True)
@given(st.integers(0, 99), st.integers(2, 5), st.integers(1, 2), st.floats(2, 9), st.booleans())
def test_clusters_may_be_any_distance_apart(seed: int, count: int, d: int, log_distance: float, weighted: bool) -> None:
    """The score of clusters apart does not depend on how far they are, nor does the bandwidth, without a warning."""
    rng = np.random.default_rng(seed)
    X, which = rng.normal(size=(100, d)), rng.permutation(100) % count
    weights = rng.uniform(0.5, 2, size=100) if weighted else None
    near, far = (X + distance * which[:, None] for distance in (50.0, 2.0 ** round(log_distance * math.log2(10))))
    with warnings.catch_warnings():
        warnings.simplefilter("error", BandwidthRangeWarning)
        for choose in (lambda Z: bandwidth.select(Z, ["kde"], weights=weights), bandwidth.cross_validate):
            one, other = choose(near), choose(far)
            assert other.score == pytest.approx(one.score, abs=0.05)
            np.testing.assert_allclose(other.bandwidth, one.bandwidth, rtol=0.3)


@pytest.mark.parametrize("seed", range(3))
def test_a_far_row_takes_as_wide_a_bandwidth_as_it_needs(seed: int) -> None:
    """Where the first fold lacks it, the reference rule of the others knows nothing of it."""
    X, order = np.random.default_rng(seed).normal(size=(60, 1)), np.random.default_rng(0).permutation(60)
    X[order[seed]] = 1e6  # row ``seed`` of the order is left out by fold ``seed``
    best = max(_score("kde", X, np.array([h]), None, order) for h in np.geomspace(1e4, 1e6, 12))
    assert bandwidth.select(X, ["kde"]).score > best - 0.1


@pytest.mark.parametrize(
    ("error", "change", "message"),
    [
        (
            ValueError,
            {"methods": ["laplace"]},
            r"^methods\b",
        ),
        (TypeError, {"methods": "kde"}, r"methods must be a sequence of names; got 'kde': write \['kde'\]"),
        (ValueError, {"methods": []}, "methods must be at least one of"),
        (ValueError, {"methods": ["kde", "kde"]}, "methods must be different"),
        (ValueError, {"most_rows": 9}, "most_rows must be at least 10; got 9"),
        (TypeError, {"most_rows": 2.5}, "most_rows must be an integer"),
        (ValueError, {"X": np.arange(9.0)}, "X must have at least 10 rows"),
        (ValueError, {"weights": [1.0] * 8 + [0.0] * 32}, "at least 10 rows of positive weight.*got 8"),
        (ValueError, {"X": np.ones(40)}, "constant"),
        (TypeError, {"random_state": "x"}, "random_state"),
    ],
)
def test_what_is_refused(error: type[Exception], change: dict[str, Any], message: str) -> None:
    given = {"X": np.random.default_rng(0).normal(size=40)} | change
    with pytest.raises(error, match=message):
        bandwidth.select(**given)


def test_cost_counts_folds_methods_and_bandwidths() -> None:
    X = np.zeros((1000, 3), np.float32)
    operation, sizes = called(bandwidth.select, (X, ["kde", "sd"]), {"most_rows": 500})
    assert operation.name == "bandwidth.select"
    assert sizes == {
        "n": 1000,
        "d": 3,
        "dtype": "float32",
        "weighted": False,
        "methods": ("kde", "sd"),
        "most_rows": 500,
    }
    cost = perf.cost("bandwidth.select", "H200", **sizes, bandwidths=7)
    assert cost.pairs == 7 * 5 * (2 * 400 * 100 + 400 * 400)
    alone = perf.cost("bandwidth.select", "H200", n=1000, d=3, methods=["kde"], most_rows=500, bandwidths=7)
    assert alone.pairs == 7 * 5 * 400 * 100
