"""Distribution functions, marginal and conditional densities, ratios and regions with bounds and periods.

The oracle sums every image of every point, straight from the formula of :func:`cukde.kde` with bounds and periods.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from scipy.special import ndtr

import cukde

SETTINGS = settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)


# Ends and period of a column, and where its data may lie.
LINES = {
    "free": ((None, None), None, (-1.0, 4.0)),
    "low": ((1.0, None), None, (1.0, 5.0)),
    "high": ((None, 3.0), None, (-2.0, 3.0)),
    "both": ((1.0, 3.5), None, (1.0, 3.5)),
    "period": ((None, None), 2.5, (-4.0, 9.0)),
}


def images(x: np.ndarray, line: str, h: float) -> np.ndarray:
    """All images of points that matter, (images, n)."""
    (low, high), period, _ = LINES[line]
    reach = int(12 * h) + 6
    if period is not None:
        return np.stack([np.mod(x, period) + k * period for k in range(-reach, reach + 1)])
    if low is not None and high is not None:
        turns = [2 * k * (high - low) for k in range(-reach, reach + 1)]
        return np.stack([image + turn for turn in turns for image in (x, 2 * low - x)])
    ends = [end for end in (low, high) if end is not None]
    return np.stack([x, *(2 * end - x for end in ends)])


def inside(y: np.ndarray, line: str) -> np.ndarray:
    (low, high), _, _ = LINES[line]
    return (y >= (-np.inf if low is None else low)) & (y <= (np.inf if high is None else high))


def kernels(x: np.ndarray, y: np.ndarray, line: str, h: float) -> np.ndarray:
    """The density of each point at each query, (m, n)."""
    y = np.mod(y, LINES[line][1]) if LINES[line][1] else y
    z = images(x, line, h)
    values = np.exp(-0.5 * ((y[:, None, None] - z) / h) ** 2).sum(axis=1) / (h * np.sqrt(2 * np.pi))
    return values * inside(y, line)[:, None]


def distribution(x: np.ndarray, y: np.ndarray, line: str, h: float) -> np.ndarray:
    """The mass of each point up to each query, from 0 where there is a period, (m, n)."""
    (low, high), period, _ = LINES[line]
    turns = 0.0 if period is None else np.floor(y / period)
    y = np.clip(y, low, high) if period is None else np.mod(y, period)
    begin = -np.inf if low is None and period is None else low or 0.0
    z = images(x, line, h)
    return (ndtr((y[:, None, None] - z) / h) - ndtr((begin - z) / h)).sum(axis=1) + np.reshape(turns, (-1, 1))


def arguments(lines: list[str]) -> dict[str, Any]:
    return {"bounds": [LINES[line][0] for line in lines], "periods": [LINES[line][1] for line in lines]}


@st.composite
def cases(draw, columns: int):
    """Lines, bandwidths, points, weights and queries."""
    rng = np.random.default_rng(draw(st.integers(0, 999)))
    lines = [draw(st.sampled_from(list(LINES))) for _ in range(columns)]
    h = np.array([draw(st.sampled_from([0.05, 0.2, 0.35, 0.6, 2.0])) for _ in lines])
    n, m = draw(st.sampled_from([1, 9, 300])), draw(st.sampled_from([0, 1, 12]))
    X, Y = (np.stack([rng.uniform(*LINES[line][2], rows) for line in lines], axis=1) for rows in (n, m))
    weights = rng.uniform(0.1, 2, n) if draw(st.booleans()) else None
    share = np.full(n, 1 / n) if weights is None else weights / weights.sum()
    return lines, h, X, Y, weights, share


@SETTINGS
@given(case=cases(1), float32=st.booleans(), mapping=st.booleans())
def test_cdf_is_the_mass_of_the_density_in_the_domain(case, float32, mapping):
    (line,), h, X, Y, weights, share = case
    Y = np.concatenate([Y, [[1.0], [3.0], [3.5], [-0.7], [5.2]]])
    if float32:
        X, Y = X.astype("f4").clip(*LINES[line][2]), Y.astype("f4")
    options: dict[str, Any] = arguments([line])
    if mapping and line != "free":
        pandas = pytest.importorskip("pandas")
        name = "periods" if line == "period" else "bounds"
        frame = pandas.DataFrame(X, columns=["a"])
        got = np.asarray(cukde.cdf(frame, Y, h, weights=weights, **{name: {"a": options[name][0]}}))
    else:
        got = cukde.cdf(X, Y, h, weights=weights, **options)
    want = distribution(X[:, 0].astype(float), Y[:, 0].astype(float), line, h[0]) @ share
    tolerance = 2e-6 if float32 else 1e-12
    assert got.dtype == X.dtype
    np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)
    if line == "period":
        Y, want = Y[Y[:, 0] >= 0], want[Y[:, 0] >= 0]
    log = cukde.log_cdf(X, Y, h, weights=weights, **options)
    np.testing.assert_allclose(np.exp(log), want, rtol=2 * tolerance, atol=tolerance)


@pytest.mark.parametrize("line", ["low", "high", "both"])
@pytest.mark.parametrize("h", [0.05, 0.3, 1.0])
def test_the_error_of_cdf_near_the_end_where_the_mass_begins(line, h):
    (low, high), _, (left, right) = LINES[line]
    mpmath = pytest.importorskip("mpmath")
    X = np.random.default_rng(0).uniform(left, right, 4)
    start = high - 8 * h if low is None else low
    distance = h * 10.0 ** np.arange(-6, 0.5)
    Y = start + distance
    got = cukde.cdf(X, Y, h, **arguments([line]))
    z = [mpmath.mpf(float(v)) for v in images(X, line, h).ravel()]
    begin = mpmath.mpf("-inf") if low is None else mpmath.mpf(low)
    with mpmath.workdps(40):
        for y, value in zip(Y, got, strict=True):
            upper = sum(mpmath.ncdf((mpmath.mpf(float(y)) - v) / h) - mpmath.ncdf((begin - v) / h) for v in z) / len(X)
            away = 1.0 if low is None else max(1.0, h / (y - low))
            assert abs(float(value / upper) - 1) < 1e-12 * away


def test_log_cdf_in_a_domain_keeps_both_tails():
    x, options = np.array([5.0]), {"bounds": [(0.0, None)]}
    far = cukde.log_cdf(x, np.array([1.0, 30.0]), 0.1, **options)
    assert far[0] == pytest.approx(-804.608442013754, rel=1e-12)  # log Phi(-40); the image is 60 bandwidths away
    assert far[1] == pytest.approx(0.0, abs=1e-300)
    assert cukde.log_cdf(x, np.array([6.5]), 0.1, **options)[0] == pytest.approx(-float(ndtr(-15.0)), rel=1e-12)
    with np.errstate(all="raise"), warnings.catch_warnings():
        warnings.simplefilter("error")
        assert cukde.log_cdf(x, np.array([-1.0, 0.0]), 0.1, **options).tolist() == [-np.inf, -np.inf]
        assert cukde.cdf(x, np.array([-1.0, 0.0, 99.0]), 0.1, **options).tolist() == [0.0, 0.0, 1.0]


def test_cdf_refuses_what_has_no_value():
    x = np.array([1.0, 5.0])
    with pytest.raises(ValueError, match="X must lie within its bounds; 1 of 2 rows"):
        cukde.cdf(x, x, 0.5, bounds=[(2.0, None)])
    with pytest.raises(ValueError, match="Y must not lie below 0 where there is a period"):
        cukde.log_cdf(x, np.array([-1.0]), 0.5, periods=[24.0])
    with pytest.raises(ValueError, match="bounds or a period, not both"):
        cukde.cdf(x, x, 0.5, bounds=[(0.0, None)], periods=[24.0])


def joint(lines, h, X, Y):
    each = [kernels(X[:, k], Y[:, k], line, h[k]) for k, line in enumerate(lines)]
    return np.prod(each, axis=0)


@SETTINGS
@given(case=cases(3), chosen=st.sampled_from([[0], [2, 0], [1]]), dask=st.booleans())
def test_marginal_in_a_domain(case, chosen, dask):
    lines, h, X, Y, weights, share = case
    want = joint([lines[k] for k in chosen], h[chosen], X[:, chosen], Y[:, chosen]) @ share
    x = X
    if dask:
        x = pytest.importorskip("dask.array").from_array(X, chunks=(100, 3))
    got = cukde.marginal(x, chosen, Y[:, chosen], h, weights=weights, **arguments(lines))
    np.testing.assert_allclose(np.asarray(got), want, rtol=1e-10, atol=1e-300)


@SETTINGS
@given(case=cases(3), each=st.booleans(), log=st.booleans(), dask=st.booleans())
def test_conditional_in_a_domain(case, each, log, dask):
    lines, h, X, Y, weights, share = case
    if not len(Y):
        return
    values = {1: Y[:, 1] if each else float(Y[0, 1]), 2: float(Y[0, 2])}
    whole = Y.copy()
    for column, value in values.items():
        whole[:, column] = value
    below = joint(lines[1:], h[1:], X[:, 1:], whole[:, 1:]) @ share
    if below.min() < 1e-250:
        return
    want = joint(lines, h, X, whole) @ share / below
    x = pytest.importorskip("dask.array").from_array(X, chunks=(100, 3)) if dask else X
    got = np.asarray(cukde.conditional(x, values, Y[:, 0], h, weights=weights, log=log, **arguments(lines)))
    np.testing.assert_allclose(np.exp(got) if log else got, want, rtol=1e-10, atol=1e-300)


def test_a_conditional_density_in_a_domain_integrates_to_1():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.uniform(0, 2, 40), rng.uniform(0, 24, 40)])
    y = np.linspace(0, 2, 4001)
    options = {"bounds": [(0, 2), None], "periods": [None, 24]}
    for hour in (0.1, 23.9, 30.0):
        density = cukde.conditional(X, {1: hour}, y, [0.5, 3.0], **options)
        assert np.trapezoid(density, y) == pytest.approx(1, abs=1e-6)
    assert cukde.conditional(X, {1: 1.0}, [-0.1, 2.1], 0.5, **options).tolist() == [0.0, 0.0]
    for value in (2.1, [0.1, 2.1]):
        with pytest.raises(ValueError, match=r"given\[0\] must lie within the bounds of its column, \[0, 2\]"):
            cukde.conditional(X, {0: value}, [1.0, 2.0], 0.5, **options)
    with pytest.raises(ValueError, match="must not correlate a bounded column"):
        cukde.marginal(X, [1], [1.0], [[1.0, 0.5], [0.5, 1.0]], **options)


def test_periods_may_be_correlated_with_the_given_columns():
    rng = np.random.default_rng(1)
    X = rng.uniform(0, 5, (30, 2))
    H = np.array([[1.0, 0.6], [0.6, 1.5]])
    y = np.linspace(0, 5, 2001)
    density = cukde.conditional(X, {1: 0.3}, y, H, periods=[5.0, 5.0])
    assert np.trapezoid(density, y) == pytest.approx(1, abs=1e-6)
    whole = np.column_stack([y, np.full(len(y), 0.3)])
    want = cukde.kde(X, whole, H, periods=[5.0, 5.0]) / cukde.kde(X[:, 1], [0.3], np.sqrt(1.5), periods=[5.0])
    np.testing.assert_allclose(density, want, rtol=1e-10)


@SETTINGS
@given(case=cases(2), log=st.booleans(), dask=st.booleans())
def test_density_ratio_in_a_domain(case, log, dask):
    lines, h, X, Y, weights, share = case
    Z = X[::-1][: max(1, len(X) // 2)] * 0.5 + X.mean(axis=0) * 0.5
    below = joint(lines, 1.5 * h, Z, Y).mean(axis=1)
    if not len(Y) or below.min() < 1e-250:
        return
    want = joint(lines, h, X, Y) @ share / below
    x = pytest.importorskip("dask.array").from_array(X, chunks=(100, 2)) if dask else X
    options = {"denominator_bandwidth": 1.5 * h, "weights": weights, "log": log, **arguments(lines)}
    got = np.asarray(cukde.density_ratio(x, Z, Y, h, **options))
    np.testing.assert_allclose(np.exp(got) if log else got, want, rtol=1e-10, atol=1e-300)


def test_density_ratio_outside_the_domain():
    X = np.array([0.5, 1.0])
    with pytest.raises(ValueError, match="Z must lie within its bounds; 1 of 2 rows"):
        cukde.density_ratio(X, np.array([-1.0, 1.0]), X, 1.0, bounds=[(0, None)])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        got = cukde.density_ratio(X, X, np.array([-1.0, 0.0]), 1.0, bounds=[(0, None)])
    assert np.isnan(got[0])
    assert got[1] == pytest.approx(1)


@settings(SETTINGS, max_examples=8)
@given(case=cases(2), method=st.sampled_from(["kde", "sd", "positive"]), dask=st.booleans(), own=st.booleans())
def test_hdr_threshold_in_a_domain(case, method, dask, own):
    lines, h, X, _, weights, _ = case
    if len(X) < 2 or (dask and method == "positive"):
        return
    function: Any = {"kde": cukde.kde, "sd": cukde.sd_kde, "positive": cukde.positive_kde}[method]
    x = pytest.importorskip("dask.array").from_array(X, chunks=(150, 2)) if dask else X
    options = {"weights": weights, "leave_one_out": not own, "log": True, **arguments(lines)}
    got = np.asarray(cukde.hdr_threshold(x, h, 0.8, method=method, **options))
    density = function(X, X, h, **options)
    w = np.ones(len(X)) if weights is None else weights
    held = [w[density >= level].sum() / w.sum() for level in density]
    want = max(level for level, share in zip(density, held, strict=True) if share >= 0.8 - 1e-9)
    assert got == pytest.approx(want, rel=1e-9, abs=1e-9)


def test_rules_are_those_of_the_domain():
    X = np.abs(np.random.default_rng(0).normal(size=400))
    options = {"bounds": [(0, None)]}
    h = cukde.bandwidth.silverman(X, **options)
    np.testing.assert_array_equal(cukde.cdf(X, X, "silverman", **options), cukde.cdf(X, X, h, **options))
    pair = np.column_stack([X, X[::-1]])
    both = {"bounds": [(0, None), None]}
    width = cukde.bandwidth.silverman(pair, **both)
    for call in (
        lambda h: cukde.marginal(pair, [0], X[:5], h, **both),
        lambda h: cukde.conditional(pair, {0: 1.0}, X[:5], h, **both),
        lambda h: cukde.density_ratio(pair, pair[:50], pair[:5], h, denominator_bandwidth=width, **both),
        lambda h: cukde.hdr_threshold(pair, h, **both),
    ):
        np.testing.assert_array_equal(call("silverman"), call(width))


@pytest.mark.gpu
@pytest.mark.parametrize("line", list(LINES))
@pytest.mark.parametrize("h", [0.1, 0.5, 2.0])
def test_the_gpu_agrees(line, h):
    cupy = pytest.importorskip("cupy")
    rng = np.random.default_rng(0)
    X, Y = rng.uniform(*LINES[line][2], 3000), np.abs(rng.uniform(*LINES[line][2], 500))
    for function in (cukde.cdf, cukde.log_cdf):
        want = function(X, Y, h, **arguments([line]))
        got = function(cupy.asarray(X), cupy.asarray(Y), h, **arguments([line])).get()
        np.testing.assert_allclose(got, want, rtol=1e-10, atol=1e-12)
    pair, at = np.stack([X, X[::-1]], axis=1), np.stack([Y, Y], axis=1)
    options = arguments([line, "free"])
    for call in (
        lambda xp: cukde.marginal(xp.asarray(pair), [0], xp.asarray(Y), h, **options),
        lambda xp: cukde.conditional(xp.asarray(pair), {1: 1.5}, xp.asarray(Y), h, **options),
        lambda xp: cukde.density_ratio(xp.asarray(pair), xp.asarray(pair[:99]), xp.asarray(at), h, **options),
        lambda xp: cukde.hdr_threshold(xp.asarray(pair), h, **options),
    ):
        np.testing.assert_allclose(call(cupy).get(), call(np), rtol=1e-9, equal_nan=True)
