"""Milliseconds of a call, by the processor's clock or by events on a GPU's stream, and caches emptied before it.

A call then finds none of its arguments in the last cache before memory.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from cukde.core import dispatch
from cukde.core.cpu import processor

Call = Callable[[], Any]

_TIMES_GPU = 4
"""Bytes to write, in sizes of the L2, which need not evict the oldest line first."""

_TIMES_CPU = 1.5
"""Bytes to write, in sizes of the last cache: few, as some virtual machines report several hundred MB."""

_UNKNOWN = 64 * 2**20
"""Assumed bytes of a cache of unknown size: more than most caches have."""


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


def emptier(*, gpu: bool) -> Call:
    """Return a function that empties the cache of the CPU, or of the current device, where it waits for the end.

    It writes to its own memory. On a GPU written lines, at most the size of the L2, go back to memory during what
    follows. On the CPU each computing thread writes a part, so that its own caches are emptied.
    """
    if not gpu:
        from cukde.core.cpu import threads  # loads Numba

        parts = np.array_split(np.empty(int(_TIMES_CPU * processor.cache_bytes()), np.uint8), threads.count())
        return lambda: threads.run(lambda part: part.fill(1), parts)
    import cupy as cp

    size = int(cp.cuda.runtime.getDeviceProperties(cp.cuda.runtime.getDevice())["l2CacheSize"]) or _UNKNOWN
    buffer = cp.empty(_TIMES_GPU * size, np.uint8)

    def empty() -> None:
        buffer.data.memset_async(0, buffer.nbytes)
        synchronize()

    return empty
