"""How products of signs are cut on a GPU: tiles of pairs of rows, and launches of pairs of samples."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass

MOST_SAMPLES = 63_487  # as many finite float16 numbers are there, see sign_codes.cu

# Of a plane of the signs that are multiplied by one launch. Launches with few of them fill the device badly and spend
# their time on adding to the results; where there are many, they do not come from the L2 cache.
_PLANE_BYTES = 2**27
_FEWEST_SLABS = 256

ITEM = 32  # samples on either side
_MOST_ITEMS = 2**30 // ITEM**2 - 1  # of a launch: sums in int32 hold all of its pairs

SLAB_BYTES = 128  # of a row and plane

EDGES = (64, 128)  # of tiles
_SMALL_TILES = 1.6  # times as long small ones take for the same products


@dataclass(frozen=True)
class Shape:
    """How a block of ``sign_products.cu`` is cut."""

    edge: int  # of the tile
    warp_rows: int
    warp_columns: int
    stages: int
    blocks: int  # a multiprocessor
    planes: int  # that are read

    @property
    def threads(self) -> int:
        """Of a block."""
        return 32 * (self.edge // self.warp_rows) * (self.edge // self.warp_columns)

    @property
    def shared_bytes(self) -> int:
        """Of a block: stages of half slabs."""
        return self.stages * self.planes * 2 * self.edge * SLAB_BYTES // 2


def shape(bits: bool, tied: bool, edge: int) -> Shape:
    """The shape for a kind of signs, two results or one, and an edge."""
    planes = 2 if bits and tied else 1
    if edge == 64:
        return Shape(edge, 32, 32, 4, 3, planes)
    if tied:
        return Shape(edge, 64, 32, 3 if bits else 4, 1, planes)
    return Shape(edge, 64, 64, 4, 2, planes)


def in_bits(capability: tuple[int, int]) -> bool:
    """Whether signs are multiplied as bits, eight times as fast as bytes: what 8.0 to 9.0 do in hardware."""
    return (8, 0) <= capability < (10, 0)


def item_slabs(bits: bool) -> int:
    """Slabs of an item, 32 x 32 pairs of samples."""
    return 1 if bits else 8


@functools.lru_cache(maxsize=1024)
def edge(p: int, q: int, *, symmetric: bool) -> int:
    """The edge of the tiles with which the products, those of padding too, take less time."""

    def time(of: int) -> float:
        return tile_count(p, q, of, symmetric=symmetric) * of**2 * (_SMALL_TILES if of == EDGES[0] else 1)

    return min(EDGES, key=time)


def tile_count(p: int, q: int, edge: int, *, symmetric: bool) -> int:
    """Tiles of all pairs of p rows with q; without y, p with themselves."""
    down, across = -(-p // edge), -(-q // edge)
    return down * (down + 1) // 2 if symmetric else down * across


def padded(p: int, q: int, *, symmetric: bool) -> tuple[int, int]:
    """Rows of signs and entries of tiles that p rows with q take; without y, p with themselves."""
    side = edge(p, q, symmetric=symmetric)
    rows = side * (-(-p // side) + (0 if symmetric else -(-q // side)))
    return rows, side**2 * tile_count(p, q, side, symmetric=symmetric)


def chunks(n: int, rows: int, bits: bool) -> Iterator[tuple[int, int]]:
    """First item and number of items of each launch, for so many rows."""
    blocks = -(-n // ITEM)
    items, slabs = blocks * (blocks + 1) // 2, item_slabs(bits)
    most = max(_PLANE_BYTES // (rows * SLAB_BYTES), _FEWEST_SLABS) // slabs
    launches = -(-items // max(1, min(most, _MOST_ITEMS)))
    for launch in range(launches):
        first = items * launch // launches
        yield first, items * (launch + 1) // launches - first
