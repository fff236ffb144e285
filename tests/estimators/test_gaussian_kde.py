"""``cukde.gaussian_kde`` against SciPy's class, and its distribution function and quantiles against float64 oracles."""

from __future__ import annotations

import doctest
import functools
import pickle
from collections.abc import Callable
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy import stats

import cukde
from cukde.density import inverse
from cukde.estimators import gaussian_kde as module
from tests import reference
from tests.conftest import Backend

SAME = 1e-10
"""Relative difference from SciPy's results, which take other ways through the same sums; absolute of logarithms."""

_rng = np.random.default_rng(0)
DATA = {d: _rng.normal(size=(d, d)) @ _rng.standard_normal((d, 40)) + 5 for d in (1, 2, 5)}
POINTS = {d: X[:, :9] + 0.3 for d, X in DATA.items()}
WEIGHTS = _rng.uniform(0, 2, 40)
WEIGHTS[:3] = 0


def of_neff(kde: Any) -> float:
    return 0.4 * float(kde.neff) ** -0.1


def made(backend: Backend, d: int, weights: bool, method: Any) -> tuple[Any, Any]:
    """Ours, and SciPy's."""
    w = WEIGHTS if weights else None
    ours = cukde.gaussian_kde(backend.asarray(DATA[d]), method, backend.asarray(w))
    return ours, stats.gaussian_kde(DATA[d], method, w)


def on_host(backend: Backend, a: Any) -> Any:
    """A result on the host: an array of the backend, or on the CPU a number, too."""
    return a if backend.xp is np and isinstance(a, np.float64) else backend.asnumpy(a)


CASES = [(1, True, "silverman"), (2, False, None), (5, True, of_neff), (1, False, 0.3)]


@pytest.mark.parametrize(("d", "weights", "method"), CASES)
def test_equals_scipys(backend: Backend, d: int, weights: bool, method: Any) -> None:
    ours, theirs = made(backend, d, weights, method)

    def same(function: Callable[[Any], Any]) -> None:
        np.testing.assert_allclose(on_host(backend, function(ours)), function(theirs), SAME)

    for name in ("dataset", "weights", "covariance", "inv_cov"):
        same(lambda kde, name=name: getattr(kde, name))
    for name in ("d", "n", "neff", "factor"):
        np.testing.assert_allclose(getattr(ours, name), getattr(theirs, name), SAME)
    np.testing.assert_allclose(ours.silverman_factor(), theirs.silverman_factor(), SAME)

    points, mean, cov = POINTS[d], DATA[d].mean(axis=1), np.eye(d) + 0.1
    same(lambda kde: kde(points))
    same(lambda kde: kde.pdf(points[:, 0]))
    Y = np.concatenate([points, 100 * points], axis=1)
    want = reference.log_kde(DATA[d].T, Y.T, theirs.covariance, WEIGHTS if weights else None)
    np.testing.assert_allclose(backend.asnumpy(ours.logpdf(Y)), want, SAME, SAME)  # SciPy's is NaN with a weight of 0
    same(lambda kde: kde.integrate_gaussian(mean, cov))
    other = stats.gaussian_kde(DATA[d][:, :15], 0.7)
    ours_of_other = cukde.gaussian_kde(backend.asarray(DATA[d][:, :15]), 0.7)
    same(lambda kde: kde.integrate_kde(ours_of_other if kde is ours else other))
    same(lambda kde: kde.integrate_kde(kde))
    same(lambda kde: kde.resample(7, seed=3))
    same(lambda kde: kde.marginal(-1).pdf(points[-1]))
    if d == 1:
        same(lambda kde: kde.integrate_box_1d(4.5, np.inf))
        same(lambda kde: kde.integrate_box_1d(6.0, 4.5))
    kept = DATA[d].copy()
    ours.set_bandwidth("scott")
    theirs.set_bandwidth("scott")
    same(lambda kde: kde(points))
    assert (kept == DATA[d]).all()


def test_takes_scipys_as_the_other() -> None:
    ours, theirs = made(Backend("numpy"), 2, True, None)
    other = stats.gaussian_kde(DATA[2][:, ::2])
    np.testing.assert_allclose(ours.integrate_kde(other), theirs.integrate_kde(other), SAME)


