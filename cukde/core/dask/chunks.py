"""How many rows a block has: the rule for plain arrays, and for Dask arrays whose blocks are too large or too many."""

from __future__ import annotations

import math

# Rows for which a pair of blocks takes a good part of a second on two CPU cores, and some 20 ms on a GPU: long beside
# what Dask takes for a task, short beside what is lost with a worker. In one dimension the fast transform takes time
# with the rows, not with their pairs: there blocks are as large as memory likes.
_ROWS = 2**15
_ROWS_OF_GPU = 2**18
_ROWS_OF_LINE = 2**22

# Blocks of data times blocks of queries that a graph may have before blocks get larger than that.
_MOST_PAIRS = 64 * 64

# Blocks beyond which small neighbours are joined.
_MANY = 64

# A block's coordinates, or the moments at its queries, in double precision: 128 MiB.
_MOST_NUMBERS = 2**24

# Of data that go from the host through a GPU in pieces: a block is read, not copied. In double precision 1 GiB.
_MOST_NUMBERS_OF_STREAM = 2**27

AT_ONCE = 8
"""Partial results that a task merges, and blocks that one takes, at most: they are in memory together."""

# Tasks from which on one takes several blocks: enough for the workers, and few for the scheduler.
_MANY_TASKS = 512


def blocks_of_task(pairs: int) -> int:
    """Blocks of data that a task takes one after the other, of a graph of so many pairs of blocks."""
    return min(AT_ONCE, max(1, pairs // _MANY_TASKS))


def rows_of_block(n: float, m: float, d: int, *, gpu: bool) -> int:
    """Rows of a block of ``n`` data rows and ``m`` queries with ``d`` numbers each; NaN stands for rows not known."""
    rows = _ROWS_OF_LINE if d == 1 else _ROWS_OF_GPU if gpu else _ROWS
    n, m = (0 if math.isnan(size) else size for size in (n, m))
    while math.ceil(n / rows) * math.ceil(m / rows) > _MOST_PAIRS:
        rows *= 2
    return max(1, min(rows, _MOST_NUMBERS // (d + 2)))


def rows_of_stream(d: int, *, queries: bool) -> int:
    """Rows of a block of data with ``d`` numbers each that stays on the host; or goes to the GPU as ``queries`` too.

    Such queries are large, as they go there and their sums come back for each pair of blocks.
    """
    return max(1, (_MOST_NUMBERS if queries else _MOST_NUMBERS_OF_STREAM) // (d + 2))


def regular(chunks: tuple[int, ...], rows: int, most: int | None = None) -> tuple[int, ...]:
    """Chunks as they are, but for those of more than twice ``most`` rows, which are cut, and many small ones, joined.

    Those are joined up to ``rows``, which is also what ``most`` is by default.
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
