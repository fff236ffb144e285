"""Times of both ways to count for all pairs of p columns of n samples, which cukde/kendall/plan.py cites.

python -m benchmarks.kendall.crossover

Products of signs take p^2 n^2 / 2 multiply-adds, sorting p^2 / 2 times n log n. Ranks, with which both begin, and the
results are in the times. What would sort more than 2^31 samples is left out.
"""

from __future__ import annotations

from typing import Any

import cupy as cp
import numpy as np

from benchmarks.tools import records
from cukde.core import plan
from cukde.kendall.gpu import passes as kendall_passes
from cukde.perf import measure

COLUMNS = (2, 8, 32, 128, 512)
SAMPLES = (500, 2000, 8000, 32_000)
_MOST_SORTED = 2**31


def _milliseconds(A: Any, way: str) -> float:
    n, p = A.shape
    if way == "sorting" and p * p // 2 * n > _MOST_SORTED:
        return float("nan")
    with plan.only(way, f"{way} with ties"):
        return measure(kendall_passes.matrix, A, deletion=False, seconds=0.2).median_ms


def _cell(p: int, n: int, ties: bool) -> str:
    rng = np.random.default_rng([p, n])
    A = cp.asarray(rng.integers(60, size=(n, p)).astype(float) if ties else rng.standard_normal((n, p)))
    return f"{_milliseconds(A, 'products'):.3g} / {_milliseconds(A, 'sorting'):.3g}"


def main() -> None:
    print(records.machine().get("gpu"))
    for ties in (False, True):
        print(f"\n{'with' if ties else 'without'} ties: ms by products / by sorting")
        print("".join(["n \\ p".rjust(8), *(f"{p:>20}" for p in COLUMNS)]))
        for n in SAMPLES:
            print("".join([f"{n:>8}", *(f"{_cell(p, n, ties):>20}" for p in COLUMNS)]), flush=True)


if __name__ == "__main__":
    main()