def test_many_points(backend: Backend) -> None:
    """As many as are not taken by NumPy alone."""
    rng = np.random.default_rng(1)
    for d in (1, 2):
        X, Y = rng.normal(size=(d, backend.size(3000, 300))), rng.normal(size=(d, 200))
        got = backend.asnumpy(cukde.gaussian_kde(backend.asarray(X))(backend.asarray(Y)))
        np.testing.assert_allclose(got, stats.gaussian_kde(X)(Y), SAME)


def test_seeds_have_two_names() -> None:
    kde = cukde.gaussian_kde(DATA[2])
    want = kde.resample(5, seed=1)
    assert (kde.resample(5, random_state=1) == want).all()
    assert (kde.resample(5, np.random.RandomState(1)) == want).all()
    assert kde.resample(0).shape == (2, 0)
    with pytest.raises(ValueError, match="give one of them"):
        kde.resample(5, 1, random_state=1)


@pytest.mark.parametrize("dtype", ["float32", "int64"])
def test_results_are_float64(backend: Backend, dtype: str) -> None:
    X = np.round(10 * DATA[1]).astype(dtype)
    kde = cukde.gaussian_kde(backend.asarray(X))
    assert kde.dataset.dtype == dtype
    got = backend.asnumpy(kde(backend.asarray(X[0, :4])))
    assert got.dtype == np.float64
    np.testing.assert_allclose(got, stats.gaussian_kde(X.astype(np.float64))(X[0, :4]), SAME)


class Diagonal(cukde.gaussian_kde):
    """The covariance is the subclass's own."""

    def _compute_covariance(self) -> None:
        self.factor = 1.0
        self.covariance = np.diag(np.arange(1.0, self.d + 1))


def test_a_subclass_has_its_own_covariance() -> None:
    got = Diagonal(DATA[2]).logpdf(POINTS[2])
    want = reference.log_kde(DATA[2].T, POINTS[2].T, np.diag([1.0, 2.0]))
    np.testing.assert_allclose(got, want, atol=SAME)


def test_what_is_kept_is_of_the_same_data_and_covariance() -> None:
    kde = cukde.gaussian_kde(DATA[2])
    with mock.patch.object(module, "prepare", wraps=module.prepare) as prepared:
        kde(POINTS[2])
        kde.logpdf(POINTS[2])
        assert prepared.call_count == 1
        kde.set_bandwidth(0.2)
        np.testing.assert_allclose(kde(POINTS[2]), stats.gaussian_kde(DATA[2], 0.2)(POINTS[2]), SAME)
        kde.dataset = kde.dataset + 1
        np.testing.assert_allclose(kde(POINTS[2] + 1), stats.gaussian_kde(DATA[2], 0.2)(POINTS[2]), SAME)
        assert prepared.call_count == 3


def test_a_bandwidth_that_is_refused_leaves_the_last_one() -> None:
    kde = cukde.gaussian_kde(DATA[2], 0.3)
    want = kde(POINTS[2])
    for wrong in (1e-200, lambda kde: -1.0, lambda kde: [1.0, 2.0]):
        with pytest.raises(ValueError, match="bw_method"):
            kde.set_bandwidth(wrong)
        assert kde.factor == 0.3
        kde.set_bandwidth()
        np.testing.assert_array_equal(kde(POINTS[2]), want)


def test_queries_too_far_are_called_what_they_are() -> None:
    kde = cukde.gaussian_kde(DATA[1])
    for name, call in {"x": kde.cdf, "points": kde.evaluate}.items():
        with pytest.raises(ValueError, match=rf"^{name} must lie within 1e\+150 bandwidths of the centre of the data"):
            call(1e300)


@pytest.mark.parametrize("method", ["silverman", 0.3, of_neff])
def test_pickles(method: Any) -> None:
    kde = cukde.gaussian_kde(DATA[1], method, WEIGHTS)
    want = kde(POINTS[1])
    copy = pickle.loads(pickle.dumps(kde))
    assert len(pickle.dumps(kde)) < 3000
    assert (copy(POINTS[1]) == want).all()
    copy.set_bandwidth()
    assert copy.factor == kde.factor


