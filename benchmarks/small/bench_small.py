"""A small set on the CPU, an operation of each family: what ``python -m benchmarks.against`` measures.

Results are checked first. It takes public functions alone, so that older commits run it too.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cukde
from benchmarks.conv1d import cases as conv1d_cases
from benchmarks.kendall import cases as kendall_cases
from benchmarks.piecewise import cases as piecewise_cases
from tests import reference

Call = Callable[[], Any]
_CHECKED = 32  # of the queries
_TOLERANCE = {"float32": 1e-4, "float64": 1e-11}


def _density(op: str, n: int, m: int, d: int, dtype: str) -> Call:
    rng = np.random.default_rng(d)
    X, Y = (rng.standard_normal((rows, d)).astype(dtype) for rows in (n, m))
    h = 0.5 * d**0.5
    call = functools.partial(getattr(cukde, op), X, Y, h)
    want = getattr(reference, op)(X, Y[:_CHECKED], h)
    np.testing.assert_allclose(
        call()[:_CHECKED], want, rtol=_TOLERANCE[dtype], atol=_TOLERANCE[dtype] * abs(want).max()
    )
    return call


def _cdf() -> Call:
    rng = np.random.default_rng(1)
    X, Y = rng.standard_normal(50_000), rng.standard_normal(50_000)
    want = np.exp(reference.log_distribution(X, Y[:_CHECKED], 0.1)[0])
    np.testing.assert_allclose(cukde.cdf(X, Y, 0.1)[:_CHECKED], want, rtol=_TOLERANCE["float64"])
    return lambda: cukde.cdf(X, Y, 0.1)


def _grid() -> Call:
    X = np.random.default_rng(2).standard_normal((100_000, 2))
    axis = np.linspace(-4, 4, 128)
    call = functools.partial(cukde.evaluate_grid, X, (axis, axis), 0.2)
    nodes = np.stack([np.full(3, axis[60]), axis[60:63]], 1)
    np.testing.assert_allclose(np.asarray(call())[60, 60:63], reference.kde(X, nodes, 0.2), rtol=1e-3)
    return call


def _estimator() -> Call:
    rng = np.random.default_rng(3)
    X, Y = rng.standard_normal((100, 2)), rng.standard_normal((1, 2))
    fitted = cukde.KernelDensity(bandwidth=0.5).fit(X)
    np.testing.assert_allclose(fitted.score_samples(Y), reference.log_kde(X, Y, 0.5), rtol=_TOLERANCE["float64"])
    return lambda: fitted.score_samples(Y)


CASES: dict[str, Callable[[], Call]] = {
    "kde 16 columns float32": lambda: _density("kde", 8192, 2048, 16, "float32"),
    "kde 3 columns float64": lambda: _density("kde", 8192, 2048, 3, "float64"),
    "kde 1 column float64": lambda: _density("kde", 200_000, 50_000, 1, "float64"),
    "kde of 100 rows": lambda: _density("kde", 100, 1, 2, "float64"),
    "score 8 columns float32": lambda: _density("score", 4096, 2048, 8, "float32"),
    "sd_kde 16 columns float32": lambda: _density("sd_kde", 4096, 1024, 16, "float32"),
    "cdf": _cdf,
    "evaluate_grid 2 columns": _grid,
    "KernelDensity one query": _estimator,
    "kendalltau": lambda: kendall_cases.pair("cpu", 50_000, False).call,
    "kendall_matrix": lambda: kendall_cases.matrix("cpu", 16, 2000, False).call,
    "PiecewisePolynomial": lambda: piecewise_cases.polynomials(1_000_000, 64, 3, "uniform", "float64").call,
    "functions.gelu": lambda: piecewise_cases.function(1_000_000, "gelu", "float32").call,
    "depthwise_conv1d 31 taps": lambda: conv1d_cases.forward((8, 64, 2048), 31, "float32").call,
}


@pytest.mark.benchmark(group="small")
@pytest.mark.parametrize("case", CASES)
def bench_small(benchmark: Any, case: str) -> None:
    benchmark(CASES[case]())
