"""The engine beside the headline: determinism, values, float64; each row checked before it is timed.

python -m pytest benchmarks/density/bench_engine.py --record benchmarks/results/NAME.json
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import cukde
from benchmarks import peers
from tests.conftest import why_no_gpu
from tests.tolerances import DENSITY

if why_no_gpu() is None:
    import cupy as cp

    from benchmarks.density.mixture import CHECKED, error, exact_sd_kde, in_double, mixture
    from benchmarks.sources import exact

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(why_no_gpu() is not None, reason=str(why_no_gpu()))]


def _row(op: str, n: int, m: int, d: int, precision: str, error: float | None) -> dict[str, Any]:
    return {
        "op": op,
        "backend": "gpu",
        "shape": {"n": n, "m": m, "d": d},
        "dtype": "float64" if precision == "float64" else "float32",
        "precision": precision,
        "rel_err_max": error,
    }


@pytest.mark.parametrize("deterministic", [False, True])
def bench_deterministic(compare: Callable[..., None], deterministic: bool) -> None:
    """What the same bits on every run cost."""
    n, m = 1048576, 131072
    X, Y, h = mixture(n, m)

    def call() -> Any:
        return cukde.sd_kde(X, Y, h, deterministic=deterministic)

    first = call()
    ours = error(first, exact_sd_kde(n, m, 16, h))
    assert ours <= 3e-4
    if deterministic:
        assert all(bool((call() == first).all()) for _ in range(4))
    compare(call, _row("sd_kde", n, m, 16, "float32 deterministic" if deterministic else "float32", ours), {})


@pytest.mark.parametrize("op", ["kernel_sum", "score"])
@pytest.mark.parametrize("queries", ["others", "the data"])
def bench_values(compare: Callable[..., None], op: str, queries: str) -> None:
    """Sums of 16 values beside the score of 16 dimensions; at the data each exponential is taken once."""
    n = m = 65536
    X, Y, h = mixture(n, m)
    V = cp.random.default_rng(0).standard_normal((n, 16), dtype=cp.float32)

    def call(X: Any, Y: Any, V: Any) -> Any:
        return cukde.kernel_sum(X, V, Y, h) if op == "kernel_sum" else cukde.score(X, Y, h)

    if queries == "the data":
        Y = X
    some = Y[:CHECKED].astype("f8")
    exact = call(X.astype("f8"), some, V.astype("f8"))
    scale: Any = 1 / h if op == "score" else cukde.kernel_sum(X.astype("f8"), abs(V).astype("f8"), some, h)
    ours = float((abs(call(X, Y, V)[:CHECKED] - exact) / scale).max())
    assert ours <= (1e-3 if op == "score" else DENSITY["gpu", "float32"].value)
    precision = "float32" if queries == "others" else "float32 (at the data)"
    compare(lambda: call(X, Y, V), _row(op, n, m, 16, precision, ours), {})


def bench_float64(compare: Callable[..., None]) -> None:
    n, m = 32768, 4096
    X, Y, h = mixture(n, m)
    X, Y = X.astype("f8"), Y.astype("f8")
    moved = X + 0.5 * exact.log_sums_and_shift(X, X, h)[1]
    log_density = in_double(moved, Y, h)[0]
    ours = error(cukde.sd_kde(X, Y, h), log_density)
    assert ours <= DENSITY["gpu", "float64"].value
    beside = peers.rivals("sd_kde", ("CuPy",), X, Y, h, error=lambda density: error(density, log_density))
    compare(lambda: cukde.sd_kde(X, Y, h), _row("sd_kde", n, m, 16, "float64", ours), beside)
