"""Kendall's tau beside SciPy, pandas and the source's kernel, each row checked before it is timed.

python -m pytest benchmarks/bench_kendall.py --record benchmarks/results/NAME.json

Columns are normal with a common factor: as they are, without ties, or rounded to about 60 values. The error of a row is
the largest difference to SciPy's tau-b. The bound of a matrix is the time of its products of signs, one for each pair
of columns and of samples, at the rate of int8 products that the device has in the same run.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cukde
from benchmarks import memory, peers
from cukde import perf
from tests.conftest import why_no_gpu

if why_no_gpu() is None:
    import cupy as cp

    from benchmarks.study import kendall_pairs

needs_gpu = pytest.mark.skipif(why_no_gpu() is not None, reason=str(why_no_gpu()))
with_and_without_ties = pytest.mark.parametrize("ties", [False, True], ids=["distinct", "ties"])

_TOLERANCE = 1e-12
_MOST_BYTES = 4e9  # of device memory, for the columns, the result and all between
_PAIRS_CHECKED = 12


@functools.lru_cache(maxsize=1)
def _columns(n: int, p: int, ties: bool) -> np.ndarray:
    """Shape (n, p), float64."""
    rng = np.random.default_rng([n, p])
    A = rng.standard_normal((n, p)) + rng.standard_normal((n, 1))
    return np.round(6 * A) if ties else A


def _pairs_of_columns(p: int) -> np.ndarray:
    return np.random.default_rng(p).integers(p, size=(_PAIRS_CHECKED, 2))


def _tau_error(tau: Any, x: np.ndarray, y: np.ndarray) -> float:
    from scipy.stats import kendalltau

    return abs(float(tau) - kendalltau(x, y).statistic)


def _matrix_error(tau: Any, A: np.ndarray) -> float:
    """Of some pairs of columns."""
    return max(_tau_error(tau[i, j], A[:, i], A[:, j]) for i, j in _pairs_of_columns(A.shape[1]))


def _row(op: str, backend: str, shape: dict[str, int], error: float, ties: bool = False) -> dict[str, Any]:
    assert error <= _TOLERANCE
    return {
        "op": op,
        "backend": backend,
        "shape": shape | ({"ties": "yes"} if ties else {}),
        "dtype": "float64",
        "precision": "float64",
        "rel_err_max": error,
    }


def _bound(p: int, n: int) -> dict[str, Any]:
    """A multiply and an add for each pair of samples of each pair of columns."""
    rate = _int8_rate()
    return {
        "bound_ms": 1e3 * 2 * (p * (p - 1) / 2) * (n * (n - 1) / 2) / rate,
        "bound": f"int8 products at {rate:.3g} op/s",
    }


@functools.cache
def _int8_rate() -> float:
    return perf.measure_peaks("gpu").rate("tensor_s8")


@with_and_without_ties
@pytest.mark.parametrize(("n", "names"), [(100_000, ("SciPy", "pandas")), (1_000_000, ("SciPy",))])
def bench_pair_cpu(compare: Callable[..., None], n: int, names: tuple[str, ...], ties: bool) -> None:
    x, y = np.ascontiguousarray(_columns(n, 2, ties).T)
    error = functools.partial(_tau_error, x=x, y=y)
    row = _row("kendalltau", "cpu", {"n": n}, error(cukde.kendalltau(x, y).statistic), ties)
    compare(lambda: cukde.kendalltau(x, y), row, peers.rivals("kendalltau", names, x, y, error=error))


@with_and_without_ties
def bench_matrix_cpu(compare: Callable[..., None], ties: bool) -> None:
    n, p = 2000, 64
    A = _columns(n, p, ties)
    error = functools.partial(_matrix_error, A=A)
    row = _row("matrix", "cpu", {"p": p, "n": n}, error(cukde.kendall_matrix(A)), ties)
    compare(lambda: cukde.kendall_matrix(A), row, peers.rivals("kendall_matrix", ("pandas",), A, error=error))


@needs_gpu
@pytest.mark.gpu
@with_and_without_ties
@pytest.mark.parametrize(
    ("p", "n", "names"),
    [
        (1000, 1000, ("source kernel",)),
        (64, 10_000, ("source kernel",)),
        (256, 1000, ("source kernel",)),
        (2000, 4000, ()),  # the source's kernel would take half a minute
    ],
)
def bench_matrix_gpu(compare: Callable[..., None], p: int, n: int, names: tuple[str, ...], ties: bool) -> None:
    A = _columns(n, p, ties)
    a = cp.asarray(A)
    error = functools.partial(_matrix_error, A=A)
    row = _row("matrix", "gpu", {"p": p, "n": n}, error(cukde.kendall_matrix(a)), ties) | _bound(p, n)
    compare(lambda: cukde.kendall_matrix(a), row, peers.rivals("kendall_matrix", names, a, error=error))


@needs_gpu
@pytest.mark.gpu
def bench_memory_gpu(compare: Callable[..., None]) -> None:
    p, n = 4000, 10_000
    A = _columns(n, p, True)
    a = cp.asarray(A)
    error = _matrix_error(cukde.kendall_matrix(a), A)
    peak = memory.peak_mb(lambda: cukde.kendall_matrix(a))
    assert a.nbytes + 2**20 * peak <= _MOST_BYTES
    row = _row("matrix", "gpu", {"p": p, "n": n}, error, True) | _bound(p, n) | {"peak_mb": peak}
    compare(lambda: cukde.kendall_matrix(a), row, {})


@needs_gpu
@pytest.mark.gpu
def bench_concordance_gpu(compare: Callable[..., None]) -> None:
    """Its counts make the statistic of the source's kernel, for every pair of columns, to the last bit."""
    p, n = 1000, 1000
    a = cp.asarray(_columns(n, p, True))
    counts, pairs = cukde.concordance(a), n * (n - 1) // 2
    rows = cp.ascontiguousarray(a.T, np.float32)  # whole numbers: as they are
    same = (2 * (counts.concordant + counts.tied_both) - pairs) / pairs == kendall_pairs.agreement(rows, rows)
    assert bool(same.all())
    row = _row("concordance", "gpu", {"p": p, "n": n}, 0.0, True) | _bound(p, n)
    compare(lambda: cukde.concordance(a), row, {})


@needs_gpu
@pytest.mark.gpu
@with_and_without_ties
@pytest.mark.parametrize(("n", "names"), [(100_000, ("SciPy",)), (1_000_000, ("SciPy",)), (10_000_000, ())])
def bench_pair_gpu(compare: Callable[..., None], n: int, names: tuple[str, ...], ties: bool) -> None:
    x, y = np.ascontiguousarray(_columns(n, 2, ties).T)
    X, Y = cp.asarray(x), cp.asarray(y)
    error = functools.partial(_tau_error, x=x, y=y)
    row = _row("kendalltau", "gpu", {"n": n}, error(cukde.kendalltau(X, Y).statistic), ties)
    compare(lambda: cukde.kendalltau(X, Y), row, peers.rivals("kendalltau", names, x, y, error=error))
