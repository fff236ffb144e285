"""Peaks: the published table, what is measured by what, and the file that keeps it."""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cukde import perf
from cukde.cli.main import main
from cukde.perf import _kept, _measure_peaks, _published
from tests.conftest import Backend
from tests.perf.peak_results import Results, of_chains, of_products, of_reads, peaks_of_gpu

# --- published -------------------------------------------------------------------------------------------

REPORT = {
    "TITAN Black": (5.12e12, 3.36e11),
    "TITAN X": (6.14e12, 3.365e11),
    "TITAN V": (1.49e13, 6.528e11),
    "RTX 2080 Ti": (1.345e13, 6.16e11),
    "RTX 4070": (2.9e13, 5.04e11),
}


@pytest.mark.parametrize("name", REPORT)
def test_the_table_has_the_figures_of_the_report(name: str) -> None:
    found = perf.peaks(name)
    assert (found.rates["fma"], found.rates["memory"]) == REPORT[name]
    assert found.launch == 5e-6


# Operations a clock and a multiprocessor of tensor cores by the makers' descriptions of them, by compute capability;
# of float16 with float32 sums those of GeForce are half.
_TENSOR = {
    (7, 0): {"tensor_f16": 1024},
    (7, 5): {"tensor_f16": 512, "tensor_s8": 2048},
    (8, 0): {"tensor_f16": 2048, "tensor_tf32": 1024, "tensor_f64": 128, "tensor_s8": 4096, "tensor_b1": 32768},
    (8, 6): {"tensor_f16": 1024, "tensor_tf32": 512, "tensor_s8": 2048},
    (8, 9): {"tensor_f16": 1024, "tensor_tf32": 512, "tensor_s8": 2048},
    (9, 0): {"tensor_f16": 4096, "tensor_tf32": 2048, "tensor_f64": 256, "tensor_s8": 8192},
}


@pytest.mark.parametrize("name", _published.TABLE)
def test_rates_are_units_times_clock(name: str) -> None:
    found = _published.TABLE[name]
    a_clock = found.multiprocessors * found.clock
    assert found.rates["fma"] == pytest.approx(2 * _published.LANES[found.capability].fma * a_clock, rel=0.035)
    # Cores for float64 are one to three, to one to two, to one to 32 or to 64 of those for float32.
    assert found.rates["fma"] / found.rates["float64"] == pytest.approx(
        {(3, 5): 3, (5, 2): 32, (7, 5): 32, (8, 6): 64, (8, 9): 64}.get(found.capability, 2)
    )
    half = found.capability == (8, 9) and name.startswith("RTX")
    for unit, rate in found.rates.items():
        if unit.startswith("tensor_"):
            operations = _TENSOR[found.capability][unit] / (2 if half and unit != "tensor_s8" else 1)
            # The TITAN V's figure and Hopper's hold at clocks 7.5% lower.
            assert rate == pytest.approx(operations * a_clock, rel=0.08), unit
    assert 2**20 <= found.cache_bytes <= 2**27
    assert found.source


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("NVIDIA H100 80GB HBM3", "H100"),
        ("NVIDIA H200", "H200"),
        ("NVIDIA A100-SXM4-80GB", "A100"),
        ("NVIDIA A100-SXM4-40GB", "A100 40GB"),
        ("a100", "A100"),
        ("NVIDIA A100-PCIE-40GB", "A100 40GB"),
        ("NVIDIA RTX A6000", "RTX A6000"),
        ("NVIDIA GeForce RTX 4090", "RTX 4090"),
        ("rtx4070", "RTX 4070"),
        ("geforce rtx-2080-ti", "RTX 2080 Ti"),
        ("GeForce GTX TITAN X", "TITAN X"),
        ("Tesla V100-SXM2-32GB", "V100"),
        ("Tesla P100-SXM2-16GB", "P100"),
        ("Tesla P100-PCIE-16GB", "P100 PCIe"),
    ],
)
def test_names_of_devices_are_found(name: str, wanted: str) -> None:
    assert perf.peaks(name) is _published.TABLE[wanted]


