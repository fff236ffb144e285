"""Calls of few points on the CPU, whose time is Python's, beside SciPy and scikit-learn in the same run.

python -m pytest benchmarks/density/bench_small_calls_cpu.py --record benchmarks/results/NAME.json

Rivals that are fitted before the call are named so; what is called by its own name is built in the call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import stats
from sklearn import neighbors

import cukde
from benchmarks import record
from tests import reference

_H = 0.5
_CALLS = 100  # that are timed together

# Rows of data, rows of queries, columns.
_SHAPES = ((100, 1, 1), (100, 1, 2), (100, 1, 16), (100, 100, 2))
_SMALL, _MANY = (100, 1, 2), (65_536, 1, 2)
_TOLERANCE = {"float32": 1e-5, "float64": 1e-12}
_METHODS = {"kde": "kde", "sd_kde": "sd", "laplace_kde": "laplace"}


def _drawn(shape: tuple[int, int, int], dtype: str) -> tuple[np.ndarray, np.ndarray]:
    n, m, d = shape
    rng = np.random.default_rng(0)
    return rng.standard_normal((n, d)).astype(dtype), rng.standard_normal((m, d)).astype(dtype)


def _row(op: str, shape: tuple[int, int, int], dtype: str, error: float, tolerance: float) -> dict[str, Any]:
    sizes = dict(zip("nmd", shape, strict=True))
    row = {"op": op, "backend": "cpu", "shape": sizes, "dtype": dtype, "precision": dtype, "rel_err_max": error}
    return record.checked(row, tolerance)


def _worst(got: Any, want: np.ndarray) -> float:
    return float(np.abs(got / want - 1).max())


def _rivals(X: np.ndarray, Y: np.ndarray, want: np.ndarray) -> dict[str, Any]:
    """Fitted and not; SciPy's bandwidth is a multiple of the data's covariance, of which its error is measured."""
    fitted = stats.gaussian_kde(X.T)
    of_scipy = reference.kde(X, Y, fitted.covariance)
    tree = neighbors.KernelDensity(bandwidth=_H).fit(X)
    calls = {
        "SciPy": (lambda: stats.gaussian_kde(X.T)(Y.T), of_scipy),
        "SciPy, fitted": (lambda: fitted(Y.T), of_scipy),
        "scikit-learn": (lambda: np.exp(neighbors.KernelDensity(bandwidth=_H).fit(X).score_samples(Y)), want),
        "scikit-learn, fitted": (lambda: np.exp(tree.score_samples(Y)), want),
    }
    return {name: (call, _worst(call(), right)) for name, (call, right) in calls.items()}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", _SHAPES)
@pytest.mark.parametrize("op", ["kde", "sd_kde"])
def bench_density(compare: Callable[..., None], op: str, shape: tuple[int, int, int], dtype: str) -> None:
    X, Y = _drawn(shape, dtype)
    function = getattr(cukde, op)
    want = getattr(reference, op)(X, Y, _H)
    tolerance = _TOLERANCE[dtype] * (30 if op == "sd_kde" else 1)
    row = _row(op, shape, dtype, _worst(function(X, Y, _H), want), tolerance)
    compare(lambda: function(X, Y, _H), row, _rivals(X, Y, reference.kde(X, Y, _H)), calls=_CALLS)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ["score", "density_and_score", "laplace_kde", "debias", "kernel_sum"])
def bench_others(compare: Callable[..., None], name: str, dtype: str) -> None:
    """The other functions, which no rival has."""
    X, Y = _drawn(_SMALL, dtype)
    V = np.ones(len(X), dtype)
    calls = {
        "score": (lambda: cukde.score(X, Y, _H), lambda: reference.score(X, Y, _H)),
        "density_and_score": (lambda: cukde.density_and_score(X, Y, _H)[1], lambda: reference.score(X, Y, _H)),
        "laplace_kde": (lambda: cukde.laplace_kde(X, Y, _H), lambda: reference.laplace(X, Y, _H)[0]),
        "debias": (lambda: cukde.debias(X, _H), lambda: reference.debias(X, _H)),
        "kernel_sum": (lambda: cukde.kernel_sum(X, V, Y, _H), lambda: reference.kernel_sum(X, V, Y, _H)[0][:, 0]),
    }
    call, truth = calls[name]
    want = truth()
    error = float(np.abs(call() - want).max() / np.abs(want).max())
    compare(call, _row(name, _SMALL, dtype, error, 10 * _TOLERANCE[dtype]), {}, calls=_CALLS)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    ("op", "shape"), [("kde", shape) for shape in (*_SHAPES, _MANY)] + [("sd_kde", _SMALL), ("laplace_kde", _SMALL)]
)
def bench_fitted_estimator(compare: Callable[..., None], op: str, shape: tuple[int, int, int], dtype: str) -> None:
    X, Y = _drawn(shape, dtype)
    estimator = cukde.KernelDensity(bandwidth=_H, method=_METHODS[op]).fit(X)
    want = reference.laplace(X, Y, _H)[0] if op == "laplace_kde" else getattr(reference, op)(X, Y, _H)
    tolerance = _TOLERANCE[dtype] * (1 if op == "kde" else 30)
    row = _row(f"fitted {op}", shape, dtype, _worst(np.exp(estimator.score_samples(Y)), want), tolerance)
    compare(lambda: estimator.score_samples(Y), row, _rivals(X, Y, reference.kde(X, Y, _H)), calls=_CALLS)
