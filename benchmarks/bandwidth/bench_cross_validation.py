"""Bandwidths by leave-one-out cross-validation, beside what a user of NumPy or CuPy writes; checked before it is timed.

python -m pytest benchmarks/bandwidth/bench_cross_validation.py --record benchmarks/results/NAME.json

Data are standard normal in 4 dimensions, bandwidths on a geometric grid around the best. An error is the largest of the
scores, for kde's likelihood as it is, otherwise beside the largest score. It is taken against float64: on the CPU by
sums of NumPy over the first rows alone, on a GPU by the same call in float64, which is checked in the same way for
kde's likelihood.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.spatial.distance import pdist, squareform

import cukde
from benchmarks.density.bench_pairs import _H200_EXP, needs_gpu

D = 4
CHECKED = 2000
_TOLERANCE = {"float32": 1e-5, "float64": 1e-11}
_TILE_ROWS = 4096


# All but likelihoods of Laplace-corrected densities, which can be negative.
kinds = pytest.mark.parametrize(
    ("method", "objective"),
    [
        ("kde", "likelihood"),
        ("sd", "likelihood"),
        *((method, "least_squares") for method in ("kde", "sd", "laplace")),
    ],
)


def _data(n: int, dtype: str) -> np.ndarray:
    return np.random.default_rng(0).standard_normal((n, D)).astype(dtype)


def _bandwidths(n: int, count: int) -> np.ndarray:
    """Around the normal-reference bandwidth."""
    return np.geomspace(0.25, 2.0, count) * (n * (D + 2) / 4) ** (-1 / (D + 4))


def _by_scipy(X: np.ndarray, bandwidths: np.ndarray) -> np.ndarray:
    """What a SciPy user writes: all distances, and for each bandwidth an exponential of them all."""
    squares = squareform(pdist(X, "sqeuclidean"))
    np.fill_diagonal(squares, np.inf)
    out = [np.log(np.exp(squares * (-0.5 / h**2)).sum(axis=1)).mean() + _log_constant(len(X), h) for h in bandwidths]
    return np.array(out)


def _by_cupy(X: Any, bandwidths: np.ndarray) -> np.ndarray:
    """What a CuPy user writes: the same in tiles of rows that fit in memory."""
    import cupy as cp

    n = len(X)
    norms = (X * X).sum(axis=1)
    sums = cp.empty((len(bandwidths), n), X.dtype)
    for start in range(0, n, _TILE_ROWS):
        x = X[start : start + _TILE_ROWS]
        squares = norms[start : start + _TILE_ROWS, None] + norms - 2 * (x @ X.T)
        squares[cp.arange(len(x)), start + cp.arange(len(x))] = cp.inf
        for b, h in enumerate(bandwidths):
            sums[b, start : start + _TILE_ROWS] = cp.exp(squares * (-0.5 / h**2)).sum(axis=1)
    means = cp.log(sums).mean(axis=1, dtype="f8").get()
    return np.array([mean + _log_constant(n, h) for mean, h in zip(means, bandwidths, strict=True)])


def _log_constant(n: int, h: float) -> float:
    return -0.5 * D * math.log(2 * math.pi * h * h) - math.log(n - 1)


def _row(
    op: str, backend: str, n: int, count: int, dtype: str, error: float | None = None, exponentials: float | None = None
) -> dict[str, Any]:
    row: dict[str, Any] = {
        "op": op,
        "backend": backend,
        "shape": {"n": n, "d": D, "bandwidths": count},
        "dtype": dtype,
        "precision": dtype,
        "rel_err_max": error,
    }
    if exponentials is not None:
        row |= {"bound_ms": 1e3 * exponentials / _H200_EXP, "bound": "exponentials of an H200, each pair once"}
    return row


def _scores(X: Any, method: str, bandwidths: np.ndarray, **options: Any) -> np.ndarray:
    scores = cukde.bandwidth.cross_validate(X, method, bandwidths, **options).scores
    return np.asarray(scores.get() if hasattr(scores, "get") else scores)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("n", [CHECKED, 10_000])
def bench_kde_cpu(compare: Callable[..., None], n: int, dtype: str) -> None:
    count = 64
    X, bandwidths = _data(n, dtype), _bandwidths(n, count)
    few, of_few = X[:CHECKED], _bandwidths(CHECKED, count)
    exact = _by_scipy(few.astype("f8"), of_few)
    error = float(np.abs(_scores(few, "kde", of_few) - exact).max())
    assert error <= _TOLERANCE[dtype]
    assert _scores(X, "kde", bandwidths).argmax() not in (0, count - 1)
    row = _row("LOO kde", "cpu", n, count, dtype, error)
    peer = {"SciPy pdist, NumPy exp": (lambda: _by_scipy(X, bandwidths), None)}
    # Of 10,000 rows the matrix of distances alone is 0.8 GB, and a call takes a minute.
    compare(lambda: _scores(X, "kde", bandwidths), row, peer if n == CHECKED else {})


@kinds
def bench_methods_cpu(compare: Callable[..., None], method: str, objective: str) -> None:
    n, count = 4_000, 16
    X, bandwidths = _data(n, "float64"), _bandwidths(n, count)
    row = _row(f"LOO {method} {objective}", "cpu", n, count, "float64")
    compare(lambda: _scores(X, method, bandwidths, objective=objective), row, {})


@needs_gpu
@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("n", "count"), [(100_000, 64), (100_000, 8), (10_000, 64)])
def bench_kde_gpu(compare: Callable[..., None], n: int, count: int, dtype: str) -> None:
    import cupy as cp

    X, bandwidths = cp.asarray(_data(n, dtype)), _bandwidths(n, count)
    few, of_few = X[:CHECKED].astype("f8"), _bandwidths(CHECKED, count)
    in_double = float(np.abs(_scores(few, "kde", of_few) - _by_scipy(few.get(), of_few)).max())
    assert in_double <= _TOLERANCE["float64"]
    exact = _scores(X.astype("f8"), "kde", bandwidths)
    error = in_double if dtype == "float64" else float(np.abs(_scores(X, "kde", bandwidths) - exact).max())
    assert error <= _TOLERANCE[dtype]
    row = _row("LOO kde", "gpu", n, count, dtype, error, count * n * (n - 1) / 2)
    theirs = _by_cupy(X, bandwidths)
    peer = {"CuPy": (lambda: _by_cupy(X, bandwidths), float(np.abs(theirs - exact).max()))}
    compare(lambda: _scores(X, "kde", bandwidths), row, peer if count == 64 else {})


@needs_gpu
@pytest.mark.gpu
@kinds
def bench_methods_gpu(compare: Callable[..., None], method: str, objective: str) -> None:
    import cupy as cp

    n, count = 100_000, 16
    X, bandwidths = cp.asarray(_data(n, "float32")), _bandwidths(n, count)
    exact = _scores(X.astype("f8"), method, bandwidths, objective=objective)
    apart = _scores(X, method, bandwidths, objective=objective) - exact
    error = float(np.abs(apart).max() / np.abs(exact).max())  # least squares goes through 0
    # A pair: one exponential; of SD-KDE one for the mean shift, four of both orders, then one of moved pairs.
    each = {("sd", "likelihood"): 5.0, ("sd", "least_squares"): 6.0}.get((method, objective), 1.0)
    row = _row(f"LOO {method} {objective}", "gpu", n, count, "float32", error, each * count * n * (n - 1) / 2)
    compare(lambda: _scores(X, method, bandwidths, objective=objective), row, {})


@needs_gpu
@pytest.mark.gpu
@pytest.mark.parametrize("method", ["kde", "laplace"])
def bench_per_dimension_gpu(compare: Callable[..., None], method: str) -> None:
    import cupy as cp

    n, count = 30_000, 16
    X = cp.asarray(_data(n, "float32") * np.array([1, 2, 4, 8], "f4"))
    options: dict[str, Any] = {"objective": "least_squares", "per_dimension": True}
    row = _row(f"LOO {method}, a deviation a column", "gpu", n, count, "float32")
    bandwidths = _bandwidths(n, count)[:, None] * np.array([1, 2, 4, 8])
    compare(lambda: cukde.bandwidth.cross_validate(X, method, bandwidths, **options), row, {})
