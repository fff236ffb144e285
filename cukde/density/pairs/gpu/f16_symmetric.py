"""Self-interaction (Y = X) of the data, or pairs of two blocks of them, in float16 terms: ``f16_symmetric.cu``."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

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
from cukde.density.sums import Output, PartialSums

_STEM = "density/f16_symmetric"
_WARPS = 4
_FINISH_THREADS = 256

# Columns of a tile, and the most tiles that a block adds up before its sums leave the accumulators of the tensor cores,
# which truncate: 8,192 columns, but 2,048 for values, whose four products in two terms each then lose 8e-6.
_TILE = 64
_MOST_TILES = 128
_MOST_TILES_OF_VALUES = 32


@dataclass(frozen=True)
class Layout:
    """What the kernel's registers and shared memory are spent on, as its macros say."""

    row_tiles: int  # of 16 rows, a warp
    blocks: int  # that a multiprocessor runs at a time, up to sm_90; later ones run two
    phi_is_shared: bool = True  # columns' sums come from phi in shared memory, and are not passed between warps
    overlap: bool = False  # work on the columns of a tile during the next tile, which takes phi of both
    most_tiles: int = field(default=_MOST_TILES, metadata={"in_table": False})  # that a block walks through

    @property
    def rows(self) -> int:
        """Rows that a block owns."""
        return 16 * self.row_tiles * _WARPS

    @property
    def block_overhead(self) -> float:
        """What a block costs beside its tiles, in tiles: rows to load, sums to add to memory, the last columns."""
        return 2.0 if self.overlap else 0.7


# Values that the pass serves. Of more the sums of a row leave registers for so few rows that the ordered engine is as
# fast: 7.6 ms against 7.2 to 7.5 for 64 values of 65,536 points of 16 dimensions, on an H200.
MOST_VALUES = 32


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
    return Layout(**tiles, most_tiles=_MOST_TILES_OF_VALUES if columns else _MOST_TILES)


def operands() -> Iterator[tuple[int, int, int]]:
    """Depths and terms of operands, and columns of values or 0, that there are kernels for."""
    for depth in (16, 32, 48, 64):
        yield from ((depth, terms, 0) for terms in (1, 3))
        yield from ((depth, 3, columns) for columns in pairs_values.COLUMNS if columns <= MOST_VALUES)


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


@core_compile.listed
def specialisations() -> Iterator[Specialisation]:
    """Every kernel of this module."""
    for depth, terms, columns in operands():
        sums = (True,) if columns else (False, True)
        for exact_sums, tiling in itertools.product(sums, every_layout(depth, terms, columns)):
            yield _pass(depth, terms, columns, exact_sums, tiling)
        if columns:
            yield from (_finish_values(columns, storage) for storage in C_TYPE)
        else:
            yield _finish(depth, terms)


def kernel_of_score(d: int, *, split: bool, exact_sums: bool) -> Specialisation:
    """What :func:`launch` launches, of points of ``d`` dimensions in two terms or in one."""
    depth, terms = depth_of(d), 3 if split else 1
    return _pass(depth, terms, 0, exact_sums, layout(depth, terms))


@functools.cache
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


@functools.cache
def _finish(depth: int, terms: int) -> Specialisation:
    name = "finish_symmetric"
    defines = core_compile.macros(KERNEL=name, DEPTH=depth, TERMS=terms, COLUMNS=0, FINISH=True)
    return Specialisation(_STEM, name, defines, "7P q i 2d")


@functools.cache
def _finish_values(columns: int, storage: np.dtype) -> Specialisation:
    name = "finish_symmetric_values"
    defines = core_compile.macros(KERNEL=name, COLUMNS=columns, STORAGE=C_TYPE[storage], FINISH=True)
    return Specialisation(_STEM, name, defines, "6P q i")


def spec_of_sums(n: int, d: int) -> Spec:
    """What the sums of ``n`` points of ``d`` dimensions take, for the launch that prepares the operand to zero."""
    return (padded(n) * (depth_of(d) + 1),), FLOAT


