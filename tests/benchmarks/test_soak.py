"""The soak benchmark: what it counts, and that it finds what it is for."""

from __future__ import annotations

import gc
import itertools
import math
import time
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cukde
from benchmarks.stress import soak
from benchmarks.stress.soak import Sample, Soak
from benchmarks.tools import records
from cukde.core.cost.peaks import Load
from cukde.perf import _measure_peaks
from tests.public_calls import CALLS, Call, sandbox


def run(names: list[str], seconds: float = 0.3, *, frozen: bool = True) -> Soak:
    if frozen:
        gc.freeze()  # what other tests left is not looked through, again and again
    try:
        with sandbox():
            made = Soak(seconds, gpu=False, names=names)
            made.run()
    finally:
        gc.unfreeze()
    return made


def test_good_and_malformed_calls_from_several_threads() -> None:
    made = run(["kde", "pwpa", "bandwidth.scott", "PiecewisePolynomial"])
    assert made.failures == {}
    assert made.drifted == 0
    assert made.calls > made.errors > 0
    assert {name for name, _ in made._answers} == {"kde", "pwpa", "bandwidth.scott", "PiecewisePolynomial"}


def test_other_bits_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    count = itertools.count()
    monkeypatch.setitem(CALLS, "kde", lambda a: Call(lambda *_, **__: np.float64(next(count))))
    made = run(["kde"], 0.1)
    assert made.drifted > 0
    assert "other bits than the first answer" in made.verdicts()[0]


def test_failures_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError("by zero")

    monkeypatch.setitem(CALLS, "kde", lambda a: Call(fails))
    made = run(["kde"], 0.1)
    assert sum(made.failures.values()) == made.calls > 0
    assert set(made.failures) == {"kde: ZeroDivisionError: by zero"}


def test_memory_that_grows_is_found() -> None:
    made = Soak(10.0, gpu=False)
    made.samples = [Sample(t, 100.0 + (20 if t > 6 else 0), 0.0) for t in range(10)]
    assert made.halves() == (100.0, 120.0)
    first, *arrays = made.verdicts()
    assert first == "resident memory grew from 100.0 to 120.0 MB; the largest arrays of the host:"
    assert len(arrays) == soak.LISTED
    made.samples = [Sample(t, 300.0 if t < 2 else 100.0, 0.0) for t in range(10)]  # what compiles is not counted
    assert made.verdicts() == []
    made._settled_after = 5.0
    assert made.verdicts() == ["one call of each took 5 s: take longer than twice that"]
    made._settled_after = 2.0
    made.device_growth_mb, made.held = 1.0, ["  1.000 MB: (131072,) float64"]
    assert made.verdicts() == ["1.000 MB of the device are still in use", "  1.000 MB: (131072,) float64"]


def test_memory_of_the_device_is_compared_when_no_call_is_under_way(monkeypatch: pytest.MonkeyPatch) -> None:
    used = iter([3.0, 5.5])
    under_way: list[int] = []
    seen = []

    def call(*_: Any, **__: Any) -> None:
        under_way.append(0)
        time.sleep(0.003)
        under_way.pop()

    def device_mb(gpu: bool) -> float:
        seen.append(len(under_way))
        return next(used)

    monkeypatch.setitem(CALLS, "kde", lambda a: Call(call))
    monkeypatch.setattr(soak, "_settled_mb", device_mb)
    made = run(["kde"], 0.1, frozen=False)
    assert made.device_growth_mb == 2.5
    assert seen == [0, 0]
    assert "2.500 MB of the device are still in use" in made.verdicts()
    assert made.held


def test_caches_of_limited_size_are_emptied() -> None:
    from cukde.piecewise import pwpa

    cukde.pwpa(np.ones(3), [[1.0, 2.0]], [0.0, 1.0])
    assert pwpa._kept_evaluator.cache_info().currsize > 0
    assert soak._settled_mb(gpu=False) == 0
    assert pwpa._kept_evaluator.cache_info().currsize == 0


def test_the_largest_arrays_are_named() -> None:
    class Holder:
        def __init__(self) -> None:
            self.a = np.ones((1 << 21, 3), np.float32)

    holder = Holder()
    (line,) = (line for line in soak.largest_arrays(gpu=False, most=50) if "(2097152, 3) float32" in line)
    assert line.startswith("  24.000 MB: ")
    assert "Holder" in line or "dict" in line
    del holder
    assert not [line for line in soak.largest_arrays(gpu=False, most=50) if "(2097152, 3) float32" in line]


def test_calls_keep_nothing_of_what_peaks_were_measured_by() -> None:
    """A mock would have kept its arguments, which on a GPU are arrays of gigabytes."""
    with sandbox():
        load = Load("memory", 1.0, Kept())
        gone = weakref.ref(load.call)
        _measure_peaks._seconds(load)
        del load
        assert gone() is None


class Kept:
    def __call__(self) -> None:
        """Nothing."""


def test_answers_are_told_apart_by_their_bits() -> None:
    a = np.arange(3.0)
    same = [a, a.copy(), a[::-1][::-1]]
    assert len({soak.digest(each) for each in same}) == 1
    others = [a, a.astype(np.float32), a[:, None], np.nextafter(a, 9), (a, a), {"a": a}, 1.0, None, ValueError("a")]
    assert len({soak.digest(each) for each in others}) == len(others)


def test_the_script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(Soak.__init__, "__kwdefaults__", Soak.__init__.__kwdefaults__ | {"names": ("kde", "score")})
    monkeypatch.setattr(soak, "_LATEST", math.inf)  # it has no time
    monkeypatch.setattr(soak, "_resident_mb", lambda: 100.0)  # which in 0.3 s of a process of many tests is not settled
    path = tmp_path / "soak.json"
    gc.freeze()
    try:
        assert soak.main(["--minutes", "0.005", "--record", str(path)]) == 0
    finally:
        gc.unfreeze()
    assert "nothing failed" in capsys.readouterr().out
    row = records.read(path)["rows"][0]
    assert row["op"] == "soak"
    assert row["calls"] > 0
    assert row["failures"] == {}
