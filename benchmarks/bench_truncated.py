"""Densities to a relative tolerance beside all pairs, each row checked before it is timed.

python -m pytest benchmarks/bench_truncated.py --record benchmarks/results/NAME.json

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

N = 2**17
RTOL = 1e-5
_ROUNDING = {"float32": 1e-5, "float64": 1e-12}
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
    error, error_of_all = (float(abs(got / want - 1).max()) for got in (call()[some], cukde.kde(X, Y[some], h)))
    assert error <= RTOL + _ROUNDING[dtype]
    row: dict[str, Any] = {
        "op": "kde with rtol",
        "backend": "cpu",
        "shape": {"n": N, "m": N, "d": d},
        "dtype": dtype,
        "precision": dtype,
        "rel_err_max": error,
    }
    all_pairs = functools.partial(cukde.kde, X, Y[:_ALL_PAIRS], h)
    compare(call, row, {"all pairs": (all_pairs, error_of_all, _ALL_PAIRS / N)})
