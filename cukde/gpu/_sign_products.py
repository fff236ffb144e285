"""Concordant and discordant pairs of samples for all pairs of rows, by products of signs on the tensor cores.

Launcher of ``sign_codes.cu``, ``signs.cu``, ``sign_products.cu`` and ``finish_sign_products.cu``: the signs of the
differences of all pairs of samples are made once, a bounded number of pairs at a time, and multiplied row by row.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import cupy as cp
import numpy as np

from cukde import _compile, _sign_tiles
from cukde._sign_tiles import ITEM, SLAB_BYTES, in_bits, item_slabs, shape
from cukde.gpu import _device
from cukde.gpu._operands import or_null

_SLABS_OF_BLOCK = 8
_ROWS_OF_BLOCK = 32
_ROWS_OF_CODES = 8
_THREADS = 256

_FEWEST_SLABS_OF_BLOCK = 4  # as long as it takes to add to the results


def _product_defines(bits: bool, tied: bool, edge: int) -> _compile.Defines:
    chosen = shape(bits, tied, edge)
    return (
        ("BITS", str(int(bits))),
        ("TIED", str(int(tied))),
        ("TILE", str(edge)),
        ("WARP_ROWS", str(chosen.warp_rows)),
        ("WARP_COLUMNS", str(chosen.warp_columns)),
        ("STAGES", str(chosen.stages)),
        ("BLOCKS", str(chosen.blocks)),
    )


def _sign_defines(bits: bool, planes: int) -> _compile.Defines:
    return (("BITS", str(int(bits))), ("PLANES", str(planes)))


class _Rows(NamedTuple):
    """Rows of one argument in the order of the products: those without ties, then those with, then padding."""

    source: Any  # (padded,) int32: the argument's row, or -1
    place: Any  # (rows,) int32: its inverse
    untied: int  # rows of whole tiles that have no ties, or are padding

    @classmethod
    def of(cls, tied: Any, edge: int) -> _Rows:
        order = np.argsort(tied, kind="stable").astype(np.int32)
        source = np.full(-(-len(order) // edge) * edge, -1, np.int32)
        source[: len(order)] = order
        place = np.empty_like(order)
        place[order] = np.arange(len(order), dtype=np.int32)
        return cls(source, place, len(source) if not tied.any() else (len(order) - int(tied.sum())) // edge * edge)


def products(x: Any, y: Any | None, n: int, tied_x: Any, tied_y: Any) -> tuple[Any, Any]:
    """Count concordant and discordant pairs of samples for all pairs of rows: int64, both (p, q).

    Parameters
    ----------
    x : array, shape (p, at least n)
        Ranks of samples, uint32, below ``_sign_tiles.MOST_SAMPLES``, equal where samples are tied; C-contiguous. What
        comes after the first ``n`` of a row is not looked at.
    y : array, shape (q, as x), optional
        The other side of the pairs; without it, x.
    n : int
        Samples, at most as many.
    tied_x, tied_y : array of bool, shape (p,) and (q,)
        Which rows have ties, on the host: pairs of rows without are multiplied faster. ``tied_y`` is not looked at
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
    bits = in_bits(_device.capability())
    edge = _sign_tiles.edge(p, q, symmetric=y is None)
    of_x = _Rows.of(np.asarray(tied_x, bool), edge)
    of_y = of_x if y is None else _Rows.of(np.asarray(tied_y, bool), edge)
    once, twice = _tiles(of_x, of_y, edge, symmetric=y is None)

    sources = [of_x.source] if y is None else [of_x.source, np.where(of_y.source < 0, -1, p + of_y.source)]
    # Tiles first: they are read two numbers at a time.
    tiles_once, tiles_twice, source, place_x, place_y = _on_device(
        once, twice, np.concatenate(sources), of_x.place, of_y.place
    )
    rows, first_column, width = len(source), 0 if y is None else len(of_x.source), len(of_y.source)
    codes = _codes(x, y, source, n)
    results = cp.zeros((2 if len(twice) else 1, len(of_x.source), width), np.int64)
    magnitudes = results[1] if len(results) == 2 else None
    ascents = cp.zeros(rows, np.uint64) if bits and len(once) else None
    planes = 2 if bits and len(twice) else 1
    chunks, of_item = list(_sign_tiles.chunks(n, rows, bits)), item_slabs(bits)
    buffer = cp.empty((of_item * max(count for _, count in chunks), planes, rows, SLAB_BYTES), np.uint8)
    for first, count in chunks:
        signs = buffer[: of_item * count]
        _make_signs(codes, signs, ascents, n, first, bits)
        for tied, tiles in ((False, tiles_once), (True, tiles_twice)):
            if len(tiles):
                _multiply(signs, tiles, results[0], magnitudes if tied else None, first_column, bits, tied, edge)
    concordant, discordant = cp.empty((2, p, q), np.int64)
    _compile.kernel("finish_sign_products", "finish_sign_products", ())(
        (-(-p * q // _THREADS),),
        (_THREADS,),
        (
            results[0],
            or_null(magnitudes),
            or_null(ascents),
            place_x,
            place_y,
            concordant,
            discordant,
            np.int32(p),
            np.int32(q),
            width,
            np.int32(of_x.untied),
            np.int32(of_y.untied),
            np.int32(first_column),
            np.int32(y is None),
            n * (n - 1) // 2,
        ),
    )
    return concordant, discordant


def _tiles(of_x: _Rows, of_y: _Rows, edge: int, *, symmetric: bool) -> tuple[Any, Any]:
    """Tiles, (count, 2) int32, whose rows and columns have no ties; and the others."""
    row, column = np.indices((len(of_x.source) // edge, len(of_y.source) // edge), np.int32).reshape(2, -1)
    wanted = column >= row if symmetric else np.ones(row.shape, bool)
    once = (row * edge < of_x.untied) & (column * edge < of_y.untied)
    tiles = np.stack((row, column), axis=1)
    return tiles[wanted & once], tiles[wanted & ~once]


def _on_device(*tables: Any) -> list[Any]:
    """Bring tables of int32 to the device in one copy."""
    ends = np.cumsum([table.size for table in tables])
    together = cp.asarray(np.concatenate([table.ravel() for table in tables]).astype(np.int32))
    return [
        together[end - table.size : end].reshape(table.shape) for table, end in zip(tables, ends.tolist(), strict=True)
    ]


def _codes(x: Any, y: Any | None, source: Any, n: int) -> Any:
    rows, blocks = len(source), -(-n // ITEM)
    codes = cp.empty((blocks, rows, ITEM), np.uint16)
    _compile.kernel("sign_codes", "sign_codes", ())(
        (-(-rows // _ROWS_OF_CODES), blocks),
        (_THREADS,),
        (x, or_null(y), source, codes, np.int32(len(x)), np.int32(rows), np.int32(n), x.shape[1]),
    )
    return codes


def _make_signs(codes: Any, signs: Any, ascents: Any | None, n: int, first: int, bits: bool) -> None:
    slabs, planes, rows, _ = signs.shape
    _compile.kernel("signs", "signs", _sign_defines(bits, planes))(
        (-(-slabs // _SLABS_OF_BLOCK), rows // _ROWS_OF_BLOCK),
        (_THREADS,),
        (codes, signs, or_null(ascents), np.int32(rows), np.int32(n), np.int32(first), np.int32(slabs)),
    )


def _multiply(
    signs: Any, tiles: Any, sums: Any, magnitudes: Any | None, first_column: int, bits: bool, tied: bool, edge: int
) -> None:
    slabs, planes, rows, _ = signs.shape
    cut = shape(bits, tied, edge)
    blocks = min(cut.blocks * _device.multiprocessors(), -(-len(tiles) * slabs // _FEWEST_SLABS_OF_BLOCK))
    _compile.kernel("sign_products", "sign_products", _product_defines(bits, tied, edge), cut.shared_bytes)(
        (blocks,),
        (cut.threads,),
        (
            signs,
            tiles,
            sums,
            or_null(magnitudes),
            np.int32(len(tiles)),
            np.int32(rows),
            np.int32(slabs),
            np.int32(planes),
            np.int32(first_column),
            sums.shape[1],
        ),
    )


def specialisations() -> Iterator[tuple[str, str, _compile.Defines]]:
    """Stem, name and macros of every kernel of this module."""
    yield "sign_codes", "sign_codes", ()
    yield "finish_sign_products", "finish_sign_products", ()
    for bits, planes in ((True, 1), (True, 2), (False, 1)):
        yield "signs", "signs", _sign_defines(bits, planes)
    for bits in (True, False):
        for tied in (False, True):
            for edge in _sign_tiles.EDGES:
                yield "sign_products", "sign_products", _product_defines(bits, tied, edge)
