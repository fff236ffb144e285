"""The workload of the SD-KDE benchmark on a GPU, and what its results are in float64."""

from __future__ import annotations

import functools
from typing import Any

import cupy as cp
import numpy as np

import cukde
from benchmarks.density import points
from benchmarks.sources import exact

# Queries that errors are taken over. Those of the mixture are drawn at random: the first are as good as any.
CHECKED = 1000


@functools.lru_cache(maxsize=2)
def mixture(n: int, m: int, d: int = 16) -> tuple[Any, Any, float]:
    """Data, queries and bandwidth."""
    X, Y, h = points.mixture(n, m, d)
    return cp.asarray(X), cp.asarray(Y), h


def in_double(X: Any, Y: Any, h: float) -> tuple[Any, Any]:
    """Log density and mean shift at the checked queries, in float64 by differences."""
    log_sums, shift = exact.log_sums_and_shift(X, Y[:CHECKED], h)
    return log_sums - np.log(len(X)) - 0.5 * X.shape[1] * np.log(2 * np.pi * h * h), shift


@functools.cache
def exact_sd_kde(n: int, m: int, d: int, h: float) -> Any:
    """Log density of the exactly debiased data at the checked queries. The debiasing itself runs in float64."""
    X, Y, _ = mixture(n, m, d)
    moved = cukde.debias(X.astype("f8"), h)  # float64: checked against the oracle in the tests
    return in_double(moved, Y, h)[0]


def exact_density(op: str, X: Any, Y: Any, h: float) -> Any:
    """Log density by "kde" or "sd_kde" at the checked queries of the mixture."""
    return in_double(X, Y, h)[0] if op == "kde" else exact_sd_kde(len(X), len(Y), X.shape[1], h)


def score_error(score: Any, X: Any, Y: Any, h: float) -> float:
    """Worst error of a score over the checked queries, in units of 1/h, over the reach."""
    want, reach = exact.score_and_reach(X, Y[:CHECKED], h)
    return float((cp.linalg.norm(score[:CHECKED] - want, axis=1) * h / reach).max())


def error(density: Any, log_exact: Any, log: bool = False) -> float:
    """Worst relative error of a density (or of its logarithm) over the checked queries."""
    got = density[:CHECKED].astype(cp.float64)
    return float(abs(cp.expm1((got if log else cp.log(got)) - log_exact[: len(got)])).max())
