"""Concordant and discordant pairs of samples for all pairs of rows, by products of signs on the tensor cores.

Launcher of ``sign_codes.cu``, ``signs.cu``, ``sign_products.cu`` and ``sign_products_finish.cu``: the signs of the
differences of all pairs of samples are made once, a bounded number of pairs at a time, and multiplied row by row.
"""

from __future__ import annotations

import functools
import itertools
from typing import Any, NamedTuple

import cupy as cp
import numpy as np

from cukde.core import merge_tiles
from cukde.core.gpu import compile as core_compile, device
from cukde.core.gpu.launch import Launch, Specialisation
from cukde.kendall import sign_tiles
from cukde.kendall.sign_tiles import ITEM, SLAB_BYTES, in_bits, item_slabs, shape

_SLABS_OF_BLOCK = 8
_ROWS_OF_BLOCK = 32
_ROWS_OF_CODES = 8
_THREADS = 256

_FEWEST_SLABS_OF_BLOCK = 4  # as long as it takes to add to the results


_CODES = Specialisation("kendall/sign_codes", "sign_codes", (), "4P 3i q")
_FINISH = Specialisation("kendall/sign_products_finish", "finish_sign_products", (), "7P 2i q 4i q")
core_compile.listed(lambda: (_CODES, _FINISH))


@core_compile.specialised((True, False), (False, True), sign_tiles.EDGES)
def _product_kernel(bits: bool, tied: bool, edge: int) -> Specialisation:
    chosen = shape(bits, tied, edge)
    defines = core_compile.macros(
        BITS=bits,
        TIED=tied,
        TILE=edge,
        WARP_ROWS=chosen.warp_rows,
        WARP_COLUMNS=chosen.warp_columns,
        STAGES=chosen.stages,
        BLOCKS=chosen.blocks,
    )
    return Specialisation("kendall/sign_products", "sign_products", defines, "4P 5i q", chosen.shared_bytes)


@core_compile.specialised(cases=lambda: ((True, 1), (True, 2), (False, 1)))
def _sign_kernel(bits: bool, planes: int) -> Specialisation:
    return Specialisation("kendall/signs", "signs", core_compile.macros(BITS=bits, PLANES=planes), "3P 4i")


