"""Intervals for a density against formulas, quadrature, other data and simulation."""

from __future__ import annotations

import warnings
from typing import Any

import dask.array as da
import numpy as np
import pandas as pd
import pytest
from scipy import integrate, stats

import cukde
import cukde.dask
from cukde import perf
from tests.conftest import Backend

RNG = np.random.default_rng(51)
Z = stats.norm.ppf(0.975)
A, B = 2**-0.25, 2**0.25  # bandwidths of both Gaussians of the kernel


def covariance(h: Any, d: int) -> np.ndarray:
    h = np.asarray(h, np.float64)
    return h if h.ndim == 2 else np.diag(np.broadcast_to(h, d) ** 2.0)


def terms(X: np.ndarray, Y: np.ndarray, h: Any) -> np.ndarray:
    """Kernels, (m, n), of each row at each query."""
    X, Y = (np.asarray(a, np.float64).reshape(len(a), -1) for a in (X, Y))
    d, H = X.shape[1], covariance(h, X.shape[1])
    wide, narrow = (
        np.array([stats.multivariate_normal(np.zeros(d), s * s * H).pdf(y - X).reshape(-1) for y in Y]) for s in (B, A)
    )
    return 2 * narrow - wide


def expected(X: Any, Y: Any, h: Any, weights: Any = None, n_eff: float | None = None) -> tuple[np.ndarray, np.ndarray]:
    """The estimate and its standard error, term by term."""
    K = terms(X, Y, h)
    w = np.full(K.shape[1], 1 / K.shape[1]) if weights is None else weights / weights.sum()
    p, share = K @ w, (w * w).sum()
    variance = ((w * (K - p[:, None])) ** 2).sum(axis=1) / (1 - share)
    return p, np.sqrt(variance * (1 if n_eff is None else 1 / share / n_eff))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    ("d", "h"), [(1, 0.3), (2, np.array([0.5, 0.3])), (3, np.eye(3) * 0.2 + 0.1)], ids=["1", "2", "3"]
)
@pytest.mark.parametrize(("dtype", "rtol"), [(np.float64, 1e-10), (np.float32, 2e-4)])
def test_the_estimate_and_its_error(backend: Backend, d: int, h: Any, weighted: bool, dtype: Any, rtol: float) -> None:
    n = backend.size(200, 40)
    X, Y = RNG.normal(size=(n, d)).astype(dtype), RNG.normal(size=(6, d)).astype(dtype)
    w = RNG.uniform(size=n) if weighted else None
    if w is not None:
        w[:3] = 0
    found = cukde.density_interval(*map(backend.asarray, (X, Y)), h, weights=backend.asarray(w), n_eff=n / 3)
    p, error = expected(X, Y, h, w, n / 3)
    scale = abs(terms(X, Y, h)).mean(axis=1)
    low, high, estimate, standard_error = map(backend.asnumpy, found[:4])
    assert {a.dtype for a in (low, high, estimate, standard_error)} == {np.dtype(dtype)}
    assert (abs(estimate - p) <= rtol * scale).all()
    np.testing.assert_allclose(standard_error, error, rtol=rtol)
    assert found.quantile == pytest.approx(Z)
    assert (low >= 0).all()
    assert (low <= high).all()


def test_the_ends_solve_the_equation_of_the_interval(backend: Backend) -> None:
    n, h = backend.size(400, 60), 0.4
    X, Y, w = RNG.normal(size=n), np.linspace(-2, 2, 9), RNG.uniform(size=n)
    square, _ = integrate.quad(lambda t: (2 * stats.norm.pdf(t, 0, A * h) - stats.norm.pdf(t, 0, B * h)) ** 2, -9, 9)
    for weights in (None, w):
        share = 1 / n if weights is None else (w**2).sum() / w.sum() ** 2
        found = cukde.density_interval(*map(backend.asarray, (X, Y)), h, 0.8, weights=backend.asarray(weights))
        low, high = map(backend.asnumpy, found[:2])
        p, error = expected(X, Y, h, weights)
        w_all, u = np.ones(n) if weights is None else weights, square * share / (1 - share)
        second = ((w_all / w_all.sum() * terms(X, Y, h)) ** 2).sum(axis=1) / (1 - share)
        variance = error**2 + np.maximum(u * p - second, 0) / (1 + second / u**2) ** 2
        for f, some in ((low, low > 0), (high, high > 0)):
            right = stats.norm.ppf(0.9) ** 2 * (variance + u * (f - p))
            np.testing.assert_allclose(((p - f) ** 2)[some], right[some], rtol=1e-8)


