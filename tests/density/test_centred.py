"""The centred passes: sums over data of any kind, against float64; emulated, and on a GPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cukde.density.options import Options
from cukde.density.sums import PartialSums
from tests import reference, tolerances
from tests.density.conftest import Modules


def clusters(rng: np.random.Generator, n: int, d: int) -> np.ndarray:
    """Five clusters of unequal widths; their places are the same for data and queries."""
    middles = np.random.default_rng(77).normal(size=(5, d)) * 3
    of = rng.integers(0, 5, n)
    return middles[of] + np.array([0.2, 0.5, 1, 1.5, 3.0])[of, None] * rng.normal(size=(n, d))


def outlier(rng: np.random.Generator, n: int, d: int) -> np.ndarray:
    """One normal, and a row a million deviations away, twice."""
    x = rng.normal(size=(n, d))
    x[n // 3] = 1e6
    x[n // 2] = 1e6 + 0.3
    return x


def duplicates(rng: np.random.Generator, n: int, d: int) -> np.ndarray:
    """A fifth of the rows are one row."""
    x = clusters(rng, n, d)
    x[rng.integers(0, n, n // 5)] = x[0]
    return x


KINDS = {
    "normal": lambda rng, n, d: rng.normal(size=(n, d)),
    "clusters": clusters,
    "cauchy": lambda rng, n, d: clusters(rng, n, d) + 0.1 * rng.standard_cauchy(size=(n, d)),
    "far": lambda rng, n, d: rng.normal(size=(n, d)) + 1e4,
    "outlier": outlier,
    "duplicates": duplicates,
    "line": lambda rng, n, d: rng.uniform(0, 50, (n, 1)) * np.ones(d) + 0.01 * rng.normal(size=(n, d)),
}


def bandwidth(X: np.ndarray, factor: float) -> float:
    n, d = X.shape
    spread = float(np.median(np.median(np.abs(X - np.median(X, axis=0)), axis=0))) * 1.48
    return factor * spread * (4 / (d + 2)) ** (1 / (d + 4)) * n ** (-1 / (d + 4))


ROUNDED = 2.0**-11
"""Relative error of a sum of powers of one term, and of the mean shift relative to the distances of what counts."""


def checked(
    gpu: Modules,
    X: np.ndarray,
    Y: np.ndarray | None,
    h: float,
    output: Any,
    weights: np.ndarray | None = None,
    *,
    rows: int = 100,
    precision: str = "float32",
    ratio: bool = False,
) -> None:
    with np.errstate(divide="ignore"):
        log_weights = np.zeros(len(X)) if weights is None else np.log(weights)
    options = Options(precision, None if weights is None else gpu.asarray(log_weights), None, None)
    y = None if Y is None else gpu.asarray(Y)
    sums = gpu.centred.take(gpu.arguments.prepare(gpu.asarray(X), y, h, options), output, ratio=ratio)
    sums = PartialSums(*(None if a is None else gpu.asnumpy(a) for a in sums))
    some = slice(0, None, max(1, len(sums.total) // rows))
    sums = PartialSums(*(None if a is None else a[some] for a in sums))
    Q = (X if Y is None else Y)[some]
    exponents = np.stack([-(((q - X.astype(float)) ** 2).sum(axis=1)) / (2 * h * h) for q in Q.astype(float)])
    a = exponents + log_weights
    top = a.max(axis=1)
    p = np.exp(a - top[:, None])
    log_total = top + np.log(p.sum(axis=1))
    allowed = tolerances.log_error("gpu", precision, -exponents.max(axis=1))
    if ratio:  # powers have one term of 11 bits
        allowed = allowed + ROUNDED
    tolerances.check(np.abs(sums.reference + np.log(sums.total) - log_total), allowed, "log")
    if output == "laplace":
        d = X.shape[1]
        terms = p * (1 + d / 2 + exponents)
        got = np.exp(sums.reference - top) * sums.moments[:, 0]
        limit = allowed * (p * (1 + d / 2 - exponents)).sum(axis=1)  # as for tests.reference.scaled_laplace
        assert (np.abs(got - terms.sum(axis=1)) <= limit).all()
    if output == "moments":
        near = reference.nearness(X, Q, h, weights)
        error = np.linalg.norm(sums.moments / sums.total[:, None] / h - h * reference.score(X, Q, h, weights), axis=1)
        tolerances.check_score(error, allowed, np.maximum(1, near.reach))


PRECISIONS = pytest.mark.parametrize("precision", ["float32", "float64"])


@PRECISIONS
@pytest.mark.parametrize("output", ["sum", "moments", "laplace"])
@pytest.mark.parametrize("factor", [0.25, 1.0])
@pytest.mark.parametrize("kind", list(KINDS))
@pytest.mark.parametrize("d", [2, 5, 17])
def test_any_data(gpu: Modules, d: int, kind: str, factor: float, output: Any, precision: str) -> None:
    rng = np.random.default_rng(d)
    X = KINDS[kind](rng, gpu.size(20_000, 700), d).astype(precision)
    Y = KINDS[kind](rng, gpu.size(2_000, 75), d).astype(precision)
    checked(gpu, X, Y, bandwidth(X, factor), output, precision=precision)


@pytest.mark.parametrize("output", ["sum", "moments", "laplace"])
@pytest.mark.parametrize("kind", ["normal", "cauchy", "line"])
@pytest.mark.parametrize("d", [8, 16, 32, 48, 64])
def test_every_depth_in_float64(gpu: Modules, d: int, kind: str, output: Any) -> None:
    rng = np.random.default_rng(d)
    X, Y = (KINDS[kind](rng, gpu.size(n, small), d) for n, small in ((20_000, 400), (2_000, 40)))
    checked(gpu, X, Y, bandwidth(X, 1.0), output, precision="float64")


@pytest.mark.parametrize("waves", [0, 8])
@pytest.mark.parametrize("output", ["sum", "moments", "laplace"])
def test_spans_and_lists_of_blocks_in_float64(
    gpu: Modules, monkeypatch: pytest.MonkeyPatch, output: Any, waves: int
) -> None:
    """One span of more blocks than are listed at a time, and many spans."""
    from cukde.density.pairs.gpu import centred_kernels

    monkeypatch.setattr(gpu.centred, "_WAVES", waves)
    rng = np.random.default_rng(1)
    n = (centred_kernels.LISTED_F64 + 30) * centred_kernels.BLOCK_ROWS_F64
    m = 20 + waves  # plans are kept by sizes
    plan = gpu.centred._plan(output, "float64", n, m, 2, np.dtype("f8"), False, False, 132, 0)
    assert (plan.spans > 1) == bool(waves)
    X, Y = clusters(rng, n, 2), clusters(rng, m, 2)
    checked(gpu, X, Y, 1.0, output, precision="float64")


@pytest.mark.parametrize(("precision", "ratio"), [("float32", False), ("float32", True), ("float64", False)])
@pytest.mark.parametrize("kind", ["normal", "cauchy", "duplicates"])
@pytest.mark.parametrize("d", [3, 16, 40])
def test_data_at_themselves(gpu: Modules, d: int, kind: str, precision: str, ratio: bool) -> None:
    X = KINDS[kind](np.random.default_rng(d), gpu.size(5_000, 300), d).astype(precision)
    checked(gpu, X, None, bandwidth(X, 0.5), "moments", precision=precision, ratio=ratio)


@pytest.mark.parametrize(("precision", "decades"), [("float32", 30), ("float64", 30), ("float64", 290)])
@pytest.mark.parametrize("output", ["sum", "moments", "laplace"])
@pytest.mark.parametrize("d", [2, 33, 64])
def test_weights_over_many_decades(gpu: Modules, d: int, output: Any, precision: str, decades: int) -> None:
    """Beyond 45 decades references rise where one begins with a small weight."""
    rng = np.random.default_rng(d)
    X, Y = (clusters(rng, gpu.size(n, small), d).astype(precision) for n, small in ((20_000, 500), (1_000, 40)))
    weights = 10.0 ** rng.uniform(-decades, 0, len(X))
    weights[: len(X) // 2] = 0  # whole blocks do not count
    checked(gpu, X, Y, bandwidth(X, 1.0), output, weights=weights, precision=precision)


@PRECISIONS
@pytest.mark.parametrize("output", ["sum", "moments"])
def test_float64_points_far_from_the_origin(gpu: Modules, output: Any, precision: str) -> None:
    rng = np.random.default_rng(5)
    X, Y = (rng.normal(size=(n, 4)) + 1e9 for n in (gpu.size(5_000, 400), 60))
    checked(gpu, X, Y, 0.3, output, precision=precision)


@PRECISIONS
@pytest.mark.parametrize("output", ["sum", "moments"])
@pytest.mark.parametrize("decades", [(0, 6), (3.4, 4.2)])
def test_queries_far_out(gpu: Modules, decades: tuple[float, float], output: Any, precision: str) -> None:
    """Exponents of 10^8 bits do not resolve in float32 by how many a reference should rise."""
    rng = np.random.default_rng(6)
    X = rng.normal(size=(gpu.size(5_000, 400), 3)).astype(precision)
    Y = (rng.normal(size=(60, 3)) * 10.0 ** rng.uniform(*decades, (60, 1))).astype(precision)
    checked(gpu, X, Y, 0.4, output, precision=precision)


@pytest.mark.parametrize("decades", [(8, 30), (100, 145)])
def test_any_finite_query_in_float64(gpu: Modules, decades: tuple[float, float]) -> None:
    rng = np.random.default_rng(6)
    X = rng.normal(size=(gpu.size(5_000, 400), 3))
    Y = rng.normal(size=(60, 3)) * 10.0 ** rng.uniform(*decades, (60, 1))
    checked(gpu, X, Y, 0.4, "sum", precision="float64")


@PRECISIONS
@pytest.mark.parametrize("output", ["sum", "moments", "laplace"])
@pytest.mark.parametrize("d", [5, 33, 64])
def test_queries_beside_data_of_small_weight(gpu: Modules, d: int, output: Any, precision: str) -> None:
    """Heavy data are too far away to count; what is allowed goes by distances alone."""
    rng = np.random.default_rng(d)
    X, Y = rng.normal(size=(gpu.size(10_000, 400), d)), rng.normal(size=(gpu.size(1_000, 60), d))
    weights = np.full(len(X), 1e-200)
    X[::10] += 1e4
    weights[::10] = 1
    checked(gpu, X.astype(precision), Y.astype(precision), bandwidth(X, 0.4), output, weights, precision=precision)


@PRECISIONS
@pytest.mark.parametrize("output", ["sum", "laplace"])
@pytest.mark.parametrize("d", [3, 17])
@pytest.mark.parametrize("h", [0.003, 0.3])
def test_outliers_of_many_sizes(gpu: Modules, h: float, d: int, output: Any, precision: str) -> None:
    """Far rows share blocks, so that first references are up to 1e13 bits away; in the last block rows do not count."""
    for seed in range(4):
        rng = np.random.default_rng([seed, d])
        X = rng.normal(size=(257, d))
        directions = rng.normal(size=(60, d))
        X[::5][:52] += (directions / np.linalg.norm(directions, axis=1)[:, None])[:52] * 10 ** rng.uniform(
            2, 6, (52, 1)
        )
        Y = X[rng.permutation(257)[:64]] + h * rng.normal(size=(64, d))
        checked(gpu, X.astype(precision), Y.astype(precision), h, output, precision=precision)


@PRECISIONS
def test_the_same_bits_on_every_run(gpu: Modules, precision: str) -> None:
    rng = np.random.default_rng(8)
    X, Y = (clusters(rng, n, 7).astype(precision) for n in (gpu.size(50_000, 1_000), 64))
    options = Options(precision, None, None, None)
    of = gpu.arguments.prepare(gpu.asarray(X), gpu.asarray(Y), 0.3, options)
    first, second = (gpu.centred.take(of, "moments") for _ in range(2))
    for a, b in zip(first, second, strict=True):
        np.testing.assert_array_equal(gpu.asnumpy(a), gpu.asnumpy(b))


@PRECISIONS
@pytest.mark.parametrize("rtol", [0.0, 1e-2])
def test_what_is_left_out(gpu: Modules, rtol: float, precision: str) -> None:
    """Sums differ by no more than the tolerance from those over all pairs."""
    rng = np.random.default_rng(9)
    X, Y = (clusters(rng, n, 3).astype(precision) for n in (gpu.size(20_000, 1_000), 200))
    sums = gpu.centred.take(
        gpu.arguments.prepare(gpu.asarray(X), gpu.asarray(Y), 0.5, Options(precision, rtol=rtol)), "sum"
    )
    got = gpu.asnumpy(sums.reference) + np.log(gpu.asnumpy(sums.total))
    exponents = -((Y[:, None].astype(float) - X[None].astype(float)) ** 2).sum(axis=-1) / (2 * 0.5**2)
    top = exponents.max(axis=1)
    expected = top + np.log(np.exp(exponents - top[:, None]).sum(axis=1))
    near = tolerances.log_error("gpu", precision, -top)
    assert (got <= expected + near).all()
    assert (got >= expected - rtol - near).all()
    if rtol and precision == "float64":  # or nothing would show that anything is
        assert (got < expected - near).any()
