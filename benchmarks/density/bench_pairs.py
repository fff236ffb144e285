"""The density family against scikit-learn, SciPy, plain CuPy and others, each row checked before it is timed.

python -m pytest benchmarks/density/bench_pairs.py --record benchmarks/results/NAME.json
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cukde
from benchmarks.peers import rivals
from cukde import perf
from tests import reference

D, N, M = 16, 8192, 1024
_TOLERANCE = {
    ("cpu", "float32"): 1e-5,
    ("cpu", "float64"): 1e-12,
    ("gpu", "float32"): 3e-5,
    ("gpu", "float64"): 1e-12,
    ("gpu", "tf32"): 3e-2,
}

# Of 16 dimensions, in single precision.
_FLASH = "Flash-SD-KDE, TF32", "Flash-SD-KDE, fp32_ieee"
_RIVALS = {
    "kde": (*_FLASH, "Flash-SD-KDE, TF32, the paper's kernels", "cuVS", "PyKeOps"),
    "laplace_kde": (*_FLASH, "CuPy"),
    "sd_kde": (
        *_FLASH,
        "Flash-SD-KDE, TF32, the paper's kernels",
        "Flash-SD-KDE, TF32, symmetric_atomic",
        "Flash-SD-KDE, fp32_ieee, symmetric_atomic",
        "CuPy",
        "PyKeOps",
    ),
}

# Exponentials a second, measured on an H200 (special function units, 132 multiprocessors).
_H200_EXP = 4.13e12


def _gpu_works() -> bool:
    try:
        import cupy

        return bool(cupy.cuda.is_available())
    except ImportError:
        return False


needs_gpu = pytest.mark.skipif(not _gpu_works(), reason="no working CUDA GPU with CuPy")


def _data(n: int, m: int, d: int, dtype: Any) -> tuple[np.ndarray, np.ndarray, float]:
    """Standard normal data with the bandwidth of Scott's rule."""
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(n, d)).astype(dtype), rng.normal(size=(m, d)).astype(dtype)
    return X, Y, float(n ** (-1 / (d + 4)))


def _error(log_density: Any, X: np.ndarray, Y: np.ndarray, h: float) -> float:
    """Worst relative density error over a sample of the queries."""
    rows = slice(None, 256)
    exact = reference.log_kde(X, Y[rows], h)
    return float(np.abs(np.expm1(np.asarray(log_density, np.float64)[rows] - exact)).max())


def _cpu_bound_ms(pairs: float, d: int, dtype: Any) -> float:
    """Time of the tile's BLAS product and of its exp2 pass alone, at this machine's speed, over its cores."""
    from threadpoolctl import threadpool_limits

    from cukde.core.cpu import threads
    from cukde.density.pairs.cpu import tiles

    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(256, d)).astype(dtype), rng.normal(size=(d, 1024)).astype(dtype)
    tile, shift = np.empty((256, 1024), dtype), np.zeros(256, dtype)
    rescale, total = np.empty(256), np.zeros(256)
    with threadpool_limits(1, "blas"):
        product = perf.measure(np.dot, a, b, tile, seconds=0.3).median_ms
        tile[:] = -rng.uniform(0, 20, tile.shape)
        exponentials = perf.measure(tiles.weigh, tile, shift, rescale, total, seconds=0.3).median_ms
    return pairs * (product + exponentials) / tile.size / threads.count()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def bench_kde_cpu(compare: Callable[..., None], dtype: str) -> None:
    from scipy.stats import gaussian_kde
    from sklearn.neighbors import KernelDensity

    X, Y, h = _data(N, M, D, dtype)
    error = _error(cukde.kde(X, Y, h, log=True), X, Y, h)
    assert error <= _TOLERANCE["cpu", dtype]
    sklearn = KernelDensity(bandwidth=h).fit(X)
    # SciPy scales the data's covariance; whitened data make its kernel ours, at the same cost.
    scipy = gaussian_kde(X.T, bw_method="scott")
    peers = {
        "scikit-learn KernelDensity": (
            lambda: sklearn.score_samples(Y),
            _error(sklearn.score_samples(Y), X, Y, h),
        ),
        "SciPy gaussian_kde": (lambda: scipy(Y.T), None),
    }
    row = {
        "op": "kde",
        "backend": "cpu",
        "shape": {"n": N, "m": M, "d": D},
        "dtype": dtype,
        "precision": dtype,
        "rel_err_max": error,
        "bound_ms": _cpu_bound_ms(N * M, D, dtype),
        "bound": "BLAS product + exp2",
    }
    compare(lambda: cukde.kde(X, Y, h, log=True), row, peers)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def bench_score_cpu(compare: Callable[..., None], dtype: str) -> None:
    X, _, h = _data(N, M, D, dtype)
    exact = reference.score(X, X[:256], h)
    error = float(np.abs(cukde.score(X, X[:256], h) - exact).max() * h)
    assert error <= 10 * _TOLERANCE["cpu", dtype]  # times r/h, the reach of a sum in 16 dimensions
    row = {
        "op": "score",
        "backend": "cpu",
        "shape": {"n": N, "m": N, "d": D},
        "dtype": dtype,
        "precision": dtype,
        "rel_err_max": error,
    }
    compare(lambda: cukde.score(X, X, h), row, {})


