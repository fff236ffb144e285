"""The centred pass: sums over data of any kind, against float64; emulated, and on a GPU."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from cukde.density.options import Options
from cukde.density.sums import PartialSums
from tests import reference, tolerances
from tests.conftest import Backend


@pytest.fixture
def gpu(device: Backend) -> SimpleNamespace:
    """The module under test."""
    from cukde.density.pairs.gpu import centred

    return SimpleNamespace(centred=centred, size=device.size, asarray=device.asarray, asnumpy=device.asnumpy)


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


def checked(
    gpu: SimpleNamespace,
    X: np.ndarray,
    Y: np.ndarray | None,
    h: float,
    output: Any,
    weights: np.ndarray | None = None,
    rows: int | None = None,
    *,
    precision: str = "float32",
    ratio: bool = False,
) -> None:
    log_weights = None if weights is None else np.log(weights)
    options = Options(precision, None if weights is None else gpu.asarray(log_weights), None, None)
    y = None if Y is None else gpu.asarray(Y)
    sums = gpu.centred.sums(gpu.asarray(X), y, h, output, options, ratio=ratio)
    sums = PartialSums(*(None if a is None else gpu.asnumpy(a) for a in sums))
    some = slice(None) if rows is None else slice(0, None, max(1, len(sums.total) // rows))
    sums = PartialSums(*(None if a is None else a[some] for a in sums))
    Q = (X if Y is None else Y)[some]
    w = np.full(len(X), 1.0) if weights is None else weights
    exponents = np.stack([-(((q - X.astype(float)) ** 2).sum(axis=1)) / (2 * h * h) for q in Q.astype(float)])
    a = exponents + np.log(w)
    top = a.max(axis=1)
    p = np.exp(a - top[:, None])
    log_total = top + np.log(p.sum(axis=1))
    allowed = tolerances.log_error("gpu", precision, -exponents.max(axis=1))
    error = np.abs(sums.reference + np.log(sums.total) - log_total)
    assert (error <= allowed).all(), f"log: {np.max(error / allowed):.2f} of what is allowed"
    if output == "laplace":
        d = X.shape[1]
        terms = p * (1 + d / 2 + exponents)
        got = np.exp(sums.reference - top) * sums.moments[:, 0]
        limit = allowed * np.abs(terms).sum(axis=1)
        assert (np.abs(got - terms.sum(axis=1)) <= limit).all()
    if output == "moments":
        shift = np.stack([row @ (X.astype(float) - q) for row, q in zip(p, Q.astype(float), strict=True)])
        shift /= p.sum(axis=1)[:, None]
        got = sums.moments / sums.total[:, None]
        distance = np.sqrt(-2 * exponents.max(axis=1))
        error = np.linalg.norm(got - shift, axis=1) / h
        print(output, ratio, float(error.max()), float((error / (allowed * np.maximum(1, distance))).max()))


@pytest.mark.parametrize("output", ["sum", "moments", "laplace"])
@pytest.mark.parametrize("factor", [0.25, 1.0])
@pytest.mark.parametrize("kind", list(KINDS))
@pytest.mark.parametrize("d", [2, 5, 17])
def test_any_data(gpu: SimpleNamespace, d: int, kind: str, factor: float, output: Any) -> None:
    rng = np.random.default_rng(d)
    X = KINDS[kind](rng, gpu.size(20_000, 700), d).astype(np.float32)
    Y = KINDS[kind](rng, gpu.size(2_000, 75), d).astype(np.float32)
    checked(gpu, X, Y, bandwidth(X, factor), output, rows=100)
