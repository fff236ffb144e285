"""SD-KDE and its passes on a GPU beside every rival that runs there, each row checked before it is timed.

    python -m pytest benchmarks/bench_sd_kde.py --record benchmarks/results/NAME.json

Data: 16-dimensional mixture of 8 Gaussians, standardised; h by Silverman's rule.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cukde
from tests.conftest import why_no_gpu

if why_no_gpu() is None:
    from benchmarks.study import wmma

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(why_no_gpu() is not None, reason=str(why_no_gpu()))]

# Ordered pairs a second that the exponentials of an H200 allow, one for each.
_EXPONENTIALS = 4.18e12
_TOLERANCE = {"float32": 3e-4, "tf32": 5e-2}
_CHECKED = 200


@functools.lru_cache(maxsize=2)
def mixture(n: int, m: int, d: int = 16) -> tuple[Any, Any, float]:
    """Data, queries and bandwidth."""
    import cupy as cp

    rng = np.random.default_rng(0)
    means = 2 * rng.standard_normal((8, d))
    points = means[rng.integers(8, size=n + m)] + rng.standard_normal((n + m, d))
    points = ((points - points.mean(0)) / points.std(0)).astype(np.float32)
    h = float(points.std(0).mean() * (4 / (d + 2)) ** (1 / (d + 4)) * n ** (-1 / (d + 4)))
    return cp.asarray(points[:n]), cp.asarray(points[n:]), h


def _in_double(X: Any, Y: Any, h: float) -> Any:
    """Density and score sums in float64 with CuPy, blocked: (log density, score)."""
    import cupy as cp

    d = X.shape[1]
    out, shift = cp.empty(len(Y)), cp.empty(Y.shape)
    step = max(1, 2**27 // len(X))
    for start in range(0, len(Y), step):
        y = Y[start : start + step].astype(cp.float64)
        squares = cp.zeros((len(y), len(X)))
        for k in range(d):
            squares += (y[:, k : k + 1] - X[:, k].astype(cp.float64)) ** 2
        e = squares / (-2 * h * h)
        top = e.max(1)
        phi = cp.exp(e - top[:, None])
        out[start : start + step] = top + cp.log(phi.sum(1))
        shift[start : start + step] = phi @ X.astype(cp.float64) / phi.sum(1)[:, None] - y
    return out - np.log(len(X)) - 0.5 * d * np.log(2 * np.pi * h * h), shift


@functools.lru_cache(maxsize=2)
def _exact_sd_kde(n: int, m: int, d: int, h: float) -> Any:
    """Log density of the exactly debiased data at the first queries. The debiasing itself runs in float64."""
    X, Y, _ = mixture(n, m, d)
    moved = cukde.debias(X.astype("f8"), h)  # float64: checked against the oracle in the tests
    return _in_double(moved, Y[:_CHECKED], h)[0]


def _error(density: Any, log_exact: Any, log: bool = False) -> float:
    import cupy as cp

    got = density[:_CHECKED].astype(cp.float64)
    return float(abs(cp.expm1((got if log else cp.log(got)) - log_exact)).max())


def _peers(names: tuple[str, ...], X: Any, Y: Any, h: float, exact: Any) -> dict[str, Any]:
    """Rivals that run here, with their errors; why another has no row goes to the terminal."""
    found: dict[str, Any] = {}
    for name in names:
        module, function = {
            "Flash-SD-KDE": ("flash", "sd_kde"),
            "PyTorch": ("plain_torch", "sd_kde"),
            "torch.compile": ("plain_torch", "compiled_sd_kde"),
            "CuPy": ("plain_cupy", "sd_kde"),
        }[name]
        try:
            rival = getattr(importlib.import_module(f"benchmarks.peers.{module}"), function)
            found[name] = (functools.partial(rival, X, Y, h), _error(rival(X, Y, h), exact))
        except Exception as reason:  # a rival that is absent or fails has no row
            print(f"{name}: no row: {reason!r}")
    return found


def _row(op: str, n: int, m: int, d: int, precision: str, error: float, pairs: float) -> dict[str, Any]:
    return {
        "op": op,
        "backend": "gpu",
        "shape": {"n": n, "m": m, "d": d},
        "dtype": "float32",
        "precision": precision,
        "rel_err_max": error,
        "bound_ms": 1e3 * pairs / _EXPONENTIALS,
        "bound": "one exponential an ordered pair",
    }


@pytest.mark.parametrize("precision", ["float32", "tf32"])
@pytest.mark.parametrize(
    ("n", "m", "peers"),
    [
        (2048, 256, ("Flash-SD-KDE", "torch.compile", "PyTorch", "CuPy")),
        (32768, 4096, ("Flash-SD-KDE", "torch.compile", "PyTorch", "CuPy")),
        (131072, 16384, ("Flash-SD-KDE",)),
        (1048576, 131072, ("Flash-SD-KDE",)),
    ],
)
def bench_sd_kde(compare: Callable[..., None], precision: str, n: int, m: int, peers: tuple[str, ...]) -> None:
    X, Y, h = mixture(n, m)
    exact = _exact_sd_kde(n, m, 16, h)
    error = _error(cukde.sd_kde(X, Y, h, precision=precision), exact)
    assert error <= _TOLERANCE[precision]
    row = _row("sd_kde", n, m, 16, precision, error, n * n + n * m)
    compare(lambda: cukde.sd_kde(X, Y, h, precision=precision), row, _peers(peers, X, Y, h, exact))


@pytest.mark.parametrize("precision", ["float32", "tf32"])
@pytest.mark.parametrize("op", ["kde", "laplace_kde"])
def bench_density(compare: Callable[..., None], op: str, precision: str) -> None:
    import cupy as cp

    n, m = 1048576, 131072
    X, Y, h = mixture(n, m)
    call = getattr(cukde, op)
    got = call(X, Y[:_CHECKED], h, precision=precision)
    if op == "kde":
        error = _error(got, _in_double(X, Y[:_CHECKED], h)[0])
    else:
        error = float(abs(got - call(X.astype("f8"), Y[:_CHECKED].astype("f8"), h)).max() / cp.abs(got).max())
    assert error <= {"float32": 1e-4, "tf32": 5e-2}[precision]
    compare(lambda: call(X, Y, h, precision=precision), _row(op, n, m, 16, precision, error, n * m), {})


def bench_wmma_study(compare: Callable[..., None]) -> None:
    """What the tensor cores give a kernel by ``nvcuda::wmma``, beside the rows of :func:`bench_density`."""
    if reason := wmma.why_absent():
        pytest.skip(reason)
    n, m = 1048576, 131072
    X, Y, h = mixture(n, m)
    error = _error(wmma.kde(X, Y[:_CHECKED], h), _in_double(X, Y[:_CHECKED], h)[0])
    assert error <= 5e-2
    row = _row("kde", n, m, 16, "tf32 (wmma study)", error, n * m)
    compare(lambda: wmma.kde(X, Y, h), row, {})


@pytest.mark.parametrize("precision", ["float32", "tf32"])
def bench_debias(compare: Callable[..., None], precision: str) -> None:
    n = 1048576
    X, _, h = mixture(n, 131072)
    moved = cukde.debias(X, h, precision=precision)[:_CHECKED]
    exact = X[:_CHECKED] + 0.5 * _in_double(X, X[:_CHECKED], h)[1]
    error = float(abs(moved - exact).max() / h)
    assert error <= {"float32": 3e-4, "tf32": 5e-3}[precision]
    compare(lambda: cukde.debias(X, h, precision=precision), _row("debias", n, n, 16, precision, error, n * n), {})


@pytest.mark.parametrize("d", [2, 4, 8, 32, 64])
def bench_dimensions(compare: Callable[..., None], d: int) -> None:
    import cupy as cp

    n, m = 65536, 8192
    X, Y, _ = mixture(n, m, d)
    a, b = X[:2048].astype("f8"), Y[:512].astype("f8")
    squares = (b * b).sum(1)[:, None] + (a * a).sum(1) - 2 * b @ a.T
    h = float(cp.sqrt(cp.median(squares) / 40))  # the median exponent is 20
    exact = _exact_sd_kde(n, m, d, h)
    error = _error(cukde.sd_kde(X, Y, h, log=True), exact, log=True)  # the density itself underflows at d = 64
    assert error <= 3e-4
    row = _row("sd_kde", n, m, d, "float32", error, n * n + n * m)
    compare(lambda: cukde.sd_kde(X, Y, h, log=True), row, _peers(("CuPy",), X, Y, h, exact))


@pytest.mark.parametrize("m", [4, 64, 1024, 4096])
def bench_few_queries(compare: Callable[..., None], m: int) -> None:
    n = 32768
    X, Y, h = mixture(n, 4096)
    y = Y[:m]
    error = _error(cukde.sd_kde(X, y, h), _exact_sd_kde(n, 4096, 16, h)[: min(m, _CHECKED)]) if m >= _CHECKED else None
    compare(lambda: cukde.sd_kde(X, y, h), _row("sd_kde", n, m, 16, "float32", error or 0.0, n * n + n * m), {})


def bench_memory(compare: Callable[..., None]) -> None:
    """Peak of CuPy's pool above the inputs, in the row's ``peak_mb``."""
    import cupy as cp

    n, m = 1048576, 131072
    X, Y, h = mixture(n, m)
    pool = cp.cuda.MemoryPool()
    with cp.cuda.using_allocator(pool.malloc):
        cukde.sd_kde(X, Y, h)
        peak = pool.total_bytes() / 2**20
        row = _row("sd_kde", n, m, 16, "float32", 0.0, n * n + n * m) | {"rel_err_max": None, "peak_mb": peak}
        compare(lambda: cukde.sd_kde(X, Y, h), row, {})
    print(f"peak {peak:.0f} MB above the inputs")
    assert peak < 2000
