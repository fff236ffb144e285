"""Self-interaction (Y = X) of the data, or pairs of two blocks of them, in float16 terms: ``f16_symmetric.cu``."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import cupy as cp
import numpy as np

from cukde.core.gpu import compile as core_compile, device, scratch
from cukde.core.gpu.launch import C_TYPE, FLOAT, Specialisation, begin
from cukde.core.gpu.scratch import Spec, part
from cukde.density.pairs.gpu import operands as pairs_operands, tiles as pairs_tiles, values as pairs_values
from cukde.density.pairs.gpu.arguments import Arguments
from cukde.density.pairs.gpu.operands import Operand, depth_of, padded, scale_of
from cukde.density.pairs.gpu.share import WHOLE, Share
from cukde.density.pairs.gpu.values import Values
from cukde.density.plan import gpu as plan_gpu
from cukde.density.sums import Output, PartialSums

_STEM = "density/f16_symmetric"
_WARPS = 4
_FINISH_THREADS = 256

_TILE = 64  # columns


@dataclass(frozen=True)
class Layout:
    """What the kernel's registers and shared memory are spent on, as its macros say."""

    row_tiles: int  # of 16 rows, a warp
    blocks: int  # that a multiprocessor runs at a time, up to sm_90; later ones run two
    phi_is_shared: bool = True  # columns' sums come from phi in shared memory, and are not passed between warps
    overlap: bool = False  # work on the columns of a tile during the next tile, which takes phi of both
    most_tiles: int = field(default=plan_gpu.MOST_TILES, metadata={"in_table": False})  # that a block walks through

    @property
    def rows(self) -> int:
        """Rows that a block owns."""
        return 16 * self.row_tiles * _WARPS

    @property
    def block_overhead(self) -> float:
        """What a block costs beside its tiles, in tiles: rows to load, sums to add to memory, the last columns."""
        return plan_gpu.BLOCK_OVERHEAD[self.overlap]


@dataclass(frozen=True)
class Split:
    """How all pairs are cut into blocks."""

    chunk: int  # columns of a block
    grid: tuple[int, int]


def layout(depth: int, terms: int, columns: int = 0) -> Layout:
    """Layout, on the current device, for an operand of ``depth`` columns in one term, or in two with 3 products.

    ``columns`` are those of the values; 0 asks for the kernel of moments.
    """
    return _layout(depth, terms, columns, pairs_tiles.table())


def every_layout(depth: int, terms: int, columns: int = 0) -> tuple[Layout, ...]:
    """The layouts that some device takes."""
    return tuple(dict.fromkeys(_layout(depth, terms, columns, table) for table in pairs_tiles.tables()))


@functools.cache
def _layout(depth: int, terms: int, columns: int, table: pairs_tiles.Table) -> Layout:
    key = {"depth": depth, "terms": terms, "columns": columns}
    return table.tiles("f16_symmetric", functools.partial(laid_out, columns), key)[0]


def laid_out(columns: int, **tiles: Any) -> Layout:
    """The layout of a kernel of ``columns`` of values, 0 for moments, by what a table says of its tiles."""
    return Layout(**tiles, most_tiles=plan_gpu.MOST_TILES_OF_VALUES if columns else plan_gpu.MOST_TILES)


def operands() -> Iterator[tuple[int, int, int]]:
    """Depths and terms of operands, and columns of values or 0, that there are kernels for."""
    for depth in (16, 32, 48, 64):
        yield from ((depth, terms, 0) for terms in (1, 3))
        yield from (
            (depth, 3, columns) for columns in pairs_values.COLUMNS if columns <= plan_gpu.MOST_SYMMETRIC_VALUES
        )


