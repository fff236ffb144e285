"""Kendall's tau of few samples on a GPU, whose time is the host's, beside the source's kernel and SciPy.

python -m pytest benchmarks/kendall/bench_small_calls.py -m gpu --record benchmarks/results/NAME.json
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from benchmarks.kendall import cases
from tests.conftest import why_no_gpu

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(why_no_gpu() is not None, reason=str(why_no_gpu()))]


@pytest.mark.parametrize("n", [100, 1000])
@pytest.mark.parametrize("ties", [False, True], ids=["distinct", "ties"])
def bench_matrix(compare: Callable[..., None], n: int, ties: bool) -> None:
    """Five columns, of which the report has 100 samples."""
    compare(*cases.matrix("gpu", 5, n, ties, ("source kernel",)))


@pytest.mark.parametrize("n", [1000, 10_000])
def bench_pair(compare: Callable[..., None], n: int) -> None:
    compare(*cases.pair("gpu", n, False, ("SciPy",)))
