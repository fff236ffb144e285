"""Promised accuracies where rounding does not average out: tight clusters, wide data, and data far from zero.

Expected numbers are long double sums of squared differences of the inputs as they are given.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import cukde
from tests.conftest import Backend
from tests.tolerances import DENSITY, GRID, check

MANY = settings(max_examples=40, deadline=None, derandomize=True)


def log_density(
    X: np.ndarray, Y: np.ndarray, h: Any, factors: Any = 1.0, weights: Any = 1.0
) -> tuple[np.ndarray, np.ndarray]:
    """Log densities and least exponents; ``h`` a number or one for each column, ``factors`` of the rows."""
    factors, weights = (np.broadcast_to(np.asarray(a, np.longdouble), (len(X),)) for a in (factors, weights))
    h = np.broadcast_to(np.asarray(h, np.longdouble), X.shape[1:])
    z = (X.astype(np.longdouble) - Y[:, None].astype(np.longdouble)) / (h * factors[:, None])
    q = 0.5 * (z * z).sum(axis=2)
    terms = -q - X.shape[1] * np.log(factors) + np.log(weights / weights.sum())
    top = terms.max(axis=1, keepdims=True)
    logs = top[:, 0] + np.log(np.exp(terms - top).sum(axis=1))
    return logs - X.shape[1] * np.log(2 * np.longdouble(np.pi)) / 2 - np.log(h).sum(), q.min(axis=1)


def verify(got: np.ndarray, want: np.ndarray, least: np.ndarray) -> None:
    """Check log densities: by 8 eps times the least exponent where that is above 80."""
    rounding = np.finfo(got.dtype).eps * (1 + np.abs(want))
    farther = np.where(least > 80, 8 * np.finfo(got.dtype).eps * least, 0)
    allowed = np.maximum(DENSITY["cpu", str(got.dtype)].value, farther) + rounding
    check(np.abs(got - want).astype(float), allowed.astype(float), "log density")


@MANY
@given(
    dtype=st.sampled_from(["float32", "float64"]),
    d=st.sampled_from([2, 3, 4, 6, 8, 16, 32]),
    clusters=st.sampled_from([2, 3, 20]),
    along=st.sampled_from(["all", "one", "two"]),
    share=st.sampled_from([0.55, 0.97, 0.99, 1.02]),
    limit=st.sampled_from([88, 150, 2500, 2800, 4000]),
    weighted=st.booleans(),
    n=st.sampled_from([60, 600]),
    seed=st.integers(0, 2**32 - 1),
)
def test_tight_clusters_at_the_limits_of_matrix_products(
    dtype: str, d: int, clusters: int, along: str, share: float, limit: int, weighted: bool, n: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    radius = np.sqrt(share * limit)
    centres = rng.normal(size=(clusters, d))
    centres[:, {"all": d, "one": 1, "two": 2}[along] :] *= 1e-3
    centres *= radius / np.linalg.norm(centres, axis=1, keepdims=True)
    if clusters == 2:
        centres[1] = -centres[0]
    centres = centres - centres.mean(axis=0) + 3
    step = rng.normal(size=(150, d))
    step *= np.exp(rng.uniform(np.log(1e-2), np.log(12), size=(150, 1))) / np.linalg.norm(step, axis=1, keepdims=True)
    Y = centres[rng.integers(0, clusters, 150)] + step - 3
    Y = (Y * np.minimum(1, radius / np.linalg.norm(Y, axis=1, keepdims=True)) + 3).astype(dtype)
    centres, member = centres.astype(dtype), np.arange(n) % clusters
    w = rng.exponential(size=clusters) ** 3 if weighted else np.ones(clusters)
    want = log_density(centres, Y, 1.0, weights=w * np.bincount(member, minlength=clusters))
    options = {"weights": w[member]} if weighted else {}
    verify(cukde.kde(centres[member], Y, 1.0, rtol=0, log=True, **options), *want)


@pytest.mark.long
@settings(max_examples=25, deadline=None, derandomize=True)
@given(
    d=st.sampled_from([40, 64, 120, 300, 700]),
    along=st.sampled_from([1.0, 0.5, 0.05]),
    share=st.sampled_from([0.3, 0.99, 1.01]),
    width=st.sampled_from([0.0, 0.01, 0.3]),
    reach=st.sampled_from([1.0, 12.0, 60.0]),
    seed=st.integers(0, 2**32 - 1),
)
def test_clusters_of_many_columns_in_single_precision(
    d: int, along: float, share: float, width: float, reach: float, seed: int
) -> None:
    """At queries near and farther out than 80, and at the data themselves, of which norms may be larger."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(3, d))
    centres[:, round(along * d) :] *= 1e-3
    X = centres[rng.integers(0, 3, 200)] + width / np.sqrt(d) * rng.normal(size=(200, d))
    X -= X.mean(axis=0)
    squared = share * min(1000, max(150, 27 * np.sqrt(d)))
    X *= np.sqrt(squared / (X * X).sum(axis=1).max())
    step = rng.normal(size=(150, d))
    step *= np.exp(rng.uniform(np.log(1e-2), np.log(reach), (150, 1))) / np.linalg.norm(step, axis=1, keepdims=True)
    Y = X[rng.integers(0, 200, 150)] + step
    Y *= np.minimum(1, np.sqrt(squared) / np.linalg.norm(Y, axis=1, keepdims=True))
    X, Y = (X + 3).astype("f4"), (Y + 3).astype("f4")
    verify(cukde.kde(X, Y, 1.0, rtol=0, log=True), *log_density(X, Y, 1.0))
    verify(cukde.kde(X, X, 1.0, rtol=0, log=True), *log_density(X, X, 1.0))


