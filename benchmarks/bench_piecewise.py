"""Piecewise polynomials on the CPU beside SciPy's PPoly, and elementary functions beside NumPy's and SciPy's.

python -m pytest benchmarks/bench_piecewise.py --record benchmarks/results/NAME.json

Points are uniform random over the range; knots are uniform, or random. The error of a row is the largest in units of
sum_j |c_j| |x - x_i|^(k-1-j), against sums of powers in float64. Rows of float32 and float16 are beside SciPy in
float64, for it has no other. Points of functions are normal of deviation 2, of log their exponentials; errors are in
units of max(1, |f(x)|). Each row is checked before it is timed.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.special
from scipy.interpolate import PPoly

import cukde
from tests import reference

_N = 10_000_000
_CHECKED = 100_000  # of the points
_TOLERANCE = {"float64": 1e-13, "float32": 1e-6, "float16": 2**-11 + 1e-6}


@functools.cache
def _points() -> np.ndarray:
    return np.random.default_rng(0).uniform(-1, 1, _N)


def _knots(m: int, uniform: bool) -> np.ndarray:
    if uniform:
        return np.linspace(-1, 1, m + 1)
    return np.concatenate([[-1], np.sort(np.random.default_rng(m).uniform(-1, 1, m - 1)), [1]])


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
@pytest.mark.parametrize(("m", "degree"), [(16, 2), (64, 3), (256, 3), (4096, 7)])
@pytest.mark.parametrize("uniform", [True, False], ids=["uniform", "random"])
def bench_points_cpu(compare: Callable[..., None], uniform: bool, m: int, degree: int, dtype: str) -> None:
    knots = _knots(m, uniform)
    c = np.random.default_rng(degree).standard_normal((degree + 1, m))
    x = _points().astype(dtype)
    p, q, wide = cukde.PiecewisePolynomial(c, knots), PPoly(c, knots), x.astype(np.float64)
    expected, scale = reference.piecewise(c, knots, wide[:_CHECKED])

    def error(y: np.ndarray) -> float:
        return float((np.abs(y[:_CHECKED] - expected) / scale).max())

    row: dict[str, Any] = {
        "op": "piecewise",
        "backend": "cpu",
        "shape": {"n": _N, "pieces": m, "degree": degree, "knots": "uniform" if uniform else "random"},
        "dtype": dtype,
        "precision": dtype,
        "rel_err_max": error(p(x)),
    }
    assert row["rel_err_max"] <= _TOLERANCE[dtype]
    compare(lambda: p(x), row, {"SciPy": (lambda: q(wide), error(q(wide)))})


_PEERS: dict[str, tuple[str, Callable[[np.ndarray], Any]]] = {
    "gelu": ("SciPy", lambda x: x * scipy.special.ndtr(x)),
    "silu": ("SciPy", lambda x: x * scipy.special.expit(x)),
    "tanh": ("NumPy", np.tanh),
    "sigmoid": ("SciPy", scipy.special.expit),
    "erf": ("SciPy", scipy.special.erf),
    "softplus": ("NumPy", lambda x: np.logaddexp(x, 0, dtype=x.dtype)),
    "exp": ("NumPy", np.exp),
    "log": ("NumPy", np.log),
}


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", _PEERS)
def bench_functions_cpu(compare: Callable[..., None], name: str, dtype: str) -> None:
    x = 2 * np.random.default_rng(0).standard_normal(_N)
    x = (np.exp(x) if name == "log" else x).astype(dtype)
    ours, (library, theirs) = getattr(cukde.functions, name), _PEERS[name]
    exact = theirs(x[:_CHECKED].astype(np.float64))

    def error(y: np.ndarray) -> float:
        return float((np.abs(y[:_CHECKED] - exact) / np.maximum(1, np.abs(exact))).max())

    row: dict[str, Any] = {
        "op": name,
        "backend": "cpu",
        "shape": {"n": _N},
        "dtype": dtype,
        "precision": dtype,
        "rel_err_max": error(ours(x)),
    }
    assert row["rel_err_max"] <= {"float64": 6e-8, "float32": 2e-7}[dtype]  # as cukde.functions says
    compare(lambda: ours(x), row, {library: (lambda: theirs(x), error(theirs(x)))})
