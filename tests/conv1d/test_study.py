"""The source's stages of depthwise convolution that cukde's kernels are measured against, the benchmark, its figure."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import cukde
from benchmarks.conv1d import bench_conv1d_gpu, exact as conv1d_exact, study_analysis
from cukde import perf
from tests.benchmarks import untimed
from tests.compilation import ARCHITECTURES, LIKE_80, resources
from tests.conftest import launcher

PATHS = ("forward", "input_grad", "weight_grad")
VARIANTS = ("naive", "naive-by-row", "coalesced", "blocked", "warp-tiled")
ROUNDING = 2.0**-24


@pytest.fixture
def study() -> ModuleType:
    return launcher("conv1d.study")


@pytest.fixture
def emulated(study: ModuleType, emulated_device: None, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    from tests.private import gpu_arrays as core_arrays

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
            taken = resources(architecture, stem, defines, name)
            assert taken.spills == taken.stack == 0, (path, variant)
            assert taken.shared <= 48 * 1024


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


def test_benchmark_of_the_source(bench: ModuleType) -> None:
    rows = untimed.Rows()
    for path in (*PATHS, "all"):
        bench.bench_study(rows, 4, path)
    names = [*VARIANTS[:-1], "cukde"]
    assert [row["peer"]["name"] for row in rows] == 4 * names
    assert all(0 < row["peer"]["rel_err_max"] < 2e-6 for row in rows)
    assert [row["bound_ms"] for row in rows[-2:]] == [12.0, 12.0]  # of three paths
    assert rows[-1]["source_speedup"] == 3.26


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