@settings(max_examples=25, deadline=None, derandomize=True)
@given(
    d=st.sampled_from([100, 130, 400]),
    along=st.sampled_from([1.0, 0.2, 0.01]),
    squared=st.sampled_from([200.0, 3e3, 1e5]),
    seed=st.integers(0, 2**32 - 1),
)
def test_queries_far_from_wide_data_in_many_columns(d: int, along: float, squared: float, seed: int) -> None:
    """Their exponents are so large that single precision serves; a few others lie near."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(200, d))
    X[:, max(1, round(along * d)) :] *= 1e-3
    X -= X.mean(axis=0)
    X *= np.sqrt(squared / (X * X).sum(axis=1).max())
    step = rng.normal(size=(150, d))
    step *= np.sqrt(2 * max(80, squared / 7)) * rng.uniform(1, 1.3, (150, 1)) / np.linalg.norm(step, axis=1)[:, None]
    step[rng.integers(0, 150, 4)] *= rng.uniform(0, 1, (4, 1)) ** 3
    X, Y = (X + 3).astype("f4"), (X[rng.integers(0, 200, 150)] + step + 3).astype("f4")
    verify(cukde.kde(X, Y, 1.0, rtol=0, log=True), *log_density(X, Y, 1.0))


@MANY
@given(
    dtype=st.sampled_from(["float32", "float64"]),
    offset=st.sampled_from([0.0, 1e4, -5e6, 1.7e9]),
    steps=st.sampled_from([4.0, 100.0, 1e5]),
    regular=st.booleans(),
    algorithm=st.sampled_from(["auto", "fft"]),
    domain=st.sampled_from([{}, {"bounds": True}, {"periods": True}]),
    seed=st.integers(0, 2**32 - 1),
)
def test_grids_far_from_zero(
    dtype: str, offset: float, steps: float, regular: bool, algorithm: str, domain: dict[str, bool], seed: int
) -> None:
    rng = np.random.default_rng(seed)
    h, precision = float(np.spacing(np.asarray(max(abs(offset), 1), dtype))) * steps, "float64"
    X = (offset + h * rng.normal(size=(3000, 2)) * 8).astype(dtype)
    g = np.linspace(-30, 30, 60) if regular else np.sort(rng.uniform(-30, 30, 60))
    axis = (offset + h * g).astype(dtype)
    low, high = np.float64(min(X.min(), axis.min())), np.float64(max(X.max(), axis.max()))
    options: Any = {}
    if domain:
        name = next(iter(domain))
        options[name] = [(low, high) if name == "bounds" else high - low + 5 * h, None]
    got = cukde.evaluate_grid(X, [axis, axis], h, algorithm=algorithm, precision=precision, **options)
    mesh = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)
    some = rng.integers(0, len(mesh), 150)
    if domain:
        want = cukde.kde(X, mesh[some], h, rtol=0, precision=precision, **options)
    else:
        want = np.exp(log_density(X, mesh[some], h)[0])
    error = np.abs(got.reshape(-1)[some] - want) / got.max()
    check(error.astype(float), np.asarray(GRID["float64"].value + 2 * np.finfo(dtype).eps), "density of the largest")


@MANY
@given(
    form=st.sampled_from(["deviations", "covariance", "factors", "number"]),
    d=st.sampled_from([1, 2, 4]),
    offset=st.sampled_from([0.0, 1e4, 1e9]),
    h=st.sampled_from([1e-3, 1e-6, 1e-14]),
    n=st.sampled_from([60, 400]),
    seed=st.integers(0, 2**32 - 1),
)
def test_a_bandwidth_that_is_a_number_takes_differences(
    form: str, d: int, offset: float, h: float, n: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    h = max(h, 8 * np.spacing(offset))
    X = offset + rng.normal(size=(n, d))
    Y = X[rng.integers(0, n, 200)] + 3 * h * rng.normal(size=(200, d))
    factors = np.exp(0.3 * rng.normal(size=n)) if form == "factors" else np.ones(n)
    given_h: Any = {"deviations": np.full(d, h), "covariance": np.eye(d) * h**2}.get(form, h)
    options = {"local_factors": factors} if form == "factors" else {}
    verify(cukde.kde(X, Y, given_h, log=True, **options), *log_density(X, Y, h, factors))


@MANY
@given(
    form=st.sampled_from(["deviations", "covariance"]),
    function=st.sampled_from(["kde", "score", "laplace", "stack", "leave one out"]),
    d=st.sampled_from([2, 3, 6]),
    offset=st.sampled_from([0.0, 1e6]),
    spread=st.sampled_from([1e2, 2e3, 1e5, 1e8]),
    weighted=st.booleans(),
    n=st.sampled_from([20, 120, 500]),
    seed=st.integers(0, 2**32 - 1),
)
def test_whitened_data_that_reach_far(
    form: str, function: str, d: int, offset: float, spread: float, weighted: bool, n: int, seed: int
) -> None:
    """Rotated coordinates by a covariance with small whole numbers, whose inverse factor is exact."""
    rng = np.random.default_rng(seed)
    X = offset + rng.normal(size=(n, d))
    h = max(1 / spread, 64 * np.spacing(offset))
    L = (
        np.tril(rng.integers(-1, 2, size=(d, d)), -1) + np.eye(d)
        if form == "covariance"
        else np.diag(np.geomspace(1, 3, d))
    )
    scale = 2.0 ** np.floor(np.log2(h))
    given_h: Any = L @ L.T * scale**2 if form == "covariance" else np.diag(L) * scale
    Y = X[rng.integers(0, n, 140)] + rng.normal(size=(140, d)) @ L.T * scale * np.exp(rng.uniform(-4, 1, (140, 1)))
    w = rng.integers(0, 4, n) if weighted else np.ones(n)
    w[:2] = 1
    options = {"weights": w} if weighted else {}
    Z = np.linalg.inv(L).round() if form == "covariance" else np.eye(d)
    unit = 1.0 if form == "covariance" else np.diag(L)
    step = (X.astype(np.longdouble) - (X if function == "leave one out" else Y)[:, None]) @ Z.T / (unit * scale)
    q, log_w = 0.5 * (step * step).sum(axis=2), np.log(np.where(w > 0, w, 1e-300).astype(np.longdouble))
    if function == "leave one out":
        q[np.arange(n), np.arange(n)] = np.inf
    terms = np.where(w > 0, log_w - q, -np.inf)
    top = terms.max(axis=1)
    k = np.exp(terms - top[:, None])
    total = k.sum(axis=1)
    log_p = (
        np.log(total) + top - np.log(2 * np.longdouble(np.pi)) * d / 2 - np.log(np.linalg.det(L)) - d * np.log(scale)
    )
    log_p -= np.log(w.sum() - (w if function == "leave one out" else 0))
    near = np.where(w > 0, q, np.inf).min(axis=1)
    if function == "score":
        got = cukde.score(X, Y, given_h, **options) @ L * scale
        want = (k[..., None] * step).sum(axis=1) / total[:, None]
        error = np.linalg.norm((got - want).astype(float), axis=1)
        check(error[near <= 72], np.asarray(1e-12 * 12), "score")
    elif function == "laplace":
        got = cukde.laplace_kde(X, Y, given_h, **options)
        factors = 1 + d / 2 - q
        want, size = (k * factors).sum(axis=1)[near <= 72], (k * np.abs(factors)).sum(axis=1)[near <= 72]
        p = np.exp(log_p)[near <= 72] / total[near <= 72]
        check((np.abs(got[near <= 72] - want * p) / (size * p)).astype(float), np.asarray(2e-12), "laplace")
    else:
        if function == "stack":
            got = cukde.kde(np.stack([X, X]), np.stack([Y, Y]), np.stack([given_h, given_h]), log=True, **options)[1]
        elif function == "leave one out":
            got = cukde.kde(X, X, given_h, log=True, leave_one_out=True, **options)
        else:
            got = cukde.kde(X, Y, given_h, log=True, **options)
        verify(got, log_p, near)


def cholesky(H: np.ndarray) -> np.ndarray:
    """Lower factor of a covariance in long doubles, for which NumPy has none."""
    L = np.zeros(H.shape, np.longdouble)
    for i in range(len(H)):
        for j in range(i):
            L[i, j] = (H[i, j] - L[i, :j] @ L[j, :j]) / L[j, j]
        L[i, i] = np.sqrt(H[i, i] - L[i, :i] @ L[i, :i])
    return L


def solved(L: np.ndarray, A: np.ndarray) -> np.ndarray:
    """L^-1 times each of some vectors, (..., d), in long doubles."""
    Z = np.zeros(A.shape, np.longdouble)
    for i in range(len(L)):
        Z[..., i] = (A[..., i] - Z[..., :i] @ L[i, :i]) / L[i, i]
    return Z


@pytest.mark.parametrize("spread", [0, 3, 100, 1e4])
@pytest.mark.parametrize("condition", [1, 1e2, 1e4, 1e6, 1e8])
@pytest.mark.parametrize("d", [2, 5])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_covariances_of_any_condition(backend: Backend, dtype: str, d: int, condition: float, spread: float) -> None:
    """``spread`` is that of the data in bandwidths; 0: the same in all directions, however narrow the kernel."""
    rng = np.random.default_rng(int(condition) + d)
    n, m = backend.size(400, 60), backend.size(200, 40)
    axes = np.linalg.qr(rng.normal(size=(d, d)))[0]
    H = axes * np.geomspace(0.01, 0.01 * condition, d) @ axes.T
    H = (H + H.T) / 2
    L = cholesky(H)
    X = (rng.normal(size=(n, d)) @ (spread * L.T.astype(float) if spread else np.eye(d))).astype(dtype)
    step = rng.normal(size=(m, d))
    step *= np.exp(rng.uniform(np.log(1e-2), np.log(12), (m, 1))) / np.linalg.norm(step, axis=1, keepdims=True)
    Y = (X[rng.integers(0, n, m)] + step @ L.T.astype(float)).astype(dtype)

    z = solved(L, X.astype(np.longdouble) - Y[:, None].astype(np.longdouble))
    q = (z * z).sum(axis=2) / 2
    least = q.min(axis=1)
    near = least <= 72
    assert near.sum() > m / 2
    k = np.exp(least[:, None] - q)
    total = k.sum(axis=1)
    log_scale = -least - np.log(np.longdouble(n)) - d * np.log(2 * np.longdouble(np.pi)) / 2 - np.log(np.diag(L)).sum()
    log_p = log_scale + np.log(total)

    eps, rounding = np.finfo(np.float64).eps, np.finfo(dtype).eps / 2
    reach = np.maximum(1, (k * np.sqrt(2 * q)).sum(axis=1) / total)
    allowed = DENSITY[backend.device, dtype].value + condition * eps * (d + least)
    if backend.device == "gpu":
        from_mean = np.sqrt((solved(L, Y - X.mean(axis=0, dtype=np.longdouble)) ** 2).sum(axis=1))
        allowed = allowed + d * np.sqrt(condition) * eps * from_mean * reach
    x, y = backend.asarray(X), backend.asarray(Y)

    def verify_near(error: np.ndarray, bound: np.ndarray, what: str) -> None:
        check(error[near].astype(float), bound[near].astype(float), what)

    got = backend.asnumpy(cukde.kde(x, y, H, log=True, rtol=0))
    verify_near(np.abs(got - log_p), allowed + rounding * np.abs(log_p), "log density")

    got = backend.asnumpy(cukde.score(x, y, H, rtol=0))
    error = np.linalg.norm((got @ L - (k[..., None] * z).sum(axis=1) / total[:, None]).astype(float), axis=1)
    of_result = np.linalg.norm((np.abs(got) @ np.abs(L)).astype(float), axis=1)
    verify_near(error, allowed * reach + rounding * of_result, "score")

    got = backend.asnumpy(cukde.laplace_kde(x, y, H, rtol=0))
    scale, size = np.exp(log_scale), (k * (1 + d / 2 + q)).sum(axis=1)
    want = scale * (k * (1 + d / 2 - q)).sum(axis=1)
    of_exponent = 1 + 2 / (d + 2)  # an error of an exponent near 0 also counts in the factor of its term
    verify_near(np.abs(got - want), scale * size * (of_exponent * allowed + rounding) + np.finfo(dtype).tiny, "Laplace")
