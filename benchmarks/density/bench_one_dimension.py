"""One dimension beside its rivals on the CPU and on a GPU, each row checked before it is timed.

python -m pytest benchmarks/density/bench_one_dimension.py --record benchmarks/results/NAME.json

The data are the mixture of the oracle study. On the CPU the bandwidth is 0.067 standard deviations, Silverman's for a
million normal points; on the GPU it is Flash-SD-KDE's, 0.4 standard deviations times n^(-1/9).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import special

import cukde
from benchmarks import peers
from benchmarks.sources import oracle_study
from cukde import perf
from tests import reference
from tests.conftest import why_no_gpu
from tests.tolerances import DENSITY

if why_no_gpu() is None:
    import cupy as cp

    from benchmarks.sources import exact
    from benchmarks.sources.estimates import laplace_in_two_passes

N, M = 1_000_000, 100_000

_FLASH = "Flash-SD-KDE, float32", "Flash-SD-KDE, float32, the paper's kernels"
_BINNED = "CuPy FFT, grid of 2^12", "CuPy FFT, grid of 2^16"

# Exponentials a second of an H200.
_EXPONENTIALS = 4.18e12

_TOLERANCE = {"float32": DENSITY["cpu", "float32"].value, "float64": DENSITY["cpu", "float64"].value}


@functools.lru_cache(maxsize=1)
def _data(n: int, m: int, dtype: str) -> tuple[np.ndarray, np.ndarray, float]:
    """Data, queries and the standard deviation of the data."""
    X, Y = oracle_study.sample(n, 0), oracle_study.sample(m, 1)
    return X.astype(dtype), Y.astype(dtype), float(X.std())


def _some(Y: Any, n: int) -> Any:
    """Indices of some queries, from the least to the greatest: 100, or 20 where the data are many."""
    xp = np if isinstance(Y, np.ndarray) else cp
    count = min(len(Y), 100, max(20, 10**8 // n))
    return xp.argsort(Y)[xp.linspace(0, len(Y) - 1, count).astype(int)]


def _log_density(X: Any, Y: Any, h: float) -> Any:
    """By log-sum-exp over all pairs in float64."""
    if isinstance(X, np.ndarray):
        return reference.log_kde(X, Y, h)
    return exact.log_sums(X[:, None], Y[:, None], h) - math.log(len(X) * h * math.sqrt(2 * math.pi))


def _score(X: Any, Y: Any, h: float) -> Any:
    """Likewise."""
    if isinstance(X, np.ndarray):
        return reference.score(X, Y, h)[:, 0]
    return exact.log_sums_and_shift(X[:, None], Y[:, None], h)[1][:, 0] / h**2


def _error(density: Any, X: Any, Y: Any, h: float) -> float:
    """Worst relative error of a density at some of the queries."""
    some = _some(Y, len(X))
    return float(abs(density[some] / np.exp(_log_density(X, Y[some], h)) - 1).max())


def _sd_kde_error(density: Any, X: Any, Y: Any, h: float) -> float:
    """The same for SD-KDE, in two steps: all pairs of both of its passes would take hours on a CPU.

    Debiased points by the library in float64 are first held against the sums over all pairs, some of them.
    """
    x = X.astype("f8")
    moved = cukde.debias(x, h)
    some = _some(x, len(x))
    wrong = abs(moved[some] - x[some] - 0.5 * h * h * _score(x, x[some], h)).max()
    assert wrong <= _TOLERANCE["float64"] * h
    return _error(density, moved, Y, h)


def _laplace_error(density: np.ndarray, X: np.ndarray, Y: np.ndarray, h: float) -> float:
    """Relative to the sum of the absolute terms."""
    some = _some(Y, len(X))
    value, size = reference.laplace(X, Y[some], h)
    return float((abs(density[some] - value) / size).max())


def _score_error(score: Any, X: Any, Y: Any, h: float) -> float:
    """In units of 1/h."""
    some = _some(Y, len(X))
    return float(abs(score[some] - _score(X, Y[some], h)).max() * h)


_ERRORS = {"kde": _error, "sd_kde": _sd_kde_error, "laplace_kde": _laplace_error, "score": _score_error}


def _row(op: str, backend: str, n: int, m: int, dtype: str, error: float) -> dict[str, Any]:
    return {
        "op": op,
        "backend": backend,
        "shape": {"n": n, "m": m, "d": 1},
        "dtype": dtype,
        "precision": dtype,
        "rel_err_max": error,
    }


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("op", ["kde", "sd_kde", "laplace_kde", "score"])
def bench_cpu(compare: Callable[..., None], op: str, dtype: str) -> None:
    X, Y, sigma = _data(N, M, dtype)
    h = 0.067 * sigma
    call = functools.partial(getattr(cukde, op), X, Y, h)
    error = _ERRORS[op](call(), X, Y, h)
    assert error <= _TOLERANCE[dtype]
    beside = _cpu_rivals(X, Y, h) if (op, dtype) == ("kde", "float64") else {}
    compare(call, _row(op, "cpu", N, M, dtype, error), beside)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("op", ["cdf", "log_cdf"])
def bench_distribution_cpu(compare: Callable[..., None], op: str, dtype: str) -> None:
    """A million points at a million queries; beside sums of SciPy's normal distribution function of some of them."""
    X, Y, sigma = _data(N, N, dtype)
    h, some = 0.067 * sigma, _some(Y, N)[:: 1 if op == "cdf" else 4]
    below, above = reference.log_distribution(X, Y[some], h)
    want = np.exp(below) if op == "cdf" else np.where(below < -math.log(2), below, np.log1p(-np.exp(above)))

    def error(got: np.ndarray) -> float:
        return float(abs(got / want - 1).max())

    def of_pairs() -> np.ndarray:
        return special.ndtr((Y[some, None] - X) / h).mean(axis=1)

    call = functools.partial(getattr(cukde, op), X, Y, h)
    found = error(call()[some])
    assert found <= _TOLERANCE[dtype]
    beside = {"SciPy ndtr": (of_pairs, error(of_pairs()), len(some) / N)} if (op, dtype) == ("cdf", "float64") else {}
    compare(call, _row(op, "cpu", N, N, dtype, found), beside)


