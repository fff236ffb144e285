"""Densities and cross-validation of mixed columns beside KDEMultivariate of statsmodels, on the CPU.

python -m benchmarks.density.bench_mixed --record benchmarks/results/NAME.json

Columns are two of numbers, one of three unordered levels and a boolean. Each row of the record has milliseconds of
both, the best of several runs, and the largest relative difference of the densities; of cross-validation the mean log
density of each row given the others, at the bandwidths that each search finds, those of statsmodels cut to their range.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import cukde
from benchmarks import record

KINDS, TYPES = ["number", "number", "categorical", "categorical"], "ccuu"
H, MOST = np.array([0.4, 0.4, 0.2, 0.1]), np.array([np.inf, np.inf, 2 / 3, 1 / 2])
DENSITIES = [(1_000, 1_000), (10_000, 1_000), (100_000, 1_000)]
SEARCHES = [100, 300]
ALONE = [1_000, 4_000]
"""Rows of searches that statsmodels would take minutes for."""


def sample(n: int, seed: int = 0) -> np.ndarray:
    """Numbers that go with both categories."""
    rng = np.random.default_rng(seed)
    of_three, of_two = rng.integers(0, 3, n), rng.integers(0, 2, n)
    numbers = rng.normal(size=(n, 2)) + np.column_stack([of_three, 2 * of_two])
    return np.column_stack([numbers, of_three, of_two]).astype(float)


def milliseconds(call: Callable[[], Any], runs: int) -> tuple[float, Any]:
    """The best time of some runs, and the result."""
    best = np.inf
    for _ in range(runs):
        start = time.perf_counter()
        out = call()
        best = min(best, 1e3 * (time.perf_counter() - start))
    return best, out


def density(n: int, m: int) -> dict[str, Any]:
    """A density of n rows at m others."""
    from statsmodels.nonparametric.kernel_density import KDEMultivariate

    X, Y = sample(n), sample(m, 1)
    ours, p = milliseconds(lambda: cukde.kde(X, Y, H, kinds=KINDS), 5)
    theirs, q = milliseconds(lambda: KDEMultivariate(X, TYPES, bw=H).pdf(Y), 1)
    own = {"cukde_ms": ours, "statsmodels_ms": theirs, "rel_err_max": float(abs(p / q - 1).max())}
    return _of("mixed density", n=n, m=m) | own


def _of(op: str, **sizes: int) -> dict[str, Any]:
    return {"op": op, "backend": "cpu", "shape": sizes | {"d": 4}, "dtype": "float64", "precision": "float64"}


def search(n: int, *, beside: bool) -> dict[str, Any]:
    """Bandwidths of n rows by the likelihood."""
    from statsmodels.nonparametric.kernel_density import KDEMultivariate

    X = sample(n)
    ours, found = milliseconds(lambda: cukde.bandwidth.cross_validate(X, kinds=KINDS), 3)
    row = _of("mixed cross-validation", n=n) | {"cukde_ms": ours, "cukde_score": found.score}
    if beside:
        theirs, fitted = milliseconds(lambda: KDEMultivariate(X, TYPES, bw="cv_ml"), 1)
        at = np.clip(fitted.bw, [1e-9, 1e-9, 0, 0], MOST)
        log_p = cukde.kde(X, None, at, kinds=KINDS, log=True, leave_one_out=True)
        row |= {"statsmodels_ms": theirs, "statsmodels_score": float(log_p.mean())}
    return row


def rows() -> Iterator[dict[str, Any]]:
    """All of them, after calls that compile."""
    density(200, 50)
    search(50, beside=False)
    yield from (density(n, m) for n, m in DENSITIES)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield from (search(n, beside=True) for n in SEARCHES)
        yield from (search(n, beside=False) for n in ALONE)


def line(row: dict[str, Any]) -> str:
    """A row for people."""
    return "  ".join(
        f"{name} {value:.4g}" if isinstance(value, float) else f"{name} {value}" for name, value in row.items()
    )


if __name__ == "__main__":
    wanted = record.arguments("density.bench_mixed", __doc__).parse_args()
    record.kept(rows(), wanted.record, line)
