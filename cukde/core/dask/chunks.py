"""The number of rows of a block, for plain arrays and for Dask arrays with too large or too many blocks."""

from __future__ import annotations

import math

# Rows for which a pair of blocks takes a good part of a second on two CPU cores, and some 20 ms on a GPU: much longer
# than Dask's overhead for a task, and short enough to lose with a worker. In one dimension the time of the fast
# transform grows with the rows, not with their pairs, so memory limits the blocks.
_ROWS = 2**15
_ROWS_OF_GPU = 2**18
_ROWS_OF_LINE = 2**22

# Most pairs of a block of data and a block of queries in a graph; for more, blocks are larger.
_MOST_PAIRS = 64 * 64

# Number of blocks above which small neighbours are joined.
_MANY = 64

# Most numbers of a block's coordinates, or of the moments at its queries: 128 MiB in float64.
_MOST_NUMBERS = 2**24

# The same for data on the host that stream through a GPU in pieces, of which no copy is made: 1 GiB in float64.
_MOST_NUMBERS_OF_STREAM = 2**27

AT_ONCE = 8
"""Most partial results that a task merges, and most blocks of a task: they are in memory together."""

# Number of tasks above which a task takes several blocks: enough for the workers, and few for the scheduler.
_MANY_TASKS = 512


def blocks_of_task(pairs: int) -> int:
    """Return the number of blocks of data of a task, in a graph of so many pairs of blocks."""
    return min(AT_ONCE, max(1, pairs // _MANY_TASKS))


def rows_of_block(n: float, m: float, d: int, *, gpu: bool) -> int:
    """Return the rows of a block, for ``n`` data rows and ``m`` queries of ``d`` numbers each, NaN if unknown."""
    rows = _ROWS_OF_LINE if d == 1 else _ROWS_OF_GPU if gpu else _ROWS
    n, m = (0 if math.isnan(size) else size for size in (n, m))
    while math.ceil(n / rows) * math.ceil(m / rows) > _MOST_PAIRS:
        rows *= 2
    return max(1, min(rows, _MOST_NUMBERS // (d + 2)))


def rows_of_stream(d: int, *, queries: bool) -> int:
    """Return the rows of a block of ``d`` numbers each that streams through a GPU as data, or also as ``queries``.

    Query blocks are large, since for each pair of blocks they are copied to the GPU and their sums back.
    """
    return max(1, (_MOST_NUMBERS if queries else _MOST_NUMBERS_OF_STREAM) // (d + 2))


def regular(chunks: tuple[int, ...], rows: int, most: int | None = None) -> tuple[int, ...]:
    """Return chunks with those of more than twice ``most`` rows cut, and with many small ones joined up to ``rows``.

    ``most`` is ``rows`` by default.
    """
    most = most or rows
    cut: list[int] = []
    for chunk in chunks:
        parts = 1 if chunk <= 2 * most else -(-chunk // most)
        cut += [chunk * (i + 1) // parts - chunk * i // parts for i in range(parts)]
    if len(cut) <= _MANY:
        return tuple(cut)
    joined = [cut[0]]
    for chunk in cut[1:]:
        if joined[-1] + chunk <= rows:
            joined[-1] += chunk
        else:
            joined.append(chunk)
    return tuple(joined)
