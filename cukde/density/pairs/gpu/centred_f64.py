"""The centred pass in float64: launchers of ``centred*_f64.cu``.

A product in float16 tells which pairs can matter, and products in double about the centre of a block of neighbours make
these; what is too far out for them is summed by differences. Launches follow from the shapes alone, and nothing waits.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from cukde.core.gpu import compile as core_compile, device
from cukde.core.gpu.launch import C_TYPE, DOUBLE, FLOAT, Specialisation, at_least, begin
from cukde.core.gpu.scratch import Layout, Spec
from cukde.density.options import Options
from cukde.density.pairs.gpu import centred_finish, centred_order, finish as pairs_finish
from cukde.density.pairs.gpu.centred_finish import SpanSums
from cukde.density.pairs.gpu.operands import scale_of
from cukde.density.pairs.gpu.specialisation import OPERATION
from cukde.density.sums import Output

DEPTHS = (8, 16, 32, 48, 64)  # columns of the operands

_POINTS = "density/centred_points"  # source of two kernels

_BLOCK_ROWS, _TILE_ROWS, _WARP_ROWS = 64, 32, 16
_LISTED = 480  # blocks, whose list a thread block keeps at a time
_LEAST_SPAN = 16  # blocks
_SCREENS, _EXACTS = 3, 2  # parts of blocks in shared memory

# Warps of a thread block that sums, and how many such a multiprocessor runs: by the registers of a thread.
_WARPS = {8: (8, 2), 16: (8, 2), 32: (12, 1), 48: (8, 1), 64: (8, 1)}

# What may be left out of a sum at most where all pairs are asked for: less than float64 holds.
_ALL_PAIRS = 2.0**-54

# Of the factors of terms, distances or squared ones, where a pair is left out.
_FACTOR_BITS: dict[Output, float] = {"sum": 0.0, "moments": 4.0, "laplace": 7.0}


class _Shape(NamedTuple):
    """What the launches of a pass follow from."""

    n: int
    m: int
    d: int
    output: Output
    itself: bool
    multiprocessors: int

    @property
    def depth(self) -> int:
        """Columns of the operands."""
        return at_least(self.d, DEPTHS)

    @property
    def steps(self) -> int:
        """Steps of 16 dimensions of a screen."""
        return -(-self.depth // 16)

    @property
    def blocks(self) -> int:
        """Blocks of data."""
        return -(-self.n // _BLOCK_ROWS)

    @property
    def tiles(self) -> int:
        """Tiles of queries, each of two warps."""
        return -(-self.m // _TILE_ROWS)

    @property
    def warps(self) -> int:
        """Warps of a thread block that sums."""
        return _WARPS[self.depth][0]

    @property
    def groups(self) -> int:
        """Thread blocks beside each other."""
        return -(-self.m // (_WARP_ROWS * self.warps))

    @property
    def rows(self) -> int:
        """Rows of sums."""
        return self.groups * self.warps * _WARP_ROWS

    @property
    def span(self) -> int:
        """Blocks of a span."""
        at_a_time = self.multiprocessors * _WARPS[self.depth][1]
        return centred_finish.blocks_of_span(self.blocks, self.groups, at_a_time, _LEAST_SPAN)

    @property
    def spans(self) -> int:
        """Spans of blocks."""
        return -(-self.blocks // self.span)


@functools.lru_cache(maxsize=1024)
def _layout(shape: _Shape) -> Layout:
    """Memory of a pass: frame, points and blocks of data, of queries, sums."""
    n, m, d, tiles = shape.n, shape.m, shape.d, shape.tiles
    data: list[Spec | None] = [
        ((n, d), DOUBLE),
        ((shape.blocks, _screen_bytes(shape.depth) + _exact_bytes(shape.depth)), np.dtype(np.uint8)),
        ((centred_order.BOX_LINES, shape.blocks), FLOAT),
    ]
    queries: list[Spec | None] = [
        None if shape.itself else ((m, d), DOUBLE),
        ((centred_order.TILE_LINES, tiles), FLOAT),
        ((tiles * _TILE_ROWS, 16 * shape.steps), FLOAT),
        ((tiles * _TILE_ROWS,), DOUBLE),
    ]
    of_sums = (shape.spans, shape.rows), DOUBLE
    third = {"moments": ((*of_sums[0], shape.depth), DOUBLE), "laplace": of_sums}.get(shape.output)
    return Layout([centred_order.frame_specs(d), data, queries, [of_sums, of_sums, third]])


def kernels(n: int, m: int, d: int, output: Output, *, itself: bool) -> Iterator[Specialisation]:
    """What a pass launches before its sums are merged."""
    depth = at_least(d, DEPTHS)
    yield from (_sums_kernel(output, depth), _data_kernel(depth, d), _queries_kernel(depth, d))
    yield from centred_order.kernels(DOUBLE, n, m, d, itself=itself)


def run(X: Any, Y: Any | None, h: float, output: Output, options: Options, *, ends_in: np.dtype | None) -> SpanSums:
    """Sum over spans of the data, for what ends in densities of a dtype, or in sums."""
    X, Y = (None if a is None else pairs_finish.contiguous(a, DOUBLE) for a in (X, Y))
    (n, d), m = X.shape, len(X if Y is None else Y)
    begin(*kernels(n, m, d, output, itself=Y is None), centred_finish.kernel(output, DOUBLE, ends_in))
    shape = _Shape(n, m, d, output, Y is None, device.multiprocessors())
    depth, scale = shape.depth, scale_of(h)
    frame, data, queries, of_sums, _ = _layout(shape).allocate()
    ordered = Y is not None and not options.own_out  # or queries are in the order of the data, each beside its own row
    order = centred_order.order(X, Y if ordered else None, frame, scale)
    of_queries, first = (order[n:], n) if ordered else (order, 0)

    points, blocks, boxes = data
    arrays = X, order, options.log_weights, *frame, *data
    _data_kernel(depth, d).launch((shape.blocks,), (_BLOCK_ROWS,), *arrays, n, d, scale)
    placed, tiles, coordinates, references = queries
    _queries_kernel(depth, d).launch(
        (shape.tiles,),
        (4 * _TILE_ROWS,),
        *(Y, of_queries, *frame, points, blocks, boxes, *queries),
        *(m, n, first, shape.blocks, d, shape.steps, False, options.own_out, scale),
    )
    # Half of what may be left out for whole blocks, half for pairs.
    tolerance = 0.5 * max(options.tolerance, _ALL_PAIRS)
    of_pair = math.log2(tolerance / n) - _FACTOR_BITS[output]
    _sums_kernel(output, depth).launch(
        (shape.groups, shape.spans),
        (32 * shape.warps,),
        *(points if placed is None else placed, points, blocks, boxes, tiles, coordinates, references, *of_sums),
        *(m, n, shape.blocks, shape.span, d, options.own_out),
        *(math.log2(tolerance / shape.blocks), of_pair, scale),
    )
    R, S, T = of_sums
    width = depth if output == "moments" else 1
    return SpanSums(output, R, S, T, DOUBLE, shape.spans, shape.rows, width, of_queries, first, m, d, 0.0, h)


def _screen_bytes(depth: int) -> int:
    """Bytes of what a block is screened by (``centred_f64.cuh``)."""
    columns = -(-depth // 16) * 16
    return 2 * _BLOCK_ROWS * columns + 4 * _BLOCK_ROWS + 4 * columns + 16


def _exact_bytes(depth: int) -> int:
    """Bytes of the operands of a block in double."""
    return 8 * _BLOCK_ROWS * (depth + 6) + 8 * depth + 16


@core_compile.listed
def specialisations() -> Iterator[Specialisation]:
    """Every kernel of this module."""
    outputs: tuple[Output, ...] = "sum", "moments", "laplace"
    for depth in DEPTHS:
        yield _data_kernel(depth, depth)
        yield _queries_kernel(depth, depth)
        yield from (_sums_kernel(output, depth) for output in outputs)


@functools.cache
def _data_kernel(depth: int, d: int) -> Specialisation:
    defines = core_compile.macros(F64=True, DEPTH=depth, STORAGE=C_TYPE[DOUBLE])
    shared = 8 * d * (_BLOCK_ROWS + 1)
    return Specialisation(_POINTS, "centred_f64_data", defines, "9P q i d", shared)


@functools.cache
def _queries_kernel(depth: int, d: int) -> Specialisation:
    defines = core_compile.macros(F64=True, DEPTH=depth, STORAGE=C_TYPE[DOUBLE])
    shared = 4 * _TILE_ROWS * (d | 1)
    return Specialisation(_POINTS, "centred_queries", defines, "12P 3q 5i d", shared)


@functools.cache
def _sums_kernel(output: Output, depth: int) -> Specialisation:
    warps, blocks = _WARPS[depth]
    name = f"{OPERATION[output]}_f64_centred"
    defines = core_compile.macros(
        F64=True,
        KERNEL=name,
        OUTPUT=output.upper(),
        DEPTH=depth,
        WARPS=warps,
        MULTIPROCESSOR_BLOCKS=blocks,
    )
    shared = _SCREENS * _screen_bytes(depth) + _EXACTS * _exact_bytes(depth) + 4 * _LISTED
    return Specialisation("density/centred_sums_f64", name, defines, "10P 6i 2f d", shared)
