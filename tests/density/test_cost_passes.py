"""Costs of what CuPy does between kernels: passes over numbers, sorts, waits; against times of an H200."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from cukde import perf
from cukde.core.cost import elementwise, radix_sort
from cukde.density.one_dimension import cost as one_dimension_cost
from cukde.perf._predict import predicted

RATES: dict[Any, float] = {
    "memory": 4.23e12,
    "cache": 6.5e12,
    "fma": 6.58e13,
    "float64": 3.32e13,
    "exponential": 4.15e12,
    "exponential_f64": 1.23e12,
}
H200 = perf.Peaks("an H200", "gpu", RATES, 7.3e-6, 132, 1.964e9, 60 * 2**20, (9, 0), "measured")
CPU = dataclasses.replace(H200, name="a CPU", backend="cpu")

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"


def _seconds(*parts: perf.Part) -> float:
    return predicted(perf.Counted(parts, "here").cost("op", {}), H200, launch_seconds=0).seconds


@pytest.mark.parametrize(("numbers", "traffic", "microseconds"), [(2**26, 4 + 2, 318.3), (2**24, 4 + 8, 81.5)])
def test_a_pass_takes_a_time_a_number_whatever_its_bytes(numbers: int, traffic: int, microseconds: float) -> None:
    """Times by Nsight Compute of CuPy's copies of float32 to float16 and to float64."""
    part = elementwise.passes("copy", H200, numbers, float(traffic * numbers))
    assert 1e6 * _seconds(part) == pytest.approx(microseconds, rel=0.15)
    assert _seconds(elementwise.passes("copy", H200, 10, 40.0)) == pytest.approx(4e-6, rel=0.02)
    assert elementwise.passes("copy", CPU, numbers, 1.0).cycles == 0


def test_a_sort_takes_a_pass_a_digit() -> None:
    n = 2**24
    single, double = (radix_sort.keys("sort", n, size) for size in (4, 8))
    assert single.bytes == n * 4 * (3 + 2 * 4)
    assert double.bytes == n * 8 * (3 + 2 * 8)
    assert 3 < _seconds(double) / _seconds(single) < 5
    positions = radix_sort.positions("sort", H200, n, 4)
    assert positions[-1].bytes == n * (12 + 4 * 2 * 12)
    assert _seconds(*positions) > 2 * _seconds(single)


def test_densities_of_a_line_are_near_what_was_measured() -> None:
    """Times of single calls; of those that are recorded most is the host's."""
    rows = json.loads((RESULTS / "density_1d_h200.json").read_text())["rows"]
    large = [row for row in rows if row["op"] == "sd_kde" and row["shape"]["n"] >= 2**20]
    assert len({str((row["shape"], row["dtype"])) for row in large}) == 3
    many = {"n": 2**24, "m": 2**21, "d": 1, "check_finite": False}
    known = [(row["op"], row["shape"] | {"dtype": row["dtype"]}, row["median_ms"]) for row in large]
    known += [
        ("kde", many, 0.966),
        ("kde", many | {"dtype": "float64"}, 2.026),
        ("kernel_sum", many, 2.514),
        ("sd_kde", many, 1.919),
        ("sd_kde", many | {"dtype": "float64"}, 2.542),
        ("sd_kde", {"n": 2**17, "m": 2**17, "d": 1, "precision": "ieee", "check_finite": False}, 14.28),
    ]
    for op, sizes, milliseconds in known:
        assert 1 / 1.25 < 1e3 * perf.predict(op, H200, **sizes).seconds / milliseconds < 1.25, (op, sizes)


def test_queries_in_the_tails_wait_for_each_other_where_they_are_neighbours() -> None:
    """Only a score by self-interaction (Y = X), in order, has its queries in one block; and only to 1e-6."""

    def chain(op: str, **sizes: Any) -> float:
        parts = perf.cost(op, H200, n=2**24, d=1, **sizes).parts
        return sum(part.cycles for part in parts if "outlying" in part.name) / one_dimension_cost._OUTWARD

    assert chain("debias") == chain("kde", m=2**21) == 1
    assert chain("sd_kde", m=2**21) == 20 + 1
    assert chain("sd_kde", m=2**21, weighted=True) == 1 + 1
    assert chain("sd_kde", m=2**21, dtype="float64") == 0
