"""How queries and data rows are divided among the multiprocessors: the cost rule of the density kernels."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

# Data rows that take as long as a block's beginning and end: fragments to load, the first tile to wait for,
# sums to write.
_ROWS_OF_OVERHEAD = 96

# Warps with work of their own that keep a multiprocessor busy.
_BUSY_WARPS = 16

# Blocks' times that the multiprocessors wait for the last of their blocks: where all blocks run at a time, and where
# they come and go. Measured on an H200, 0.2 and 0.4 to 1.
_WAIT_AT_ONCE = 0.2
_WAIT_IN_TURN = 0.7

# Worth a look beside the first few numbers of splits.
_MANY_SPLITS = (10, 12, 16, 24, 32, 48, 64)

# Most floats that the splits may leave in memory for the kernel that merges them (64 MB), unless one split does.
_MOST_FLOATS = 2**24


@dataclass(frozen=True)
class Shape:
    """The tile shape of a kernel: what a block owns, and what it keeps of a multiprocessor."""

    warps: int
    row_tiles: int  # of 16 queries, a warp
    tile: int  # data rows in shared memory at a time
    blocks: int  # of a multiprocessor at a time
    efficiency: float = 1.0  # pairs a second relative to the other shapes of the same kernel, once it is busy

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return 32 * self.warps

    @property
    def queries(self) -> int:
        """Queries of a block."""
        return 16 * self.row_tiles * self.warps


@dataclass(frozen=True)
class Plan:
    """A grid: blocks of queries times splits of the data."""

    shape: Shape
    query_blocks: int
    splits: int
    split_rows: int  # of the data, in whole tiles


@functools.lru_cache(maxsize=1024)
def plan(
    shapes: tuple[Shape, ...], n: int, m: int, floats_of_query: int, multiprocessors: int, column_blocks: int = 1
) -> Plan:
    """Choose the shape and the splits whose slowest multiprocessor is done first.

    A multiprocessor takes its blocks at a constant rate of pairs once it is busy; before that, a block takes
    as long as if it were. Towards the end it is less and less busy, the longer the larger its blocks.
    ``floats_of_query`` is what a split leaves in memory for each query; every block of queries is there
    ``column_blocks`` times.
    """
    best: tuple[float, Plan] | None = None
    for shape in shapes:
        query_blocks = -(-m // shape.queries)
        tiles = -(-n // shape.tile)
        busy_blocks = min(shape.blocks, max(1, _BUSY_WARPS // shape.warps))
        for split_count in _candidates(query_blocks * column_blocks, tiles, shape.blocks, multiprocessors):
            if split_count > 1 and split_count * m * floats_of_query > _MOST_FLOATS:
                continue
            tiles_of_split = -(-tiles // split_count)
            splits = -(-tiles // tiles_of_split)
            blocks = query_blocks * column_blocks * splits / multiprocessors
            if blocks <= shape.blocks:
                blocks = max(busy_blocks, math.ceil(blocks)) + _WAIT_AT_ONCE
            else:
                blocks += _WAIT_IN_TURN
            rows = tiles_of_split * shape.tile + _ROWS_OF_OVERHEAD
            cost = blocks * rows * shape.queries / shape.efficiency
            if best is None or cost < best[0]:
                best = cost, Plan(shape, query_blocks, splits, tiles_of_split * shape.tile)
    assert best is not None  # one split is always a candidate
    return best[1]


def _candidates(query_blocks: int, tiles: int, blocks: int, multiprocessors: int) -> list[int]:
    """Numbers of splits worth a look: few, and those that give every multiprocessor the same number of blocks."""
    even = (count * multiprocessors // query_blocks for count in range(1, 4 * blocks + 1))
    return sorted({min(tiles, max(1, splits)) for splits in (*range(1, 9), *_MANY_SPLITS, *even)})
