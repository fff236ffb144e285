"""A pass over all pairs cut into blocks of queries, and of data where queries are few, over the threads."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable

import numpy as np

from cukde.core.cpu import threads
from cukde.density.plan import cpu as plan_cpu
from cukde.density.sums import PartialSums, merge

# Large enough that the calls a tile costs are small beside its work, small enough to stay in cache.
_TILE_BYTES = 2**20
_FEW_BLOCKS = 4  # a thread
TILE_QUERIES = plan_cpu.QUERIES_OF_BLOCK
"""Queries of a tile."""

Block = Callable[[slice, slice], PartialSums]
"""Sums of some queries over a stretch of the data."""


def run(
    block: Block,
    n: int,
    m: int,
    k: int,
    dtype: np.dtype,
    *,
    blas: bool = False,
    least: int | None = None,
    alone: bool = False,
) -> PartialSums:
    """Sums of ``m`` queries over ``n`` data rows, with ``k`` moments each; ``blas`` as for :func:`threads.run`.

    Every run gives the same bits. ``least`` are data rows that are worth a thread, by default those of a tile. All
    blocks are taken by the caller's thread where it is ``alone``.
    """
    count = -(-m // TILE_QUERIES)
    if 1 < count < _FEW_BLOCKS * threads.count():  # so that all threads end at about the same time
        count = -(-count // threads.count()) * threads.count()
    rows = max(4, -(-m // max(4, 4 * count)) * 4)
    blocks = [slice(i, min(i + rows, m)) for i in range(0, m, rows)]
    # Few queries leave threads idle: then the data are cut too, and the pieces merged.
    pieces = max(1, min(-(-threads.count() // max(1, len(blocks))), -(-n // (least or tile_columns(dtype)))))
    edges = [n * piece // pieces for piece in range(pieces + 1)]
    tasks = [(rows, slice(*edge)) for rows in blocks for edge in itertools.pairwise(edges)]
    if len(tasks) == 1 and not blas:
        return block(*tasks[0])
    done = [block(*task) for task in tasks] if alone else threads.run(lambda task: block(*task), tasks, blas=blas)
    merged = [merge(done[i : i + pieces], np) for i in range(0, len(done), pieces)]
    return _assemble(merged, m, k)


def rows_of_thread(d: int, m: int, dtype: np.dtype) -> int:
    """Data rows of ``d`` columns that are worth a thread, at ``m`` queries."""
    return max(plan_cpu.rows_of_thread(d, min(m, TILE_QUERIES)), tile_columns(dtype))


def tile_columns(dtype: np.dtype) -> int:
    """Data rows of a tile."""
    return _TILE_BYTES // (TILE_QUERIES * dtype.itemsize)


def _assemble(blocks: list[PartialSums], m: int, k: int) -> PartialSums:
    reference, total = np.empty(m), np.empty(m)
    moments = np.empty((m, k)) if k else None
    start = 0
    for block in blocks:
        rows = slice(start, start + len(block.total))
        reference[rows], total[rows] = block.reference, block.total
        if moments is not None:
            moments[rows] = block.moments
        start = rows.stop
    return PartialSums(reference, total, moments)


_scratch = threading.local()


def scratch(dtype: np.dtype) -> np.ndarray:
    """Room for a tile of this thread, whose memory is kept between calls: fresh memory costs page faults."""
    if not hasattr(_scratch, "tile"):
        _scratch.tile = np.empty(_TILE_BYTES, np.uint8)
    memory: np.ndarray = _scratch.tile.view(dtype)
    return memory


def scratch_tile(queries: int, columns: int, dtype: np.dtype) -> np.ndarray:
    """A tile in that room."""
    return scratch(dtype)[: queries * columns].reshape(queries, columns)
