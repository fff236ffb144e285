"""Partition of sign products on a GPU: tiles of pairs of rows, and launches of pairs of samples."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass

MOST_SAMPLES = 63_487  # the number of finite float16 values, see sign_codes.cu

# Bytes of a plane of signs in one launch. Launches of fewer fill the device badly and spend their time on adding to the
# results; larger planes leave the L2 cache.
_PLANE_BYTES = 2**27
_FEWEST_SLABS = 256

ITEM = 32  # samples on either side
_MOST_ITEMS = 2**30 // ITEM**2 - 1  # in a launch: int32 holds the sums over all of its pairs

SLAB_BYTES = 128  # of one row in one plane

EDGES = (64, 128)  # of tiles
_SMALL_TILES = 1.6  # time of small tiles for the same products, relative to large ones


@dataclass(frozen=True)
class Shape:
    """Shape of a thread block of ``sign_products.cu``."""

    edge: int  # of the tile
    warp_rows: int
    warp_columns: int
    stages: int
    blocks: int  # per multiprocessor
    planes: int  # of signs to read

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return 32 * (self.edge // self.warp_rows) * (self.edge // self.warp_columns)

    @property
    def shared_bytes(self) -> int:
        """Shared memory of a block: stages of half slabs."""
        return self.stages * self.planes * 2 * self.edge * SLAB_BYTES // 2


def shape(bits: bool, tied: bool, edge: int) -> Shape:
    """Return the shape for signs as bits or bytes, with or without ties, and an edge."""
    planes = 2 if bits and tied else 1
    if edge == 64:
        return Shape(edge, 32, 32, 4, 3, planes)
    if tied:
        return Shape(edge, 64, 32, 3 if bits else 4, 1, planes)
    return Shape(edge, 64, 64, 4, 2, planes)


def in_bits(capability: tuple[int, int]) -> bool:
    """Whether signs are bits, which compute capability 8.0 to 9.0 multiplies eight times as fast as bytes."""
    return (8, 0) <= capability < (10, 0)


def item_slabs(bits: bool) -> int:
    """Slabs of an item, 32 x 32 pairs of samples."""
    return 1 if bits else 8


@functools.lru_cache(maxsize=1024)
def edge(p: int, q: int, *, symmetric: bool) -> int:
    """Return the edge of the tiles whose products, padding included, take less time."""

    def time(edge: int) -> float:
        return tile_count(p, q, edge, symmetric=symmetric) * edge**2 * (_SMALL_TILES if edge == EDGES[0] else 1)

    return min(EDGES, key=time)


def tile_count(p: int, q: int, edge: int, *, symmetric: bool) -> int:
    """Tiles of all pairs of p rows with q; with ``symmetric``, of the p rows with each other."""
    down, across = -(-p // edge), -(-q // edge)
    return down * (down + 1) // 2 if symmetric else down * across


def padded(p: int, q: int, *, symmetric: bool) -> tuple[int, int]:
    """Rows of signs and entries of tiles, padding included, of p rows with q, or with each other."""
    side = edge(p, q, symmetric=symmetric)
    rows = side * (-(-p // side) + (0 if symmetric else -(-q // side)))
    return rows, side**2 * tile_count(p, q, side, symmetric=symmetric)


def chunks(n: int, rows: int, bits: bool) -> Iterator[tuple[int, int]]:
    """Yield the first item and the number of items of each launch."""
    blocks = -(-n // ITEM)
    items, slabs = blocks * (blocks + 1) // 2, item_slabs(bits)
    most = max(_PLANE_BYTES // (rows * SLAB_BYTES), _FEWEST_SLABS) // slabs
    launches = -(-items // max(1, min(most, _MOST_ITEMS)))
    for launch in range(launches):
        first = items * launch // launches
        yield first, items * (launch + 1) // launches - first
