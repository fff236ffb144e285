"""Memory of a call on a GPU."""

from __future__ import annotations

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
