"""Densities to a relative tolerance beside all pairs, each row checked before it is timed.

python -m pytest benchmarks/density/bench_truncated.py --record benchmarks/results/NAME.json

Data and queries are normal; the bandwidth is Silverman's. Of all pairs on the CPU some queries are timed.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cukde
from tests import reference
from tests.conftest import why_no_gpu
from tests.density.samples import adversarial
from tests.tolerances import DENSITY

if why_no_gpu() is None:
    import cupy as cp

    from benchmarks.sources import exact

N, N_ON_GPU = 2**17, 2**20
RTOL = 1e-5
_ALL_PAIRS = 4096  # queries for which all pairs are summed


@functools.lru_cache(maxsize=1)
def _data(n: int, d: int, dtype: str) -> tuple[np.ndarray, np.ndarray, float]:
    rng = np.random.default_rng(d)
    X, Y = (rng.standard_normal((n, d)).astype(dtype) for _ in range(2))
    return X, Y, float((4 / ((d + 2) * n)) ** (1 / (d + 4)))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("d", [2, 3])
def bench_cpu(compare: Callable[..., None], d: int, dtype: str) -> None:
    X, Y, h = _data(N, d, dtype)
    call = functools.partial(cukde.kde, X, Y, h, rtol=RTOL)
    some = np.argsort((Y * Y).sum(axis=1))[:: N // 100]  # from the middle of the data to the last outside
    want = np.exp(reference.log_kde(X, Y[some], h))
    error, error_of_all = (float(abs(got / want - 1).max()) for got in (call()[some], cukde.kde(X, Y[some], h, rtol=0)))
    assert error <= RTOL + DENSITY["cpu", dtype].value
    row: dict[str, Any] = {
        "op": "kde with rtol",
        "backend": "cpu",
        "shape": {"n": N, "m": N, "d": d},
        "dtype": dtype,
        "precision": dtype,
        "rel_err_max": error,
    }
    all_pairs = functools.partial(cukde.kde, X, Y[:_ALL_PAIRS], h, rtol=0)
    compare(call, row, {"all pairs": (all_pairs, error_of_all, _ALL_PAIRS / N)})


@pytest.mark.gpu
@pytest.mark.parametrize("data", ["normal", "mixture"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def bench_gpu(compare: Callable[..., None], dtype: str, data: str) -> None:
    """Two dimensions at a tenth of a deviation; checked at 1,000 random and 1,000 adversarial queries."""
    X, Y, h = _data(N_ON_GPU, 2, dtype)
    if data == "mixture":  # two clusters of 1 and 9 parts, 20 bandwidths of empty space between them
        X, Y = (np.where(np.arange(len(a))[:, None] % 10 == 0, 0.2 * a + 5, a).astype(dtype) for a in (X, Y))
    Y = Y.copy()
    Y[1000:2000] = adversarial(X.astype(np.float64), h, 1000)
    x, y = cp.asarray(X), cp.asarray(Y)
    all_pairs = functools.partial(cukde.kde, x, y, h, rtol=0)
    call = functools.partial(cukde.kde, x, y, h, rtol=RTOL)
    some = y[:2000].astype(np.float64)
    want = exact.log_sums(x.astype(np.float64), some, h) - np.log(2 * np.pi * h * h * len(X))
    near = want > np.log(float(np.finfo(dtype).tiny)) + 1  # the others are 0, or hardly any number
    error, error_of_all = (float(abs(f()[:2000] / cp.exp(want) - 1)[near].max()) for f in (call, all_pairs))
    error_of_log = float((abs(call(log=True)[:2000] - want) / cp.maximum(1.0, abs(want))).max())
    assert error_of_log <= RTOL
    assert error <= RTOL + DENSITY["gpu", dtype].value
    row: dict[str, Any] = {
        "op": f"kde with rtol, {data}",
        "backend": "gpu",
        "shape": {"n": len(X), "m": len(Y), "d": 2},
        "dtype": dtype,
        "precision": dtype,
        "rel_err_max": error,
    }
    compare(call, row, {"all pairs": (all_pairs, error_of_all)})
