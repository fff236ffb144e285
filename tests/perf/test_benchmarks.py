"""The benchmarks that compare the model with times and with counters, without a GPU."""

from __future__ import annotations

import re
from inspect import signature
from pathlib import Path

import numpy as np
import pytest

from benchmarks.perf import modelled
from benchmarks.tools import records
from cukde import perf
from tests.private import WORKLOADS, by_name, counted, predicted

H200 = perf.peaks("H200")
RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"
CPU = perf.Peaks("two cores", "cpu", {"memory": 2e10, "fma": 1e11, "scalar": 6e9}, 0.0, 2, 3e9, 2**25, (0, 0), "here")


def test_every_operation_is_compared() -> None:
    pytest.importorskip("cupy", reason="the study's launchers need CuPy: install the test extra")
    from benchmarks.perf import modelled_cases

    cases = list(modelled_cases.cases())
    assert {case.op for case in cases} == {op for op in perf.operations() if op in _own()}
    assert all(case.study == case.op.startswith("study.") for case in cases)


def _own() -> set[str]:
    """Names that the library and the study declare; tests may declare more."""
    from tests.private import registry

    own = re.compile(r"cukde|benchmarks\.\w+\.study")
    return {name for name, of in registry._BY_NAME.items() if own.match(of.target.__module__)}


def test_a_cpu_runs_what_the_roofline_does() -> None:
    cases = {case.op: case for case in modelled.cases("cpu")}
    assert list(cases) == list(WORKLOADS)
    row = modelled.row(cases["soa_to_aos"], CPU)
    assert (row["backend"], row["study"]) == ("cpu", False)
    assert row["shape"] == {"pieces": 2**19, "degree": 3}
    assert row["median_ms"] > 0
    assert row["predicted_ms"] == pytest.approx(sum(row["parts"].values()))
    assert modelled.line(row).startswith("soa_to_aos")
    assert modelled.error([row]) >= 1


def test_model_holds_on_recorded_times() -> None:
    """The model as it is, on the times and rates of an H200 that are on record: the error that is promised."""
    pytest.importorskip("cupy", reason="the study's launchers need CuPy: install the test extra")
    from benchmarks.perf import modelled_cases  # noqa: F401, declares the study's costs

    record = records.read(RESULTS / "perf_h200.json")
    rates, *rows = record["rows"]
    fields = {name: rates[name] for name in perf.Peaks.__dataclass_fields__}
    on = perf.Peaks(**fields | {"capability": tuple(rates["capability"])})
    again = []
    for row in rows:
        operation = by_name(row["op"])
        given = {name: row[name] for name in ("dtype", "precision") if name in signature(operation.formula).parameters}
        found = predicted(counted(operation, on, row["shape"] | given), on)
        again.append(row | {"predicted_ms": 1e3 * found.seconds, "report_ms": 1e3 * found.report_seconds})
    assert len(again) > 150
    for rows in (again, [row for row in again if row["study"]], [row for row in again if not row["study"]]):
        assert modelled.error(rows) < 1.2
        assert modelled.error(rows, "report_ms") > 3


class TestScaling:
    """What is run on workers."""

    def test_a_small_run(self) -> None:
        bench = pytest.importorskip("benchmarks.perf.bench_scaling")
        of = bench.sizes("n=600,m=200,d=3,blocks=3,query_blocks=2,runs=3,gpu=0")
        data, queries = (bench.perf_workers.Mixture(i, rows, 3, k, False) for i, rows, k in ((0, 600, 3), (1, 200, 2)))
        times, expected = bench._devices(of, 1, data, queries)
        assert times.runs == 3
        times, found = bench._threads(of, 1, data, queries)
        assert times.runs == 3
        np.testing.assert_allclose(found, expected, atol=1e-5)
        assert bench._error_of_plain(of) < 1e-5