def launch(
    operand: Operand,
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

    Three float16 products make an exponent where the operand has two terms, one where it has one.

    Parameters
    ----------
    operand : Operand
        The data.
    exact_sums : bool
        Sum phi itself in S, not its float16: the total is accurate to 3e-5, not to 2.4e-4, and takes longer. The
        mean shift, moments / total, is a little better without: S and T then sum the same numbers.
    squared_radius : array, shape (1,), optional
        Float32, the largest |z|^2; where it exceeds ``limit`` the kernel does nothing.
    limit : float
        See ``squared_radius``.
    chunk : int, optional
        Columns of a block, a multiple of 64; by default :func:`split` or :func:`split_mutual` chooses.
    sums : array, shape (rows * (depth + 1),), optional
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
        Float32, 2^13 times the sums of phi_ij over j != i, or over the j of the other block; rows are the operand's.
    T : array, shape (rows, depth)
        Float32, 2^13 times the sums of phi_ij hi_j over the same j, dimensions in their own order.

    Notes
    -----
    Sums are added up by atomic operations: two runs differ in their last bits.
    """
    rows, depth = operand.hi.shape
    if sums is None:
        sums = cp.zeros(rows * (depth + 1), np.float32)
    S, T = part(sums, 0, (rows,)), part(sums, rows, (rows, depth))
    _launch(
        operand,
        (),
        S,
        T,
        exact_sums=exact_sums,
        squared_radius=squared_radius,
        limit=limit,
        chunk=chunk,
        tiling=tiling,
        own_rows=own_rows,
        share=share,
    )
    return S, T


def launch_values(
    operand: Operand,
    values: Values,
    *,
    chunk: int | None = None,
    tiling: Layout | None = None,
) -> tuple[Any, Any]:
    """The same with values of the data in place of their points; the operand has two terms.

    Parameters
    ----------
    values : Values
        Of at most ``MOST_VALUES`` columns, so that they are one block.
    operand, chunk, tiling
        As for :func:`launch`.

    Returns
    -------
    S : array, shape (rows,)
        Float32, sums of phi_ij over j != i.
    T : array, shape (rows, columns)
        Float32, sums of phi_ij V_j over j != i, columns in their own order.
    """
    _, rows, columns = values.hi.shape
    sums = cp.zeros(rows * (columns + 1), np.float32)
    S, T = sums[:rows], sums[rows:].reshape(rows, columns)
    _launch(operand, values, S, T, chunk=chunk, tiling=tiling)
    return S, T


def _launch(
    operand: Operand,
    values: Values | tuple[()],
    S: Any,
    T: Any,
    *,
    chunk: int | None,
    tiling: Layout | None,
    squared_radius: Any | None = None,
    limit: float = math.inf,
    exact_sums: bool = True,
    own_rows: int | None = None,
    share: Share = WHOLE,
) -> None:
    """Launch the pass for moments, or for values in their two terms."""
    rows, depth = operand.hi.shape
    terms, columns = _terms(operand), T.shape[1] if values else 0
    tiling = tiling or layout(depth, terms, columns)
    if own_rows is None:
        own_rows = rows
        cut = split(rows, tiling, device.multiprocessors(), chunk)
    else:
        cut = split_mutual(own_rows, rows - own_rows, tiling, device.multiprocessors(), chunk)
    arrays = operand.hi, operand.lo, operand.norms, *values, squared_radius, S, T
    kernel = _pass(depth, terms, columns, exact_sums, tiling)
    width, height = cut.grid
    grid = (-(-width // share.of), height)
    kernel.launch(grid, (32 * _WARPS,), *arrays, rows, own_rows, cut.chunk, *share, limit)


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
    """Partial sums with output "moments" from what :func:`launch` returned; the self-interaction (Y = X) is exact.

    Parameters
    ----------
    operand, S, T
        What was launched, and its result; or the rows of one block in each.
    n, d : int
        Rows and columns of those points, without padding.
    h : float
        Bandwidth, in the units of the data.
    self_interaction : bool
        Add the self-interaction (Y = X), the terms of points with themselves: they are among the data.
    """
    out = PartialSums(cp.empty(n), cp.empty(n), cp.empty((n, d)))
    depth = operand.hi.shape[1]
    grid = (-(-n * depth // _FINISH_THREADS),)
    arrays = operand.hi, operand.lo, S, T, *out
    kernel = _finish(depth, _terms(operand))
    kernel.launch(grid, (_FINISH_THREADS,), *arrays, n, d, 1 / scale_of(h), self_interaction)
    return out


def finish_values(V: Any, S: Any, T: Any) -> PartialSums:
    """Partial sums with output "values" from what :func:`launch_values` returned; the self-interaction is exact.

    Parameters
    ----------
    V : array, shape (n, k)
        The values, float32 or float64, C-contiguous.
    S, T
        The result for them.
    """
    n, k = V.shape
    out = PartialSums(cp.empty(n), cp.empty(n), cp.empty((n, k)))
    columns = T.shape[1]
    grid = (-(-n * columns // _FINISH_THREADS),)
    _finish_values(columns, V.dtype).launch(grid, (_FINISH_THREADS,), V, S, T, *out, n, k)
    return out


def _terms(operand: Operand) -> int:
    return 1 if operand.lo is None else 3


def take(of: Arguments, output: Output, values: Any | None, *, ratio: bool) -> PartialSums:
    """Take a pass of the data at themselves, each exponential once."""
    if output == "values":
        return _values(of, values)
    memory = MemoryOfScore.allocate(of.X.shape, None, of.form(output).split)
    return finish(*score(of, memory, exact_sums=not ratio), len(of.X), of.X.shape[1], of.h)


class MemoryOfScore(NamedTuple):
    """Memory of the mean shift of self-interaction (Y = X), and of moving the data along it, in one chunk."""

    operands: list[Any]
    sums: Any
    moved: list[Any]

    @classmethod
    def allocate(cls, shape: tuple[int, int], m: int | None, split: bool) -> MemoryOfScore:
        """Allocate it for data of a shape, and ``m`` queries if they are going to be moved."""
        operands, (sums,), moved, _ = _layout_of_score(*shape, m, split).allocate()
        return cls(operands, sums, moved)


@functools.lru_cache(maxsize=1024)
def _layout_of_score(n: int, d: int, m: int | None, split: bool) -> scratch.Layout:
    operands = pairs_operands.specs_of_both(
        n, None, d, split=split, symmetric=True, weighted=False, weights_apart=False
    )
    moved = [] if m is None else pairs_operands.specs_of_moved(n, m, d, split=split)
    return scratch.Layout([operands, [spec_of_sums(n, d)], moved])


def score(arguments: Arguments, memory: MemoryOfScore, *, exact_sums: bool) -> tuple[Operand, Any, Any]:
    """Launch the mean shift of self-interaction (Y = X), each exponential taken once; return what is to be finished."""
    X, split = arguments.X, arguments.form("moments").split
    kernel = kernel_of_score(X.shape[1], split=split, exact_sums=exact_sums)
    begin(kernel, pairs_operands.kernel(X.dtype, pairs_operands.depth_of(X.shape[1])))
    operand, _ = pairs_operands.prepare(
        X,
        None,
        arguments.options.centre,
        arguments.h,
        split=split,
        symmetric=True,
        sums=memory.sums,
        memory=memory.operands,
    )
    return operand, *launch(operand, exact_sums=exact_sums, sums=memory.sums)


def _values(arguments: Arguments, values: Any) -> PartialSums:
    """Sums of values of self-interaction (Y = X), each exponential taken once."""
    V = pairs_values.contiguous(values)
    operand, _ = pairs_operands.prepare(
        arguments.X, None, arguments.options.centre, arguments.h, split=True, symmetric=True
    )
    S, T = launch_values(operand, pairs_values.prepare(V))
    return finish_values(V, S, T)
