"""Rows of host arrays on the GPU, piece by piece: while one is computed on, the next is copied there."""

from __future__ import annotations

import contextlib
import math
import queue
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import cupy as cp
import numpy as np

from cukde.core.gpu import device as core_device, transfers

T = TypeVar("T")

# Bytes and rows of a piece: a copy of some milliseconds, and enough rows to keep a pass busy for longer than that.
# Passes take up to 80 bytes a row however few its columns; in one dimension they take time with rows, and want many.
_MOST_BYTES = 2**26
_MOST_ROWS = 2**20
_MOST_ROWS_OF_LINE = 2**22
_FEWEST_ROWS = 2**10

# Threads that may stream to a device at a time: of two, one's host work between its blocks is hidden by the other's
# passes, and memory does not grow with the threads of a scheduler.
_AT_ONCE = 2

_idle: dict[int, queue.LifoQueue[Any]] = {}
"""Streams for copies to a device that are not lent; None where one has not been made yet."""


@dataclass
class _Slot:
    """Room for a piece on the host and on the device, and how far those have come who use it."""

    host: list[np.ndarray]  # pinned
    device: list[Any]
    sent: Any = None  # event on the copying stream: the host's part is free
    used: Any = None  # event on the computing stream: the device's part is free
    held: Any = None  # made of the piece on the copying stream, whose memory must not be taken before ``used``


class Slots:
    """Room for two pieces of up to ``rows`` rows, on the current device.

    Raises MemoryError where there is none.
    """

    def __init__(self, rows: int, widths: Sequence[tuple[int, ...]], dtypes: Sequence[np.dtype]) -> None:
        self.rows = rows
        kinds = list(zip(widths, dtypes, strict=True))
        self.pair = tuple(
            _Slot(
                [transfers.pinned((rows, *width), dtype) for width, dtype in kinds],
                [cp.empty((rows, *width), dtype) for width, dtype in kinds],
            )
            for _ in range(2)
        )


def rows_of_piece(widths: Sequence[tuple[int, ...]], dtypes: Sequence[np.dtype]) -> int:
    """Rows of a piece of arrays whose rows have these shapes and dtypes; the first are points."""
    row = sum(math.prod(width) * dtype.itemsize for width, dtype in zip(widths, dtypes, strict=True))
    most = _MOST_ROWS_OF_LINE if widths[0] == (1,) else _MOST_ROWS
    return max(_FEWEST_ROWS, min(most, _MOST_BYTES // row))


def pieces(
    sources: Sequence[Sequence[np.ndarray]], slots: Slots, copying: Any, look: Callable[[int, slice, list[Any]], T]
) -> Iterator[T]:
    """Bring rows of the arrays of each source to the current device, in order.

    Close the generator where it may not come to its end.

    Parameters
    ----------
    sources : sequence of sequences of arrays
        Host arrays of as many rows; each source has those of ``slots``.
    slots : Slots
        Used by this generator alone. Their dtypes are what rows are converted to, by the copy to pinned memory.
    copying : stream
        That of a :func:`turn`.
    look : callable
        Called with the number of a source, a slice of its rows, and these rows on the device, on the stream that copied
        them there: it may wait for that stream without waiting for the pass over the piece before.

    Yields
    ------
    object
        What ``look`` returned, ready for the current stream. Work on it is to be given to that stream before the next
        is asked for.
    """
    computing = transfers.current()
    # Whoever had the slots' memory before may not be done with it.
    copying.wait_event(transfers.mark(computing))
    try:
        for i, (number, rows) in enumerate(_cuts(sources, slots.rows)):
            slot = slots.pair[i % 2]
            piece = _fill(slot, sources[number], rows, copying)
            with copying:
                slot.held = look(number, rows, piece)
            computing.wait_event(transfers.mark(copying))
            yield slot.held
            slot.used = transfers.mark(computing)
    finally:
        copying.synchronize()  # pinned memory may go
        # What was made on the copying stream is free for it again when the last pass is done.
        copying.wait_event(transfers.mark(computing))


def _fill(slot: _Slot, arrays: Sequence[np.ndarray], rows: slice, copying: Any) -> list[Any]:
    """Copy rows into a slot, on the host at once and to the device on the stream; return them there."""
    count = rows.stop - rows.start
    if slot.sent is not None:
        slot.sent.synchronize()
    for a, room in zip(arrays, slot.host, strict=True):
        np.copyto(room[:count], a[rows], casting="unsafe")
    if slot.used is not None:
        copying.wait_event(slot.used)
    piece = [room[:count] for room in slot.device]
    for room, out in zip(slot.host, piece, strict=True):
        transfers.send(room[:count], out, copying)
    slot.sent = transfers.mark(copying)
    return piece


def _cuts(sources: Sequence[Sequence[np.ndarray]], most: int) -> Iterator[tuple[int, slice]]:
    """Number of a source and rows of it, all of which have about as many."""
    for number, arrays in enumerate(sources):
        n = len(arrays[0])
        parts = -(-n // most)
        for i in range(parts):
            yield number, slice(n * i // parts, n * (i + 1) // parts)


@contextlib.contextmanager
def turn() -> Iterator[Any]:
    """Lend a stream for copies to the current device; who comes when all are lent waits, before he takes memory."""
    made: queue.LifoQueue[Any] = queue.LifoQueue()
    for _ in range(_AT_ONCE):
        made.put(None)
    idle = _idle.setdefault(core_device.current(), made)
    lent = idle.get()
    try:
        if lent is None:
            lent = transfers.stream()
        yield lent
    finally:
        idle.put(lent)
