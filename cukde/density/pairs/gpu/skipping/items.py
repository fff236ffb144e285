"""How a pass is cut for warps, each of which takes item after item."""

from __future__ import annotations

from typing import NamedTuple

from cukde.core.gpu import device

THREADS = 128
"""Of a block."""

SPAN = 128
"""Blocks of data that a warp lists at a time."""

ITEMS_OF_WARP = 16
"""At least, so that none waits long for the last."""

_BLOCKS_OF_MULTIPROCESSOR = 4


class Items(NamedTuple):
    """How a pass is cut: an item is so many blocks of queries by `span` blocks of data, `spans` times."""

    grid: int  # blocks of threads
    rows: int  # items over queries
    groups: int  # and over data
    span: int
    spans: int


def cut(
    query_blocks: int,
    data_blocks: int,
    blocks_of_item: int,
    *,
    most_span: int,
    single: bool = False,
    of_warp: int = ITEMS_OF_WARP,
) -> Items:
    """Cut a pass so that the device is busy; ``single`` lets one warp take all data of its queries."""
    grid = device.multiprocessors() * _BLOCKS_OF_MULTIPROCESSOR
    rows = -(-query_blocks // blocks_of_item)
    groups = 1 if single else min(data_blocks, -(-grid * (THREADS // 32) * of_warp // rows))
    of_group = -(-data_blocks // groups)
    span = min(of_group, most_span)
    if span > 32:
        span = -(-span // 32) * 32  # as many as lanes list at a time
    spans = -(-of_group // span)
    return Items(grid, rows, -(-data_blocks // (span * spans)), span, spans)


def row_tiles(width: int) -> int:
    """Tiles of 16 queries that a warp takes: their operands stay in registers."""
    return 8 if width <= 32 else 4