def test_the_bias_is_that_of_the_laplace_corrected_estimate() -> None:
    grid, h = np.linspace(-8, 8, 1601), 0.1
    y, of = np.array([0.0, 0.5, 1.0, 2.5]), {"weights": stats.norm.pdf(grid)}  # the mean over normal samples
    bias = cukde.density_interval(grid, y, h, **of).estimate - stats.norm.pdf(y)
    np.testing.assert_allclose(bias, -(h**4) / 8 * (y**4 - 6 * y**2 + 3) * stats.norm.pdf(y), rtol=0.08)
    np.testing.assert_allclose(bias, cukde.laplace_kde(grid, y, h, **of) - stats.norm.pdf(y), rtol=0.02)


def test_standard_errors_are_those_of_samples() -> None:
    found = [cukde.density_interval(x, [0.0, 1.5], 0.3) for x in RNG.normal(size=(1500, 200))]
    spread = np.std([each.estimate for each in found], axis=0)
    np.testing.assert_allclose(np.mean([each.standard_error for each in found], axis=0), spread, rtol=0.06)


def test_intervals_cover() -> None:
    y = np.array([[0.0, 0.0], [1.0, 0.5], [1.5, 1.5]])
    truth = stats.multivariate_normal(np.zeros(2)).pdf(y)
    inside, plain = [], []
    for X in RNG.normal(size=(500, 150, 2)):
        found = cukde.density_interval(X, y, "silverman")
        inside.append((found.low <= truth) & (truth <= found.high))
        plain.append(abs(found.estimate - truth) <= Z * found.standard_error)
    assert 0.93 < np.mean(inside) < 0.97
    assert np.mean(plain) < 0.925  # by the normal distribution about the estimate


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_far_from_the_data(backend: Backend, dtype: Any) -> None:
    X, n, h = RNG.normal(size=50).astype(dtype), 50, 0.1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = cukde.density_interval(*map(backend.asarray, (X, np.array([1e3], dtype))), h)
    low, high, estimate, error = (backend.asnumpy(a)[0] for a in found[:4])
    square = (4 / np.sqrt(2**0.5) - 4 / np.sqrt(4.5**0.5) + 1 / np.sqrt(8**0.5)) / np.sqrt(2 * np.pi) / h
    assert low == estimate == error == 0
    assert high == pytest.approx(Z**2 * square / (n - 1), rel=1e-5)


def test_one_row_alone_does_not_tell_a_density(backend: Backend) -> None:
    X = np.concatenate([np.zeros(1), np.linspace(50, 60, 99)])
    found = cukde.density_interval(*map(backend.asarray, (X, np.array([0.0, 1.5]))), 1.0)
    low, high = map(backend.asnumpy, found[:2])
    u = 0.4834514311 / 99  # the integral of the squared kernel over n - 1
    assert (low < 0.5 * backend.asnumpy(found.estimate)).all()
    assert (high > Z**2 * u).all()