def _cupy_kde(X: Any, Y: Any, h: float) -> Any:
    """What a CuPy user writes: the whole matrix of pairs, in tiles of queries."""
    import cupy as cp

    n, d = X.shape
    out = cp.empty(len(Y), X.dtype)
    norms = (X * X).sum(1)
    for i in range(0, len(Y), 4096):
        y = Y[i : i + 4096]
        squares = (y * y).sum(1)[:, None] + norms - 2 * (y @ X.T)
        out[i : i + 4096] = cp.exp(squares * (-0.5 / h**2)).sum(1)
    return out * ((2 * np.pi * h * h) ** (-d / 2) / n)


@needs_gpu
@pytest.mark.gpu
@pytest.mark.parametrize("n", [8192, 65536])
@pytest.mark.parametrize("precision", ["float32", "tf32", "float64"])
def bench_kde_gpu(compare: Callable[..., None], precision: str, n: int) -> None:
    import cupy as cp

    dtype = "float64" if precision == "float64" else "float32"
    X, Y, h = _data(n, n // 8, D, dtype)
    x, y = cp.asarray(X), cp.asarray(Y)
    error = _error(cukde.kde(x, y, h, log=True, precision=precision).get(), X, Y, h)
    assert error <= _TOLERANCE["gpu", precision]
    peer_error = _error(cp.log(_cupy_kde(x, y, h)).get(), X, Y, h)
    row = {
        "op": "kde",
        "backend": "gpu",
        "shape": {"n": n, "m": n // 8, "d": D},
        "dtype": dtype,
        "precision": precision,
        "rel_err_max": error,
        "bound_ms": 1e3 * n * (n // 8) / _H200_EXP,
        "bound": "exponentials of an H200",
    }
    beside = (
        {}
        if dtype == "float64"
        else rivals("kde", _RIVALS["kde"], x, y, h, error=lambda density: _error(cp.log(density).get(), X, Y, h))
    )
    compare(
        lambda: cukde.kde(x, y, h, precision=precision),
        row,
        {"CuPy": (lambda: _cupy_kde(x, y, h), peer_error)} | beside,
    )


@needs_gpu
@pytest.mark.gpu
@pytest.mark.parametrize("op", ["score", "laplace_kde", "sd_kde"])
@pytest.mark.parametrize("precision", ["float32", "tf32", "float64"])
def bench_family_gpu(compare: Callable[..., None], op: str, precision: str) -> None:
    import cupy as cp

    n, m = 32768, 4096
    dtype = "float64" if precision == "float64" else "float32"
    X, Y, h = _data(n, m, D, dtype)
    x, y = cp.asarray(X), cp.asarray(Y)
    call = {"score": cukde.score, "laplace_kde": cukde.laplace_kde, "sd_kde": cukde.sd_kde}[op]
    got = call(x, y[:64], h, precision=precision).get().astype(np.float64)
    error = _family_error(op, got, X, Y[:64], h)
    assert error <= 30 * _TOLERANCE["gpu", precision]  # sd_kde's debiased points and the score's reach
    row = {
        "op": op,
        "backend": "gpu",
        "shape": {"n": n, "m": m, "d": D},
        "dtype": dtype,
        "precision": precision,
        "rel_err_max": error,
        "bound_ms": 1e3 * (n * m + (n * n if op == "sd_kde" else 0)) / _H200_EXP,
        "bound": "exponentials of an H200",
    }
    names = () if dtype == "float64" else _RIVALS.get(op, ())
    beside = rivals(
        *(op, names, x, y, h),
        error=lambda density: _family_error(op, density[:64].get().astype(np.float64), X, Y[:64], h),
    )
    compare(lambda: call(x, y, h, precision=precision), row, beside)


def _family_error(op: str, got: np.ndarray, X: np.ndarray, Y: np.ndarray, h: float) -> float:
    if op == "score":
        return float(np.abs(got - reference.score(X, Y, h)).max() * h)
    if op == "sd_kde":
        # The whole oracle is n^2 pairs in NumPy: its debiasing step is taken in double precision here.
        moved = cukde.debias(X.astype(np.float64), h)
        return float(np.abs(got / np.exp(reference.log_kde(moved, Y, h)) - 1).max())
    value, absolute = reference.laplace(X, Y, h)
    return float((np.abs(got - value) / absolute).max())