# Clusters, far apart, some of a single point; with an offset, and duplicates alone.
LINES = {
    "normal": DATA[1][0],
    "gaps": np.concatenate([DATA[1][0][:20], [1e3, 1e3, 1e6], -1e4 + DATA[1][0][:17]]),
    "offset": 1e9 + 1e-6 * DATA[1][0],
    "duplicates": np.repeat([3.0, 4.0], 20),
}


@functools.cache
def levels() -> np.ndarray:
    ends = 10.0 ** -np.array([1, 3, 9, 16, 100, 300])
    return np.concatenate([ends, np.linspace(0.01, 0.99, 21), 1 - ends[:3], [0.0, 1.0]])


@pytest.mark.parametrize(
    ("name", "weights"), [("normal", True), ("gaps", False), ("gaps", True), ("offset", False), ("duplicates", False)]
)
@pytest.mark.parametrize("factor", [0.01, 0.5])
def test_quantiles(backend: Backend, name: str, weights: bool, factor: float) -> None:
    x, w, q = LINES[name], WEIGHTS if weights else None, levels()
    kde = cukde.gaussian_kde(backend.asarray(x), factor, backend.asarray(w))
    got = backend.asnumpy(kde.quantile(backend.asarray(q)))
    assert (got[[-2, -1]] == [-np.inf, np.inf]).all()
    got, q = got[:-2], q[:-2]
    h = float(np.sqrt(on_host(backend, kde.covariance)[0, 0]))

    def off(at: np.ndarray) -> np.ndarray:
        """Distance of the distribution function from the levels, relative to them, or to 1 less them on the right."""
        below, above = (np.exp(a) for a in reference.log_distribution(x, at, h, w))
        return np.where(q <= 0.5, (below - q) / q, (1 - q - above) / (1 - q))

    allowed = inverse.TOLERANCE + 1e-12
    near = 4 * np.spacing(np.abs(got))
    assert ((abs(off(got)) <= allowed) | ((off(got - near) <= allowed) & (off(got + near) >= -allowed))).all()


def test_the_distribution_function(backend: Backend) -> None:
    x = np.array([[-np.inf, -40.0, 2.0], [5.0, 6.5, np.inf]])
    kde = cukde.gaussian_kde(backend.asarray(DATA[1]), weights=backend.asarray(WEIGHTS))
    got = backend.asnumpy(kde.cdf(backend.asarray(x)))
    finite = np.isfinite(x)
    h = float(np.sqrt(on_host(backend, kde.covariance)[0, 0]))
    want = np.exp(reference.log_distribution(DATA[1][0], x[finite], h, WEIGHTS)[0])
    np.testing.assert_allclose(got[finite], want, 1e-11)
    assert (got[0, 0], got[1, 2]) == (0, 1)
    assert np.shape(kde.cdf(1.0)) == np.shape(kde.quantile(0.5)) == ()


def test_a_quantile_that_is_not_found_warns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inverse, "_STEPS", 1)
    with pytest.warns(cukde.ConvergenceWarning, match="1 of 1 quantiles"):
        cukde.gaussian_kde(DATA[1]).quantile(0.1)


def test_examples_of_methods() -> None:
    found = doctest.DocTestFinder().find(cukde.gaussian_kde, module=module, globs={})
    assert sum(bool(test.examples) for test in found) > 10
    report: list[str] = []
    for test in found:
        doctest.DocTestRunner(verbose=False).run(test, out=report.append)
    assert not report, "".join(report)


_KDE = cukde.gaussian_kde(DATA[2])
_LINE = cukde.gaussian_kde(DATA[1])
_ON_A_LINE = np.array([[1.0, 2, 3, 5], [2, 4, 6, 10]])


