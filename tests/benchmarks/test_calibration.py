"""Calibrations: what is timed, what is kept of two, how they become a ratio of times, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks.tools import calibration, pace, records
from benchmarks.tools.comparison import compare
from cukde import perf
from tests.private import Load


def kernel(median: float, spread: float = 0.0, **others: Any) -> dict[str, Any]:
    return {"median_ms": median, "low_ms": median - spread, "high_ms": median + spread} | others


# --- measured --------------------------------------------------------------------------------------------


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Measurements of the processor alone, too short to be good."""
    from tests.private import loads_cpu as _peaks

    monkeypatch.setattr("cukde.core.dispatch.why_no_gpu", lambda: "none is wanted")
    monkeypatch.setattr(calibration, "_SECONDS", 1e-3)
    monkeypatch.setattr(_peaks, "_COPIED", (2**20, 2**20))


def test_the_cpu_is_calibrated(small: None) -> None:
    found = calibration.calibrate()
    assert set(found) == {"cpu"}
    assert set(found["cpu"]) == {"copy", "exponential", "exponential_1_thread"}
    for times in found["cpu"].values():
        assert 0 < times["low_ms"] <= times["median_ms"] <= times["high_ms"]
        assert times["drift"] == 1
        # 2^30 bytes or exponentials: nothing makes them in a hundredth of a millisecond or needs ten minutes.
        assert 0.01 < times["median_ms"] < 600_000
    after = calibration.calibrate(found)
    for name, times in after["cpu"].items():
        assert times["median_ms"] <= found["cpu"][name]["median_ms"]
        assert times["drift"] >= 1


def test_times_are_of_the_same_work_whatever_was_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    def loads(backend: str) -> Iterator[tuple[str, Load]]:
        yield "copy", Load("memory", 2**29, lambda: None, True)
        yield "exponential", Load("exponential", 2**31, lambda: None, True)

    monkeypatch.setattr(calibration, "_loads", loads)
    monkeypatch.setattr(calibration, "timed", lambda load, seconds: perf.Times(4.0, 3.0, 5.0, 3.5, 4.5, 7))
    found = calibration.calibrate(backend="cpu")["cpu"]
    assert found["copy"] == {
        "median_ms": 8.0,
        "q1_ms": 6.0,
        "q3_ms": 10.0,
        "low_ms": 7.0,
        "high_ms": 9.0,
        "runs": 7,
        "drift": 1.0,
    }
    assert found["exponential"]["median_ms"] == 2.0


def test_of_several_measurements_the_fastest_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    medians = iter((4.0, 5.0, 2.0, 3.0))
    monkeypatch.setattr(calibration, "_kernels", lambda backend: {"copy": kernel(next(medians), drift=1.0)})
    found, drifts = None, []
    for _ in range(4):
        found = calibration.calibrate(found, backend="cpu")
        drifts.append((found["cpu"]["copy"]["median_ms"], found["cpu"]["copy"]["drift"]))
    assert drifts == [(4.0, 1.0), (4.0, 1.25), (2.0, 2.5), (2.0, 2.5)]


@pytest.mark.gpu
def test_a_gpu_is_calibrated() -> None:
    import cupy

    pool = cupy.get_default_memory_pool()
    pool.free_all_blocks()
    before = pool.total_bytes()
    found = calibration.calibrate()
    assert pool.total_bytes() <= before + 2**20
    assert set(found) == {"cpu", "gpu"}
    assert set(found["gpu"]) == {"copy", "exponential"}
    peaks = perf.measure_peaks("gpu")
    for name, rate in (("copy", peaks.rate("memory")), ("exponential", peaks.rate("exponential"))):
        assert 0.5 < found["gpu"][name]["median_ms"] / (1e3 * 2**30 / rate) < 2  # the same work, in the same units


# --- how they are used ----------------------------------------------------------------------------------

OLD = {"copy": kernel(10.0), "exponential": kernel(20.0), "exponential_1_thread": kernel(40.0)}
NEW = {"copy": kernel(40.0), "exponential": kernel(20.0), "exponential_1_thread": kernel(80.0)}


@pytest.mark.parametrize(
    ("bound", "wanted"),
    [
        ("memory", (4.0, 4.0, 4.0)),
        ("a copy", (4.0, 4.0, 4.0)),
        ("exponential", (2**0.5, 1.0, 2.0)),
        ("tensor_f16", (2**0.5, 1.0, 2.0)),
        ("", (2.0, 1.0, 4.0)),
    ],
)
def test_a_row_keeps_pace_with_what_binds_it(bound: str, wanted: tuple[float, float, float]) -> None:
    assert pace.pace(OLD, NEW, bound) == pytest.approx(wanted)


def test_the_interval_is_that_of_the_medians() -> None:
    old, new = {"copy": kernel(10.0, 1.0)}, {"copy": kernel(20.0, 2.0)}
    assert pace.pace(old, new, "memory") == (2.0, 18 / 11, 22 / 9)
    assert pace.pace({"copy": {"median_ms": 10.0}}, new, "") == (2.0, 1.8, 2.2)


def test_what_two_calibrations_share() -> None:
    assert pace.pace(OLD, {}, "") is None
    assert pace.pace({"copy": kernel(1.0)}, {"exponential": kernel(1.0)}, "") is None
    # Of a row that is bound by exponentials the copy says more than nothing.
    assert pace.pace({"copy": kernel(1.0)}, NEW, "exponential") == (40.0, 40.0, 40.0)


# --- in records ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ([], "got a list in its place"),
        ({"cpu": 3.0}, "got a float in its place"),
        ({"cpu": {"copy": 3.0}}, "got a float in its place"),
        ({"cpu": {"copy": {}}}, "median_ms None"),
        ({"cpu": {"copy": kernel(0.0)}}, "median_ms 0.0"),
        ({"cpu": {"copy": kernel(float("nan"))}}, "median_ms nan"),
        ({"cpu": {"copy": kernel(1.0, drift="none")}}, "drift 'none'"),
        ({"cpu": {"copy": kernel(1.0, 1.0)}}, "low_ms 0.0"),
    ],
    ids=str,
)
def test_what_is_no_calibration_is_refused(tmp_path: Path, wrong: Any, message: str) -> None:
    with pytest.raises(ValueError, match=f"before must be what calibrate returned; .*{message}"):
        calibration.calibrate(wrong, backend="cpu")
    with pytest.raises(ValueError, match=message):
        records.write(tmp_path / "run.json", [], calibration=wrong)
    assert not list(tmp_path.iterdir())
    run: dict[str, Any] = {"date": "", "commit": "", "machine": {}, "versions": {}, "command": "", "rows": []}
    with pytest.raises(ValueError, match=f"the calibration of old .*{message}"):
        compare(run | {"calibration": wrong}, run)
