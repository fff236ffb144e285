"""How rows are cut into tiles that a GPU sorts and merges, and how many rows it sorts at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

ITEMS = 16  # of a thread

# Threads of a block that may sort a tile, by the bytes of a key. The last ones merge: as many as 48 KiB of shared
# memory have room for.
THREADS = {4: (64, 128, 256, 512), 8: (64, 128, 256)}

# What is sorted at a time, keys, their order and a second array of each, stays below this where it is several rows.
_SCRATCH_BYTES = 2**30
_BYTES_OF_SAMPLE = 2 * (8 + 4)


def batches(rows: int, n: int) -> Iterator[slice]:
    """Rows of ``n`` samples to sort at a time."""
    step = max(1, _SCRATCH_BYTES // (_BYTES_OF_SAMPLE * max(n, 1)))
    return (slice(begin, min(begin + step, rows)) for begin in range(0, rows, step))


def of_batch(a: Any, rows: slice) -> Any:
    """Rows of an array; all of them are the array itself, since a view takes a microsecond to make."""
    return a if rows.stop - rows.start == len(a) else a[rows]


def threads(n: int, key_bytes: int) -> int:
    """Threads of a block that sorts a tile of a row of ``n``: the smallest that holds it, or the most."""
    choices = THREADS[key_bytes]
    return next((choice for choice in choices if n <= choice * ITEMS), choices[-1])
