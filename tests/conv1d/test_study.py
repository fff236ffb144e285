"""The source's stages of depthwise convolution that cukde's kernels are measured against, the benchmark, its figure."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

import cukde
from benchmarks import peers
from benchmarks.conv1d import bench_conv1d_gpu, exact as conv1d_exact, study_analysis
from cukde import perf
from cukde.core.gpu import compile as core_compile
from docs.figures import conv1d as figures_conv1d
from tests.benchmarks import untimed
from tests.compilation import ARCHITECTURES, LIKE_80, compile_for

PATHS = ("forward", "input_grad", "weight_grad")
VARIANTS = ("naive", "naive-by-row", "coalesced", "blocked", "warp-tiled")
ROUNDING = 2.0**-24


@pytest.fixture
def study() -> ModuleType:
    pytest.importorskip("cupy", reason="the launcher needs CuPy: install the test extra")
    from benchmarks.conv1d import study as conv1d_study

    return conv1d_study


@pytest.fixture
def emulated(study: ModuleType, emulated_device: None, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    from cukde.core.gpu import arrays as core_arrays

    monkeypatch.setattr(study, "cp", core_arrays.xp)  # of the emulated device: memory that is not written stays NaN
    return study


def _exact(path: str, x: np.ndarray, dy: np.ndarray, w: np.ndarray) -> tuple[np.ndarray, int]:
    """By the formula of the path, a pair of an input and an output at a time; and the most terms of a sum."""
    (B, _, L), K = x.shape, w.shape[1]
    of = {"forward": x, "input_grad": x, "weight_grad": w}[path]
    result = np.zeros(of.shape)
    for i in range(L):
        for k in range(K):
            j = i + k - (K - 1)  # the input that tap k of output i meets
            if j < 0:
                continue
            if path == "forward":
                result[..., i] += w[:, k] * x[..., j]
            elif path == "input_grad":
                result[..., j] += w[:, k] * dy[..., i]
            else:
                result[:, k] += (x[..., j] * dy[..., i]).sum(axis=0)
    return result, B * L if path == "weight_grad" else K


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("path", PATHS)
def test_variants(emulated: ModuleType, path: str, variant: str) -> None:
    """Sizes that no tile divides: several of each, one tap, and more taps than a sequence or a block's share has."""
    for B, C, L, K in ((2, 3, 150, 7), (1, 2, 270, 36), (9, 1, 5, 12), (1, 33, 9, 1)):
        rng = np.random.default_rng([B, C, L, K])
        x, dy, w = (rng.standard_normal(shape).astype(np.float32) for shape in ((B, C, L), (B, C, L), (C, K)))
        arguments = {"forward": (x, w), "input_grad": (dy, w), "weight_grad": (x, dy, K)}[path]
        found = getattr(emulated, path)(variant, *arguments)
        wanted, terms = _exact(path, *(a.astype(np.float64) for a in (x, dy, w)))
        size, _ = _exact(path, *(np.abs(a).astype(np.float64) for a in (x, dy, w)))
        assert found.dtype == np.float32
        assert (np.abs(found - wanted) <= 1.01 * (terms + 1) * ROUNDING * size).all(), (B, C, L, K)


def test_what_is_listed_is_what_there_is(study: ModuleType) -> None:
    assert study.PATHS == PATHS
    assert study.VARIANTS == VARIANTS


@pytest.mark.parametrize("architecture", [a for a in ARCHITECTURES if a not in LIKE_80])
def test_variants_compile_without_spills(study: ModuleType, architecture: int) -> None:
    for path in PATHS:
        for variant in VARIANTS:
            stem, name, defines, *_ = study.kernel(path, variant)
            taken = compile_for(architecture, core_compile.code(stem, defines), core_compile.options(), name)
            assert taken.spills == taken.stack == 0, (path, variant)
            assert taken.shared <= 48 * 1024