def shared_bytes(depth: int, terms: int, columns: int, tiling: Layout) -> int:
    """Bytes of dynamic shared memory of a block: the kernel's ``Shared``, or 0 where that is static."""
    if not tiling.phi_is_shared and not columns:
        return 0
    pitch = 2 * depth + 16
    points = (2 if terms == 3 else 1) * pitch + 4  # a row, with its norm
    values = 4 * columns + 16 if columns else 0
    if tiling.phi_is_shared:
        row_of_phi = (2 if columns else 1) * 2 * _TILE + 16
        left = (2 if tiling.overlap else 1) * (tiling.rows * row_of_phi + _WARPS * _TILE * 4)
    else:
        left = _WARPS * 32 * 16 * (2 * columns // 16 + 1)
    return 2 * _TILE * (points + values) + left + tiling.rows * ((values or pitch) + 4) + 16


@functools.lru_cache(maxsize=1024)
def split(rows: int, tiling: Layout, multiprocessors: int, chunk: int | None = None) -> Split:
    """Cut the pairs of ``rows`` padded rows; ``chunk`` fixes the columns of a block, a multiple of 64."""
    row_blocks = -(-rows // tiling.rows)
    if chunk is None:
        chunk = _TILE * min(_chunk(row_blocks * (rows // _TILE + 1) / 2, tiling, multiprocessors), rows // _TILE)
    chunks = -(-rows // chunk)
    # The kernel pairs chunk c with chunk `chunks - 1 - c`, whose ends add up to at most rows + 2 chunk. What
    # blocks are too many return at once.
    width = row_blocks if chunks == 1 else (rows + 2 * chunk - 2) // tiling.rows + 2
    return Split(chunk, (width, (chunks + 1) // 2))


@functools.lru_cache(maxsize=1024)
def split_mutual(rows: int, columns: int, tiling: Layout, multiprocessors: int, chunk: int | None = None) -> Split:
    """Cut the pairs of a padded row with a padded column of another block of data; ``chunk`` as for :func:`split`."""
    row_blocks = -(-rows // tiling.rows)
    if chunk is None:
        tiles = columns // _TILE
        # As few chunks as the best length asks for, all of about one length: the last is no shorter one.
        chunk = _TILE * -(-tiles // -(-tiles // _chunk(row_blocks * tiles, tiling, multiprocessors)))
    return Split(chunk, (row_blocks, -(-columns // chunk)))


def _chunk(tiles: float, tiling: Layout, multiprocessors: int) -> int:
    """Tiles that a block should walk through, of so many in all blocks of rows together.

    Shorter chunks waste more on the overhead of blocks, longer ones more on the last blocks, which run alone
    (half a block on average); the sum of both is least where the chunk is the root of twice their product.
    """
    best = round(math.sqrt(2 * tiling.block_overhead * tiles / (multiprocessors * tiling.blocks)))
    return max(1, min(best, tiling.most_tiles))


def kernel_of_score(d: int, *, split: bool, exact_sums: bool) -> Specialisation:
    """What :func:`launch` launches, of points of ``d`` dimensions in two terms or in one."""
    depth, terms = depth_of(d), 3 if split else 1
    return _pass(depth, terms, 0, exact_sums, layout(depth, terms))


def _cases() -> Iterator[tuple[int, int, int, bool, Layout]]:
    for depth, terms, columns in operands():
        for tiling in every_layout(depth, terms, columns):
            yield from ((depth, terms, columns, exact, tiling) for exact in ((True,) if columns else (False, True)))


@core_compile.specialised(cases=_cases)
def _pass(depth: int, terms: int, columns: int, exact_sums: bool, tiling: Layout) -> Specialisation:
    name = f"{'kernel_sum' if columns else 'score'}_symmetric_{'f16x2' if terms == 3 else 'f16'}"
    dynamic = shared_bytes(depth, terms, columns, tiling)
    defines = core_compile.macros(
        KERNEL=name,
        DEPTH=depth,
        TERMS=terms,
        COLUMNS=columns,
        SUMS="EXACT" if exact_sums else "PRODUCT",
        ROW_TILES=tiling.row_tiles,
        BLOCKS=tiling.blocks,
        SHARE_PHI=tiling.phi_is_shared,
        OVERLAP=tiling.overlap,
        SHARED_BYTES=dynamic,
    )
    return Specialisation(_STEM, name, defines, "8P 5i f" if columns else "6P 5i f", dynamic)


@core_compile.specialised((16, 32, 48, 64), (1, 3))
def _finish(depth: int, terms: int) -> Specialisation:
    name = "finish_symmetric"
    defines = core_compile.macros(KERNEL=name, DEPTH=depth, TERMS=terms, COLUMNS=0, FINISH=True)
    return Specialisation(_STEM, name, defines, "7P q i 2d")


@core_compile.specialised(
    [columns for columns in pairs_values.COLUMNS if columns <= plan_gpu.MOST_SYMMETRIC_VALUES], C_TYPE
)
def _finish_values(columns: int, storage: np.dtype) -> Specialisation:
    name = "finish_symmetric_values"
    defines = core_compile.macros(KERNEL=name, COLUMNS=columns, STORAGE=C_TYPE[storage], FINISH=True)
    return Specialisation(_STEM, name, defines, "6P q i")


def spec_of_sums(n: int, d: int) -> Spec:
    """What the sums of ``n`` points of ``d`` dimensions take, for the launch that prepares the operand to zero."""
    return (padded(n) * (depth_of(d) + 1),), FLOAT


def launch(
    operand: Operand,
    values: Values | None = None,
    *,
    exact_sums: bool = True,
    squared_radius: Any | None = None,
    limit: float = math.inf,
    chunk: int | None = None,
    sums: Any | None = None,
    tiling: Layout | None = None,
    own_rows: int | None = None,
    share: Share = WHOLE,
) -> tuple[Any, Any]:
    """Sum over all pairs of different rows of an operand without weights, each pair's exponential taken once.

    Three float16 products make an exponent where the operand has two terms, one where it has one. Sums are added up by
    atomic operations: two runs differ in their last bits.

    Parameters
    ----------
    operand : Operand
        The data.
    values : Values, optional
        In place of the points, so few columns that they are one block. The operand has two terms.
    exact_sums : bool
        Sum phi itself in S, not its float16: the total is accurate to 3e-5, not to 2.4e-4, and takes longer. The
        mean shift, moments / total, is a little better without: S and T then sum the same numbers.
    squared_radius, limit : array, shape (1,), and float, optional
        Float32, the largest |z|^2; where it exceeds the limit the kernel does nothing.
    chunk : int, optional
        Columns of a block, a multiple of 64; by default :func:`split` or :func:`split_mutual` chooses.
    sums : array, shape (rows * (columns + 1),), optional
        Float32, zero: memory for the results.
    tiling : Layout, optional
        Of the kernel; by default that of the device's table.
    own_rows : int, optional
        Sum over pairs of one of the first so many rows, a multiple of 128, with one of the others: those of
        :func:`cukde.density.pairs.gpu.operands.prepare_two`.
    share : Share
        Of the blocks of threads: the sums of all shares add up to the whole.

    Returns
    -------
    S : array, shape (rows,)
        Float32, the sums of phi_ij over j != i, or over the j of the other block; rows are the operand's. Where points
        are summed, 2^13 times as much.
    T : array, shape (rows, columns)
        Float32, sums of phi_ij V_j over the same j, or 2^13 times those of phi_ij hi_j; columns in their own order.
    """
    rows, depth = operand.hi.shape
    terms, columns = _terms(operand), 0 if values is None else values.hi.shape[2]
    width = columns or depth
    if sums is None:
        sums = cp.zeros(rows * (width + 1), np.float32)
    S, T = part(sums, 0, (rows,)), part(sums, rows, (rows, width))
    tiling = tiling or layout(depth, terms, columns)
    if own_rows is None:
        own_rows = rows
        cut = split(rows, tiling, device.multiprocessors(), chunk)
    else:
        cut = split_mutual(own_rows, rows - own_rows, tiling, device.multiprocessors(), chunk)
    across, down = cut.grid
    _pass(depth, terms, columns, exact_sums, tiling).launch(
        (-(-across // share.of), down),
        (32 * _WARPS,),
        *(operand.hi, operand.lo, operand.norms, *(values or ()), squared_radius, S, T),
        *(rows, own_rows, cut.chunk, *share, limit),
    )
    return S, T


def finish(
    operand: Operand,
    S: Any,
    T: Any,
    n: int,
    d: int,
    h: float,
    *,
    self_interaction: bool = True,
) -> PartialSums:
    """Partial sums with output "moments" of what :func:`launch` took and returned, or of the rows of one block in each.

    Those blocks have ``n`` rows and ``d`` columns without padding. ``self_interaction`` adds the terms of points with
    themselves, exactly: they are among the data.
    """
    out = PartialSums(cp.empty(n), cp.empty(n), cp.empty((n, d)))
    depth = operand.hi.shape[1]
    grid = (-(-n * depth // _FINISH_THREADS),)
    arrays = operand.hi, operand.lo, S, T, *out
    kernel = _finish(depth, _terms(operand))
    kernel.launch(grid, (_FINISH_THREADS,), *arrays, n, d, 1 / scale_of(h), self_interaction)
    return out


def finish_values(V: Any, S: Any, T: Any) -> PartialSums:
    """Partial sums with output "values" of what :func:`launch` returned, with those of points with themselves."""
    n, k = V.shape
    out = PartialSums(cp.empty(n), cp.empty(n), cp.empty((n, k)))
    columns = T.shape[1]
    grid = (-(-n * columns // _FINISH_THREADS),)
    _finish_values(columns, V.dtype).launch(grid, (_FINISH_THREADS,), V, S, T, *out, n, k)
    return out


def _terms(operand: Operand) -> int:
    return 1 if operand.lo is None else 3


def take(of: Arguments, output: Output, values: Any | None = None, *, ratio: bool = False) -> PartialSums:
    """Take a pass of the data at themselves, each exponential once."""
    if output == "values":
        V = pairs_values.contiguous(values)
        return finish_values(V, *launch(operand_of(of, split=True), pairs_values.prepare(V)))
    operand, S, T, _ = score(of, exact_sums=not ratio)
    n, d = of.X.shape
    return finish(operand, S, T, n, d, of.h)


def operand_of(of: Arguments, *, split: bool | None = None, **memory: Any) -> Operand:
    """Operand of a pass of the data at themselves, by default of the score; ``memory`` is for it and for its sums."""
    split = of.form("moments").split if split is None else split
    return pairs_operands.prepare(of.X, None, of.options.centre, of.h, split=split, symmetric=True, **memory)[0]


def score(of: Arguments, *, exact_sums: bool, moved_at: int | None = None) -> tuple[Operand, Any, Any, list[Any]]:
    """Launch the mean shift of self-interaction (Y = X), each exponential taken once.

    Return what is to be finished, and of data to be moved with so many queries the memory for
    :func:`cukde.density.pairs.gpu.operands.prepare_moved`.
    """
    X, split = of.X, of.form("moments").split
    kernel = kernel_of_score(X.shape[1], split=split, exact_sums=exact_sums)
    begin(kernel, pairs_operands.kernel(X.dtype, depth_of(X.shape[1])))
    operands, (sums,), moved, _ = _layout_of_score(*X.shape, moved_at, split).allocate()
    operand = operand_of(of, split=split, sums=sums, memory=operands)
    return operand, *launch(operand, exact_sums=exact_sums, sums=sums), moved


@functools.lru_cache(maxsize=1024)
def _layout_of_score(n: int, d: int, m: int | None, split: bool) -> scratch.Layout:
    operands = pairs_operands.specs_of_both(n, None, d, split=split, symmetric=True)
    moved = [] if m is None else pairs_operands.specs_of_moved(n, m, d, split=split)
    return scratch.Layout([operands, [spec_of_sums(n, d)], moved])
