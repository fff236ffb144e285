"""Distribution functions, quantiles and samples given values, against the formula, quadrature and statsmodels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import integrate, stats

import cukde
from tests.conftest import Backend

RNG = np.random.default_rng(0)
# Of a distribution function, absolute, as its docstring states.
ERROR = {("cpu", "float64"): 1e-12, ("gpu", "float64"): 1e-12, ("cpu", "float32"): 3e-5, ("gpu", "float32"): 1e-4}
DOMAIN: dict[str, Any] = {"bounds": [None, (0, None), (0, 1)], "periods": [3.0, None, None]}


def shares(X: Any, G: Any, columns: list[int], h: Any, w: Any = None) -> np.ndarray:
    """Shares of the rows at given values, (m, n), from the formula."""
    inverse = np.linalg.inv(h[np.ix_(columns, columns)])
    steps = np.asarray(G, np.float64)[:, None] - np.asarray(X, np.float64)[:, columns]
    logs = -0.5 * np.einsum("mnj,jk,mnk->mn", steps, inverse, steps)
    out = np.exp(logs - logs.max(axis=1, keepdims=True)) * (1.0 if w is None else w)
    return out / out.sum(axis=1, keepdims=True)


def distribution(X: Any, G: Any, columns: list[int], y: Any, h: Any, w: Any = None) -> np.ndarray:
    """The distribution function of the one column that is left at queries (m,)."""
    (rest,) = set(range(X.shape[1])) - set(columns)
    slope = np.linalg.solve(h[np.ix_(columns, columns)], h[columns, rest])
    deviation = np.sqrt(h[rest, rest] - slope @ h[columns, rest])
    X, G = np.asarray(X, np.float64), np.asarray(G, np.float64)
    means = X[:, rest] + (G[:, None] - X[:, columns]) @ slope
    F = stats.norm.cdf((np.asarray(y, np.float64)[:, None] - means) / deviation)
    return (shares(X, G, columns, h, w) * F).sum(axis=1)


def case(d: int, form: str, dtype: str, n: int, m: int) -> tuple[Any, ...]:
    """Data, given values, queries, a bandwidth, the covariance that it means, and the given columns."""
    rng = np.random.default_rng([d, len(form)])
    X = (rng.normal(size=(n, d)) + rng.normal(size=(n, 1))).astype(dtype)
    G, y = (1.5 * rng.normal(size=(m, d - 1))).astype(dtype), (2 * rng.normal(size=m)).astype(dtype)
    deviations = np.linspace(0.25, 0.45, d)
    root = 0.3 * (np.eye(d) + 0.6 * np.tril(np.ones((d, d)), -1))
    h = {"number": 0.3, "deviations": deviations, "covariance": root @ root.T}[form]
    covariance = h if form == "covariance" else np.diag(np.broadcast_to(h, d) ** 2)
    columns = list(range(1, d)) if form == "covariance" else list(range(d - 1))
    return X, G, y, h, covariance, columns


@pytest.mark.parametrize(
    ("d", "form", "dtype", "weighted"),
    [
        (2, "number", "float64", False),
        (2, "covariance", "float64", True),
        (3, "deviations", "float64", True),
        (3, "covariance", "float32", False),
        (4, "deviations", "float32", True),
    ],
)
def test_it_is_the_formula(backend: Backend, d: int, form: str, dtype: str, weighted: bool) -> None:
    """At values of their own, with more rows than nodes; at one value; and quantiles take it back."""
    n, m = backend.size(900, 150), backend.size(40, 5)
    X, G, y, h, covariance, columns = case(d, form, dtype, n, m)
    w = RNG.uniform(size=n) ** 3 if weighted else None
    if w is not None:
        w[::7] = 0
    x, values, queries, weights = (*map(backend.asarray, (X, G, y)), backend.asarray(w))
    given = {column: values[:, k] for k, column in enumerate(columns)}
    want = distribution(X, G, columns, y, covariance, w)
    got = cukde.conditional_cdf(x, given, queries, h, weights=weights)
    assert got.dtype == dtype
    np.testing.assert_allclose(backend.asnumpy(got), want, atol=ERROR[backend.device, dtype], rtol=0)
    one = {column: float(G[0, k]) for k, column in enumerate(columns)}
    want = distribution(X, np.repeat(G[:1], m, axis=0), columns, y, covariance, w)
    got = cukde.conditional_cdf(x, one, queries, h, weights=weights)
    np.testing.assert_allclose(backend.asnumpy(got), want, atol=ERROR[backend.device, dtype], rtol=0)
    levels = np.array([[0.02], [0.6]])
    found = backend.asnumpy(cukde.conditional_quantile(x, given, levels, h, weights=weights))
    assert found.shape == (2, m)
    assert found.dtype == dtype
    for level, at in zip(levels[:, 0], found, strict=True):
        np.testing.assert_allclose(
            distribution(X, G, columns, at, covariance, w), level, atol=2 * ERROR[backend.device, dtype]
        )


@pytest.mark.parametrize("left", [0, 1, 2])
@pytest.mark.parametrize("h", [(0.3, 0.2, 0.1), (1.0, 2.0, 3.0), (5.0, 0.1, 0.5)], ids=str)
def test_in_a_domain_it_integrates_the_conditional_density(backend: Backend, left: int, h: tuple[float, ...]) -> None:
    """Of one column with bounds or a period given two others, narrow and wide."""
    n = backend.size(150, 24)
    X = np.stack([RNG.uniform(0, 3, n), RNG.exponential(size=n), RNG.beta(2, 3, n)], axis=1)
    values = {column: value for column, value in {0: 0.4, 1: 0.3, 2: 0.9}.items() if column != left}
    y = np.array([0.15, 0.9]) * (3.0, 1.5, 1.0)[left]
    want = [
        integrate.quad(lambda t: cukde.conditional(X, values, [t], h, **DOMAIN)[0], 0, end, epsabs=1e-11, limit=200)[0]
        for end in y
    ]
    x, at = backend.asarray(X), backend.asarray(y)
    np.testing.assert_allclose(backend.asnumpy(cukde.conditional_cdf(x, values, at, h, **DOMAIN)), want, atol=1e-10)
    each = {column: backend.asarray(np.full(2, value)) for column, value in values.items()}
    np.testing.assert_allclose(backend.asnumpy(cukde.conditional_cdf(x, each, at, h, **DOMAIN)), want, atol=1e-10)
    levels = np.array(want)
    found = cukde.conditional_quantile(x, values, levels, h, **DOMAIN)
    np.testing.assert_allclose(backend.asnumpy(found), y, atol=1e-8)


def test_ends_of_a_domain() -> None:
    X = np.stack([RNG.normal(size=50), -RNG.exponential(size=50), RNG.uniform(0, 3, 50)], axis=1)
    options: dict[str, Any] = {"bounds": [None, (None, 0), None], "periods": [None, None, 3]}
    F = cukde.conditional_cdf(X, {0: 0.5, 2: 1.0}, [-1e3, 0.0, 2.0], 0.3, **options)
    np.testing.assert_allclose(F, [0, 1, 1], atol=1e-12)
    assert cukde.conditional_quantile(X, {0: 0.5, 2: 1.0}, 1 - 1e-9, 0.3, **options) <= 0
    F = cukde.conditional_cdf(X, {0: 0.5, 1: -1.0}, [-1.0, 0.0, 2.0, 3.0, 5.0], 0.3, **options)
    np.testing.assert_allclose(F, [F[2] - 1, 0, F[2], 1, F[2] + 1], atol=1e-12)


def test_statsmodels_agrees() -> None:
    nonparametric = pytest.importorskip("statsmodels.nonparametric.kernel_density")
    X = RNG.normal(size=(300, 3)) + RNG.normal(size=(300, 1))
    h = np.array([0.3, 0.4, 0.5])  # statsmodels has the column that is left first
    model = nonparametric.KDEMultivariateConditional(X[:, 2], X[:, :2], "c", "cc", bw=h[[2, 0, 1]])
    y, G = X[:25, 2] + 0.1, X[:25, :2]
    got = cukde.conditional_cdf(X, {0: G[:, 0], 1: G[:, 1]}, y, h)
    np.testing.assert_allclose(got, model.cdf(y, G), atol=1e-13)


def test_far_away_and_offset() -> None:
    """Far from the data in the given column the nearest row decides; and numbers may be far from zero."""
    X = RNG.normal(size=(400, 2))
    nearest = X[X[:, 0].argmax(), 1]
    got = cukde.conditional_cdf(X, {0: np.array([60.0, 1e5])}, [nearest, nearest], 0.1)
    np.testing.assert_allclose(got, 0.5, atol=1e-9)
    at = np.linspace(-1, 1, 20)
    want = cukde.conditional_cdf(X, {0: at}, at, 0.2)
    np.testing.assert_allclose(cukde.conditional_cdf(X + 1e6, {0: at + 1e6}, at + 1e6, 0.2), want, atol=1e-8)
    for h in (1e-6, 1e3):  # a node for each row; and one band for all
        want = distribution(X, at[:, None], [0], at, np.eye(2) * h * h)
        np.testing.assert_allclose(cukde.conditional_cdf(X, {0: at}, at, h), want, atol=1e-12)
    assert cukde.conditional_quantile(np.ones((5, 2)), {0: 1.0}, 0.5, 0.1) == pytest.approx(1.0)


@pytest.mark.parametrize("each", [False, True])
@pytest.mark.parametrize("form", ["deviations", "covariance"])
def test_samples_are_of_the_conditional_density(backend: Backend, form: str, each: bool, monkeypatch: Any) -> None:
    """Their distribution function is uniform; in one group of rows and in several."""
    from cukde.density.compositions import conditional_sample as module

    n, m, size = backend.size(300, 100), 5 if each else 1, 2000
    if each:
        monkeypatch.setattr(module, "_PAIRS", 256)
    X, G, _, h, covariance, columns = case(3, form, "float64", n, m)
    w = RNG.uniform(size=n)
    given = {c: backend.asarray(G[:, k]) if each else float(G[0, k]) for k, c in enumerate(columns)}
    draws = cukde.conditional_sample(
        backend.asarray(X), given, h, size=size, random_state=1, weights=backend.asarray(w)
    )
    assert draws.shape == ((m, size, 1) if each else (size, 1))
    for at, some in zip(G, backend.asnumpy(draws).reshape(m, size), strict=True):
        F = distribution(X, np.repeat(at[None], size, axis=0), columns, some, covariance, w)
        assert stats.kstest(F, "uniform").pvalue > 1e-4


def test_samples_of_several_columns_in_a_domain(backend: Backend) -> None:
    n = backend.size(200, 60)
    X = np.stack([RNG.uniform(0, 3, n), RNG.exponential(size=n), RNG.beta(2, 3, n)], axis=1)
    h = [0.4, 0.3, 0.2]
    draws = cukde.conditional_sample(backend.asarray(X), {0: 0.1}, h, size=3000, random_state=0, **DOMAIN)
    draws = backend.asnumpy(draws)
    assert draws.shape == (3000, 2)
    assert (draws >= 0).all()
    assert (draws[:, 1] <= 1).all()
    log_shares = cukde.kde([0.1], X[:, 0], 0.4, periods=3, log=True)  # of the rows, by symmetry
    for k in (1, 2):
        ends = DOMAIN["bounds"][k]
        F = cukde.cdf(X[:, k], draws[:, k - 1], h[k], weights=np.exp(log_shares), bounds=[ends])
        assert stats.kstest(F, "uniform").pvalue > 1e-4
    one = cukde.conditional_sample(backend.asarray(X), {0: backend.asarray(X[:4, 0])}, h, random_state=0, **DOMAIN)
    assert one.shape == (4, 2)


def test_frames_and_names() -> None:
    frame = pd.DataFrame(RNG.normal(size=(60, 3)), columns=["a", "b", "c"], index=range(5, 65))
    values = {"a": frame["a"], "c": 0.3}
    F = cukde.conditional_cdf(frame, values, frame["b"], [0.3, 0.4, 0.5])
    assert isinstance(F, pd.Series)
    assert F.index.equals(frame.index)
    X = frame.to_numpy()
    want = distribution(X, np.stack([X[:, 0], np.full(60, 0.3)], 1), [0, 2], X[:, 1], np.diag([0.09, 0.16, 0.25]))
    np.testing.assert_allclose(F, want, atol=1e-12)
    back = cukde.conditional_quantile(frame, values, F, [0.3, 0.4, 0.5])
    np.testing.assert_allclose(back, X[:, 1], atol=1e-9)
    drawn = cukde.conditional_sample(frame, {"b": 0.5}, 0.3, size=7, random_state=0)
    assert list(drawn.columns) == ["a", "c"]
    np.testing.assert_array_equal(drawn, cukde.conditional_sample(X, {1: 0.5}, 0.3, size=7, random_state=0))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda X: cukde.conditional_cdf(X, {0: 0.5}, [1.0], 0.3), "given must leave one column .* 2 are left"),
        (lambda X: cukde.conditional_quantile(X, {0: 0.5, 1: 1.0}, 1.0, 0.3), "q must lie between 0 and 1"),
        (
            lambda X: cukde.conditional_quantile(X, {0: [0.5, 1], 1: 1.0}, [0.1, 0.2, 0.3], 0.3),
            "q must be a number, or",
        ),
        (
            lambda X: cukde.conditional_quantile(X, {0: [0.5, 1], 1: [1.0]}, 0.1, 0.3),
            r"given\[1\] must .* shape \(2,\)",
        ),
        (lambda X: cukde.conditional_sample(X, {0: 0.5}, 0.3, size=-1), "size must"),
        (lambda X: cukde.conditional_sample(X, {0: 0.5}, 0.3, random_state="a"), "random_state must"),
        (
            lambda X: cukde.conditional_cdf(X, {0: 1.0, 1: 1.0}, [1.0], np.eye(3) + 0.1, periods=[None, 4, None]),
            "h must not correlate a periodic column",
        ),
        (
            lambda X: cukde.conditional_cdf(X, {0: -9.0, 1: 1.0}, [1.0], 0.1, bounds=[(-8, None), None, None]),
            r"given\[0\] must lie within the bounds",
        ),
    ],
)
def test_errors(call: Any, message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        call(RNG.normal(size=(20, 3)))


@pytest.mark.parametrize("h", [0.25, [[0.0625, 0.03], [0.03, 0.0625]]], ids=["a number", "a covariance"])
@pytest.mark.parametrize("several", [False, True])
def test_an_offset_costs_no_accuracy(backend: Backend, h: Any, several: bool) -> None:
    """With 1e8 added, of which these numbers are not rounded, on a line of 160 bandwidths."""
    X = np.round(1024 * np.random.default_rng(2).normal(size=(40, 2)) * [1.0, 10.0]) / 1024
    y, offset = np.array([-3.25, 0.5, 4.0]), 2.0**27

    def results(offset: float) -> list[np.ndarray]:
        given = {0: backend.asarray(np.full(3, 0.5) + offset) if several else 0.5 + offset}
        x = backend.asarray(X + offset)
        found = [cukde.conditional_cdf(x, given, backend.asarray(y + offset), h)]
        found.append(cukde.conditional(x, given, backend.asarray(y + offset), h) if not several else found[0])
        found.append(cukde.conditional_quantile(x, given, np.array([0.1, 0.5, 0.9]), h) - offset)
        return [backend.asnumpy(a) for a in found]

    for got, want, atol in zip(results(offset), results(0.0), (1e-13, 1e-13, 3e-8), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-12, atol=atol)


def test_values_that_are_no_numbers_draw_nothing(backend: Backend) -> None:
    X, values = RNG.normal(size=(50, 2)), np.array([0.0, np.nan, 0.5])
    options: dict[str, Any] = {"random_state": 0, "check_finite": False}
    got = backend.asnumpy(cukde.conditional_sample(backend.asarray(X), {0: backend.asarray(values)}, 0.5, **options))
    want = cukde.conditional_sample(X, {0: np.array([0.0, 0.2, 0.5])}, 0.5, random_state=0)
    np.testing.assert_allclose(got, np.where([[False], [True], [False]], np.nan, want))


def test_samples_given_correlated_columns_beside_one_with_ends(backend: Backend) -> None:
    X = np.random.default_rng(5).normal(size=(12, 4))
    X[:, 3] = 10 * np.arange(12)
    h, given = np.diag([0.25, 0.25, 0.25, 0.01]), {0: 0.5, 1: -0.5, 2: 0.0}
    h[0, 1] = h[1, 0] = 0.23
    bounds = [None, None, (-9.0, 9.0), None]  # so far that its column is as without
    drawn = cukde.conditional_sample(backend.asarray(X), given, h, size=4000, random_state=0, bounds=bounds)
    counts = np.bincount(np.round(backend.asnumpy(drawn)[:, 0] / 10).astype(int), minlength=12)
    expected = shares(X, np.array([[0.5, -0.5, 0.0]]), [0, 1, 2], h)[0]
    np.testing.assert_allclose(counts / 4000, expected, atol=0.03)


@pytest.mark.parametrize("ends", [{}, {"bounds": [None, (0.0, None)]}, {"periods": [3.0, None]}], ids=str)
def test_rows_that_are_alone_beside_groups(backend: Backend, ends: dict[str, Any]) -> None:
    """More nodes than are taken at once on NumPy, of which queries reach few."""
    n = backend.size(1200, 30)
    x = np.concatenate([RNG.uniform(size=n // 3), 10.0 + 10 * np.arange(n)])
    X = np.stack([RNG.uniform(0, 3, len(x)), x], axis=1)
    y, values, h = np.array([0.4, 11.0, 5.0 * n]), np.array([0.1, 1.0, 2.9]), (5.0 if "periods" in ends else 0.5, 1.0)
    given = {0: backend.asarray(values)}
    got = cukde.conditional_cdf(backend.asarray(X), given, backend.asarray(y), h, **ends)
    one = [cukde.conditional_cdf(X, {0: v}, [at], h, **ends)[0] for v, at in zip(values, y, strict=True)]
    W = np.exp(-0.5 * (0 if "periods" in ends else ((values[:, None] - X[:, 0]) / 0.5) ** 2)) * np.ones((3, len(x)))
    W /= W.sum(axis=1, keepdims=True)
    F = stats.norm.cdf(y[:, None] - x) - (stats.norm.cdf(-y[:, None] - x) if "bounds" in ends else 0)
    np.testing.assert_allclose(one, (W * F).sum(axis=1), atol=1e-6 if "periods" in ends else 1e-11)
    np.testing.assert_allclose(backend.asnumpy(got), one, atol=1e-11)
    levels = cukde.conditional_quantile(backend.asarray(X), given, backend.asarray(np.clip(one, 1e-9, None)), h, **ends)
    back = cukde.conditional_cdf(backend.asarray(X), given, levels, h, **ends)
    np.testing.assert_allclose(backend.asnumpy(back), one, atol=1e-10)