@pytest.mark.parametrize(
    ("call", "error", "match"),
    [
        (lambda: cukde.gaussian_kde([1.0]), ValueError, "multiple elements"),
        (lambda: cukde.gaussian_kde(DATA[2].T), ValueError, "write dataset.T"),
        (lambda: cukde.gaussian_kde([1.0, np.nan, 3]), ValueError, "dataset must be finite"),
        (lambda: cukde.gaussian_kde([1e200, 1, 3]), ValueError, r"^dataset\b"),
        (lambda: cukde.gaussian_kde(["a", "b"]), TypeError, r"^dataset\b"),
        (lambda: cukde.gaussian_kde([1j, 2]), TypeError, r"^dataset\b"),
        (lambda: cukde.gaussian_kde(_ON_A_LINE), np.linalg.LinAlgError, "lower-dimensional subspace"),
        (lambda: cukde.gaussian_kde([2.0, 2.0]), np.linalg.LinAlgError, "lower-dimensional subspace"),
        (lambda: cukde.gaussian_kde([1, 2, 3], weights=[1, 2]), ValueError, "length n = 3"),
        (lambda: cukde.gaussian_kde([1, 2, 3], weights=np.ones((3, 1))), ValueError, "one-dimensional"),
        (lambda: cukde.gaussian_kde([1, 2, 3], weights=[1, -1, 2]), ValueError, r"^weights\b"),
        (lambda: cukde.gaussian_kde([1, 2, 3], weights=[0, 0, 0]), ValueError, r"^weights\b"),
        (lambda: cukde.gaussian_kde([1, 2, 3], weights=[0, 5, 0]), ValueError, "more than a single point"),
        (lambda: cukde.gaussian_kde([1, 2, 3], "isj"), ValueError, "`bw_method` should be"),
        (lambda: cukde.gaussian_kde([1, 2, 3], 0.0), ValueError, "positive, finite"),
        (lambda: cukde.gaussian_kde([1, 2, 3], 1e308), ValueError, "positive, finite"),
        (lambda: cukde.gaussian_kde([1e100, 2e100, 4e100], 1e60), ValueError, "in the range of float64"),
        (lambda: cukde.gaussian_kde([1, 2, 3], lambda kde: np.nan), ValueError, "positive, finite"),
        (lambda: _KDE(np.zeros((3, 4))), ValueError, "points have dimension 3, dataset has dimension 2"),
        (lambda: _KDE([0, np.inf]), ValueError, r"^points\b"),
        (lambda: _KDE.integrate_gaussian([0, 0, 0], np.eye(2)), ValueError, "mean does not have dimension 2"),
        (lambda: _KDE.integrate_gaussian([0, 0], np.eye(3)), ValueError, "cov does not have dimension 2"),
        (lambda: _KDE.integrate_gaussian([0, 0], [[1, 2], [0, 1]]), ValueError, "symmetric"),
        (lambda: _KDE.integrate_gaussian([0, 0], -99 * np.eye(2)), np.linalg.LinAlgError, "positive definite"),
        (lambda: _KDE.integrate_kde(_LINE), ValueError, "not the same dimensionality"),
        (lambda: _KDE.integrate_kde(DATA[2]), TypeError, "other must be a gaussian_kde"),
        (lambda: _KDE.integrate_box_1d(0, 1), ValueError, "only handles 1D pdfs"),
        (lambda: _LINE.integrate_box_1d(0, np.nan), ValueError, "high must not hold NaN"),
        (lambda: _KDE.integrate_box([0, 0, 0], 1), ValueError, "low_bounds must be 2 numbers"),
        (lambda: _KDE.integrate_box(0, 1, 0), ValueError, r"^maxpts\b.*1"),
        (lambda: _KDE.marginal([0, 2]), ValueError, "are invalid for a distribution in 2"),
        (lambda: _KDE.quantile(0.5), ValueError, "only handles 1D"),
        (lambda: _LINE.quantile([0.1, 1.1]), ValueError, "q must hold numbers from 0 to 1"),
        (lambda: _LINE.cdf([np.nan]), ValueError, "x must not hold NaN"),
        (lambda: _KDE.resample(-1), ValueError, "size must be at least 0"),
        (lambda: _KDE.resample(1, "a"), ValueError, "seed must be"),
    ],
)
def test_errors(call: Callable[[], Any], error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        call()


DRAWN = settings(max_examples=30, deadline=None, derandomize=True)


def _of_columns(d: int, n: int, rank: int, seed: int, offset: float, spread: float) -> np.ndarray:
    """Data (d, n) of this rank about their means, which are far from 0, each coordinate in a unit of its own."""
    rng = np.random.default_rng(seed)
    units = 10 ** rng.uniform(-spread, spread, size=(d, 1))
    out: np.ndarray = (
        rng.normal(size=(d, rank)) @ rng.normal(size=(rank, n)) + 10**offset * rng.normal(size=(d, 1))
    ) * units
    return out


@DRAWN
@given(st.data())
def test_data_of_fewer_dimensions_are_singular(data: Any) -> None:
    """Always LinAlgError, as SciPy documents it, never rounding: of any units, offsets, weights and numbers of rows."""
    d = data.draw(st.integers(2, 12))
    n, seed = data.draw(st.integers(d, 300)), data.draw(st.integers(0, 999))
    rng, weights = np.random.default_rng(seed), None
    kind = data.draw(
        st.sampled_from(["product", "copy", "constant", "sum of integers", "few weights", "no more points"])
    )
    rank = d if kind in ("few weights", "no more points") else data.draw(st.integers(1, d - 1))
    X = _of_columns(d, n, rank, seed, data.draw(st.floats(-3, 10)), data.draw(st.floats(0, 6)))
    if kind == "copy":
        X = rng.normal(size=(d, n))
        X[-1] = X[0]
    elif kind == "constant":
        X = rng.normal(size=(d, n))
        X[d // 2] = 0.1 * 10.0 ** rng.integers(-5, 15)
    elif kind == "sum of integers":
        X = rng.integers(0, 1000, size=(d, n))
        X[-1] = X[:-1].sum(axis=0)
    elif kind == "few weights":
        weights = np.zeros(n)
        weights[rng.permutation(n)[:d]] = rng.uniform(0.1, 1, size=d)
    elif kind == "no more points":
        X = X[:, :d]
    with pytest.raises(
        np.linalg.LinAlgError, match=r"lower-dimensional subspace.*" + "Constant" * (kind == "constant")
    ):
        cukde.gaussian_kde(X, weights=weights)
    with pytest.raises(ValueError, match=r"^X\b"):
        cukde.bandwidth.scott(X.T, weights=weights, covariance=True)


@DRAWN
@given(st.integers(1, 12), st.integers(0, 999), st.floats(0, 12), st.floats(0, 4), st.booleans())
def test_nearly_singular_data_are_data(d: int, seed: int, condition: float, offset: float, weighted: bool) -> None:
    """Covariances of conditions up to 1e12, as SciPy has them, in any units."""
    rng = np.random.default_rng(seed)
    n = 3 * d + 20
    turn = np.linalg.qr(rng.normal(size=(d, d)))[0]
    X = (turn * np.geomspace(1, 10 ** (-condition / 2), d)) @ rng.normal(size=(d, n))
    X = (X + 10 ** (offset - condition / 2)) * 2.0 ** rng.integers(-20, 20, size=(d, 1))
    weights = rng.exponential(size=n) if weighted else None
    got, want = cukde.gaussian_kde(X, weights=weights), stats.gaussian_kde(X, weights=weights)
    np.testing.assert_allclose(got.covariance, want.covariance, rtol=1e-9, atol=0)
    np.testing.assert_allclose(got(X[:, :3]), want(X[:, :3]), rtol=max(1e-10, 1e-15 * 10**condition))


def test_results_of_searches_are_no_factors() -> None:
    X = np.random.default_rng(0).normal(size=(20, 2))
    for found in (cukde.bandwidth.cross_validate(X), cukde.bandwidth.select(X, ["kde"]), "select"):
        with pytest.raises(ValueError, match=r"bw_method.*scalar.*write cukde\.kde\(X, Y, h\)"):
            cukde.gaussian_kde(X.T, bw_method=found)
        assert (cukde.kde(X, X[:3], found) > 0).all()


def test_a_covariance_that_is_set_is_named_where_it_is_none() -> None:
    kde = cukde.gaussian_kde(np.random.default_rng(0).normal(size=(2, 9)))
    kde.covariance = np.ones((2, 2))
    with pytest.raises(ValueError, match=r"^covariance\b"):
        kde([0, 0])
