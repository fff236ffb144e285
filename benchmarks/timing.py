"""Times of a call: wall clock on the CPU, device events on the GPU, after a warm-up, as a median and quartiles."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Any

import numpy as np

_WARM_UP = 0.2  # of the seconds of a measurement


def measure(
    call: Callable[[], Any], *, gpu: bool, seconds: float = 1.5, most: int = 50, calls: int = 1
) -> dict[str, Any]:
    """Repeat ``call`` for about ``seconds``, at least three times; return milliseconds.

    A time is that of ``calls`` in a row, a call's part of it. On a GPU several begin together: it is kept busy until
    they are all launched, so that none waits for its launch, whatever that takes from Python.
    """
    clock = _events if gpu else _wall

    def some() -> None:
        for _ in range(calls):
            call()

    begun = time.perf_counter()
    warm = clock(some)
    if gpu and calls > 1:
        clock = functools.partial(_events, behind=3 * _launching(some))
    while time.perf_counter() - begun < _WARM_UP * seconds:  # of processors that slow down when they wait
        warm = clock(some)
    runs = int(np.clip(1e3 * seconds / max(warm, 1e-3), 3, most))
    times = [clock(some) / calls for _ in range(runs)]
    q1, median, q3 = np.percentile(times, [25, 50, 75])
    return {"median_ms": float(median), "q1_ms": float(q1), "q3_ms": float(q3), "runs": runs}


def _wall(call: Callable[[], Any]) -> float:
    start = time.perf_counter()
    call()
    return 1e3 * (time.perf_counter() - start)


def _launching(some: Callable[[], Any]) -> float:
    """Milliseconds until launches have been made, the device's work apart."""
    import cupy as cp

    cp.cuda.get_current_stream().synchronize()
    launching = _wall(some)
    cp.cuda.get_current_stream().synchronize()
    return launching


def _events(call: Callable[[], Any], behind: float = 0) -> float:
    """Time a call on the device, behind so many milliseconds of waiting."""
    import cupy as cp

    start, stop = cp.cuda.Event(), cp.cuda.Event()
    cp.cuda.get_current_stream().synchronize()
    if behind:
        _waiting()((1,), (1,), (int(1e6 * behind),))
    start.record()
    call()
    stop.record()
    stop.synchronize()
    return float(cp.cuda.get_elapsed_time(start, stop))


@functools.cache
def _waiting() -> Any:
    import cupy as cp

    source = """
    extern "C" __global__ void wait(long long nanoseconds) {
        unsigned long long now, begun;
        asm volatile("mov.u64 %0, %globaltimer;" : "=l"(begun));
        do asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now)); while (now - begun < nanoseconds);
    }"""
    return cp.RawKernel(source, "wait")
