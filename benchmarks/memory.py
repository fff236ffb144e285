"""Memory of a call, on a GPU and on the CPU."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any


def peak_mb(call: Callable[[], Any]) -> float:
    """What a call takes of memory beside its inputs, in MB of 2^20 bytes: what a pool of its own comes to."""
    import cupy as cp

    pool = cp.cuda.MemoryPool()
    with cp.cuda.using_allocator(pool.malloc):
        call()
        cp.cuda.get_current_stream().synchronize()
        return float(pool.total_bytes()) / 2**20


def host_peak_mb(call: Callable[[], Any]) -> float:
    """What a call takes of the host's memory at a time, in MB of 2^20 bytes: that of NumPy's arrays and of Python.

    Calls before it have compiled and loaded what there is to be.
    """
    call()
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1] / 2**20
    finally:
        tracemalloc.stop()