class _Rows(NamedTuple):
    """Rows of one argument in the order of the products: those without ties, then those with, then padding."""

    source: Any  # (padded,) int32: the argument's row, or -1
    inverse: Any  # (rows,) int32: inverse of the order
    untied: int  # rows of whole tiles that have no ties, or are padding

    @classmethod
    def of(cls, tied: Any, edge: int) -> _Rows:
        tied = np.asarray(tied, bool)
        count, many = len(tied), int(np.count_nonzero(tied))
        if many in (0, count):
            return _alike(count, many > 0, edge)
        order = np.argsort(tied, kind="stable").astype(np.int32)
        inverse = np.empty_like(order)
        inverse[order] = np.arange(count, dtype=np.int32)
        return cls(_padded(order, edge), inverse, (count - many) // edge * edge)


@functools.lru_cache(maxsize=16)  # of many rows they are large
def _alike(count: int, tied: bool, edge: int) -> _Rows:
    """Rows that all have ties, or none of which has."""
    order = np.arange(count, dtype=np.int32)
    source = _padded(order, edge)
    return _Rows(source, order, 0 if tied else len(source))


def _padded(order: Any, edge: int) -> Any:
    source = np.full(-(-len(order) // edge) * edge, -1, np.int32)
    source[: len(order)] = order
    return source


def products(x: Any, y: Any | None, n: int, tied_x: Any, tied_y: Any) -> tuple[Any, Any]:
    """Count concordant and discordant pairs of samples for all pairs of rows: int64, both (p, q).

    Parameters
    ----------
    x : array, shape (p, at least n)
        Ranks of samples, uint32, below ``sign_tiles.MOST_SAMPLES``, equal where samples are tied; C-contiguous. What
        comes after the first ``n`` of a row is ignored.
    y : array, shape (q, as x), optional
        The other side of the pairs; without it, x.
    n : int
        Samples, at most as many.
    tied_x, tied_y : array of bool, shape (p,) and (q,)
        Which rows have ties, on the host: pairs of rows without are multiplied faster. ``tied_y`` is ignored
        without y.

    Notes
    -----
    Needs compute capability 8.0. With N = n (n - 1) / 2, 2 p q N operations by bytes, 6 p q N by bits where rows have
    ties and 2 p q N where they have none; half as many without y. Memory: 32 bytes a pair of rows, of which the
    results are half, 2 a sample, and 128 MiB of signs, or 32 KiB a row where that is more; bits of rows with ties take
    twice that.
    """
    p, q = len(x), len(x) if y is None else len(y)
    if p == 0 or q == 0 or n < 2:
        return cp.zeros((p, q), np.int64), cp.zeros((p, q), np.int64)
    bits = in_bits(device.capability())
    edge = sign_tiles.edge(p, q, symmetric=y is None)
    of_x = _Rows.of(tied_x, edge)
    of_y = of_x if y is None else _Rows.of(tied_y, edge)
    height, width = len(of_x.source), len(of_y.source)
    once, twice = _tiles(height, width, of_x.untied, of_y.untied, edge, y is None)

    source = of_x.source
    if y is not None:
        source = np.concatenate((source, np.where(of_y.source < 0, -1, p + of_y.source)))
    # Tiles first: they are read two numbers at a time.
    places = (of_x.inverse,) if y is None else (of_x.inverse, of_y.inverse)
    tiles_once, tiles_twice, source, *places_on_device = _on_device(once, twice, source, *places)
    rows, first_column = len(source), 0 if y is None else height
    codes = _codes(x, y, source, n)
    # Zeros of 8 bytes: one result of all pairs of rows or two, and what untied rows of bits add up to.
    entries, kinds = height * width, 2 if len(twice) else 1
    zeros = cp.zeros(kinds * entries + (rows if bits and len(once) else 0), np.int64)
    difference, magnitudes = zeros[:entries], zeros[entries : 2 * entries] if kinds == 2 else None
    ascents = zeros[kinds * entries :].view(np.uint64) if len(zeros) > kinds * entries else None
    planes = 2 if bits and len(twice) else 1
    chunks, of_item = list(sign_tiles.chunks(n, rows, bits)), item_slabs(bits)
    buffer = cp.empty((of_item * max(count for _, count in chunks), planes, rows, SLAB_BYTES), np.uint8)
    for first, count in chunks:
        slabs = of_item * count
        signs = merge_tiles.of_batch(buffer, slice(0, slabs))
        _signing(slabs, planes, rows, n, first, bits)(codes, signs, ascents)
        for tied, tiles, on_device in ((False, once, tiles_once), (True, twice, tiles_twice)):
            if len(tiles):
                sizes = len(tiles), rows, slabs, planes, first_column, width
                launch = _multiplying(sizes, bits, tied, edge, device.multiprocessors())
                launch(signs, on_device, difference, magnitudes if tied else None)
    concordant, discordant = cp.empty((2, p, q), np.int64)
    untied = of_x.untied, of_y.untied
    place_x, place_y = places_on_device[0], places_on_device[-1]
    finish = _finishing(p, q, width, untied, first_column, y is None, n)
    finish(difference, magnitudes, ascents, place_x, place_y, concordant, discordant)
    return concordant, discordant


@functools.lru_cache(maxsize=16)  # of many rows they are large
def _tiles(
    height: int, width: int, untied_rows: int, untied_columns: int, edge: int, symmetric: bool
) -> tuple[Any, Any]:
    """Tiles, (count, 2) int32, whose rows and columns have no ties; and the others."""
    row, column = np.indices((height // edge, width // edge), np.int32).reshape(2, -1)
    selected = column >= row if symmetric else np.ones(row.shape, bool)
    once = (row * edge < untied_rows) & (column * edge < untied_columns)
    tiles = np.stack((row, column), axis=1)
    return tiles[selected & once], tiles[selected & ~once]


def _on_device(*tables: Any) -> list[Any]:
    """Bring tables of whole numbers to the device in one copy, flat and as int32; nothing for those that are empty."""
    together = cp.asarray(np.concatenate([table.ravel() for table in tables], dtype=np.int32, casting="same_kind"))
    ends = itertools.accumulate(table.size for table in tables)
    return [together[end - table.size : end] if table.size else None for table, end in zip(tables, ends, strict=True)]


def _codes(x: Any, y: Any | None, source: Any, n: int) -> Any:
    codes = cp.empty((-(-n // ITEM), len(source), ITEM), np.uint16)
    _coding(len(x), len(source), n, x.shape[1])(x, y, source, codes)
    return codes


@functools.lru_cache(maxsize=1024)
def _coding(rows_of_x: int, rows: int, n: int, stride: int) -> Launch:
    """The launch that makes codes of ranks."""
    grid = -(-rows // _ROWS_OF_CODES), -(-n // ITEM)
    return Launch(_CODES, grid, (_THREADS,), (rows_of_x, rows, n, stride))


@functools.lru_cache(maxsize=1024)
def _signing(slabs: int, planes: int, rows: int, n: int, first: int, bits: bool) -> Launch:
    """The launch that makes signs of codes."""
    grid = -(-slabs // _SLABS_OF_BLOCK), rows // _ROWS_OF_BLOCK
    return Launch(_sign_kernel(bits, planes), grid, (_THREADS,), (rows, n, first, slabs))


@functools.lru_cache(maxsize=1024)
def _multiplying(sizes: tuple[int, ...], bits: bool, tied: bool, edge: int, multiprocessors: int) -> Launch:
    """The launch that adds products of signs to the results."""
    of_block, (tiles, _, slabs, *_) = shape(bits, tied, edge), sizes
    blocks = min(of_block.blocks * multiprocessors, -(-tiles * slabs // _FEWEST_SLABS_OF_BLOCK))
    return Launch(_product_kernel(bits, tied, edge), (blocks,), (of_block.threads,), sizes)


@functools.lru_cache(maxsize=1024)
def _finishing(
    p: int, q: int, width: int, untied: tuple[int, int], first_column: int, symmetric: bool, n: int
) -> Launch:
    """The launch that brings results into the order of the caller's rows."""
    scalars = p, q, width, *untied, first_column, symmetric, n * (n - 1) // 2
    return Launch(_FINISH, (-(-p * q // _THREADS),), (_THREADS,), scalars)
