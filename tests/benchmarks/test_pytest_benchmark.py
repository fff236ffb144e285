"""What pytest-benchmark is given: true times, groups and parameters that read well."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks import conftest, device_clock, rounds

ROW = {
    "op": "kde",
    "backend": "cpu",
    "shape": {"n": 20, "d": 2},
    "dtype": "float32",
    "precision": "tf32",
    "rel_err_max": 0.0,
}


class Stream:
    """A device that is as far as what was put on its stream, in milliseconds; its events note the time."""

    def __init__(self) -> None:
        self.time = 0.0
        self.waited = 0

    def work(self, milliseconds: float) -> None:
        self.time += milliseconds

    def event(self) -> Any:
        stream = self

        class Event:
            def record(self) -> None:
                self.time = stream.time

            def synchronize(self) -> None:
                stream.waited += 1

        return Event()


@pytest.fixture
def stream(monkeypatch: pytest.MonkeyPatch) -> Stream:
    cp = pytest.importorskip("cupy", reason="the clock takes CuPy's events: install the test extra")
    from cukde.perf import _clocks, _wait_gpu

    found = Stream()
    monkeypatch.setattr(cp.cuda, "Event", found.event)
    monkeypatch.setattr(cp.cuda, "get_elapsed_time", lambda start, stop: stop.time - start.time)
    monkeypatch.setattr(_wait_gpu, "wait", found.work)
    monkeypatch.setattr(_clocks, "synchronize", lambda: None)
    return found


class Benchmark:
    """The part of pytest-benchmark's fixture that is used, in its way."""

    disabled = False

    def __init__(self) -> None:
        self.stats = self
        self.data: list[float] = []
        self.params: dict[str, Any] | None = None
        self._timer: Any = None

    def pedantic(self, target: Any, *, rounds: int, warmup_rounds: int, iterations: int) -> None:
        for number in range(warmup_rounds + rounds):
            start = self._timer()
            for _ in range(iterations):
                target()
            taken = self._timer() - start
            if number >= warmup_rounds:
                self.data.append(taken / iterations)


@pytest.mark.parametrize("calls", [1, 4])
def test_a_round_has_the_time_of_the_device(stream: Stream, calls: int) -> None:
    """However long the device is kept busy before several calls."""
    benchmark = Benchmark()
    times = rounds.timed(benchmark, lambda: stream.work(2.0), gpu=True, calls=calls, fewest=5, seconds=0.04)
    assert benchmark.data == pytest.approx([2e-3] * max(5, 20 // calls))
    assert times is not None
    assert (times.median_ms, times.runs) == (pytest.approx(2.0), len(benchmark.data))
    assert stream.waited >= len(benchmark.data)  # each round ends when the device is done


def test_time_that_keeps_the_stream_busy_is_no_time(stream: Stream) -> None:
    now = device_clock.clock(busy_ms=100.0)
    start = now()
    stream.work(3.0)
    assert now() - start == pytest.approx(3e-3)
    assert stream.time == 203.0


def test_group_and_parameters_are_those_of_the_row() -> None:
    benchmark = Benchmark()
    benchmark.params = {"d": 3, "names": ("SciPy",), "of": object()}
    rounds.describe(benchmark, ROW | {"timing": "graph"})
    assert benchmark.group == "kde, cpu"
    assert benchmark.params == {"n": 20, "d": 2, "dtype": "float32", "precision": "tf32", "timing": "graph"}
    json.dumps(benchmark.params)


@pytest.mark.parametrize(
    ("value", "reads"),
    [
        (100, "x=100"),
        (None, "x=None"),
        (False, "x=False"),
        ((512, 100), "x=512x100"),
        (("SciPy", "pandas"), "x=SciPy+pandas"),
        ((), "x=none"),
        ("float32", None),  # as it is
    ],
    ids=repr,
)
def test_parameters_are_named(value: object, reads: str | None) -> None:
    assert conftest.pytest_make_parametrize_id(value, "x") == reads


_TOY = """
import pytest

@pytest.mark.parametrize("n", [3])
def bench_sorted(compare, n):
    row = {"op": "sort", "backend": "cpu", "shape": {"n": n}, "dtype": "", "precision": "", "rel_err_max": 0.0}
    compare(lambda: sorted(range(n)), row, {"Rival": (lambda: None, 0.0)})

def bench_kept(keep):
    raise AssertionError("--benchmark-only runs it")
"""


def test_runs_are_saved_and_compared(tmp_path: Path) -> None:
    """``--benchmark-save``, then ``--benchmark-compare``, and the row has pytest-benchmark's times."""
    pytest.importorskip("pytest_benchmark", reason="runs are pytest-benchmark's: install the bench extra")
    root = Path(__file__).parents[2]
    (tmp_path / "bench_toy.py").write_text(_TOY)
    (tmp_path / "conftest.py").write_text("from benchmarks.conftest import *\n")
    (tmp_path / "pytest.ini").write_text("[pytest]\npython_files = bench_*.py\npython_functions = bench_*\n")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    environment["PYTHONPATH"] = str(root)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--benchmark-only"]
    command += ["--benchmark-max-time=0.01", "--benchmark-save-data", "bench_toy.py"]
    for option in ("--benchmark-save=a", "--benchmark-compare"):
        done = subprocess.run([*command, option], cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "1 passed, 1 skipped" in done.stdout
    assert "benchmark 'sort, cpu'" in done.stdout
    assert "bench_sorted[n=3] (NOW)" in done.stdout
    assert "bench_sorted[n=3] (0001_a)" in done.stdout
    (saved,) = tmp_path.glob(".benchmarks/*/0001_a.json")
    (of,) = json.loads(saved.read_text())["benchmarks"]
    assert (of["group"], of["params"], of["stats"]["rounds"] >= 5) == ("sort, cpu", {"n": 3}, True)
    assert of["extra_info"]["median_ms"] == pytest.approx(1e3 * of["stats"]["median"])
    assert of["extra_info"]["runs"] == of["stats"]["rounds"]
