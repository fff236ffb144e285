"""Modes by mean shift, beside scikit-learn's MeanShift; labels are checked before anything is timed.

python -m pytest benchmarks/density/bench_modes.py --record benchmarks/results/NAME.json

Data are six normal groups that overlap, in float32, the bandwidth is Silverman's. Labels are held against plain mean
shift of the first rows, a step at a time in float64, and the error is the largest distance of a mode to where that
ends, in bandwidths. MeanShift has a flat kernel of the same variance a column; it is timed once.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cukde
from benchmarks.density.bench_pairs import needs_gpu
from cukde import perf

CHECKED = 2000
_LAST_STEP, _SAME = 1e-6, 1e-2  # in bandwidths: of plain mean shift; and between ends that are the same


def mixture(n: int, d: int) -> np.ndarray:
    """Six normal groups of the same size on average."""
    rng = np.random.default_rng(0)
    centres = 4 * rng.standard_normal((6, d))
    return (centres[rng.integers(6, size=n)] + rng.standard_normal((n, d))).astype(np.float32)


def plain(X: np.ndarray, h: float) -> np.ndarray:
    """Where mean shift ends from each row, a step at a time."""
    z, left = X.astype(np.float64), np.arange(len(X))
    while len(left):
        step = h * h * cukde.score(X, z[left], h, precision="float64")
        z[left] += step
        left = left[np.linalg.norm(step, axis=1) > _LAST_STEP * h]
    return z


def _on_host(a: Any) -> np.ndarray:
    return np.asarray(a.get() if hasattr(a, "get") else a)


def checked(X: Any, h: float) -> float:
    """The largest distance of a mode to where plain mean shift ends; every label is the same."""
    few = X[:CHECKED]
    found = cukde.modes(few, h)
    away = np.linalg.norm(plain(_on_host(few), h) - _on_host(found.points)[_on_host(found.labels)], axis=1) / h
    assert (away <= _SAME).all()
    return float(away.max())


def _row(backend: str, n: int, d: int, error: float, found: Any) -> dict[str, Any]:
    shape = {"n": n, "d": d, "modes": len(found.points), "iterations": found.iterations}
    return {
        "op": "modes",
        "backend": backend,
        "shape": shape,
        "dtype": "float32",
        "precision": "float32",
        "rel_err_max": error,
    }


@pytest.mark.parametrize("d", [2, 4])
def bench_modes_cpu(compare: Callable[..., None], keep: Callable[[dict[str, Any]], None], d: int) -> None:
    from sklearn.cluster import MeanShift

    n = 10_000
    X = mixture(n, d)
    h = float(cukde.bandwidth.silverman(X).mean())
    row = _row("cpu", n, d, checked(X, h), cukde.modes(X, h))
    compare(lambda: cukde.modes(X, h), row, {})
    theirs = MeanShift(bandwidth=h * np.sqrt(d + 2))
    begun = time.perf_counter()
    theirs.fit(X)
    times = perf.Times.of([1e3 * (time.perf_counter() - begun)]).row()
    name = f"scikit-learn MeanShift, {len(theirs.cluster_centers_)} modes"
    keep(row | perf.measure(cukde.modes, X, h).row() | {"peer": {"name": name, "rel_err_max": None} | times})


@needs_gpu
@pytest.mark.gpu
@pytest.mark.parametrize(("n", "d"), [(10_000, 2), (10_000, 4), (100_000, 4), (1_000_000, 2), (100_000, 16)])
def bench_modes_gpu(compare: Callable[..., None], n: int, d: int) -> None:
    import cupy as cp

    X = cp.asarray(mixture(n, d))
    h = float(cukde.bandwidth.silverman(X).mean())
    compare(lambda: cukde.modes(X, h), _row("gpu", n, d, checked(X, h), cukde.modes(X, h)), {})
