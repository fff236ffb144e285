"""Sums over all pairs that can matter, of any data of 2 to 64 dimensions: launchers of ``centred*.cu``.

Data lie in blocks of neighbours, each with a centre of its own, and queries are written anew about the centre of every
block that they meet: products on the tensor cores are good wherever block and query are near, however far the data
reach. Blocks that add nothing to a query are left out by a bound. Everything is decided on the device: launches follow
from the shapes alone, and nothing waits.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import cupy as cp
import numpy as np

from cukde.core.gpu import compile as core_compile, device
from cukde.core.gpu.launch import C_TYPE, FLOAT, Specialisation, begin
from cukde.core.gpu.scratch import Layout, Spec
from cukde.density.options import Options
from cukde.density.pairs.gpu import centred_f64, centred_finish, centred_order, finish as pairs_finish
from cukde.density.pairs.gpu.arguments import Arguments
from cukde.density.pairs.gpu.centred_finish import SpanSums
from cukde.density.pairs.gpu.operands import scale_of
from cukde.density.pairs.gpu.specialisation import OPERATION
from cukde.density.sums import Epilogue, Output, PartialSums, moment_columns

_BLOCK_ROWS, _TILE_ROWS = 128, 32
_MOST_SPAN = 2048  # blocks, whose list a thread block keeps
_LEAST_SPAN = 8  # blocks

# Error of an exponent that is allowed in any case, in bits; beyond, 3.2 eps times the reference, 5.5 far out.
_BUDGET = {"float32": 4e-5, "tf32": 1.4e-3}

# What may be left out of a sum at most where all pairs are asked for: less than float32 holds.
_ALL_PAIRS = 2.0**-25

_SHIFT = {"moments": 2.0}  # bits that powers in float16 are scaled up by

# Of the factors of terms, distances or squared ones, where a pair is left out.
_FACTOR_BITS = 7.0

_POINTS = "density/centred_points"  # source of two kernels

_MOST_STAGE = 4  # blocks of data in shared memory at a time, while as many come


@functools.cache
def _stage(output: Output, steps: int, power_terms: int, shared_bytes: int) -> int:
    """Blocks of data that a thread block keeps at a time, by the shared memory of the device."""
    kernels = [_sums_kernel(output, steps, power_terms, _MOST_SPAN, 1 + more) for more in range(_MOST_STAGE)]
    warps, at_a_time = _warps(output, steps, power_terms)  # and thread blocks, where there is room for as many
    # What the kernels declare beside, with a little for the driver.
    static = warps * (11 * 4 * _TILE_ROWS + 4 * centred_order.TILE_LINES + 64 * steps) + 1280
    needed = [kernel.shared_bytes + static for kernel in kernels]
    return max(1, sum(at_a_time * of_block <= shared_bytes for of_block in needed))


def sums(
    X: Any,
    Y: Any | None,
    h: float,
    output: Output,
    options: Options,
    *,
    ratio: bool = False,
) -> PartialSums:
    """Sum over the data for each query, on the current device and stream; the same bits on every run.

    Parameters
    ----------
    X, Y : array, shape (n, d) and (m, d)
        Of one dtype, float32 or float64, C-contiguous, neither empty; ``Y`` None are the data themselves.
    ratio : bool
        Only moments / total is wanted: powers then have one term in float16.
    """
    m = len(X if Y is None else Y)
    out = pairs_finish.empty(m, moment_columns(output, X.shape[1], None))
    _run(X, Y, h, output, options, ratio=ratio).finish(out, None)
    return out


def density(
    X: Any, Y: Any | None, h: float, form: pairs_finish.DensityForm, options: Options, epilogue: Epilogue
) -> Any:
    """Return densities at the queries, (m,), or their logarithms."""
    out = cp.empty(len(X if Y is None else Y), epilogue.dtype)
    wanted = pairs_finish.wanted(form, log=epilogue.log)
    sums = _run(X, Y, h, pairs_finish.OUTPUT_OF[form], options, ends_in=out.dtype)
    sums.finish(None, (out, epilogue.log_constant, wanted))
    return out


class _Shape(NamedTuple):
    """What the launches of a pass follow from."""

    n: int
    m: int
    d: int
    output: Output
    power_terms: int  # of float16, in moments
    itself: bool
    multiprocessors: int
    shared_bytes: int  # that a thread block may have

    @property
    def steps(self) -> int:
        """Steps of 16 dimensions."""
        return -(-self.d // 16)

    @property
    def blocks(self) -> int:
        """Blocks of data."""
        return -(-self.n // _BLOCK_ROWS)

    @property
    def tiles(self) -> int:
        """Tiles of queries."""
        return -(-self.m // _TILE_ROWS)

    @property
    def warps(self) -> int:
        """Warps of a thread block that sums, each with a tile."""
        return _warps(self.output, self.steps, self.power_terms)[0]

    @property
    def groups(self) -> int:
        """Thread blocks beside each other."""
        return -(-self.tiles // self.warps)

    @property
    def rows(self) -> int:
        """Rows of sums."""
        return self.groups * self.warps * _TILE_ROWS

    @property
    def span(self) -> int:
        """Blocks of a span."""
        at_a_time = self.multiprocessors * _warps(self.output, self.steps, self.power_terms)[1]
        return min(_MOST_SPAN, centred_finish.blocks_of_span(self.blocks, self.groups, at_a_time, _LEAST_SPAN))

    @property
    def stage(self) -> int:
        """Blocks of data in shared memory at a time."""
        return _stage(self.output, self.steps, self.power_terms, self.shared_bytes)

    @property
    def spans(self) -> int:
        """Spans of blocks."""
        return -(-self.blocks // self.span)


@functools.lru_cache(maxsize=1024)
def _layout(shape: _Shape) -> Layout:
    """Memory of a pass: frame, points and blocks of data, of queries, sums."""
    n, m, d, moments = shape.n, shape.m, shape.d, shape.output == "moments"
    data: list[Spec | None] = [
        ((n, d, 2), FLOAT),
        ((shape.blocks, _block_bytes(shape.steps, moments)), np.dtype(np.uint8)),
        ((centred_order.BOX_LINES, shape.blocks), FLOAT),
    ]
    queries: list[Spec | None] = [
        None if shape.itself else ((m, d, 2), FLOAT),
        ((centred_order.TILE_LINES, shape.tiles), FLOAT),
        ((shape.tiles, 16 * shape.steps), FLOAT),
        ((shape.tiles * _TILE_ROWS,), FLOAT),
    ]
    of_sums = (shape.spans, shape.rows), FLOAT
    third = {"moments": ((*of_sums[0], 16 * shape.steps), FLOAT), "laplace": of_sums}.get(shape.output)
    return Layout([centred_order.frame_specs(d), data, queries, [of_sums, of_sums, third]])


def begin_kernels(X: Any, Y: Any | None, output: Output, options: Options, *, ratio: bool) -> None:
    """Begin to compile what a pass would launch that others may be chosen over."""
    if options.precision == "float64":
        (n, d), m = X.shape, len(X if Y is None else Y)
        begin(*centred_f64.kernels(n, m, d, output, itself=Y is None), likely=True)
    else:
        begin(*_kernels(_shape_of(X, Y, output, options, ratio=ratio), X.dtype), likely=True)


def _shape_of(X: Any, Y: Any | None, output: Output, options: Options, *, ratio: bool) -> _Shape:
    power_terms = 2 if output == "moments" and not ratio and options.precision != "tf32" else 1
    (n, d), m = X.shape, len(X if Y is None else Y)
    of_device = device.multiprocessors(), device.shared_bytes_of_block()
    return _Shape(n, m, d, output, power_terms, Y is None, *of_device)


def _kernels(shape: _Shape, storage: np.dtype) -> Iterator[Specialisation]:
    """What a pass launches before its sums are merged."""
    yield _sums_kernel(shape.output, shape.steps, shape.power_terms, shape.span, shape.stage)
    yield _data_kernel(storage, shape.d)
    yield from centred_order.kernels(storage, shape.n, shape.m, shape.d, itself=shape.itself)


def _run(
    X: Any,
    Y: Any | None,
    h: float,
    output: Output,
    options: Options,
    *,
    ratio: bool = False,
    ends_in: np.dtype | None = None,
) -> SpanSums:
    """Sum, for what ends in densities of a dtype, or in sums."""
    if options.precision == "float64":
        return centred_f64.run(X, Y, h, output, options, ends_in=ends_in)
    (n, d), m, shape = X.shape, len(X if Y is None else Y), _shape_of(X, Y, output, options, ratio=ratio)
    steps, power_terms, moments = shape.steps, shape.power_terms, output == "moments"
    scale, storage = scale_of(h), X.dtype
    begin(*_kernels(shape, storage), centred_finish.kernel(output, FLOAT, ends_in))
    frame, data, queries, of_sums, _ = _layout(shape).allocate()
    ordered = Y is not None and not options.own_out  # or queries are in the order of the data, each beside its own row
    order = centred_order.order(X, Y if ordered else None, frame, scale)
    of_queries, first = (order[n:], n) if ordered else (order, 0)

    Z, blocks, boxes = data
    sizes = n, d, steps, moments, scale
    arrays = X, order, options.log_weights, *frame, *data
    _data_kernel(storage, d).launch((shape.blocks,), (_BLOCK_ROWS,), *arrays, *sizes)
    placed, tiles, centres, references = queries
    _queries_kernel(storage, d).launch(
        (shape.tiles,),
        (4 * _TILE_ROWS,),
        *(Y, of_queries, *frame, Z, blocks, boxes, *queries),
        *(m, n, first, shape.blocks, d, steps, moments, options.own_out, scale),
    )
    # Half of what may be left out for whole blocks, half for pairs.
    tolerance = 0.5 * max(options.tolerance, _ALL_PAIRS)
    of_pair = math.log2(tolerance / n) - (0 if output == "sum" else _FACTOR_BITS)
    _sums_kernel(output, steps, power_terms, shape.span, shape.stage).launch(
        (shape.groups, shape.spans),
        (32 * shape.warps,),
        *(Z if placed is None else placed, Z, blocks, boxes, tiles, centres, references, *of_sums),
        *(m, n, shape.blocks, shape.span, shape.stage, d, options.own_out),
        *(math.log2(tolerance / shape.blocks), of_pair, _BUDGET[options.precision]),
    )
    R, S, T = of_sums
    width, shift = 16 * steps if moments else 1, _SHIFT.get(output, 0.0)
    return SpanSums(output, R, S, T, FLOAT, shape.spans, shape.rows, width, of_queries, first, m, d, shift, h)


def _warps(output: Output, steps: int, power_terms: int) -> tuple[int, int]:
    """Warps of a thread block that sums, and how many such a multiprocessor runs: by the registers of a thread."""
    if output == "moments":
        return (4, 3) if steps == 1 else (4, 2) if steps == 2 else (8, 1)
    return (4, 4) if steps == 1 else (4, 3) if steps <= 3 else (4, 2)


def _block_bytes(steps: int, moments: bool) -> int:
    """Bytes of a block of data (``centred.cuh``)."""
    return (2 if moments else 1) * 8192 * steps + 2 * 4 * _BLOCK_ROWS + 64 * steps + 16


def take(of: Arguments, output: Output, values: None, *, ratio: bool) -> PartialSums:
    """Take a pass."""
    return sums(of.X, of.Y, of.h, output, of.options, ratio=ratio)


def take_density(of: Arguments, form: pairs_finish.DensityForm, points: Any, epilogue: Epilogue) -> Any:
    """Take a pass that ends in densities."""
    return density(of.X, of.Y, of.h, form, of.options, epilogue)


@core_compile.listed
def specialisations() -> Iterator[Specialisation]:
    """Every kernel of this module."""
    for storage in C_TYPE:
        yield _queries_kernel(storage, centred_order.MOST_DIMENSIONS)
        yield _data_kernel(storage, centred_order.MOST_DIMENSIONS)
    for steps in range(1, centred_order.MOST_DIMENSIONS // 16 + 1):
        yield from (_sums_kernel(output, steps, 1, _MOST_SPAN, 1) for output in ("sum", "laplace"))
        yield from (_sums_kernel("moments", steps, terms, _MOST_SPAN, 1) for terms in (1, 2))


@functools.cache
def _data_kernel(storage: np.dtype, d: int) -> Specialisation:
    defines = core_compile.macros(STORAGE=C_TYPE[storage])
    shared = 4 * d * (_BLOCK_ROWS + 1)
    return Specialisation(_POINTS, "centred_data", defines, "9P q 3i d", shared)


@functools.cache
def _queries_kernel(storage: np.dtype, d: int) -> Specialisation:
    defines = core_compile.macros(STORAGE=C_TYPE[storage])
    shared = 4 * _TILE_ROWS * (d | 1)
    return Specialisation(_POINTS, "centred_queries", defines, "12P 3q 5i d", shared)


@functools.lru_cache(maxsize=1024)
def _sums_kernel(output: Output, steps: int, power_terms: int, span: int, stage: int) -> Specialisation:
    moments = output == "moments"
    warps, blocks = _warps(output, steps, power_terms)
    name = f"{OPERATION[output]}_centred_f16x2"
    defines = core_compile.macros(
        KERNEL=name,
        OUTPUT=output.upper(),
        STEPS=steps,
        POWER_TERMS=power_terms,
        WARPS=warps,
        MULTIPROCESSOR_BLOCKS=blocks,
    )
    points = 4 * _TILE_ROWS * warps * (16 * steps + 8)
    shared = 2 * stage * _block_bytes(steps, moments) + points + 4 * span
    return Specialisation("density/centred_sums", name, defines, "10P 7i 3f", shared)
