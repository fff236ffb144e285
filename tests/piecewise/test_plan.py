"""Which kernels evaluate piecewise polynomials, on both sides of each threshold.

The tables as they are now are printed by ``python -m tests.piecewise.test_plan``; a change of names is a change of
speed, to be measured by ``benchmarks/piecewise``.
"""

from __future__ import annotations

import pprint
from typing import Any

import numpy as np
import pytest

import cukde
from cukde.core.plan import only, traced
from tests.private import GUIDED_KNOTS, UNIFORM_KNOTS, piecewise_plan

HOPPER, ADA, TURING = ((9, 0), 227 * 1024), ((8, 9), 99 * 1024), ((7, 5), 64 * 1024)

# Points, pieces, coefficients, dtype, device: for uniform knots, for others with a guide and for others without.
ON_GPU: dict[tuple[Any, ...], str] = {
    (1000, 528, 4, "float32", HOPPER): "uniform, guide, tree",
    (1000, 529, 4, "float32", HOPPER): "uniform, tree, tree",
    (1000, 1023, 4, "float32", HOPPER): "uniform, tree, tree",
    (1000, 1024, 4, "float32", HOPPER): "uniform, guide, tree",
    (1000, 2112, 4, "float32", HOPPER): "uniform, guide, tree",
    (1000, 2113, 4, "float32", HOPPER): "uniform, tree, tree",
    (1000, 396, 5, "float32", HOPPER): "uniform, guide, tree",
    (1000, 397, 5, "float32", HOPPER): "uniform, tree, tree",
    (1000, 1023, 5, "float32", HOPPER): "uniform, tree, tree",
    (1000, 1024, 5, "float32", HOPPER): "uniform, guide, tree",
    (1000, 1584, 5, "float32", HOPPER): "uniform, guide, tree",
    (1000, 1585, 5, "float32", HOPPER): "uniform, tree, tree",
    (1000, 528, 3, "float16", HOPPER): "uniform, guide, tree",
    (1000, 529, 3, "float16", HOPPER): "uniform, tree, tree",
    (1000, 1023, 3, "float16", HOPPER): "uniform, tree, tree",
    (1000, 1024, 3, "float16", HOPPER): "uniform, guide, tree",
    (1000, 2112, 3, "float16", HOPPER): "uniform, guide, tree",
    (1000, 2113, 3, "float16", HOPPER): "uniform, tree, tree",
    (1000, 341, 4, "float32", TURING): "uniform, guide, tree",
    (1000, 342, 4, "float32", TURING): "uniform, tree, tree",
    (1000, 1023, 4, "float32", TURING): "uniform, tree, tree",
    (1000, 1024, 4, "float32", TURING): "uniform, guide, tree",
    (1000, 1365, 4, "float32", TURING): "uniform, guide, tree",
    (1000, 1366, 4, "float32", TURING): "uniform, tree, tree",
    (1000, 64, 5, "float16", HOPPER): "uniform, tree, tree",
    (1000, 64, 4, "float64", HOPPER): "uniform, tree, tree",
    (2**22 - 1, 256, 1, "float16", HOPPER): "uniform, tree, tree",
    (2**22, 256, 1, "float16", HOPPER): "lookup_f16, lookup_f16, lookup_f16",
    (2**22 - 1, 256, 4, "float16", HOPPER): "uniform, guide, tree",
    (2**22, 256, 4, "float16", HOPPER): "uniform, lookup_f16, lookup_f16",
    (2**22 - 1, 256, 5, "float16", HOPPER): "uniform, tree, tree",
    (2**22, 256, 5, "float16", HOPPER): "lookup_f16, lookup_f16, lookup_f16",
    (2**22, 256, 4, "float16", ADA): "uniform, guide, tree",
    (2**22, 256, 4, "float32", HOPPER): "uniform, guide, tree",
}

# Columns or not, periodic or not.
OF_COLUMNS = {(1, True): "columns uniform, columns tree", (2, False): "columns uniform, columns tree"}


def on_gpu(n: int, pieces: int, k: int, dtype: str, device: tuple[tuple[int, int], int] = HOPPER) -> str:
    plan = piecewise_plan.on_gpu(n, pieces, k, dtype, capability=device[0], shared_bytes=device[1])
    uniform, guide, others = UNIFORM_KNOTS, GUIDED_KNOTS, piecewise_plan.OTHERS
    return ", ".join(plan.first(*conditions) for conditions in ((uniform,), (others, guide), (others,)))


@pytest.mark.parametrize("sizes", ON_GPU)
def test_who_serves_on_a_gpu(sizes: tuple[Any, ...]) -> None:
    assert on_gpu(*sizes) == ON_GPU[sizes]


@pytest.mark.parametrize(("columns", "periodic"), OF_COLUMNS)
def test_several_values_and_periodic_ones(columns: int, periodic: bool) -> None:
    plan = piecewise_plan.on_gpu(
        10, 5, 4, "float64", columns=columns, periodic=periodic, capability=(9, 0), shared_bytes=2**17
    )
    assert ", ".join(plan.names) == OF_COLUMNS[columns, periodic]