@pytest.mark.parametrize(
    "name",
    [
        *("NVIDIA GeForce RTX 4070 Ti", "NVIDIA H100 PCIe", "NVIDIA H100 NVL", "NVIDIA GeForce RTX 4090 Laptop GPU"),
        *("NVIDIA TITAN X (Pascal)", "Tesla V100-PCIE-16GB", "NVIDIA A100 80GB PCIe", "NVIDIA H100 64GB", "A100 PCIe"),
        *("L40", "NVIDIA H200 NVL", ""),
    ],
)
def test_other_gpus_are_not_mistaken_for_them(name: str) -> None:
    with pytest.raises(ValueError, match=r"^gpu\b"):
        perf.peaks(name)


def test_what_is_no_name_is_refused() -> None:
    with pytest.raises(ValueError, match="got 4090"):
        perf.peaks(4090)  # type: ignore[arg-type]


def test_peaks_are_passed_on() -> None:
    own = dataclasses.replace(perf.peaks("H200"), name="mine")
    assert perf.peaks(own) is own


# --- kept ------------------------------------------------------------------------------------------------


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    file = tmp_path / "folder" / "mine.json"
    monkeypatch.setenv("CUKDE_PEAKS", str(file))
    return file


MEASURED = dataclasses.replace(
    _published.TABLE["A100"], name="NVIDIA Test", source="measured", quartiles={"fma": (1.9e13, 2e13)}
)


@pytest.mark.parametrize("number", [0, 0.0, -1.0])
@pytest.mark.parametrize("name", ["launch", "multiprocessors", "clock", "cache_bytes"])
def test_entries_of_no_speed_are_left_out(file: Path, name: str, number: float) -> None:
    _kept.keep(dataclasses.replace(MEASURED, **{name: number}))
    assert _kept.load() == {}


def test_what_is_kept_comes_back(file: Path) -> None:
    assert _kept.load() == {}
    other = dataclasses.replace(MEASURED, name="Other", launch=3e-6)
    assert _kept.keep(MEASURED)
    assert _kept.keep(dataclasses.replace(other, clock=1.0))
    assert _kept.keep(other)
    assert _kept.load() == {"NVIDIA Test": MEASURED, "Other": other}
    assert perf.peaks("NVIDIA Test") == MEASURED
    assert [path.name for path in file.parent.iterdir()] == ["mine.json"]


@pytest.mark.parametrize("text", ["", "{", "[1]", '{"NVIDIA Test": 3}', '{"NVIDIA Test": {"rates": {}}}', "\xff"])
def test_a_corrupted_file_counts_as_none(file: Path, text: str) -> None:
    file.parent.mkdir()
    file.write_bytes(text.encode("latin-1"))
    assert _kept.load() == {}
    _kept.keep(MEASURED)
    assert _kept.load() == {"NVIDIA Test": MEASURED}


def test_a_corrupted_entry_leaves_the_others(file: Path) -> None:
    _kept.keep(MEASURED)
    entries = json.loads(file.read_text())
    entries["Bad"] = entries["NVIDIA Test"] | {"launch": "soon"}
    entries["Worse"] = entries["NVIDIA Test"] | {"clock": -1.0}
    file.write_text(json.dumps(entries))
    assert list(_kept.load()) == ["NVIDIA Test"]


def test_a_file_that_cannot_be_used_is_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "taken").write_text("")
    monkeypatch.setenv("CUKDE_PEAKS", str(tmp_path / "taken" / "peaks.json"))
    with pytest.warns(UserWarning, match="could not be written.*CUKDE_PEAKS"):
        assert not _kept.keep(MEASURED)
    monkeypatch.setenv("CUKDE_PEAKS", str(tmp_path))  # a folder
    with pytest.warns(UserWarning, match="could not be read"):
        assert _kept.load() == {}


