"""Piecewise polynomials at few points on a GPU, whose time is the host's, beside CuPy's.

python -m pytest benchmarks/piecewise/bench_small_calls.py -m gpu --record benchmarks/results/NAME.json

The error of a row is the largest |y - p(x)| / max |p|, in float64.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.interpolate import PPoly

import cukde
from benchmarks.peers import Peer
from tests.conftest import why_no_gpu

if why_no_gpu() is None:
    import cupy as cp

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(why_no_gpu() is not None, reason=str(why_no_gpu()))]

_TOLERANCE = {"float32": 2e-6, "float64": 1e-13}

KNOTS = np.linspace(-1, 1, 9)
LOCAL = np.random.default_rng(0).standard_normal((4, 8))  # of x - knots[i], the leading coefficient first


def _points(n: int, dtype: str) -> Any:
    return cp.asarray(np.random.default_rng(1).uniform(-1, 1, n).astype(dtype))


def _error(got: Any, x: Any) -> float:
    want = PPoly(LOCAL, KNOTS)(cp.asnumpy(x).astype(np.float64))
    return float(abs(cp.asnumpy(got) - want).max() / abs(want).max())


def _row(op: str, n: int, dtype: str, error: float, tables: str) -> dict[str, Any]:
    assert error <= _TOLERANCE[dtype]
    shape = {"n": n, "P": len(KNOTS) - 1, "D": len(LOCAL) - 1, "tables": tables}
    return {"op": op, "backend": "gpu", "shape": shape, "dtype": dtype, "precision": dtype, "rel_err_max": error}


def _cupy(x: Any) -> Peer:
    from cupyx.scipy.interpolate import PPoly as OnGpu

    p = OnGpu(cp.asarray(LOCAL), cp.asarray(KNOTS))
    return lambda: p(x), _error(p(x), x)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n", [10, 1000])
def bench_polynomial(compare: Callable[..., None], n: int, dtype: str) -> None:
    x, p = _points(n, dtype), cukde.PiecewisePolynomial(cp.asarray(LOCAL), cp.asarray(KNOTS))
    row = _row("piecewise", n, dtype, _error(p(x), x), "prepared")
    compare(lambda: p(x), row, {"CuPy PPoly": _cupy(x)} if dtype == "float64" else {})


@pytest.mark.parametrize("tables", ["host", "gpu"])
def bench_raw_call(compare: Callable[..., None], tables: str) -> None:
    x, (rows, knots) = _points(10, "float32"), (np.ascontiguousarray(LOCAL.T), KNOTS)
    if tables == "gpu":
        rows, knots = cp.asarray(rows), cp.asarray(knots)

    def call() -> Any:
        return cukde.pwpa(x, rows, knots, origin="local")

    compare(call, _row("pwpa", 10, "float32", _error(call(), x), tables), {})
