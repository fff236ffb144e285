"""Empty the last cache before memory, so that a call finds nothing of its arguments there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from cukde.core.cpu import processor

_TIMES_GPU = 4
"""Sizes of the L2 that are written: it need not put out the oldest line first."""

_TIMES_CPU = 1.5
"""Sizes of the last cache that are written; some virtual machines report several hundred MB, so not many."""

_UNKNOWN = 64 * 2**20
"""Bytes of a cache of unknown size: more than most have."""


def emptier(*, gpu: bool) -> Callable[[], None]:
    """Return what empties the cache: of the current device, where it waits until that is done, or of the CPU.

    It writes to memory of its own. On a GPU lines that were written so go back to memory during what follows, at most
    the size of the L2 of them. On the CPU the threads that compute write, each a part, so that their own caches empty.
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
        threads.run(write, parts, blas=False)

    return empty
