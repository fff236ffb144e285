"""Section 8 of the sources' suite, small: what it leaves with and without a GPU, and that nothing wrong is timed."""

from __future__ import annotations

import json
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import cukde
from benchmarks.conv1d.study_cost import PATHS, VARIANTS
from benchmarks.kendall import cases
from benchmarks.sources import operations, operations_conv1d, operations_kendall, operations_piecewise
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
    kendall = operations_kendall.Sizes(((3, 20), (5, 30)), 3, (40, 60), 0.0)
    piecewise = operations_piecewise.Sizes(500, ((16, 2),), (9, 3), (("float32", 16, 2),), ((16, 2, "uniform"),), 0.0)
    conv1d = operations_conv1d.Sizes((2, 3, 40), ((1, 2, 300), 70), (4,), ("float32",), True, 1e-3)
    for module, sizes in (
        (operations_kendall, kendall),
        (operations_piecewise, piecewise),
        (operations_conv1d, conv1d),
    ):
        monkeypatch.setattr(module, "QUICK", sizes)
    monkeypatch.setattr(perf, "peaks", lambda gpu=None: CPU if gpu == "cpu" else H200)
    untimed.use(monkeypatch)


def _check(found: Outcome) -> None:
    """Whatever is there can be drawn, printed and kept."""
    assert Outcome.from_json(json.loads(json.dumps(found.as_json()))) == found
    for table in found.tables:
        assert table.rows
        assert {len(row) for row in table.rows} == {len(table.columns)}, table.title
    for figure in found.figures:
        assert figure.series
        assert all(len(series.x) == len(series.y) > 0 for series in figure.series), figure.title
        assert any(y is not None for series in figure.series for y in series.y)
    assert all(finding.endswith(".") for finding in found.findings)
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
    with_reason = [table.title for table in found.tables if any(REASON in row for row in table.rows)]
    assert len(with_reason) == 5  # all but those of polynomials and convolutions on the CPU
    assert sum(REASON in finding for finding in found.findings) == 2
    assert any("left out: 10 pairs" in str(row[-1]) for table in found.tables for row in table.rows)


def test_the_report_has_its_rule(small: None) -> None:
    table, findings = operations_kendall._report(REASON)
    assert [row[0] for row in table.rows[:-1]] == list(operations_kendall.REPORT)
    for row in table.rows[:-1]:
        assert row[4] == pytest.approx(row[3], abs=0.005)  # digits of the report
        assert row[3] == pytest.approx(max(row[1], row[2]) + 5)
    assert table.rows[-1][-1] == REASON
    assert "within 0.004 us" in findings[0]


@pytest.mark.parametrize(
    ("module", "name", "wrong"),
    [
        (operations_kendall, "kendall_matrix", lambda A: np.eye(A.shape[1]) / 2),
        (operations_piecewise, "PiecewisePolynomial", lambda c, knots: lambda x: 0 * x),
        (operations_conv1d, "depthwise_conv1d", lambda x, w, **_: 0 * x),
    ],
)
def test_a_wrong_result_is_refused(
    small: None, monkeypatch: pytest.MonkeyPatch, module: ModuleType, name: str, wrong: Any
) -> None:
    monkeypatch.setattr(cukde, name, wrong)
    with pytest.raises(ArithmeticError, match=r"must be right to .* mend it"):
        module.measured(Setting(quick=True, no_gpu=REASON))


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
    for name, value in (made_up | {"cp": np, "_BYTES": 1}).items():
        monkeypatch.setattr(bench_conv1d_gpu, name, value, raising=False)
    explained = operations_conv1d._explained  # arrays are NumPy's: explained with the peaks of a CPU
    monkeypatch.setattr(operations_conv1d, "_explained", lambda name, call, on, *of: explained(name, call, CPU, *of))

    found = operations.SECTION.run(Setting(quick=True, no_gpu=None))
    _check(found)
    tables = {table.title: table.rows for table in found.tables}
    (report,) = (rows for title, rows in tables.items() if title.startswith("The report's table"))
    assert report[-1][0] == "H200"
    assert report[-1][-1] == 4000.0
    assert report[-1][4] == pytest.approx(5 + 1.98 / 4.8, abs=1e-3)  # the report's bytes over the bandwidth
    matrix = tables["Kendall's tau of all pairs of columns"][0]
    assert tables["Kendall's tau of all pairs of columns"][1][4] > 0.1  # its error with ties
    assert matrix[3:7] == [4.0, pytest.approx(0, abs=1e-12), 4.0, pytest.approx(1e3 * 3 * 190 * 2 / 1.9789e15)]
    assert ["shared SoA", 8.0] in tables["Piecewise polynomials on a GPU: 9 random points, uniform knots"]
    (beside,) = tables["Piecewise polynomials in float64 on a GPU, beside CuPy's"]
    assert beside == [16, 2, "uniform", 2.0, "no cuBLAS", 1.0]
    stages = tables["The source's stages on a GPU: 2 x 3 x 40, float32"]
    assert stages[2] == [4, "weight gradient", 8.0, 5.0, 4.0, 3.0, 6.0, 1.0, 0.5]
    assert len(tables["The source's stages on a GPU: 2 x 3 x 48, float32"]) == 4
    assert len(tables["Causal depthwise convolution on a GPU beside PyTorch"]) == 2 * len(PATHS)

    figures = {figure.title: figure for figure in found.figures}
    assert sum("Roofline" in title for title in figures) == 2
    speedups = figures["Variants of piecewise polynomials, float32: speedup over the base kernel"].series[0]
    assert dict(zip(speedups.x, speedups.y, strict=True)) == pytest.approx(
        {"base AoS": 1, "base SoA": 2, "shared SoA": 1.5, "cukde": 6, "copy": 12}
    )
    roof = figures["Roofline of depthwise convolution, H200"]
    warp_tiled = next(series for series in roof.series if series.name == VARIANTS[-1])
    assert warp_tiled.y[0] == pytest.approx(2 * 2 * 3 * 40 * 4 / 2e-3 / 1e9)  # Gflop a second
    text = " ".join(found.findings)
    for words in (
        "the best of the source's variants is base SoA, 2 times as fast as the base kernel. Ours takes 2 ms",
        "the warp-tiled kernel is 4 times as fast as the naive one (the paper: 3.26, on a P100), ours 8, a copy 16",
        "path by path: forward 4, input gradient 4, weight gradient 1.33.",
        "the gradient of the weights takes 60% of the warp-tiled kernels' time",
        "is 1.5 times as fast with the warp-tiled kernel as with the naive one (the paper: 1.29), with ours 3 times",
        "with ties: the report's kernel is off tau-b by up to 0.1",
    ):
        assert words in text