def test_offsets_change_nothing(backend: Backend) -> None:
    X, Y = np.round(RNG.normal(size=(40, 2)), 3), np.round(RNG.normal(size=(5, 2)), 3)
    near, far = (
        cukde.density_interval(*map(backend.asarray, (X + shift, Y + shift)), [0.5, 0.4]) for shift in (0.0, 2.0**14)
    )
    for one, other in zip(near[:4], far[:4], strict=True):
        np.testing.assert_allclose(backend.asnumpy(one), backend.asnumpy(other), rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize("weighted", [False, True])
def test_the_largest_error_of_all_queries(backend: Backend, weighted: bool) -> None:
    n, h = 60, np.array([0.4, 0.6])
    X, Y, w = RNG.normal(size=(n, 2)), RNG.normal(size=(12, 2)), RNG.uniform(size=n) if weighted else None
    given = *map(backend.asarray, (X, Y)), h, 0.9
    options: dict[str, Any] = {"simultaneous": True, "draws": 4000, "weights": backend.asarray(w)}
    found = cukde.density_interval(*given, **options)
    K = terms(X, Y, h)
    share = np.full(n, 1 / n) if w is None else w / w.sum()
    centred = share * (K - (K @ share)[:, None])
    normal = np.random.default_rng(0).normal(size=(n, 40_000))
    errors = abs(centred @ normal).T / np.sqrt((centred**2).sum(axis=1))
    assert found.quantile == pytest.approx(np.quantile(errors.max(axis=1), 0.9), rel=0.03)
    pointwise = cukde.density_interval(*given, weights=backend.asarray(w))
    assert (backend.asnumpy(found.high) > backend.asnumpy(pointwise.high)).all()
    again = cukde.density_interval(*given, **options, random_state=np.random.default_rng(1))
    assert again.quantile != found.quantile == cukde.density_interval(*given, **options).quantile


def test_blocks_of_rows_and_queries_are_one_draw(monkeypatch: pytest.MonkeyPatch) -> None:
    X, Y = RNG.normal(size=100), RNG.normal(size=150)
    whole = cukde.density_interval(X, Y, 0.3, simultaneous=True).quantile
    monkeypatch.setattr("cukde.density.compositions.supremum._QUERIES", 1)  # 64 are the fewest
    assert cukde.density_interval(X, Y, 0.3, simultaneous=True).quantile == pytest.approx(whole, rel=1e-6)


def test_bands_cover() -> None:
    y = np.linspace(-1.5, 1.5, 16)
    truth, inside = stats.norm.pdf(y), []
    for X in RNG.normal(size=(300, 300)):
        found = cukde.density_interval(X, y, "silverman", simultaneous=True, draws=300)
        inside.append(((found.low <= truth) & (truth <= found.high)).all())
    assert 0.9 < np.mean(inside) < 0.99


def test_no_queries(backend: Backend) -> None:
    X = backend.asarray(RNG.normal(size=(20, 2)))
    found = cukde.density_interval(X, X[:0], 1.0, simultaneous=True)
    assert backend.asnumpy(found.low).shape == (0,)


def test_frames_and_missing_values() -> None:
    frame = pd.DataFrame(RNG.normal(size=(30, 2)), columns=["a", "b"])
    Y = frame.iloc[:4, ::-1].set_axis([*"wxyz"])
    frame.iloc[20, 0] = np.nan
    found = cukde.density_interval(frame, Y, {"b": 0.5, "a": 0.4}, nan_policy="omit", n_eff=29)
    want = cukde.density_interval(frame.dropna().to_numpy(), Y[["a", "b"]].to_numpy(), [0.4, 0.5])
    for name in found._fields[:4]:
        series = getattr(found, name)
        assert (series.name, list(series.index)) == (name, [*"wxyz"])
        np.testing.assert_allclose(series, getattr(want, name), rtol=1e-12)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("unknown", [False, True])
def test_dask(weighted: bool, unknown: bool) -> None:
    X, Y, w = RNG.normal(size=(60, 2)), RNG.normal(size=(5, 2)), RNG.uniform(size=60) if weighted else None
    x = da.from_array(X, chunks=(25, 1))
    x = x[x[:, 0] > -np.inf] if unknown else x
    of = None if w is None else da.from_array(w, chunks=25)
    of = of[of > -1] if unknown and of is not None else of
    found = cukde.density_interval(x, da.from_array(Y, chunks=3), 0.5, 0.9, weights=of, n_eff=20)
    want = cukde.density_interval(X, Y, 0.5, 0.9, weights=w, n_eff=20)
    for one, other in zip(found[:4], want[:4], strict=True):
        assert isinstance(one, da.Array)
        np.testing.assert_allclose(one.compute(), other, rtol=1e-10, atol=1e-13)
    with pytest.raises(ValueError, match="simultaneous must be False for Dask arrays"):
        cukde.dask.density_interval(x, Y, 0.5, simultaneous=True)
    one = np.where(np.arange(60) == 3, 1e30, 1.0)
    for heavy in (one, da.from_array(one, chunks=25)) if not unknown else ():
        with pytest.raises(ValueError, match="weights must let two rows or more count"):
            cukde.dask.density_interval(x, Y, 0.5, weights=heavy).low.compute()


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"level": 95}, ValueError, "level must lie between 0 and 1, as 0.95; got 95"),
        ({"level": "high"}, TypeError, "level"),
        ({"n_eff": 31}, ValueError, "n_eff must be at most the number of rows of X, 30; got 31"),
        ({"n_eff": 0.0}, ValueError, "n_eff must be at least 1"),
        ({"draws": 20}, ValueError, "draws must be from 100 to 100,000; got 20"),
        ({"simultaneous": 2}, ValueError, "simultaneous must be True or False"),
        ({"random_state": -1}, ValueError, "random_state must be from 0"),
        ({"X": [1.0]}, ValueError, "density_interval needs two rows or more that have a weight; got 1"),
        ({"weights": np.eye(30)[0]}, ValueError, "density_interval needs two rows or more"),
        ({"bounds": [(0, None)]}, TypeError, "bounds"),
        ({"h": "isjj"}, ValueError, "did you mean 'isj'"),
        ({"X": np.full(30, np.nan)}, ValueError, "X must be finite"),
    ],
)
def test_errors(options: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        cukde.density_interval(**({"X": RNG.normal(size=30), "Y": [0.0], "h": 1.0} | options))


def test_cost() -> None:
    sizes = {"n": 4096, "m": 512, "d": 3}
    of_kde = perf.cost("kde", perf.peaks("H200"), **sizes)
    found = perf.cost("density_interval", perf.peaks("H200"), **sizes)
    assert found.pairs == 4 * of_kde.pairs
    assert perf.cost("density_interval", perf.peaks("H200"), weighted=True, **sizes).pairs == 6 * of_kde.pairs
    drawn = perf.cost("density_interval", perf.peaks("H200"), draws=1000, **sizes)
    assert drawn.flops > found.flops + 2 * 4096 * 512 * 1000


@pytest.mark.parametrize("unit", [1e-80, 1e80])
@pytest.mark.parametrize("simultaneous", [False, True])
def test_units_whose_squared_densities_are_out_of_range(backend: Backend, unit: float, simultaneous: bool) -> None:
    X, Y = RNG.normal(size=(30, 3)), RNG.normal(size=(4, 3))

    def found(unit: float) -> cukde.DensityInterval:
        arrays = backend.asarray(X * unit), backend.asarray(Y * unit)
        return cukde.density_interval(*arrays, 0.7 * unit, simultaneous=simultaneous, draws=100, random_state=0)

    got, want = found(unit), found(1.0)
    assert got.quantile == pytest.approx(want.quantile, rel=1e-6)
    for name in ("low", "high", "estimate", "standard_error"):
        a, b = (backend.asnumpy(getattr(each, name)) for each in (got, want))
        np.testing.assert_allclose(a * unit**3, b, rtol=1e-9, atol=1e-12, err_msg=name)


def test_one_row_has_all_of_the_weight() -> None:
    with pytest.raises(ValueError, match="two rows or more count for density_interval"):
        cukde.density_interval(np.arange(3.0), [0.5], 1.0, weights=[1e20, 1.0, 1.0])


def test_levels_next_to_their_ends() -> None:
    found = [cukde.density_interval([0.0, 1.0, 3.0], [0.5], 1.0, level) for level in (1e-300, 1 - 2.0**-53)]
    assert [each.quantile for each in found] == pytest.approx([0.0, stats.norm.isf(2.0**-54)])