def _cpu_rivals(X: np.ndarray, Y: np.ndarray, h: float) -> dict[str, Any]:
    """Two of them take minutes for all queries: some are timed, of data that they have been fitted to."""
    from scipy.stats import gaussian_kde
    from sklearn.neighbors import KernelDensity

    some = _some(Y, len(X))
    part = len(some) / len(Y)
    exact_density = reference.kde(X, Y[some], h)
    tree = KernelDensity(bandwidth=h, algorithm="kd_tree", rtol=1e-4).fit(X[:, None])
    pairs = gaussian_kde(X, bw_method=h / X.std(ddof=1))

    def of_tree() -> np.ndarray:
        return np.exp(tree.score_samples(Y[some, None]))

    def of_pairs() -> np.ndarray:
        return pairs(Y[some])

    found: dict[str, Any] = {
        name: (call, float(abs(call() / exact_density - 1).max()), part)
        for name, call in (("scikit-learn KernelDensity", of_tree), ("SciPy gaussian_kde", of_pairs))
    }
    return found | peers.rivals("kde", ("KDEpy",), X, Y, h, error=lambda got: _error(got, X, Y, h))


@pytest.mark.parametrize("n", [N, 4 * N, 16 * N])
@pytest.mark.parametrize("op", ["kde", "sd_kde"])
def bench_growth(compare: Callable[..., None], op: str, n: int) -> None:
    """The bound is what a million points take in the same run, times n over a million."""
    X, Y, sigma = _data(n, n // 8, "float64")
    h, call = 0.067 * sigma, getattr(cukde, op)
    few = perf.measure(call, X[:N], Y[: N // 8], h)
    row = _row(op, "cpu", n, n // 8, "float64", _ERRORS[op](call(X, Y, h), X, Y, h))
    assert row["rel_err_max"] <= _TOLERANCE["float64"]
    row |= {"bound_ms": few.median_ms * n / N, "bound": f"linear growth from n = {N:,}"}
    compare(lambda: call(X, Y, h), row, {})


needs_gpu = pytest.mark.skipif(why_no_gpu() is not None, reason=str(why_no_gpu()))


@needs_gpu
@pytest.mark.gpu
@pytest.mark.parametrize(
    ("n", "m", "dtype", "names"),
    [
        (2**11, 2**8, "float32", (*_FLASH, *_BINNED)),
        (2**20, 2**17, "float32", (*_FLASH, *_BINNED)),
        (2**22, 2**19, "float32", _BINNED),
        (2**20, 2**17, "float64", _BINNED),
    ],
)
@pytest.mark.parametrize("op", ["kde", "sd_kde"])
def bench_densities_gpu(
    compare: Callable[..., None], op: str, n: int, m: int, dtype: str, names: tuple[str, ...]
) -> None:
    X, Y, h = _on_gpu(n, m, dtype)
    call, wrong = functools.partial(getattr(cukde, op), X, Y, h), _ERRORS[op]
    error = wrong(call(), X, Y, h)
    assert error <= _TOLERANCE[dtype]
    beside = peers.rivals(op, names, X, Y, h, error=lambda got: wrong(got, X, Y, h))
    compare(call, _row(op, "gpu", n, m, dtype, error), beside)


@needs_gpu
@pytest.mark.gpu
@pytest.mark.parametrize(("n", "m"), [(2**11, 2**8), (2**20, 2**17)])
def bench_laplace_gpu(compare: Callable[..., None], n: int, m: int) -> None:
    X, Y, h = _on_gpu(n, m, "float32")

    def wrong(density: Any) -> float:
        return _laplace_error(cp.asnumpy(density), cp.asnumpy(X), cp.asnumpy(Y), h)

    call = functools.partial(cukde.laplace_kde, X, Y, h)
    error = wrong(call())
    assert error <= _TOLERANCE["float32"]
    beside = peers.rivals("laplace_kde", ("Flash-SD-KDE, float32", *_BINNED), X, Y, h, error=wrong)
    compare(call, _row("laplace_kde", "gpu", n, m, "float32", error), beside)


@needs_gpu
@pytest.mark.gpu
@pytest.mark.parametrize(("n", "m"), [(2**18, 2**18), (2**22, 2**19)])
@pytest.mark.parametrize("op", ["kde", "score"])
def bench_pairs_gpu(compare: Callable[..., None], op: str, n: int, m: int) -> None:
    """Every pair by the direct kernels, which "ieee" asks for."""
    X, Y, h = _on_gpu(n, m, "float32")
    call = functools.partial(getattr(cukde, op), X, Y, h, precision="ieee")
    error = _ERRORS[op](call(), X, Y, h)
    assert error <= DENSITY["gpu", "ieee"].value
    row = _row(op, "gpu", n, m, "float32", error) | {"precision": "ieee"}
    row |= {"bound_ms": 1e3 * n * m / _EXPONENTIALS, "bound": "one exponential a pair"}
    compare(call, row, {})


@needs_gpu
@pytest.mark.gpu
@pytest.mark.parametrize("n", [2**10, 2**12, 2**14, 2**16, 2**18, 2**20])
def bench_fusion_gpu(compare: Callable[..., None], n: int) -> None:
    """The Laplace correction of all pairs in one pass; beside it in two, SD-KDE, and the rival's own."""
    X, Y, h = _on_gpu(n, 10_000, "float32")
    x, y = X[:, None], Y[:, None]

    def wrong(density: Any) -> float:
        return _laplace_error(cp.asnumpy(density), cp.asnumpy(X), cp.asnumpy(Y), h)

    call = functools.partial(cukde.laplace_kde, X, Y, h, precision="ieee")
    two = functools.partial(laplace_in_two_passes, x, y, h, precision="ieee")
    moved = functools.partial(cukde.sd_kde, X, Y, h, precision="ieee")
    error = wrong(call())
    assert error <= DENSITY["gpu", "ieee"].value
    beside = {"Laplace, two passes": (two, wrong(two())), "cukde sd_kde": (moved, _sd_kde_error(moved(), X, Y, h))}
    beside |= peers.rivals("laplace_kde", ("Flash-SD-KDE, float32",), X, Y, h, error=wrong)
    row = _row("laplace_kde", "gpu", n, len(Y), "float32", error) | {"precision": "ieee"}
    compare(call, row, beside)


@needs_gpu
@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def bench_cdf_gpu(compare: Callable[..., None], dtype: str) -> None:
    """Beside it the density of the same points, by the same passes but for what ends them."""
    n = 2**20
    X, Y, h = _on_gpu(n, n, dtype)
    some = _some(Y, n)
    want = np.exp(reference.log_distribution(cp.asnumpy(X), cp.asnumpy(Y[some]), h)[0])
    error = float(abs(cp.asnumpy(cukde.cdf(X, Y, h)[some]) / want - 1).max())
    assert error <= _TOLERANCE[dtype]
    density = (lambda: cukde.kde(X, Y, h), _error(cukde.kde(X, Y, h), X, Y, h))
    compare(lambda: cukde.cdf(X, Y, h), _row("cdf", "gpu", n, n, dtype, error), {"cukde kde": density})


def _on_gpu(n: int, m: int, dtype: str) -> tuple[Any, Any, float]:
    X, Y, sigma = _data(n, m, dtype)
    return cp.asarray(X), cp.asarray(Y), 0.4 * sigma * n ** (-1 / 9)
