"""Sections 1, 2, 3 and 5 of the suite of the sources: tiny runs on the CPU, and with a GPU that the CPU plays."""

from __future__ import annotations

import dataclasses
import json
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

import cukde
from benchmarks import memory
from benchmarks.sources import batches, line, runtime, truth, utilisation
from benchmarks.sources.section import Outcome, Section, Setting
from benchmarks.sources.truth import Task, Truth
from cukde import perf
from tests import reference
from tests.perf import toys
from tests.private import registry

NO_GPU = "no GPU in this test"
FULL = {section: section.sizes(Setting(quick=False, no_gpu=None)) for section in (runtime, line, batches)}
QUICK = Setting(quick=True, no_gpu=NO_GPU)
H200 = perf.peaks("H200")
CPU = dataclasses.replace(toys.CPU, rates=toys.CPU.rates | {"exponential_f64": 5e8, "float64": 5e10})
SECTIONS = (runtime.SECTION, utilisation.SECTION, line.SECTION, batches.SECTION)


@pytest.fixture(autouse=True)
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sizes of a moment, and a processor of round numbers."""
    few = {"seconds": 1e-4, "patience": 0.05}
    monkeypatch.setattr(runtime, "LARGEST", (256, 32))
    monkeypatch.setattr(runtime, "sizes", lambda _: runtime.Sizes((64, 128), True, pairs=2000, **few))
    monkeypatch.setattr(utilisation, "sizes", lambda _: utilisation.Sizes((128,), (64, 128), 1e-4))
    monkeypatch.setattr(line, "sizes", lambda _: line.Sizes((64, 128, 2**12), (0, 1), most=200, pairs=500, **few))
    tiniest = batches.Sizes(128, (1, 4, 40), (256, 32), (128, 16), (64, 128), **few)
    monkeypatch.setattr(batches, "sizes", lambda _: tiniest)
    monkeypatch.setattr(perf, "measure_peaks", {"cpu": CPU, "gpu": H200}.__getitem__)


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> Setting:
    """A GPU whose arrays are NumPy's: the library's CPU backend, plain CuPy by NumPy; rivals that need one fail."""
    pytest.importorskip("cupy", reason="rivals need CuPy: install the test extra")
    import cupy

    from benchmarks.density import study_wmma
    from benchmarks.peers import keops, plain_cupy

    nothing = SimpleNamespace(free_all_blocks=lambda: None)
    monkeypatch.setattr(cupy, "get_default_memory_pool", lambda: nothing)
    monkeypatch.setattr(cupy.cuda, "Device", lambda: SimpleNamespace(mem_info=(0, 40_000)))
    monkeypatch.setattr(plain_cupy, "cp", np)
    monkeypatch.setattr(keops, "_failure_of_trial", lambda device: "its first call ended with signal 11: " + 30 * "so ")
    monkeypatch.setattr(study_wmma, "why_absent", lambda: None)
    monkeypatch.setattr(study_wmma, "kde", cukde.kde)
    monkeypatch.setattr(study_wmma, "score", cukde.score)
    monkeypatch.setattr(Task, "on_gpu", lambda self: self)
    measure, made = perf.measure, Truth.__init__
    monkeypatch.setattr(perf, "measure", lambda call, gpu, **options: measure(call, gpu=False, **options))
    monkeypatch.setattr(Truth, "__init__", lambda self, task, *, gpu, **options: made(self, task, gpu=False, **options))
    monkeypatch.setattr(memory, "peak_mb", memory.host_peak_mb)
    return Setting(quick=True, no_gpu=None)


def _whole(found: Outcome) -> None:
    """All of it is JSON, and what has a time is right."""
    assert json.loads(json.dumps(found.rows)) == found.rows
    for row in found.rows:
        if "median_ms" in row:
            assert row["median_ms"] > 0
            assert row["rel_err_max"] < 1e-3


def test_a_full_run_has_the_sizes_of_the_sources() -> None:
    assert FULL[runtime].n == (2048, 4096, 8192, 16_384, 32_768, 65_536)
    assert FULL[runtime].largest
    assert (FULL[line].n[0], FULL[line].n[-1], len(FULL[line].n)) == (512, 4_194_304, 14)
    assert (FULL[batches].m[0], FULL[batches].m[-1]) == (1, 131_072)
    assert len(runtime.SEEDS) == len(FULL[line].seeds) == 3
    assert [section.number for section in SECTIONS] == [1, 2, 3, 5]


@pytest.mark.parametrize("section", SECTIONS, ids=lambda section: f"section_{section.number}")
def test_on_a_cpu(section: Section) -> None:
    found = section.run(QUICK)
    _whole(found)
    assert {row["backend"] for row in found.rows} == {"cpu"}
    assert any("median_ms" in row for row in found.rows)


@pytest.mark.parametrize("section", SECTIONS[1:], ids=lambda section: f"section_{section.number}")
def test_with_a_gpu(section: Section, played: Setting) -> None:
    found = section.run(played)
    _whole(found)
    timed = [row for row in found.rows if row["backend"] == "gpu" and "median_ms" in row]
    assert {row["op"] for row in timed} >= {"sd_kde"}
    flash = [row["peer"] for row in found.rows if row.get("peer", {}).get("name", "").startswith("Flash-SD-KDE, ")]
    assert all("Error" in peer["reason"] for peer in flash)
    assert flash


@pytest.mark.parametrize(
    ("op", "section"), [("sd_kde", runtime), ("sd_kde", utilisation), ("sd_kde", line), ("kde", batches)]
)
def test_a_wrong_result_is_refused(op: str, section: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    right = getattr(cukde, op)

    def wrong(*args: Any, **options: Any) -> Any:
        return right(*args, **options) * np.float32(1.01)

    monkeypatch.setattr(cukde, op, wrong)
    monkeypatch.setitem(registry._BY_TARGET, wrong, registry._BY_TARGET[right])
    with pytest.raises(truth.WrongResultError, match=f"{op} of precision float32 on the cpu is off by 1"):
        section.run(QUICK)


class TestTruth:
    task = runtime.drawn(300, 40, 3)

    def test_a_score_is_off_by_lengths(self, monkeypatch: pytest.MonkeyPatch) -> None:
        gpu = pytest.importorskip("cukde.core.gpu.arrays", reason="it needs CuPy: install the test extra")
        monkeypatch.setattr(gpu, "xp", np)
        monkeypatch.setattr(Task, "on_gpu", lambda self: self)
        X, Y, h = self.task
        exact, reach = reference.score(X, Y, h), reference.nearness(X, Y, h).reach
        off = exact + 1e-3 * (reach / h)[:, None] * np.eye(16)[3]
        for on_gpu in (False, True):
            of = Truth(self.task, gpu=on_gpu)
            assert of.error("score", exact) < 1e-10
            assert of.error("score", off[:5]) == pytest.approx(1e-3)

    @pytest.mark.parametrize("op", ["kde", "sd_kde"])
    def test_values(self, op: str) -> None:
        exact = getattr(reference, op)(*self.task)
        of = Truth(self.task, gpu=False)
        assert of.error(op, exact) < 1e-10
        assert of.error(op, np.r_[exact[:3], 1.5 * exact[3:]]) == pytest.approx(0.5)
        assert of.error(op, exact[:3]) < 1e-10  # of some queries those count

    @pytest.mark.parametrize("task", [task, line.drawn(300, 40, 0)], ids=["16-D", "1-D"])
    @pytest.mark.parametrize("op", ["kde", "sd_kde", "laplace_kde"])
    def test_oracle_of_a_gpu(self, op: str, task: Task, monkeypatch: pytest.MonkeyPatch) -> None:
        gpu = pytest.importorskip("cukde.core.gpu.arrays", reason="it needs CuPy: install the test extra")
        monkeypatch.setattr(gpu, "xp", np)
        monkeypatch.setattr(Task, "on_gpu", lambda self: self)
        exact = (
            getattr(reference, op.removesuffix("_kde"))(*task) if op == "laplace_kde" else getattr(reference, op)(*task)
        )
        value = exact[0] if op == "laplace_kde" else exact
        of = Truth(task, gpu=True)
        assert of.error(op, value) < 1e-10
        if op == "laplace_kde":
            assert of.error(op, value + 0.25 * exact[1]) == pytest.approx(0.25)

    def test_laplace_is_relative_to_absolute_terms(self) -> None:
        value, size = reference.laplace(*self.task)
        assert Truth(self.task, gpu=False).error("laplace_kde", value + 0.25 * size) == pytest.approx(0.25)
