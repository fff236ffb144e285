"""Section 8 of the sources' suite, small: what it leaves with and without a GPU, and that nothing wrong is timed."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import cukde
from benchmarks.conv1d.study_cost import PATHS, VARIANTS
from benchmarks.kendall import cases
from benchmarks.sources import operations
from benchmarks.sources.section import Outcome, Setting
from cukde import perf
from tests import reference
from tests.benchmarks import untimed

REASON = "no GPU is here"
CPU = perf.Peaks("two cores", "cpu", {"memory": 2e10, "fma": 1e11, "scalar": 6e9}, 0.0, 2, 3e9, 2**25, (0, 0), "here")
H200 = perf.peaks("H200")


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sizes of a test, and made-up times but those of perf.explain."""
    sizes = operations.QUICK._replace(
        matrices=((3, 20), (5, 30)),
        pairs=(40, 60),
        points=500,
        pieces=((16, 2), (9, 3)),
        rows=(2, 3, 40),
        long_rows=((1, 2, 300), 70),
        taps=(4,),
        every=True,
        seconds=1e-3,
    )
    monkeypatch.setattr(operations, "QUICK", sizes)
    monkeypatch.setattr(operations, "_WITH_PANDAS", 3)
    monkeypatch.setattr(perf, "peaks", lambda gpu=None: CPU if gpu == "cpu" else H200)
    untimed.use(monkeypatch)


def _check(found: Outcome) -> None:
    """Whatever is there can be printed and kept."""
    assert json.loads(json.dumps(found.rows)) == found.rows
    for table in found.tables:
        assert {len(row) for row in table.rows} == {len(table.columns)}, table.title
    for row in found.rows:
        assert "median_ms" in row or "reason" in row["peer"]
        assert row.get("rel_err_max", 0) <= 1e-5


def test_without_a_gpu(small: None) -> None:
    found = operations.SECTION.run(Setting(quick=True, no_gpu=REASON))
    _check(found)
    assert operations.SECTION.number == 8
    assert {row["backend"] for row in found.rows} == {"cpu"}
    ops = {row["op"] for row in found.rows}
    assert ops == {"matrix", "kendalltau", "piecewise", "forward", "input grad", "weight grad"}
    assert {row["peer"]["name"] for row in found.rows if "peer" in row} == {
        "pandas",
        "SciPy",
        "SciPy correlate1d",
        "SciPy oaconvolve",
    }
    with_pandas = {row["shape"]["p"] for row in found.rows if row["op"] == "matrix" and "peer" in row}
    assert with_pandas == {3}  # five columns are ten pairs: too many for it


def test_the_report_has_its_rule(small: None) -> None:
    table = operations._report(REASON)
    assert [row[0] for row in table.rows[:-1]] == list(operations.REPORT)
    for row in table.rows[:-1]:
        assert row[4] == pytest.approx(row[3], abs=0.005)  # digits of the report
        assert row[3] == pytest.approx(max(row[1], row[2]) + 5)
    assert table.rows[-1][-1] == REASON


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("kendall_matrix", lambda A: np.eye(A.shape[1]) / 2),
        ("PiecewisePolynomial", lambda c, knots: lambda x: 0 * x),
        ("depthwise_conv1d", lambda x, w, **_: 0 * x),
    ],
)
def test_a_wrong_result_is_refused(small: None, monkeypatch: pytest.MonkeyPatch, name: str, wrong: Any) -> None:
    monkeypatch.setattr(cukde, name, wrong)
    with pytest.raises(ArithmeticError, match=r"must be right to .* mend it"):
        operations.run(Setting(quick=True, no_gpu=REASON))


def _agreement(x: np.ndarray, y: np.ndarray) -> float:
    """What the report's kernel counts."""
    of, pairs = reference.pairs_of_samples(x, y), len(x) * (len(x) - 1) / 2
    return (2 * (of.concordant + of.tied_both) - pairs) / pairs


def _uniform(compare: list[dict[str, Any]], pieces: int, degree: int, order: str, dtype: str) -> None:
    """Rows of bench_piecewise_gpu.bench_uniform."""
    shape = {"n": 9, "P": pieces, "D": degree, "knots": "uniform", "x": order}
    row = {"op": "piecewise", "backend": "gpu", "shape": shape, "dtype": dtype, "median_ms": 2.0, "bound_ms": 1.0}
    of_variants = {"base AoS": 12.0, "base SoA": 6.0, "shared SoA": 8.0}
    compare.extend(row | {"peer": {"name": name, "median_ms": ms}} for name, ms in of_variants.items())


def _beside_cupy(compare: list[dict[str, Any]], pieces: int, degree: int, knots: str, order: str) -> None:
    """Rows of bench_piecewise_gpu.bench_float64 where CuPy's fails: ours has a row of its own."""
    row = {"op": "piecewise", "backend": "gpu", "shape": {"P": pieces, "D": degree, "knots": knots}}
    compare += [
        row | {"median_ms": 2.0, "bound_ms": 1.0},
        row | {"peer": {"name": "CuPy PPoly", "reason": "no cuBLAS"}},
    ]


