"""Tiles in which a GPU sorts and merges rows, and the number of rows in a batch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

ITEMS = 16  # per thread

# Sizes of thread blocks that sort a tile, by the bytes of a key; 8 also of a shorter one with its position. The largest
# also merges: 48 KiB of shared memory hold no more.
THREADS = {4: (64, 128, 256, 512), 8: (64, 128, 256)}

# Most bytes of a batch of several rows: keys, their order, and a second array of each.
_SCRATCH_BYTES = 2**30
_BYTES_OF_SAMPLE = 2 * (8 + 4)


def batches(rows: int, n: int) -> Iterator[slice]:
    """Yield batches of rows of ``n`` samples."""
    step = max(1, _SCRATCH_BYTES // (_BYTES_OF_SAMPLE * max(n, 1)))
    return (slice(begin, min(begin + step, rows)) for begin in range(0, rows, step))


def of_batch(a: Any, rows: slice) -> Any:
    """Return rows of an array, or the array itself for all rows: a view would take a microsecond."""
    return a if rows.stop - rows.start == len(a) else a[rows]


def threads(n: int, key_bytes: int) -> int:
    """Threads of a block that sorts tiles of rows of ``n`` keys: the fewest whose tile holds a row, or the most."""
    choices = THREADS[key_bytes]
    return next((choice for choice in choices if n <= choice * ITEMS), choices[-1])
