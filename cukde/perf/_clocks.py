"""Milliseconds of a call, by the processor's clock or by events on a GPU's stream."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from cukde.core import dispatch

Call = Callable[[], Any]


def wall(call: Call, ahead: Call | None = None) -> float:
    """Time a call on the CPU, after ``ahead``, which is not in the time."""
    if ahead is not None:
        ahead()
    start = time.perf_counter()
    call()
    return 1e3 * (time.perf_counter() - start)


def events(call: Call, ahead: Call | None = None) -> float:
    """Time a call between two events on CuPy's current stream, after ``ahead``, which is not in the time."""
    import cupy as cp

    start, stop = cp.cuda.Event(), cp.cuda.Event()
    synchronize()
    if ahead is not None:
        ahead()
    start.record()
    call()
    stop.record()
    stop.synchronize()
    return float(cp.cuda.get_elapsed_time(start, stop))


def launching(call: Call) -> float:
    """Time until a call has launched its kernels, without the work of the device."""
    synchronize()
    taken = wall(call)
    synchronize()
    return taken


def synchronize() -> None:
    """Wait until CuPy's current stream has nothing to do."""
    import cupy as cp

    cp.cuda.get_current_stream().synchronize()


def require_gpu() -> None:
    """Raise unless there is a GPU to time on."""
    reason = dispatch.why_no_gpu()
    if reason is not None:
        raise RuntimeError(f"timing on a GPU needs a working one; {reason}: see `cukde info`, or give gpu=False")
