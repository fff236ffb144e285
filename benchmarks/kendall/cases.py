"""Kendall's tau beside SciPy, pandas and the source's kernel: calls, and checked rows.

Columns are normal with a common factor: as they are, without ties, or rounded to about 60 values. The error of a row is
the largest difference to SciPy's tau-b. The bound of a matrix on a GPU is the time of its products of signs, one for
each pair of columns and of samples, at the rate of int8 products that the device has in the same run.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

import cukde
from benchmarks import peers
from benchmarks.record import Case, checked
from cukde import perf

TOLERANCE = 1e-12
_PAIRS_CHECKED = 12


def pair(backend: str, n: int, ties: bool, names: tuple[str, ...] = ()) -> Case:
    """Two samples, beside the named peers, which take them on the CPU."""
    x, y = np.ascontiguousarray(columns(n, 2, ties).T)
    X, Y = on(backend, x), on(backend, y)
    error = functools.partial(tau_error, x=x, y=y)
    about = row("kendalltau", backend, {"n": n}, error(cukde.kendalltau(X, Y).statistic), ties)
    rivals = peers.rivals("kendalltau", names, x, y, error=error)
    return Case(lambda: cukde.kendalltau(X, Y), about, rivals)


def matrix(backend: str, p: int, n: int, ties: bool, names: tuple[str, ...] = ()) -> Case:
    """All pairs of columns, beside the named peers, which take them where they are."""
    A = columns(n, p, ties)
    a = on(backend, A)
    error = functools.partial(matrix_error, A=A)
    about = row("matrix", backend, {"p": p, "n": n}, error(cukde.kendall_matrix(a)), ties)
    about |= bound(p, n) if backend == "gpu" else {}
    return Case(lambda: cukde.kendall_matrix(a), about, peers.rivals("kendall_matrix", names, a, error=error))


def on(backend: str, a: np.ndarray) -> Any:
    """An array where a call is to run."""
    if backend == "cpu":
        return a
    import cupy

    return cupy.asarray(a)


@functools.lru_cache(maxsize=1)
def columns(n: int, p: int, ties: bool) -> np.ndarray:
    """Shape (n, p), float64, normal with a common factor; with ties, rounded to about 60 values."""
    rng = np.random.default_rng([n, p])
    A = rng.standard_normal((n, p)) + rng.standard_normal((n, 1))
    return np.round(6 * A) if ties else A


def tau_error(tau: Any, x: np.ndarray, y: np.ndarray) -> float:
    """Difference to SciPy's tau-b."""
    from scipy.stats import kendalltau

    return abs(float(tau) - kendalltau(x, y).statistic)


def matrix_error(tau: Any, A: np.ndarray) -> float:
    """The largest difference to SciPy's tau-b, of some pairs of columns."""
    pairs = np.random.default_rng(A.shape[1]).integers(A.shape[1], size=(_PAIRS_CHECKED, 2))
    return max(tau_error(tau[i, j], A[:, i], A[:, j]) for i, j in pairs)


def row(op: str, backend: str, shape: dict[str, int], error: float, ties: bool = False) -> dict[str, Any]:
    """What a row is about."""
    about: dict[str, Any] = {
        "op": op,
        "backend": backend,
        "shape": shape | ({"ties": "yes"} if ties else {}),
        "dtype": "float64",
        "precision": "float64",
        "rel_err_max": error,
    }
    return checked(about, TOLERANCE)


def bound(p: int, n: int) -> dict[str, Any]:
    """On a GPU, a multiply and an add for each pair of samples of each pair of columns."""
    rate = gpu_peaks().rate("tensor_s8")
    return {
        "bound_ms": 1e3 * 2 * (p * (p - 1) / 2) * (n * (n - 1) / 2) / rate,
        "bound": f"int8 products at {rate:.3g} op/s",
    }


@functools.cache
def gpu_peaks() -> perf.Peaks:
    """Those of the GPU at hand, measured in this run."""
    return perf.measure_peaks("gpu")
