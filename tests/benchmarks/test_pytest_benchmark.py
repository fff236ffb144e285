"""What pytest-benchmark is given: true times, groups and parameters that read well."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks import device_clock, rounds


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
    from tests.private import perf_clocks as _clocks, wait_gpu as _wait_gpu

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
