"""Calibration of a machine: times of fixed work before and after a measured run."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, Literal

import numpy as np

from benchmarks.tools.pace import checked
from cukde.core import dispatch
from cukde.core.cost.cost import Unit
from cukde.core.cost.peaks import Load
from cukde.core.cpu import threads as core_threads
from cukde.core.cpu.jit import njit
from cukde.perf._measure_peaks import loads_of, timed

_WORK = 2**30
"""Exponentials, or bytes read and bytes written, for which milliseconds are reported on every machine."""

_OF_GPU: dict[Unit, str] = {"memory": "copy", "exponential": "exponential"}  # loads of its peaks

_SERIES = tuple(np.float32((-1.0) ** k / math.factorial(k)) for k in range(8))
_NUMBERS, _REPEATS = 4096, 4000  # in the fastest cache; the distribution of work to threads takes no time beside it

_SECONDS = 0.5  # for each kernel: a copy takes tens of milliseconds on a CPU


def calibrate(
    before: Mapping[str, Any] | None = None, *, backend: Literal["gpu", "cpu"] | None = None
) -> dict[str, dict[str, dict[str, Any]]]:
    """Measure how long this machine currently takes for fixed work.

    A comparison divides times by the result, so that a slower machine does not look like a slower library. Call it
    before a measurement, and again after it with the result of the first call::

        before = calibrate()
        rows = ...
        records.write("run.json", rows, calibration=calibrate(before))

    On the CPU the work is a copy in memory by all threads, and exponentials by all threads and by one. These are in
    float32 in the fastest cache, by a loop that shares no code with the library. On a GPU it is a copy, and
    exponentials in registers.

    ``before`` is the result of an earlier call in the same run: the faster measurement of each kernel is kept. The
    result has, by backend and kernel ("copy", "exponential" and, on the CPU, "exponential_1_thread"),
    :meth:`cukde.perf.Times.row` for 2^30 exponentials, or for 2^30 bytes, read and written together. "drift" is the
    slowest median of the run over the fastest, which shows how quiet the machine was.

    It takes one or two seconds, and compilation. It needs up to 512 MiB of memory on the CPU and 1 GiB on a GPU, and
    frees it.
    """
    known = {} if before is None else checked(before, "before")
    backends: list[str] = ["cpu"]
    if backend is not None:
        backends = [backend]
    elif dispatch.why_no_gpu() is None:
        backends.append("gpu")
    now = {name: _kernels(name) for name in backends}
    return {name: _faster(known.get(name, {}), now.get(name, {})) for name in {**known, **now}}


def _loads(backend: str) -> Iterator[tuple[str, Load]]:
    """Loads by name; the memory of each is free before the next."""
    peaks = loads_of(backend)
    if backend == "cpu":
        yield from _loads_cpu(peaks)
        return
    for load in peaks.loads():
        if load.unit in _OF_GPU:
            yield _OF_GPU[load.unit], load


def _loads_cpu(peaks: Any) -> Iterator[tuple[str, Load]]:
    threads = core_threads.count()
    yield "copy", peaks.copy(threads)
    for name, some in (("exponential", threads), ("exponential_1_thread", 1)):
        numbers = [np.linspace(0, 1, _NUMBERS, dtype=np.float32) for _ in range(some)]
        call = peaks.on_all_threads(lambda x: exponentials_of_minus(x, _REPEATS), numbers)
        yield name, Load("exponential", some * _REPEATS * _NUMBERS, call, on_host=True)


@njit(fastmath={"contract"}, nogil=True, error_model="numpy", cache=True)
def exponentials_of_minus(x: Any, repeats: Any) -> None:
    """Replace x from 0 to 1 by e^-x, some times, by the series to x^7: float32, accurate to 3e-5.

    It shares nothing with the library's exponential: a calibration must not change when that does.
    """
    for _ in range(repeats):
        for i in range(x.size):
            y, e = x[i], _SERIES[7]
            e = e * y + _SERIES[6]
            e = e * y + _SERIES[5]
            e = e * y + _SERIES[4]
            e = e * y + _SERIES[3]
            e = e * y + _SERIES[2]
            e = e * y + _SERIES[1]
            x[i] = e * y + _SERIES[0]


def _kernels(backend: str) -> dict[str, dict[str, Any]]:
    module = dispatch.named(backend)
    kernels = {}
    for name, load in _loads(backend):
        row = timed(load, _SECONDS).row()
        kernels[name] = {
            key: value * _WORK / load.amount if key.endswith("_ms") else value for key, value in row.items()
        }
        kernels[name]["drift"] = 1.0
    module.release_memory()  # the next measurement may need it
    return kernels


def _faster(before: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The faster of two measurements of each kernel, with their drift."""
    faster = {}
    for name in {**before, **now}:
        both = [run[name] for run in (before, now) if name in run]
        fastest = min(both, key=lambda times: times["median_ms"])
        slowest_ms = max(times["median_ms"] * times.get("drift", 1.0) for times in both)
        faster[name] = {**fastest, "drift": slowest_ms / fastest["median_ms"]}
    return faster
