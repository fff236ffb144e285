"""What the machine is able to do while a run is measured: the times of fixed work, done before and after it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal

from cukde.core import dispatch
from cukde.core.cost.cost import Unit
from cukde.core.cost.peaks import Load
from cukde.perf._measure_peaks import loads_of, timed
from cukde.perf._pace import checked

_WORK = 2**30
"""Exponentials, or bytes read and bytes written, whose milliseconds are told: the same on every machine."""

_OF_GPU: dict[Unit, str] = {"memory": "copy", "exponential": "exponential"}  # of the loads of its peaks

_SECONDS = 0.5  # of a kernel: a copy takes tens of milliseconds on a CPU


def calibrate(
    before: Mapping[str, Any] | None = None, *, backend: Literal["gpu", "cpu"] | None = None
) -> dict[str, dict[str, dict[str, Any]]]:
    """Measure how long this machine takes now for work that never changes.

    That is what :func:`compare` divides times by: a run on a machine that was slower then is not taken for a library
    that became slower. Call it before what is measured, and again after it with what the first call returned::

        before = perf.calibrate()
        rows = ...
        perf.write_record("run.json", rows, calibration=perf.calibrate(before))

    On the CPU the work is a copy by all threads, in memory, and exponentials (float32, in the fastest cache, by a loop
    that has nothing of the library's) by all threads and by one; on a GPU a copy, and exponentials in registers.

    Parameters
    ----------
    before : dict, optional
        What an earlier call of the same run returned: of each kernel the faster of both is kept.
    backend : {"gpu", "cpu"}, optional
        Default: the CPU and, where one works, the current GPU.

    Returns
    -------
    dict
        By backend and kernel ("copy", "exponential" and, of the CPU, "exponential_1_thread"): :meth:`Times.row` of
        2^30 exponentials, or of 2^30 bytes, those read and those written; and "drift", the slowest median of the run
        over the fastest, which tells how quiet the machine was.

    Raises
    ------
    ValueError
        For ``before`` that is no such dictionary, or another backend.
    RuntimeError
        For ``backend="gpu"`` where no GPU works.

    Notes
    -----
    It costs one or two seconds, compilation apart, and of memory up to 512 MiB on the CPU and 1 GiB on a GPU, which are
    given back. How exactly times are known is in their quartiles and intervals, and in the drift.

    Examples
    --------
    >>> from cukde import perf
    >>> before = perf.calibrate(backend="cpu")
    >>> after = perf.calibrate(before, backend="cpu")
    >>> after["cpu"]["copy"]["median_ms"] <= before["cpu"]["copy"]["median_ms"]
    True
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
    """What is timed, by name: the memory of one is free before the next."""
    peaks = loads_of(backend)
    if backend == "cpu":
        yield from peaks.calibrations()
        return
    for load in peaks.loads():
        if load.unit in _OF_GPU:
            yield _OF_GPU[load.unit], load


def _kernels(backend: str) -> dict[str, dict[str, Any]]:
    module = dispatch.named(backend)
    found = {}
    for name, load in _loads(backend):
        row = timed(load, _SECONDS).row()
        found[name] = {key: value * _WORK / load.amount if key.endswith("_ms") else value for key, value in row.items()}
        found[name]["drift"] = 1.0
    module.release_memory()  # what is measured next may need it
    return found


def _faster(before: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Of each kernel the faster of two measurements, with what they differ by."""
    found = {}
    for name in {**before, **now}:
        both = [of[name] for of in (before, now) if name in of]
        fastest = min(both, key=lambda times: times["median_ms"])
        slowest_ms = max(times["median_ms"] * times.get("drift", 1.0) for times in both)
        found[name] = {**fastest, "drift": slowest_ms / fastest["median_ms"]}
    return found
