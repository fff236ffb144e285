"""The benchmarks that compare the model with times and with counters, without a GPU."""

from __future__ import annotations

import functools
import math
import re
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cukde
from benchmarks.perf import counters, modelled
from benchmarks.tools import records
from cukde import perf
from cukde.cli.workloads import WORKLOADS
from cukde.core.cost.registry import by_name, called, counted
from cukde.perf._predict import predicted

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
    from cukde.core.cost import registry

    own = re.compile(r"cukde|benchmarks\.\w+\.study")
    return {name for name, of in registry._BY_NAME.items() if own.match(of.target.__module__)}


def _row(median: float, predicted: float, report: float) -> dict[str, Any]:
    return {"median_ms": median, "predicted_ms": predicted, "report_ms": report, "study": False}


def test_error_is_a_geometric_mean_of_long_rows() -> None:
    rows = [_row(1.0, 2.0, 8.0), _row(1.0, 0.5, 1.0), _row(0.04, 40.0, 40.0)]
    assert modelled.error(rows) == pytest.approx(2.0)
    assert modelled.error(rows, "report_ms") == pytest.approx(math.sqrt(8.0))
    assert "all: 2 rows above 50 us, geometric-mean error of the better rule 2.000" in modelled.summary(rows)
    with pytest.raises(ValueError, match=r"no row took 0\.05 ms"):
        modelled.error(rows[2:])


def test_row_has_both_predictions() -> None:
    X = np.zeros((64, 3), np.float32)
    operation, sizes = called(cukde.kde, (X, X, 1.0), {})
    cost = counted(operation, H200, sizes)
    row = modelled.modelled(cost, perf.Times.of([1.0]), H200)
    found = perf.predict("kde", H200, **sizes)
    assert (row["dtype"], row["precision"], row["shape"]["n"]) == ("float32", "float32", 64)
    assert (row["predicted_ms"], row["report_ms"]) == (1e3 * found.seconds, 1e3 * found.report_seconds)
    assert row["exponentials"] >= 64 * 64
    assert sum(row["parts"].values()) == pytest.approx(1e3 * sum(part.seconds for part in found.parts))
    assert "n=64" in modelled.line(row)


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


_TABLE = """some words of the program
"ID","Kernel Name",{names}
"","",{units}
"0","k",{first}
"1","k",{second}
"""


def _printed() -> str:
    names = [f"{metric}.sum" for metric in counters.METRICS]
    of = [
        ",".join(f'"{cell}"' for cell in cells) for cells in (names, ["unit"] * 12, [9] * 12, ["1,000.5", *range(11)])
    ]
    return _TABLE.format(names=of[0], units=of[1], first=of[2], second=of[3])


def test_counters_of_the_second_call_are_read() -> None:
    assert len(counters.METRICS) == 12
    found = counters.parsed(_printed())
    assert found["launches"] == 1
    assert list(found.values())[1:4] == [1000.5, 0.0, 1.0]
    with pytest.raises(ValueError, match="ncu counted no launch: nothing"):
        counters.parsed("nothing")


def test_counters_are_put_beside_the_model() -> None:
    x, w = np.zeros((2, 3, 2048), np.float32), np.zeros((3, 31), np.float32)
    seen = dict.fromkeys(counters.METRICS, 100.0)
    row = counters.row("depthwise_conv1d", seen, H200, functools.partial(cukde.depthwise_conv1d, x, w))
    assert row["counters"]["device memory, bytes"] == 200
    assert row["counters"]["between L1 and L2, bytes"] == 3200
    assert row["model"]["device memory, bytes"] == 4 * (2 * x.size + w.size)
    assert "device memory, bytes: model 9.868e+04, counted 200 (0.00)" in counters.line(row)
    assert counters.line(row).endswith("; 100% of its loads found in L1")


def test_counters_of_the_study(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every stage and path has its kernel's name and its part of the cost."""
    pytest.importorskip("cupy", reason="the study's launchers need CuPy: install the test extra")
    from benchmarks.conv1d import study

    x, w = np.zeros((2, 3, 48), np.float32), np.zeros((3, 5), np.float32)
    seen = dict.fromkeys(counters.METRICS, 100.0)
    cases = {name: case for name, case in counters.CASES.items() if name.startswith("study, ")}
    assert len(cases) == len(study.PATHS) * len(study.VARIANTS)
    for name, case in cases.items():
        _, path, variant = name.split(", ")
        assert case.kernel == study.kernel(path, variant).name
        arguments = (x, x, 5) if path == "weight_grad" else (x, w)
        row = counters.row(name, seen, H200, functools.partial(getattr(study, path), variant, *arguments))
        assert (row["op"], row["shape"]["variant"]) == (f"study.conv1d_{path}", variant)
        assert row["model"]["shared, operations"] > 0
        assert row["counters"]["shared, operations"] == 12_800


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

    def test_sizes_are_read(self) -> None:
        bench = pytest.importorskip("benchmarks.perf.bench_scaling")
        found = bench.sizes("n=100,workers=1+3,engines=cluster,gpu=0")
        assert (found.n, found.m, found.workers, found.counts) == (100, 1_048_576, (1, 3), (1, 3))
        assert (found.engines, found.gpu, found.backend) == (("cluster",), False, "cpu")
        assert bench.sizes("factor=0.5").h == 0.5 * bench.sizes("").h
        assert bench.sizes("gpu=0").counts == (1, 2)

    def test_blocks_are_the_same_wherever_they_are_made(self) -> None:
        pytest.importorskip("dask")
        from benchmarks.perf.workers import Mixture

        made = Mixture(3, rows=103, columns=2, blocks=4, gpu=False)
        lazy = made.array()
        assert lazy.chunks == ((25, 26, 26, 26), (2,))
        np.testing.assert_array_equal(lazy.compute(scheduler="synchronous"), made.plain())
        assert lazy.name == made.array().name != made.array(2).name
        assert not np.array_equal(made.plain(), made._replace(seed=4).plain())

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
