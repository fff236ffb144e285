"""Empty the last cache before memory, so that a call finds none of its arguments there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from cukde.core.cpu import processor

_TIMES_GPU = 4
"""Bytes to write, in sizes of the L2, which need not evict the oldest line first."""

_TIMES_CPU = 1.5
"""Bytes to write, in sizes of the last cache: few, as some virtual machines report several hundred MB."""

_UNKNOWN = 64 * 2**20
"""Assumed bytes of a cache of unknown size: more than most caches have."""


def emptier(*, gpu: bool) -> Callable[[], None]:
    """Return a function that empties the cache of the CPU, or of the current device, where it waits for the end.

    It writes to its own memory. On a GPU written lines, at most the size of the L2, go back to memory during what
    follows. On the CPU each computing thread writes a part, so that its own caches are emptied.
    """
    return _of_gpu() if gpu else _of_cpu()


def _of_gpu() -> Callable[[], None]:
    import cupy as cp

    size = int(cp.cuda.runtime.getDeviceProperties(cp.cuda.runtime.getDevice())["l2CacheSize"]) or _UNKNOWN
    buffer = cp.empty(_TIMES_GPU * size, np.uint8)

    def empty() -> None:
        buffer.data.memset_async(0, buffer.nbytes)
        cp.cuda.get_current_stream().synchronize()

    return empty


def _of_cpu() -> Callable[[], None]:
    from cukde.core.cpu import threads  # loads Numba

    parts = np.array_split(np.empty(int(_TIMES_CPU * processor.cache_bytes()), np.uint8), threads.count())

    def write(part: Any) -> None:
        part.fill(1)

    def empty() -> None:
        threads.run(write, parts)

    return empty
