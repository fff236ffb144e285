"""``KernelDensity`` beside scikit-learn's over the number of points, each row checked before it is timed.

python -m pytest benchmarks/density/bench_over_n.py -k cpu --record benchmarks/results/over_n_cpu.json

Data are a standardised mixture of normal distributions in three dimensions; the bandwidth is Silverman's. A call fits
and scores: scikit-learn builds its tree in the one and walks it in the other, exactly, as its defaults do, or with a
tolerance. A row has the largest difference of our log densities from those of scikit-learn's defaults, too.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cukde
from benchmarks import peers
from benchmarks.density import points
from tests import reference
from tests.conftest import why_no_gpu
from tests.tolerances import DENSITY

if why_no_gpu() is None:
    import cupy as cp

SIZES = (1_000, 3_000, 10_000, 30_000, 100_000)
QUERIES, DIMENSIONS = 1_000, 3
_CHECKED = 200  # queries
_RIVALS = ("scikit-learn", "scikit-learn, rtol=1e-4")


def _score_samples(X: Any, Y: Any, h: float) -> Any:
    """Log densities, by a model that is fitted for this call."""
    return cukde.KernelDensity(bandwidth=h).fit(X).score_samples(Y)


def _row(backend: str, X: np.ndarray, Y: np.ndarray, h: float, log_density: np.ndarray) -> dict[str, Any]:
    """What is known of our result before it is timed."""
    from sklearn.neighbors import KernelDensity

    error = _error(np.exp(log_density), X, Y, h)
    assert error <= DENSITY[backend, "float64"].value
    theirs = KernelDensity(bandwidth=h).fit(X).score_samples(Y)
    return {
        "op": "KernelDensity",
        "backend": backend,
        "shape": {"n": len(X), "m": len(Y), "d": X.shape[1]},
        "dtype": "float64",
        "precision": "float64",
        "rel_err_max": error,
        "difference_max": float(abs(log_density - theirs).max()),
    }


def _error(density: np.ndarray, X: np.ndarray, Y: np.ndarray, h: float) -> float:
    """Worst relative error at the first queries."""
    return float(abs(density[:_CHECKED] / np.exp(reference.log_kde(X, Y[:_CHECKED], h)) - 1).max())


def _data(n: int) -> tuple[np.ndarray, np.ndarray, float]:
    X, Y, h = points.mixture(n, QUERIES, DIMENSIONS)
    return X.astype(np.float64), Y.astype(np.float64), h


@pytest.mark.parametrize("n", SIZES)
def bench_cpu(compare: Callable[..., None], n: int) -> None:
    X, Y, h = _data(n)
    row = _row("cpu", X, Y, h, _score_samples(X, Y, h))
    beside = peers.rivals("kde", _RIVALS, X, Y, h, error=lambda got: _error(got, X, Y, h))
    compare(functools.partial(_score_samples, X, Y, h), row, beside)


@pytest.mark.gpu
@pytest.mark.skipif(why_no_gpu() is not None, reason=str(why_no_gpu()))
@pytest.mark.parametrize("n", SIZES)
def bench_gpu(compare: Callable[..., None], n: int) -> None:
    """scikit-learn computes on the CPU beside it."""
    X, Y, h = _data(n)
    x, y = cp.asarray(X), cp.asarray(Y)
    row = _row("gpu", X, Y, h, cp.asnumpy(_score_samples(x, y, h)))
    beside = peers.rivals("kde", _RIVALS, X, Y, h, error=lambda got: _error(got, X, Y, h))
    compare(functools.partial(_score_samples, x, y, h), row, beside)
