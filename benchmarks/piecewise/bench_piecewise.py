"""Piecewise polynomials on the CPU beside SciPy's PPoly, and elementary functions beside NumPy's and SciPy's.

python -m pytest benchmarks/piecewise/bench_piecewise.py --record benchmarks/results/NAME.json

What is called, and what an error is of, stands in ``piecewise_cases.py``. Each row is checked before it is timed.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from benchmarks.piecewise import cases

_N = 10_000_000


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
@pytest.mark.parametrize(("m", "degree"), [(16, 2), (64, 3), (256, 3), (4096, 7)])
@pytest.mark.parametrize("knots", ["uniform", "random"])
def bench_points_cpu(compare: Callable[..., None], knots: str, m: int, degree: int, dtype: str) -> None:
    compare(*cases.polynomials(_N, m, degree, knots, dtype))


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", cases.FUNCTIONS)
def bench_functions_cpu(compare: Callable[..., None], name: str, dtype: str) -> None:
    compare(*cases.function(_N, name, dtype))
