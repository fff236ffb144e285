"""``KernelDensity`` in scikit-learn's search for a bandwidth beside scikit-learn's own, checked before it is timed.

python -m pytest benchmarks/perf/bench_estimator.py --record benchmarks/results/NAME.json

Data are a standardised mixture of normal distributions. The best bandwidth must be the same one. An error is the worst
of log densities, against float64, of the first fold's first queries, at every bandwidth.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cukde
from tests import reference

_CHECKED = 200
N, D, FOLDS = 5000, 8, 5
BANDWIDTHS = (0.25, 0.35, 0.5, 0.7, 1.0)
_TOLERANCE = {"float32": 1e-5, "float64": 1e-12}


def _mixture(n: int, d: int) -> np.ndarray:
    rng = np.random.default_rng(0)
    X = 2 * rng.standard_normal((8, d))[rng.integers(8, size=n)] + rng.standard_normal((n, d))
    return (X - X.mean(axis=0)) / X.std(axis=0)


def _search(estimator: Any, X: np.ndarray) -> Any:
    from sklearn.model_selection import GridSearchCV

    return GridSearchCV(estimator, {"bandwidth": list(BANDWIDTHS)}, cv=FOLDS).fit(X)


def _error(of: Any, X: np.ndarray) -> float:
    m = N // FOLDS
    data, queries = X[m:], X[:_CHECKED]
    apart = (of(bandwidth=h).fit(data).score_samples(queries) - reference.log_kde(data, queries, h) for h in BANDWIDTHS)
    return max(float(np.abs(each).max()) for each in apart)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def bench_grid_search_cpu(compare: Callable[..., None], dtype: str) -> None:
    from sklearn.neighbors import KernelDensity

    X = _mixture(N, D).astype(dtype)
    ours, theirs = (_search(of(), X) for of in (cukde.KernelDensity, KernelDensity))
    assert ours.best_params_ == theirs.best_params_
    assert ours.best_params_["bandwidth"] not in (BANDWIDTHS[0], BANDWIDTHS[-1])
    error = _error(cukde.KernelDensity, X)
    assert error <= _TOLERANCE[dtype]
    row = {
        "op": "GridSearchCV",
        "backend": "cpu",
        "shape": {"n": N, "d": D, "bandwidths": len(BANDWIDTHS), "folds": FOLDS},
        "dtype": dtype,
        "precision": dtype,
        "rel_err_max": error,
    }
    peer = {"scikit-learn KernelDensity": (lambda: _search(KernelDensity(), X), _error(KernelDensity, X))}
    compare(lambda: _search(cukde.KernelDensity(), X), row, peer)