# Search, pieces, coefficients, dtype: copies of the tables in shared memory, by binary logarithm; None: none fits.
COPIES: dict[tuple[Any, ...], int | None] = {
    ("uniform", 792, 4, "float32"): 3,
    ("uniform", 793, 4, "float32"): 2,
    ("uniform", 1584, 4, "float32"): 2,
    ("uniform", 1585, 4, "float32"): 1,
    ("uniform", 3168, 4, "float32"): 1,
    ("uniform", 3169, 4, "float32"): 0,
    ("uniform", 6336, 4, "float32"): 0,
    ("uniform", 6337, 4, "float32"): None,
    ("uniform", 396, 4, "float64"): 3,
    ("uniform", 397, 4, "float64"): 2,
    ("uniform", 792, 4, "float64"): 2,
    ("uniform", 793, 4, "float64"): 1,
    ("uniform", 1584, 4, "float64"): 1,
    ("uniform", 1585, 4, "float64"): 0,
    ("uniform", 3168, 4, "float64"): 0,
    ("uniform", 3169, 4, "float64"): None,
    ("guide", 264, 4, "float32"): 3,
    ("guide", 265, 4, "float32"): 2,
    ("guide", 528, 4, "float32"): 2,
    ("guide", 529, 4, "float32"): None,
    ("guide", 1023, 4, "float32"): None,
    ("guide", 1024, 4, "float32"): 1,
    ("guide", 1056, 4, "float32"): 1,
    ("guide", 1057, 4, "float32"): 0,
    ("guide", 2112, 4, "float32"): 0,
    ("guide", 2113, 4, "float32"): None,
    ("tree", 258, 9, "float32"): 3,
    ("tree", 259, 9, "float32"): 2,
    ("tree", 512, 9, "float32"): 2,
    ("tree", 513, 9, "float32"): 1,
    ("tree", 1013, 9, "float32"): 1,
    ("tree", 1014, 9, "float32"): 0,
    ("tree", 1941, 9, "float32"): 0,
    ("tree", 1942, 9, "float32"): None,
    ("tree", 380, 4, "float64"): 3,
    ("tree", 381, 4, "float64"): 2,
    ("tree", 728, 4, "float64"): 2,
    ("tree", 729, 4, "float64"): 1,
    ("tree", 1328, 4, "float64"): 1,
    ("tree", 1329, 4, "float64"): 0,
    ("tree", 2144, 4, "float64"): 0,
    ("tree", 2145, 4, "float64"): None,
    ("tree", 1024, 4, "float32", (7, 5)): 1,
}


def copies(search: Any, pieces: int, k: int, dtype: str, capability: tuple[int, int] = (9, 0)) -> int | None:
    number = np.dtype(dtype)
    rows = piecewise_plan.height(search, pieces, number)
    return piecewise_plan.copies(search, pieces, k, number, rows, capability)


@pytest.mark.parametrize("sizes", COPIES)
def test_copies_in_shared_memory(sizes: tuple[Any, ...]) -> None:
    assert copies(*sizes) == COPIES[sizes]


def test_a_reduction_is_looked_up_by_uniform_knots_too() -> None:
    plans = (
        piecewise_plan.on_gpu(
            2**22,
            24,
            4,
            "float16",
            capability=(9, 0),
            shared_bytes=2**17,
            reduction=reduction,  # type: ignore[arg-type]
        )
        for reduction in (None, "exp")
    )
    assert [plan.first(UNIFORM_KNOTS) for plan in plans] == ["uniform", "lookup_f16"]


def test_the_cpu_notes_what_it_runs() -> None:
    x = np.linspace(0, 1, 50)
    even = cukde.PiecewisePolynomial(np.ones((2, 4)), np.linspace(0, 1, 5))
    other = cukde.PiecewisePolynomial(np.ones((2, 4)), [0, 0.01, 0.5, 0.6, 1])
    with traced() as ran:
        even(x), other(x), cukde.functions.exp(x)
    assert [one.name for one in ran] == ["uniform", "guide", "NumPy"]
    assert piecewise_plan.on_cpu(50, 4, 2, "float64").names == ("uniform", "guide")


def test_a_search_that_is_asked_for(emulated_device: None) -> None:
    for name, dtype in (("uniform", "float32"), ("guide", "float32"), ("tree", "float32"), ("tree", "float64")):
        p = cukde.PiecewisePolynomial(np.ones((3, 4)), np.linspace(0, 1, 5))
        x = np.linspace(0, 1, 50).astype(dtype)
        with only(name), traced() as ran:
            p(x)
        assert [one.name for one in ran] == [name]
        with traced() as ran:
            p(x)
        assert [one.name for one in ran] == ["uniform"]


if __name__ == "__main__":
    pprint.pp({sizes: on_gpu(*sizes) for sizes in ON_GPU}, width=120)
    pprint.pp({sizes: copies(*sizes) for sizes in COPIES}, width=120)