def _study(compare: list[dict[str, Any]], taps: int, path: str, length: int = 40) -> None:
    """Rows of bench_conv1d_gpu.bench_study."""
    shape = {"B": 2, "C": 3, "L": length, "K": taps}
    row = {"op": f"study, {path}", "backend": "gpu", "shape": shape, "dtype": "float32"}
    row |= {"variant": VARIANTS[-1], "median_ms": 6.0 if path == "weight_grad" else 2.0, "bound_ms": 0.5}
    times = dict(zip((*VARIANTS[:-1], "cukde"), (8.0, 5.0, 4.0, 3.0, 1.0), strict=True))
    compare.extend(row | {"peer": {"name": name, "median_ms": ms}} for name, ms in times.items())


def _s4convd(compare: list[dict[str, Any]], path: str) -> None:
    """Rows of bench_conv1d_gpu.bench_study_s4convd."""
    _study(compare, 48, path, 48)


def _library(compare: list[dict[str, Any]], dtype: str, *of: Any) -> None:
    """Rows of bench_conv1d_gpu.bench_short and bench_long: the path comes last."""
    row = {"op": of[-1], "backend": "gpu", "shape": {"B": 2, "C": 3, "L": 40, "K": 4}, "dtype": dtype}
    peer = {"name": "PyTorch", "median_ms": 3.0}
    compare.append(row | {"median_ms": 1.0, "rel_err_max": 1e-7, "bound_ms": 0.5, "peer": peer})


def _step(compare: list[dict[str, Any]], convolution: str) -> None:
    """The row of bench_conv1d_gpu.bench_training_step."""
    ms = {"naive": 12.0, "cukde": 4.0}.get(convolution, 8.0)
    row = {"op": "training step", "backend": "gpu", "shape": {"convolution": convolution}, "median_ms": ms}
    compare.append(row | {"convolution_ms": ms / 2, "convolution_share": 0.5})


def test_on_a_gpu(small: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the section makes of rows: those of a GPU, from benchmarks that have tests of their own, are made up."""
    pytest.importorskip("cupy", reason="the launchers need CuPy: install the test extra")
    from benchmarks.conv1d import bench_conv1d_gpu
    from benchmarks.kendall import study_pairs
    from benchmarks.peers import source_kernel
    from benchmarks.piecewise import bench_piecewise_gpu

    monkeypatch.setattr(cases, "on", lambda backend, a: a)
    monkeypatch.setattr(cases, "gpu_peaks", lambda: H200)
    monkeypatch.setattr(study_pairs, "agreement", lambda a, b: np.array([[_agreement(x, y) for y in b] for x in a]))
    monkeypatch.setattr(source_kernel, "cp", np)
    monkeypatch.setattr(bench_piecewise_gpu, "bench_uniform", _uniform)
    monkeypatch.setattr(bench_piecewise_gpu, "bench_float64", _beside_cupy)
    made_up = {
        "bench_study": _study,
        "bench_study_s4convd": _s4convd,
        "bench_short": _library,
        "bench_long": _library,
        "bench_training_step": _step,
    }
    for name, value in made_up.items():
        monkeypatch.setattr(bench_conv1d_gpu, name, value)
    found = operations.SECTION.run(Setting(quick=True, no_gpu=None))
    _check(found)
    (report,) = (table.rows for table in found.tables)
    assert report[-1][0] == "H200"
    assert report[-1][-1] == 4000.0
    assert report[-1][4] == pytest.approx(5 + 1.98 / 4.8, abs=1e-3)  # the report's bytes over the bandwidth
    matrices = [row for row in found.rows if row["op"] == "matrix" and row["backend"] == "gpu"]
    assert {row["peer"]["name"] for row in matrices} == {"source kernel"}
    assert matrices[1]["peer"]["rel_err_max"] > 0.1  # with ties
    assert matrices[0]["peer"]["rel_err_max"] == pytest.approx(0, abs=1e-12)
    assert matrices[0]["bound_ms"] == pytest.approx(1e3 * 3 * 190 * 2 / 1.9789e15)
    on_gpu = [row["op"] for row in found.rows if row["backend"] == "gpu"]
    paths = (*PATHS, "all")
    stages = len(VARIANTS)  # the last is the row's own; cukde is a peer
    assert {op: on_gpu.count(op) for op in on_gpu if op.startswith("study, ")} == {
        f"study, {path}": 2 * stages for path in paths
    }
    assert {op: on_gpu.count(op) for op in PATHS} == dict.fromkeys(PATHS, 2)
    assert on_gpu.count("training step") == len(VARIANTS) + 1
    assert on_gpu.count("piecewise") == 3 + 2
