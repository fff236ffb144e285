"""Stacks of densities beside a loop of calls, each row checked before it is timed.

python -m pytest benchmarks/density/bench_stacks.py --record benchmarks/results/NAME.json
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cukde
from benchmarks.density.bench_pairs import needs_gpu
from tests import reference

_SHAPES = ((512, 1000, 256, 4), (512, 100, 10, 4), (64, 1000, 256, 16))
_FUNCTIONS = ("kde", "score", "sd_kde")
_TOLERANCE = {("kde", "float32"): 3e-5, ("kde", "float64"): 1e-12, ("score", "float32"): 3e-4}
_TOLERANCE |= {("score", "float64"): 1e-11, ("sd_kde", "float32"): 3e-4, ("sd_kde", "float64"): 3e-11}


def _compare(compare: Callable[..., None], xp: Any, name: str, shape: tuple[int, int, int, int], dtype: str) -> None:
    b, n, m, d = shape
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(b, n, d)).astype(dtype), rng.normal(size=(b, m, d)).astype(dtype)
    h = rng.uniform(0.8, 1.2, b) * n ** (-1 / (d + 4))
    function = getattr(cukde, name)
    x, y = xp.asarray(X), xp.asarray(Y)

    def loop() -> list[Any]:
        return [function(x[i], y[i], float(h[i])) for i in range(b)]

    def error(results: Any) -> float:
        """Worst of the first and the last member: relative of a density, of a score in units of 1/h."""
        worst = 0.0
        for i in (0, b - 1):
            got, want = _on_host(results[i]), getattr(reference, name)(X[i], Y[i], h[i])
            of = np.abs(got - want) * h[i] if name == "score" else np.abs(got / want - 1)
            worst = max(worst, float(of.max()))
        return worst

    found = error(function(x, y, h))
    assert found <= _TOLERANCE[name, dtype]
    row = {
        "op": f"{name} of a stack",
        "backend": "cpu" if xp is np else "gpu",
        "shape": {"b": b, "n": n, "m": m, "d": d},
        "dtype": dtype,
        "precision": dtype,
        "rel_err_max": found,
    }
    compare(lambda: function(x, y, h), row, {"a loop of calls": (loop, error(loop()))})


def _on_host(a: Any) -> np.ndarray:
    return np.asarray(a if isinstance(a, np.ndarray) else a.get(), np.float64)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", _SHAPES)
@pytest.mark.parametrize("name", _FUNCTIONS)
def bench_stacks_cpu(compare: Callable[..., None], name: str, shape: Any, dtype: str) -> None:
    _compare(compare, np, name, shape, dtype)


@needs_gpu
@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", _SHAPES)
@pytest.mark.parametrize("name", _FUNCTIONS)
def bench_stacks_gpu(compare: Callable[..., None], name: str, shape: Any, dtype: str) -> None:
    import cupy as cp

    _compare(compare, cp, name, shape, dtype)
