"""Second derivatives against sums in extended precision, differences of the score, and closed forms."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import cukde
from cukde import perf
from cukde.core.cost.registry import called
from tests.conftest import Backend
from tests.density.test_information import CPU, covariance
from tests.perf.processors import H200


def oracle(X: Any, Y: Any, h: Any, w: Any = None, f: Any = None, *, log: bool) -> np.ndarray:
    """The formula; without ``log`` over the density."""
    X, Y = (np.asarray(a, np.longdouble).reshape(len(a), -1) for a in (X, Y))
    n, d = X.shape
    w, f = (np.ones(n, np.longdouble) if a is None else np.asarray(a, np.longdouble) for a in (w, f))
    P = np.linalg.inv(covariance(h, d)).astype(np.longdouble)
    out = np.empty((len(Y), d, d))
    for i, y in enumerate(Y):
        z = X - y
        along = (z @ P) / f[:, None] ** 2
        with np.errstate(divide="ignore"):
            a = -0.5 * (z * along).sum(axis=1) + np.log(w) - d * np.log(f)
        k = np.exp(a - a.max())
        k /= k.sum()
        second = np.einsum("j,jk,jl->kl", k, along, along) - (k / f**2).sum() * P
        score = k @ along
        out[i] = second - np.outer(score, score) if log else second
    return out


def check(backend: Backend, X: Any, Y: Any, h: Any, tolerance: float, w: Any = None, f: Any = None) -> None:
    x, y, weights, factors = (backend.asarray(a) for a in (X, Y, w, f))
    unit = np.diag(1 / np.sqrt(np.diag(covariance(h, np.asarray(X).reshape(len(X), -1).shape[1]))))
    least = 1.0 if f is None else np.min(f)
    options: dict[str, Any] = {"weights": weights, "local_factors": factors}
    for log in (True, False):
        got = backend.asnumpy(cukde.hessian(x, y, h, log=log, **options))
        assert got.dtype == np.result_type(X, Y)
        np.testing.assert_array_equal(got, got.swapaxes(1, 2))
        if not log:
            p = backend.asnumpy(cukde.kde(x, y, h, precision="float64", **options))
            assert (p > 0).all()
            got = got / p[:, None, None]
        want = oracle(X, Y, h, w, f, log=log)
        allowed = tolerance * np.maximum(unit @ np.ones_like(unit) @ unit / least**4, abs(want))
        assert (abs(got - want) <= allowed).all(), (abs(got - want) / allowed).max()


WIDTHS = {"a number": 0.6, "deviations": [0.5, 0.9, 0.7], "a covariance": 0.3 * np.eye(3) + 0.1}


@pytest.mark.parametrize("h", WIDTHS.values(), ids=WIDTHS)
@pytest.mark.parametrize("more", ["", "weights", "factors"])
def test_it_is_the_formula(backend: Backend, h: Any, more: str) -> None:
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(70, 3)), rng.normal(size=(9, 3))
    w = np.r_[0, rng.uniform(0.1, 2, 69)] if more else None
    check(backend, X, Y, h, 1e-11, w, rng.uniform(0.5, 2, 70) if more == "factors" else None)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("d", [1, 2, 7])
def test_dtypes_and_offsets(backend: Backend, d: int, dtype: str) -> None:
    rng = np.random.default_rng(d)
    X, Y = (1e4 + rng.normal(size=(n, d)) for n in (60, 5))
    check(backend, X.astype(dtype), Y.astype(dtype), 0.8, 1e-6 if dtype == "float32" else 1e-10)


def test_groups_that_are_far_apart(backend: Backend) -> None:
    """Moments are taken near the data that count: about their common mean 1e-4 of a squared bandwidth would be left."""
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(60, 2)), rng.normal(size=(8, 2))
    X[::2] += 1e6
    Y[::3] += 1e6
    check(backend, X, Y, 0.9, 2e-9)


@pytest.mark.parametrize("d", [1, 2, 3])
def test_of_one_datum(backend: Backend, d: int) -> None:
    y = np.linspace(-2, 2, d)
    X, Y = backend.asarray(np.zeros((1, d))), backend.asarray(np.stack([y, 1e5 + y]))
    got = backend.asnumpy(cukde.hessian(X, Y, 2.0, log=True))
    np.testing.assert_allclose(got, np.broadcast_to(-np.eye(d) / 4, (2, d, d)), rtol=0, atol=1e-15)
    p = math.exp(-(y @ y) / 8) / (8 * math.pi) ** (d / 2)
    got = backend.asnumpy(cukde.hessian(X, Y, 2.0))
    np.testing.assert_allclose(got[0], p * (np.outer(y, y) / 16 - np.eye(d) / 4), rtol=1e-12, atol=1e-15)
    assert (got[1] == 0).all()


def test_it_is_the_derivative_of_the_score(either: Backend) -> None:
    rng = np.random.default_rng(1)
    X, Y, h, step = either.asarray(rng.normal(size=(200, 2))), rng.normal(size=(6, 2)), 0.5, 1e-4
    got = either.asnumpy(cukde.hessian(X, either.asarray(Y), h, log=True))
    for k, e in enumerate(np.eye(2) * step):
        ahead, behind = (either.asnumpy(cukde.score(X, either.asarray(Y + s * e), h)) for s in (1, -1))
        np.testing.assert_allclose(got[:, :, k], (ahead - behind) / (2 * step), rtol=1e-6, atol=1e-6)


def test_newton_steps_end_at_a_mode(either: Backend) -> None:
    rng = np.random.default_rng(2)
    X = either.asarray(rng.normal(size=(300, 2)))
    mode = either.asnumpy(cukde.modes(X, 0.8).points)[:1]
    y = mode + 0.1
    for _ in range(5):
        step = np.linalg.solve(
            either.asnumpy(cukde.hessian(X, either.asarray(y), 0.8, log=True))[0],
            either.asnumpy(cukde.score(X, either.asarray(y), 0.8))[0],
        )
        y = y - step
    np.testing.assert_allclose(y, mode, atol=1e-6)


def test_queries_none_are_the_data(backend: Backend) -> None:
    X = backend.asarray(np.random.default_rng(0).normal(size=(40, 2)))
    got, want = (backend.asnumpy(cukde.hessian(X, Y, 0.7)) for Y in (None, X + 0))
    np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-13)
    assert cukde.hessian(X, X[:0], 0.7).shape == (0, 2, 2)


def test_missing_values_and_frames() -> None:
    pd = pytest.importorskip("pandas")
    X = np.random.default_rng(0).normal(size=(30, 2))
    table = pd.DataFrame(X, columns=["a", "b"])
    queries = table[["b", "a"]].head(4).copy()
    queries.iloc[1, 0] = np.nan
    got = cukde.hessian(table, queries, {"b": 0.5, "a": 0.7}, nan_policy="omit")
    want = cukde.hessian(X, X[[0, 2, 3]], [0.7, 0.5])  # of as many queries, or products round otherwise
    assert np.isnan(got[1]).all()
    np.testing.assert_array_equal(got[[0, 2, 3]], want)


def test_errors() -> None:
    X = np.zeros((3, 2))
    with pytest.raises(TypeError, match="bounds"):
        cukde.hessian(X, X, 1.0, bounds=[(0, 1), None])  # type: ignore[call-arg]
    with pytest.raises(ValueError, match=r"X must have shape \(rows, columns\)"):
        cukde.hessian(np.zeros((2, 3, 2)), X, 1.0)
    with pytest.raises(TypeError, match="X must be"):
        cukde.hessian(pytest.importorskip("dask.array").from_array(X), X, 1.0)


def test_its_cost_is_that_of_ten_values() -> None:
    for on in (H200, CPU):
        found = perf.cost("hessian", on, n=4096, m=100, d=3)
        values = perf.cost("kernel_sum", on, n=4096, m=100, d=3, k=10, precision="float64")
        assert found.exponentials == values.exponentials
        assert found.bytes > values.bytes
    X = np.zeros((9, 2), np.float32)
    assert {"n": 9, "m": 4, "d": 2}.items() <= called(cukde.hessian, (X, X[:4], 1.0), {"log": True})[1].items()


def test_logarithms_of_sums_of_values(backend: Backend) -> None:
    """Of queries that all values of some size are far from, too, and of signs and zeros by the column."""
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(80, 2)), rng.normal(size=(7, 2))
    Y[0] = 300
    V = rng.uniform(0.1, 2, (80, 4)) * [1, -1, 0, 1]
    V[np.linalg.norm(X, axis=1) < 2, 3] = 0
    got = backend.asnumpy(cukde.kernel_sum(backend.asarray(X), backend.asarray(V), backend.asarray(Y), 0.3, log=True))
    q = -0.5 * ((Y[:, None] - X) ** 2).sum(axis=2) / 0.09
    with np.errstate(divide="ignore"):
        terms = q[:, :, None] + np.log(abs(V))
    want = np.logaddexp.reduce(terms, axis=1)
    assert (got[:, 2] == -np.inf).all()
    np.testing.assert_allclose(got[:, [0, 1, 3]], want[:, [0, 1, 3]], rtol=1e-12, atol=1e-12)
    one = cukde.kernel_sum(backend.asarray(X), backend.asarray(V[:, 3]), backend.asarray(Y), 0.3, log=True)
    np.testing.assert_array_equal(backend.asnumpy(one), got[:, 3])


@pytest.mark.parametrize("lazy", [False, True])
def test_logarithms_of_both_signs_are_refused(lazy: bool) -> None:
    da = pytest.importorskip("dask.array")
    X, V = np.zeros((4, 1)), np.array([[1.0, 2.0], [3.0, -1.0], [0.0, 1.0], [1.0, 1.0]])
    x = da.from_array(X, chunks=2) if lazy else X
    with pytest.raises(ValueError, match="V must have no numbers of both signs"):
        np.asarray(cukde.kernel_sum(x, V, X[:1], 1.0, log=True))
    np.testing.assert_allclose(np.asarray(cukde.kernel_sum(x, V[:, 0], X[:1], 1.0, log=True)), [math.log(5)])
    series = pytest.importorskip("pandas").Series(V[:, 0])
    assert cukde.kernel_sum(X, series, pytest.importorskip("pandas").DataFrame(X), 1.0, log=True).name == (
        "log_kernel_sum"
    )


def test_no_queries_of_data_that_reach_far(backend: Backend) -> None:
    assert cukde.hessian(backend.asarray([0.0, 1e4]), backend.asarray(np.empty(0)), 1.0).shape == (0, 1, 1)
