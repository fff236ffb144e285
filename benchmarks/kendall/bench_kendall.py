"""Kendall's tau beside SciPy, pandas, the source's kernel and cuBLAS, each row checked before it is timed.

python -m pytest benchmarks/kendall/bench_kendall.py --record benchmarks/results/NAME.json

What is called, what an error is of, and what bounds a matrix stands in ``kendall_cases.py``.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import cukde
from benchmarks import memory
from benchmarks.kendall import cases
from tests.conftest import why_no_gpu

if why_no_gpu() is None:
    import cupy as cp

    from benchmarks.kendall import study_pairs

needs_gpu = pytest.mark.skipif(why_no_gpu() is not None, reason=str(why_no_gpu()))
with_and_without_ties = pytest.mark.parametrize("ties", [False, True], ids=["distinct", "ties"])

_MOST_BYTES = 4e9  # of device memory, for the columns, the result and all between


@with_and_without_ties
@pytest.mark.parametrize(("n", "names"), [(100_000, ("SciPy", "pandas")), (1_000_000, ("SciPy",))])
def bench_pair_cpu(compare: Callable[..., None], n: int, names: tuple[str, ...], ties: bool) -> None:
    compare(*cases.pair("cpu", n, ties, names))


@with_and_without_ties
def bench_matrix_cpu(compare: Callable[..., None], ties: bool) -> None:
    compare(*cases.matrix("cpu", 64, 2000, ties, ("pandas",)))


@needs_gpu
@pytest.mark.gpu
@with_and_without_ties
@pytest.mark.parametrize(
    ("p", "n", "names"),
    [
        (1000, 1000, ("source kernel", "cuBLAS, sign matrices")),
        (64, 10_000, ("source kernel", "cuBLAS, sign matrices")),
        (256, 1000, ("source kernel", "cuBLAS, sign matrices")),
        (2000, 4000, ("cuBLAS, sign matrices",)),  # the source's kernel would take half a minute
    ],
)
def bench_matrix_gpu(compare: Callable[..., None], p: int, n: int, names: tuple[str, ...], ties: bool) -> None:
    compare(*cases.matrix("gpu", p, n, ties, names))


@needs_gpu
@pytest.mark.gpu
def bench_memory_gpu(compare: Callable[..., None]) -> None:
    p, n = 4000, 10_000
    case = cases.matrix("gpu", p, n, True)
    peak = memory.peak_mb(case.call)
    assert 8 * p * n + 2**20 * peak <= _MOST_BYTES
    compare(case.call, case.row | {"peak_mb": peak}, {})


@needs_gpu
@pytest.mark.gpu
def bench_concordance_gpu(compare: Callable[..., None]) -> None:
    """Its counts make the statistic of the source's kernel, for every pair of columns, to the last bit."""
    p, n = 1000, 1000
    a = cp.asarray(cases.columns(n, p, True))
    counts, pairs = cukde.concordance(a), n * (n - 1) // 2
    rows = cp.ascontiguousarray(a.T, np.float32)  # whole numbers: as they are
    same = (2 * (counts.concordant + counts.tied_both) - pairs) / pairs == study_pairs.agreement(rows, rows)
    assert bool(same.all())
    row = cases.row("concordance", "gpu", {"p": p, "n": n}, 0.0, True) | cases.bound(p, n)
    compare(lambda: cukde.concordance(a), row, {})


@needs_gpu
@pytest.mark.gpu
@with_and_without_ties
@pytest.mark.parametrize(("n", "names"), [(100_000, ("SciPy",)), (1_000_000, ("SciPy",)), (10_000_000, ())])
def bench_pair_gpu(compare: Callable[..., None], n: int, names: tuple[str, ...], ties: bool) -> None:
    compare(*cases.pair("gpu", n, ties, names))
