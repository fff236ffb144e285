"""Times of calls: what is run and in which order, what is in a time, and what is said of the runs."""

from __future__ import annotations

import functools
import math
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import scipy.stats

from cukde import perf
from cukde.core.cpu import processor
from cukde.perf import _measure
from tests.private import perf_clocks as _clocks

NUMBERS = np.random.default_rng(5).lognormal(size=25)


@pytest.mark.parametrize("draws", [_measure._DRAWS, 100])
@pytest.mark.parametrize("confidence", [0.5, 0.8, 0.95])
def test_the_interval_is_that_of_the_bootstraps_distribution(
    confidence: float, draws: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of an odd sample: the median of a resample is at most the k-th number where most of it is, a binomial."""
    monkeypatch.setattr(_measure, "_DRAWS", draws)  # of a sample that is large for it: fewer resamples, in batches
    resamples = 9999 if draws > 100 else 499
    n = len(NUMBERS)
    at_most = scipy.stats.binom.sf(n // 2, n, np.arange(1, n + 1) / n)  # P(at least n // 2 + 1 of n are)
    found = _measure.median_interval(NUMBERS, confidence, np.random.default_rng(1))
    places = np.searchsorted(np.sort(NUMBERS), found)
    # Five deviations of a part of the resamples.
    for place, part in zip(places, ((1 - confidence) / 2, (1 + confidence) / 2), strict=True):
        slack = 5 * math.sqrt(part * (1 - part) / resamples)
        assert at_most[place] >= part - slack
        assert place == 0 or at_most[place - 1] <= part + slack


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("runs", [1, 2, 3, 50])
@pytest.mark.parametrize("time", [0.0, 2.5])
def test_equal_times_are_their_own_interval(runs: int, time: float) -> None:
    times = perf.Times.of([time] * runs)
    assert (times.low_ms, times.median_ms, times.high_ms) == (time, time, time)


def test_the_summary_of_runs() -> None:
    times = perf.Times.of([4.0, 1.0, 3.0, 2.0, 5.0])
    assert (times.median_ms, times.q1_ms, times.q3_ms, times.runs) == (3.0, 2.0, 4.0, 5)
    assert (times.low_ms, times.high_ms) == (1.0, 5.0)  # of five numbers 3 % of resamples have their median at an end
    assert list(times.row()) == ["median_ms", "q1_ms", "q3_ms", "low_ms", "high_ms", "runs"]
    assert perf.Times.of(NUMBERS) == perf.Times.of(NUMBERS, seed=0) == perf.Times.of(NUMBERS, random_state=0)
    with pytest.raises(TypeError, match=r"^random_state\b"):
        perf.Times.of(NUMBERS, seed=0, random_state=0)
    narrow, wide = (perf.Times.of(NUMBERS, confidence=part) for part in (0.5, 0.99))
    assert wide.low_ms < narrow.low_ms < narrow.median_ms < narrow.high_ms < wide.high_ms
    one = perf.Times.of([2.0])
    assert (one.low_ms, one.median_ms, one.high_ms) == (2.0, 2.0, 2.0)
    for nothing in ([], [math.nan]):
        with pytest.raises(ValueError, match="milliseconds must be finite numbers, at least one"):
            perf.Times.of(nothing)


def test_times_are_milliseconds_of_the_call_alone() -> None:
    times = perf.measure(time.sleep, 0.004, seconds=0.02)
    assert times.median_ms >= 4.0  # it cannot sleep less
    assert times.runs in (3, 4)


def test_a_time_of_several_calls_is_one_calls_part(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[None] = []
    monkeypatch.setattr(_clocks, "wall", lambda call, ahead=None: call() or 12.0)
    assert perf.measure(lambda: made.append(None), seconds=0.0, calls=6).median_ms == 2.0
    assert len(made) == 6 * (1 + 3)  # to warm up, and the least number of runs


def test_the_first_call_does_not_say_how_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may compile: the runs are as many as calls after it have time for, though not more than the most."""
    now, slow = [0.0], iter([0.2])

    def call() -> None:
        now[0] += next(slow, 0.001)

    for module in (_clocks, _measure):
        monkeypatch.setattr(module, "time", SimpleNamespace(perf_counter=lambda: now[0]))
    assert perf.measure(call, seconds=0.1, most=20).runs == 20
    assert next(slow, None) is None


def test_arguments_take_turns_and_results_live_for_a_round(monkeypatch: pytest.MonkeyPatch) -> None:
    class Result:
        alive = 0

        def __init__(self, *taken: Any) -> None:
            calls.append(taken)
            Result.alive += 1
            most.append(Result.alive)

        def __del__(self) -> None:
            Result.alive -= 1

    calls: list[Any] = []
    most: list[int] = []
    perf.measure(Result, "first", seconds=0.0, calls=4, rotate=[("a",), ("b",), ("c",)])
    assert calls == [("first", "abc"[i % 3]) for i in range(4 * (1 + 3))]
    assert max(most) == 3 + 1  # a round, and the one that is made before the oldest goes
    assert Result.alive == 0


def test_the_cache_is_emptied_before_each_run_and_not_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[str] = []
    takes = {"call": 2.0, "empty": 100.0}  # seconds, of a clock that stands still otherwise
    monkeypatch.setattr(_clocks, "time", SimpleNamespace(perf_counter=lambda: sum(map(takes.get, events))))
    monkeypatch.setattr(_clocks, "emptier", lambda gpu: lambda: events.append("empty"))
    times = perf.measure(events.append, "call", seconds=0.0, cold=True)
    assert events == ["call"] + 3 * ["empty", "call"]
    assert (times.q1_ms, times.median_ms, times.q3_ms) == (2000.0, 2000.0, 2000.0)


def test_more_is_written_than_the_cpus_last_cache_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for index, size in enumerate(("48K", "2048K", "3M")):
        (tmp_path / f"index{index}").mkdir()
        (tmp_path / f"index{index}" / "size").write_text(size + "\n")
    monkeypatch.setattr(processor, "_CACHES", tmp_path)
    buffers = []
    monkeypatch.setattr(_clocks.np, "empty", lambda size, dtype: buffers.append(np.zeros(size, dtype)) or buffers[-1])
    empty = _clocks.emptier(gpu=False)
    (buffer,) = buffers
    assert buffer.nbytes > processor.cache_bytes() == 3 * 2**20
    empty()
    assert buffer.all()
    monkeypatch.setattr(processor, "_CACHES", tmp_path / "elsewhere")
    assert processor.cache_bytes() == 64 * 2**20


class Device:
    """Notes the calls of CuPy in their order; an event is recorded at a time of its own."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked: list[str] = []
        device = self

        class Event:
            def record(self) -> None:
                device.asked.append("event")

            def synchronize(self) -> None:
                device.asked.append("wait for event")

        stream = SimpleNamespace(synchronize=lambda: self.asked.append("synchronize"))
        data = SimpleNamespace(memset_async=lambda value, size: self.asked.append(f"write {size}"))
        runtime = SimpleNamespace(getDevice=lambda: 0, getDeviceProperties=lambda _: {"l2CacheSize": 100})
        cupy = SimpleNamespace(
            cuda=SimpleNamespace(
                is_available=lambda: True,
                Event=Event,
                get_current_stream=lambda: stream,
                get_elapsed_time=lambda start, stop: 6.0,
                runtime=runtime,
            ),
            empty=lambda size, dtype: SimpleNamespace(data=data, nbytes=size),
        )
        monkeypatch.setitem(sys.modules, "cupy", cupy)

    def run(self, *_: Any) -> None:
        self.asked.append("call")


RUN = ["synchronize", "event", "call", "event", "wait for event"]


@pytest.fixture
def on_gpu(monkeypatch: pytest.MonkeyPatch) -> Device:
    return Device(monkeypatch)


def test_on_a_gpu_events_surround_the_call(on_gpu: Device) -> None:
    assert perf.measure(on_gpu.run, gpu=True, seconds=0.0).median_ms == 6.0
    assert on_gpu.asked == (1 + 3) * RUN


def test_on_a_gpu_the_cache_is_empty_before_the_first_event(on_gpu: Device) -> None:
    perf.measure(on_gpu.run, gpu=True, seconds=0.0, cold=True)
    assert on_gpu.asked == RUN + 3 * [RUN[0], "write 400", "synchronize", *RUN[1:]]


def test_on_a_gpu_several_calls_begin_behind_one_that_waits(on_gpu: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    wait = SimpleNamespace(wait=lambda ms: (waits.append(ms), on_gpu.asked.append("wait")))
    monkeypatch.setitem(sys.modules, "cukde.perf._wait_gpu", wait)
    monkeypatch.setattr(sys.modules["cukde.perf"], "_wait_gpu", wait, raising=False)  # the package has it once imported
    monkeypatch.setattr(_clocks, "launching", lambda call: 0.5)
    assert perf.measure(on_gpu.run, gpu=True, seconds=0.0, calls=2).median_ms == 3.0
    first, others = on_gpu.asked[: len(RUN) + 1], on_gpu.asked[len(RUN) + 1 :]
    assert first == [*RUN[:3], *RUN[2:]]
    assert others == 3 * [RUN[0], "wait", *RUN[1:3], *RUN[2:]]
    assert waits == 3 * [1.5]


def test_the_device_is_timed_where_an_argument_is_there(on_gpu: Device) -> None:
    there = SimpleNamespace(__cuda_array_interface__={})
    for fn, args, rotate in (
        (on_gpu.run, (there,), None),
        (on_gpu.run, (), [(1,), (there,)]),
        (functools.partial(functools.partial(on_gpu.run, there), 1), (), None),
    ):
        assert perf.measure(fn, *args, seconds=0.0, rotate=rotate).median_ms == 6.0
    assert _measure._on_gpu(functools.partial(on_gpu.run, x=there), (), None)
    assert perf.measure(on_gpu.run, np.ones(3), seconds=0.0).median_ms != 6.0


def test_a_gpu_that_is_not_there_is_missed_before_any_run(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[None] = []
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(RuntimeError, match=r"timing on a GPU needs a working one; CuPy does not load.*gpu=False"):
        perf.measure(lambda: ran.append(None), gpu=True)
    assert not ran


@pytest.mark.parametrize(
    ("fn", "wrong", "kind", "message"),
    [
        (1.0, {}, TypeError, r"fn must be a function .* got 1\.0"),
        (print, {"gpu": "yes"}, TypeError, "gpu must be True or False or None; got 'yes'"),
        (print, {"cold": 1}, TypeError, r"^cold\b.*1"),
        (print, {"seconds": -1}, ValueError, "seconds must be a finite number that is not negative; got -1"),
        (print, {"seconds": math.inf}, ValueError, r"^seconds\b"),
        (print, {"most": 2}, ValueError, "most must be at least 3.* got 2"),
        (print, {"most": 2.5}, TypeError, r"^most\b.*2.*5"),
        (print, {"calls": 0}, ValueError, r"^calls\b.*1.*0"),
        (print, {"cold": True, "calls": 2}, ValueError, "calls must be 1; got 2: rotate"),
        (print, {"rotate": []}, ValueError, "rotate must be a sequence of tuples .* got nothing"),
        (print, {"rotate": [np.ones(2)]}, ValueError, r"^rotate\b"),
        (print, {"confidence": 95}, ValueError, "confidence must be a number between 0 and 1.* got 95"),
        (print, {"seed": "x"}, TypeError, "(?i)seed"),
    ],
)
def test_errors(
    fn: Any, wrong: dict[str, Any], kind: type[Exception], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(kind, match=message):
        perf.measure(fn, "ran", **wrong)
    assert not capsys.readouterr().out


def test_the_kernel_that_waits(device: Any) -> None:
    from tests.private import wait_gpu as _wait_gpu

    for milliseconds in (0.0, 0.5):
        assert int(_wait_gpu.wait(milliseconds)[0]) >= 1e6 * milliseconds


@pytest.mark.gpu
@pytest.mark.parametrize("how", [{}, {"cold": True}, {"calls": 3}, {"calls": 4, "rotate": [(0.5,), (0.6,)]}])
def test_on_the_gpu_at_hand(how: dict[str, Any]) -> None:
    """A kernel that waits for half a millisecond takes no less, alone, cold, among several, in turns."""
    from tests.private import wait_gpu as _wait_gpu

    times = perf.measure(_wait_gpu.wait, *(() if "rotate" in how else (0.5,)), gpu=True, seconds=0.05, **how)
    assert times.low_ms >= 0.49  # the device's clock stands still for a microsecond


@pytest.mark.gpu
def test_a_gpu_array_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    import cupy as cp

    monkeypatch.setattr(_clocks, "wall", None)
    assert perf.measure(cp.sort, cp.ones(1000), seconds=0.01).runs >= 3
