"""Densities on product grids beside KDEpy's, on the CPU and on a GPU, each row checked before it is timed.

python -m pytest benchmarks/density/bench_grids.py --record benchmarks/results/NAME.json

Normal data by h = n^(-1/(d + 4)), on a grid from -6 to 6 along each axis.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cukde
from benchmarks import peers
from tests import reference
from tests.conftest import why_no_gpu
from tests.tolerances import GRID

if why_no_gpu() is None:
    import cupy as cp


_SIZES_GPU = [(1_000_000, 2, 1024), (100_000, 3, 64)]
_CASES_GPU = [
    (*size, algorithm, dtype)
    for size, algorithm, dtype in itertools.product(_SIZES_GPU, ("auto", "fft", "exact"), ("float64", "float32"))
    if (size[1], algorithm, dtype) != (3, "fft", "float64")  # whose grid would be too large
]


def _problem(n: int, d: int, g: int, dtype: str) -> tuple[np.ndarray, list[np.ndarray], float]:
    X = np.random.default_rng(0).standard_normal((n, d)).astype(dtype)
    return X, [np.linspace(-6, 6, g).astype(dtype)] * d, float(n ** (-1 / (d + 4)))


def _error(density: Any, X: np.ndarray, axes: list[np.ndarray], h: float) -> float:
    """Worst error at some of the points, half of them amid the data, relative to the largest density of these."""
    rng, g, d = np.random.default_rng(1), len(axes[0]), len(axes)
    some = np.concatenate([rng.integers(0, g, (20, d)), rng.integers(2 * g // 5, 3 * g // 5, (20, d))])
    exact = reference.kde(X, np.stack([axes[k][some[:, k]] for k in range(d)], axis=1), h)
    got = density if isinstance(density, np.ndarray) else density.get()
    return float(np.abs(got[tuple(some.T)] - exact).max() / exact.max())


def _row(backend: str, n: int, d: int, g: int, dtype: str, error: float) -> dict[str, Any]:
    return {
        "op": "evaluate_grid",
        "backend": backend,
        "shape": {"n": n, "m": g**d, "d": d},
        "dtype": dtype,
        "precision": dtype,
        "rel_err_max": error,
    }


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize(("n", "d", "g"), [(1_000_000, 2, 1024), (1_000_000, 2, 256), (100_000, 3, 64)])
def bench_cpu(compare: Callable[..., None], n: int, d: int, g: int, dtype: str) -> None:
    X, axes, h = _problem(n, d, g, dtype)
    call = functools.partial(cukde.evaluate_grid, X, axes, h)
    error = _error(call(), X, axes, h)
    assert error <= GRID[dtype].value
    names = ("KDEpy",) if d == 2 else ()
    beside = peers.rivals("evaluate_grid", names, X, axes, h, error=lambda got: _error(got, X, axes, h))
    compare(call, _row("cpu", n, d, g, dtype, error), beside)


@pytest.mark.skipif(why_no_gpu() is not None, reason=str(why_no_gpu()))
@pytest.mark.gpu
@pytest.mark.parametrize(("n", "d", "g", "algorithm", "dtype"), _CASES_GPU)
def bench_gpu(compare: Callable[..., None], n: int, d: int, g: int, algorithm: str, dtype: str) -> None:
    X, axes, h = _problem(n, d, g, dtype)
    call = functools.partial(cukde.evaluate_grid, cp.asarray(X), axes, h, algorithm=algorithm)
    error = _error(call(), X, axes, h)
    assert error <= GRID[dtype].value
    row = _row("gpu", n, d, g, dtype, error)
    compare(call, row | {"shape": row["shape"] | {"algorithm": algorithm}}, {})