@pytest.mark.parametrize(("L", "K"), [(1, 1), (9, 4), (5, 8)])
def test_what_the_benchmark_checks_against(L: int, K: int) -> None:
    rng = np.random.default_rng([L, K])
    x, dy, w = rng.standard_normal((2, 3, L)), rng.standard_normal((2, 3, L)), rng.standard_normal((3, K))
    for path, arguments in (("forward", (x, w)), ("input_grad", (dy, w)), ("weight_grad", (x, dy, K))):
        found = getattr(conv1d_exact, path)(*arguments)
        np.testing.assert_allclose(found, _exact(path, x, dy, w)[0], rtol=1e-13, atol=1e-13)


def _as_the_library(function: Callable[..., Any]) -> Callable[..., Any]:
    """An exact function with the layouts, and rounded to the dtype, of the public one."""

    def call(a: Any, b: Any, *taps: int, layout: str = "BCL") -> Any:
        arrays = [v.astype(np.float64) for v in (a, b)]
        if layout == "BLC":
            arrays = [v.transpose(0, 2, 1) if v.ndim == 3 else v for v in arrays]
        found = function(*arrays, *taps).astype(a.dtype)
        return found.transpose(0, 2, 1) if layout == "BLC" and found.ndim == 3 else found

    return call


@pytest.fixture
def bench(emulated: ModuleType, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The benchmark, small, with emulated kernels of the study, exact ones of the library, and made-up times."""
    sizes = {
        "SHORT": (2, 5, 40),
        "S4CONVD": (3, 4, 48),
        "LONG": (1, 4, 30),
        "LONG_TAPS": 12,
        "SMALL": (1, 2, 9),
        "_BYTES": 1,
    }
    for name, value in (sizes | {"BATCH": 6, "CHANNELS": 4, "cp": np, "study": emulated}).items():
        monkeypatch.setattr(bench_conv1d_gpu, name, value, raising=False)
    for path, name in zip(PATHS, ("", "_input_grad", "_weight_grad"), strict=True):
        exact = _as_the_library(getattr(conv1d_exact, path))
        monkeypatch.setattr(cukde, f"depthwise_conv1d{name}", exact, raising=False)

    untimed.use(monkeypatch)
    return bench_conv1d_gpu


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_benchmark_of_the_library(bench: ModuleType, dtype: str) -> None:
    rows = untimed.Rows()
    for path in PATHS:
        for layout in ("BCL", "BLC"):
            bench.bench_short(rows, dtype, 4, layout, path)
        bench.bench_long(rows, dtype, path)
        bench.bench_small_call(rows, path)
    shapes = {(row["op"], *row["shape"].values()) for row in rows}  # a row a peer, where PyTorch is one
    assert {op for op, *_ in shapes} == set(PATHS)
    assert len(shapes) == 4 * len(PATHS)
    (by_fft,) = (row["peer"] for row in rows if row.get("peer", {}).get("name") == "CuPy FFT")
    assert 0 < by_fft["rel_err_max"] < {"float32": 5e-6, "float16": 6e-4}[dtype]


@pytest.mark.parametrize("layout", ["BCL", "BLC"])
def test_causal_conv1d_is_beside_the_taps_it_has(
    bench: ModuleType, layout: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With stand-ins for it and for PyTorch; its backward pass gives both gradients."""

    def first(a: Any, layout: str) -> Any:
        return a if a.ndim == 2 or layout == "BCL" else a.transpose(0, 2, 1)

    tensors = SimpleNamespace(
        tensors=lambda arrays, layout: [first(a, layout) for a in arrays],
        result=first,
        torch=SimpleNamespace(from_dlpack=lambda a: a),
    )
    its = SimpleNamespace(
        require=lambda taps: None,
        forward=conv1d_exact.forward,
        graph=lambda x, w: (x, w),
        gradients=lambda of, dy: (
            conv1d_exact.input_grad(dy, of[1]),
            conv1d_exact.weight_grad(of[0], dy, of[1].shape[1]),
        ),
    )
    for name, peer in (("torch_conv1d", tensors), ("causal_conv1d", its)):
        monkeypatch.setitem(sys.modules, f"benchmarks.peers.{name}", peer)  # type: ignore[arg-type]
        monkeypatch.setattr(peers, name, peer, raising=False)  # where another test has imported it
    rows = untimed.Rows()
    for path in PATHS:
        bench.bench_short(rows, "float32", 4, layout, path)
    assert [row["peer"]["name"] for row in rows] == ["causal-conv1d", *2 * ["causal-conv1d, both gradients"]]
    assert all(row["peer"]["rel_err_max"] < 2e-6 for row in rows)


def test_benchmark_of_the_source(bench: ModuleType) -> None:
    rows = untimed.Rows()
    for path in (*PATHS, "all"):
        bench.bench_study(rows, 4, path)
    names = [*VARIANTS[:-1], "cukde"]
    assert [row["peer"]["name"] for row in rows] == 4 * names
    assert all(0 < row["peer"]["rel_err_max"] < 2e-6 for row in rows)
    assert [row["bound_ms"] for row in rows[-2:]] == [12.0, 12.0]  # of three paths
    assert rows[-1]["source_speedup"] == 3.26


def test_benchmark_at_the_sizes_of_the_source(bench: ModuleType) -> None:
    rows = untimed.Rows()
    bench.bench_study_s4convd(rows, "all")
    assert [row["peer"]["name"] for row in rows] == [*VARIANTS[:-1], "cukde"]
    assert {tuple(row["shape"][name] for name in "BCLK") for row in rows} == {(3, 4, 48, 48)}
    assert bench_conv1d_gpu.s4convd.SHAPE == (8192, 128, 48)


def test_benchmark_of_a_step_of_training(bench: ModuleType) -> None:
    rows = untimed.Rows()
    for convolution in (*VARIANTS, "cukde"):
        bench.bench_training_step(rows, convolution)
    assert [row["shape"]["convolution"] for row in rows] == [*VARIANTS, "cukde"]
    assert all(0 < row["rel_err_max"] < 1e-5 and row["convolution_share"] == 1.0 for row in rows)


def _record() -> dict[str, Any]:
    """As the benchmark writes: the source's kernels at two numbers of taps, steps of training, other rows."""
    rows: list[dict[str, Any]] = [{"op": "forward", "shape": {"K": 4}, "median_ms": 1.0}]
    for taps in (4, 31):
        for path in (*PATHS, "all"):
            shape = {"B": 2, "C": 3, "L": 40, "K": taps}
            row = {"op": f"study, {path}", "shape": shape, "variant": "warp-tiled", "median_ms": 5.0, "bound_ms": 0.5}
            row |= {"source_speedup": 3.26} if path == "all" else {}
            peers = {"naive": 4.0 * taps, "naive-by-row": 20.0, "coalesced": 10.0, "blocked": 8.0, "cukde": 1.0}
            rows += [row | {"peer": {"name": name, "median_ms": ms}} for name, ms in peers.items()]
    for i, name in enumerate((*VARIANTS, "cukde")):
        shape = {"B": 6, "convolution": name}
        rows.append({"op": "training step", "shape": shape, "median_ms": 9.0 - i, "convolution_ms": 5.0 - i})
    return {"machine": {"gpu": "a GPU"}, "rows": rows}


def test_speedups_of_a_record() -> None:
    found = figures_conv1d.speedups(_record()["rows"])
    assert list(found) == [4, 31]
    assert list(found[4]) == [*PATHS, "all"]
    wanted = {
        "naive": 1,
        "naive-by-row": 0.8,
        "coalesced": 1.6,
        "blocked": 2,
        "warp-tiled": 3.2,
        "cukde": 16,
        "copy": 32,
    }
    assert found[4]["all"] == pytest.approx(wanted)
    assert list(found[31]["forward"]) == list(wanted)
    assert found[31]["forward"]["warp-tiled"] == pytest.approx(24.8)


def test_figure(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    to = tmp_path / "of" / "figure.png"
    figures_conv1d.draw(_record(), to)
    assert to.read_bytes().startswith(b"\x89PNG")
    assert to.stat().st_size > 20_000
    with pytest.raises(ValueError, match="study"):
        figures_conv1d.draw({"machine": {}, "rows": []}, to)


# ------------------------------------------------------------------------------------------ the source's analysis


def _times() -> study_analysis.Times:
    return {
        study_analysis.Stage(path, variant, 4): {"median_ms": 3.0 if path == "weight_grad" else 1.0, "runs": 3}
        for variant in VARIANTS
        for path in PATHS
    }


def test_analysis_of_given_times() -> None:
    shape = (64, 256, 2048)
    rows = study_analysis.analysed(_times(), shape, perf.peaks("H200"))
    assert [row["op"] for row in rows[:3]] == [f"study.conv1d_{path}" for path in PATHS]
    assert [row["share"] for row in rows[:3]] == pytest.approx([0.2, 0.2, 0.6])
    row = next(row for row in rows if row["shape"]["variant"] == "blocked")
    assert row["shape"] == {"B": 64, "C": 256, "L": 2048, "K": 4, "variant": "blocked"}
    least = 4 * (2 * 64 * 256 * 2048 + 256 * 4)
    assert row["bytes"] == least
    assert row["bandwidth"] == pytest.approx(least / 1e-3)
    assert row["requested_bandwidth"] > row["bandwidth"]
    assert row["intensity"] == pytest.approx(1, rel=1e-4)
    assert row["of_roof"] == pytest.approx(2 * 64 * 256 * 2048 * 4 / 1e-3 / (row["intensity"] * 4.8e12))
    assert {case["assumption"] for case in row["sensitivity"]} == set(study_analysis._ASSUMPTIONS)
    unchanged = [c for c in row["sensitivity"] if c["assumption"] != "cache hit rate" and c["value"] == 1]
    assert all((c["predicted_ms"], c["bound"]) == (row["predicted_ms"], row["bound"]) for c in unchanged)
    slower = next(c for c in row["sensitivity"] if (c["assumption"], c["value"]) == ("instruction throughput", 0.5))
    assert slower["predicted_ms"] > row["predicted_ms"]

    text = study_analysis.table(rows)
    assert "naive, 4 taps: weight_grad takes the most, 60%; modelled so in 14 of 14 perturbed cases" in text
    assert sum(line.startswith(PATHS) for line in text.splitlines()) == 15


def test_analysis_of_a_record(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given, to = tmp_path / "times.json", tmp_path / "rows.json"
    about = {"date": "", "commit": "", "versions": {}, "command": ""}
    given.write_text(json.dumps(about | _record()))
    study_analysis.main(["--times", str(given), "--peaks", "H200", "--record", str(to)])
    assert "warp-tiled, 31 taps" in capsys.readouterr().out
    rows = json.loads(to.read_text())["rows"]
    assert len(rows) == 30
    naive = next(row for row in rows if row["shape"] == {"B": 2, "C": 3, "L": 40, "K": 31, "variant": "naive"})
    assert naive["median_ms"] == 4 * 31
    given.write_text(json.dumps(about | {"machine": {}, "rows": []}))
    with pytest.raises(ValueError, match="the study's rows of one shape; got 0 shapes"):
        study_analysis.main(["--times", str(given), "--peaks", "H200"])


def test_analysis_without_a_gpu(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(study_analysis, "why_no_gpu", lambda: "there is no GPU")
    with pytest.raises(SystemExit):
        study_analysis.main([])
    assert "there is no GPU: without a GPU, give the times of one by --times RECORD" in capsys.readouterr().err


def test_analysis_measures_every_stage(bench: ModuleType) -> None:
    times = study_analysis.measured((2, 5, 40), (4,))
    assert list(times) == [study_analysis.Stage(path, v, 4) for v in VARIANTS for path in PATHS]
    assert all(of["median_ms"] == 4.0 and 0 < of["rel_err_max"] < 2e-6 for of in times.values())
