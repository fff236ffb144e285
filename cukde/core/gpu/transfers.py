"""Copies from the host that run beside kernels: memory to copy from, a stream of their own, and marks in streams."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import cupy as cp
import numpy as np

from cukde.core.gpu.scratch import Piece

# Short kernels on such a stream begin as blocks of a long one on another end, not after all of them have begun.
_FIRST = -1

_ALIGNMENT = 8  # of arrays that are copied together

_NO_MEMORY = 2  # cudaErrorMemoryAllocation


def stream() -> Any:
    """Make a stream that waits for no other, not for the default stream either."""
    try:
        return cp.cuda.Stream(non_blocking=True, priority=_FIRST)
    except TypeError:  # before CuPy 14
        return cp.cuda.Stream(non_blocking=True)


def current() -> Any:
    """Return the current stream."""
    return cp.cuda.get_current_stream()


def pinned(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Host memory that a device can copy from while the host goes on; it goes back to CuPy's pool for such memory."""
    count = math.prod(shape)
    try:
        memory = cp.cuda.alloc_pinned_memory(max(1, count * dtype.itemsize))
    except cp.cuda.runtime.CUDARuntimeError as error:
        if error.status != _NO_MEMORY:
            raise
        raise MemoryError(f"no pinned memory for {count} numbers of {dtype}") from None
    return np.frombuffer(memory, dtype, count).reshape(shape)


class _Address:
    """Where memory begins."""

    def __init__(self, ptr: int) -> None:
        self.ptr = ptr


def as_argument(pinned: np.ndarray) -> Any:
    """Pinned memory as a launch takes it: host and device have one address for it. Its owner keeps it."""
    return Piece(_Address(pinned.ctypes.data), pinned.shape, pinned.dtype)


def send(pinned: np.ndarray, out: Any, stream: Any) -> None:
    """Copy pinned memory to an array of the same shape and dtype, on a stream; nothing waits."""
    out.set(pinned, stream=stream)


def collect(arrays: Sequence[Any]) -> list[np.ndarray]:
    """Copy contiguous arrays of the current device to the host, to one piece of pinned memory and with one wait."""
    if not arrays:
        return []
    sizes = [-(-a.nbytes // _ALIGNMENT) * _ALIGNMENT for a in arrays]
    memory, stream = cp.cuda.alloc_pinned_memory(max(1, sum(sizes))), current()
    start, copies = 0, []
    for a, size in zip(arrays, sizes, strict=True):
        if size:
            a.data.copy_to_host_async(memory.ptr + start, a.nbytes, stream)
        copies.append(np.frombuffer(memory, a.dtype, a.size, start if size else 0).reshape(a.shape))
        start += size
    stream.synchronize()
    return copies


class Coming:
    """Few numbers of the current device on their way to the host: who asks for them waits for nothing else.

    They are a contiguous array, or a piece of scratch memory.
    """

    def __init__(self, a: Any) -> None:
        stream, size = current(), math.prod(a.shape) * a.dtype.itemsize
        self._memory = cp.cuda.alloc_pinned_memory(size)
        a.data.copy_to_host_async(self._memory.ptr, size, stream)
        self._event = cp.cuda.Event(disable_timing=True)
        stream.record(self._event)
        self._dtype, self._shape = a.dtype, a.shape

    def numbers(self) -> np.ndarray:
        """Return them."""
        self._event.synchronize()
        return np.frombuffer(self._memory, self._dtype, math.prod(self._shape)).reshape(self._shape)


def mark(stream: Any) -> Any:
    """Record an event: what has been given to the stream so far. Who waits for it on the host sleeps."""
    event = cp.cuda.Event(block=True, disable_timing=True)
    stream.record(event)
    return event