@pytest.mark.skipif(sys.platform == "win32", reason="another variable")
def test_the_file_is_in_the_folder_of_caches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUKDE_PEAKS")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert _kept.path() == tmp_path / "cukde" / "peaks.json"
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for unusable in ("", "relative"):
        monkeypatch.setenv("XDG_CACHE_HOME", unusable)
        assert _kept.path() == tmp_path / "home" / ".cache" / "cukde" / "peaks.json"


# --- the device at hand ----------------------------------------------------------------------------------


@pytest.fixture
def on_gpu(monkeypatch: pytest.MonkeyPatch, emulated_device: None) -> Any:
    """Names the GPU that is there."""
    from tests.private import gpu_device as core_device

    monkeypatch.setattr("cukde.core.dispatch.why_no_gpu", lambda: None)
    return lambda name: monkeypatch.setattr(core_device, "name", lambda: name)


def test_the_gpu_at_hand_is_as_measured_or_as_published(on_gpu: Any, file: Path) -> None:
    on_gpu("NVIDIA A100-SXM4-80GB")
    assert perf.peaks() is _published.TABLE["A100"]
    measured = dataclasses.replace(MEASURED, name="NVIDIA A100-SXM4-80GB")
    _kept.keep(measured)
    assert perf.peaks() == measured
    on_gpu("NVIDIA GeForce GT 710")
    with pytest.raises(ValueError, match=r"NVIDIA GeForce GT 710, are not known: measure them"):
        perf.peaks()


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Measurements too short to be good."""
    from tests.private import loads_cpu as _peaks

    monkeypatch.setattr("cukde.core.dispatch.why_no_gpu", lambda: "none is wanted")
    monkeypatch.setattr(_measure_peaks, "_SECONDS", 1e-3)
    monkeypatch.setattr(_peaks, "_COPIED", (2**20, 2**20))
    monkeypatch.setattr(_peaks, "_PRODUCTS", 1)


def test_the_cpu_is_measured_once(quick: None, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = perf.peaks()
    units = {"memory", "fma", "float64", "gemm_f32", "gemm_f64", "exponential", "exponential_f64", "scalar"}
    assert set(found.rates) == units
    assert set(found.quartiles) == units | {"launch"}
    for unit, (low, high) in found.quartiles.items():
        assert 0 < low <= (found.launch if unit == "launch" else found.rates[unit]) <= high
    # Units that differ by more than any disturbance: a copy from Python's calls, vectors from single numbers.
    assert found.rates["fma"] > found.rates["exponential"] > 1e6
    assert 1e8 < found.clock < 1e10
    assert (found.backend, found.capability) == ("cpu", (0, 0))
    assert "measured on" in found.source
    monkeypatch.setattr(_measure_peaks, "measure_peaks", None)  # is not called again
    assert perf.peaks("cpu") == perf.peaks() == found == _kept.load()[found.name]


def test_peaks_of_no_gpu_cannot_be_measured(quick: None) -> None:
    with pytest.raises(RuntimeError, match=r"^backend\b"):
        perf.measure_peaks("gpu")
    with pytest.raises(ValueError, match='backend must be "gpu", "cpu" or None'):
        perf.measure_peaks("tpu")


def test_the_command_prints_them(quick: None, file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info", "--peaks"]) == 0
    out = capsys.readouterr().out
    for part in ("threads at", "  memory  ", " B/s  [", "  gemm_f32  ", " op/s  [", "  launch  ", " us ", str(file)):
        assert part in out


def test_the_command_compares_with_what_is_published(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    quartiles = dict.fromkeys((*MEASURED.rates, "launch"), (1e-6, 1e15))
    half = {unit: rate / 2 for unit, rate in MEASURED.rates.items()}
    measured = dataclasses.replace(MEASURED, name="NVIDIA A100-SXM4-80GB", rates=half, quartiles=quartiles)
    monkeypatch.setattr("cukde.core.dispatch.why_no_gpu", lambda: None)
    monkeypatch.setattr("cukde.cli.peaks.measure_peaks", lambda backend: measured)
    assert main(["info", "--peaks"]) == 0
    assert "50% of 2.04e+12" in capsys.readouterr().out


def test_loops_of_the_cpu_do_what_is_counted() -> None:
    from tests.private import loads_cpu as _peaks

    x = np.linspace(0, 1, 50)
    wanted = x.copy()
    for _ in range(3):
        wanted = 2.0**-wanted
    for real, allowed in ((np.float32, 2e-6), (np.float64, 1e-13)):
        got = x.astype(real)
        _peaks.powers_of_minus(got, 3)
        np.testing.assert_allclose(got, wanted, rtol=allowed)

    keys, limits = np.random.default_rng(0).integers(1000, size=8), np.array([300, 400, 600, 700])
    places = [0, 1, 2, 3]
    for _ in range(2 * 8):
        places = [place + 1 + (keys[place % 8] < limit) for place, limit in zip(places, limits, strict=True)]
    assert _peaks.walk(keys, limits, 2) == sum(places)
    assert _peaks.xorshift(np.uint64(88172645463325252), 1) == 8748534153485358512  # Marsaglia's first


# --- kernels ---------------------------------------------------------------------------------------------


def verify(results: Results) -> None:
    for got, wanted, allowed in results:
        np.testing.assert_allclose(got, wanted, rtol=0, atol=allowed)


@pytest.mark.parametrize("unit", ["fma", "float64", "exponential", "exponential_f64"])
def test_chains_are_as_long_as_they_should_be(device: Backend, unit: str) -> None:
    verify(of_chains(unit))


@pytest.mark.parametrize("kind", ["f16", "tf32", "f64", "s8", "b1"])
def test_every_product_is_made(device: Backend, kind: str) -> None:
    verify(of_products(kind))


def test_all_of_the_cache_is_read(device: Backend) -> None:
    verify(of_reads())


@pytest.mark.parametrize(
    ("capability", "wanted"),
    [
        ((7, 5), ""),
        ((8, 0), "f16 tf32 s8 f64 b1"),
        ((8, 6), "f16 tf32 s8 b1"),
        ((8, 9), "f16 tf32 s8 b1"),
        ((9, 0), "f16 tf32 s8 f64 b1"),
        ((10, 0), "f16 tf32 s8 f64"),
        ((12, 0), "f16 tf32 s8"),
    ],
)
def test_products_are_those_that_the_hardware_has(
    emulated_device: None, capability: tuple[int, int], wanted: str
) -> None:
    assert peaks_of_gpu().products_of(capability) == tuple(wanted.split())


@pytest.mark.parametrize("numbers", ["f16", "f32", "f64"])
def test_a_load_of_a_library_is_a_product(emulated_device: None, monkeypatch: pytest.MonkeyPatch, numbers: Any) -> None:
    kernels = peaks_of_gpu()
    monkeypatch.setattr(kernels, "_ROWS", {numbers: 64})
    monkeypatch.setattr(kernels, "_TILE", 32)
    load = kernels._matrix_product(numbers)
    assert (load.unit, load.amount) == (f"gemm_{numbers}", 2 * 64**3)
    C, A = load.call.args[:2]
    load.call()
    A = A.view(np.float16) if numbers == "f16" else A
    assert len(np.unique(A)) > 500
    np.testing.assert_allclose(C, A.astype(np.float64) @ A, rtol=1e-3, atol=1e-2)


@pytest.mark.gpu
def test_a_gpu_is_measured(file: Path) -> None:
    found = perf.measure_peaks("gpu")
    published = _published.find(found.name)
    for unit, (low, high) in found.quartiles.items():
        assert 0 < low <= (found.launch if unit == "launch" else found.rates[unit]) <= high
        if published is not None and unit in published.rates:  # boards for players run up to 1.25 times the boost clock
            assert found.rates[unit] < 1.3 * published.rates[unit], unit
    assert perf.peaks() == found
