"""One pass over the pairs that can matter: bounds, items for the warps, and sums in the order of the queries."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import cupy as cp
import numpy as np

from cukde.core.gpu import compile as core_compile, device
from cukde.core.gpu.launch import C_TYPE, DOUBLE, FLOAT, Specialisation
from cukde.density.options import Options
from cukde.density.pairs.gpu import difference, finish as pairs_finish
from cukde.density.pairs.gpu.skipping import points as skipping_points
from cukde.density.pairs.gpu.skipping.frame import Frame
from cukde.density.pairs.gpu.skipping.points import BLOCK, FEW_DIMENSIONS, Ordered
from cukde.density.sums import Output, PartialSums

TOLERANCE = {"float32": 1e-5, "tf32": 1e-3, "float64": 1e-13}
"""What may be left out of a query's sum by default, relative to what is kept."""

_THREADS = 128
_THREADS_OF_FINISH = 128
_SPAN = 128  # blocks of data that a warp lists at a time
_ITEMS_OF_WARP = 4  # at least, so that none waits long for the last
_SAMPLED_BLOCKS = 512  # of data: a point of each bounds the sums of queries whose neighbours are unknown
_MOST_MOMENTS_IN_DOUBLE = 64  # dimensions


class Bounds(NamedTuple):
    """What is known of the sums of queries beforehand; ``skipping_bounds.cu`` says what the arrays are."""

    reference: Any
    threshold: Any
    extent: Any
    limits: Any | None
    always: Any | None


def serves(output: Output, precision: str, d: int) -> bool:
    """Whether there are kernels for a pass."""
    most = _MOST_MOMENTS_IN_DOUBLE if precision == "float64" else skipping_points.MOST_DIMENSIONS
    return output in ("sum", "moments", "laplace") and precision in TOLERANCE and 2 <= d <= most


def run(
    X: Any, Y: Any | None, h: float, output: Output, options: Options, frame: Frame, tolerance: float
) -> PartialSums:
    """Sum over the pairs that can matter, on the current device and stream.

    Parameters
    ----------
    X, Y : array, shape (n, d) and (m, d)
        Of one dtype, C-contiguous; ``Y`` None are the data themselves.
    frame : Frame
        Of the data.
    tolerance : float
        What is left out of a query's sum is at most this times what is kept; of output "laplace", of the sum of
        absolute terms.

    Notes
    -----
    Queries whose sums leave the range of float32 are summed again by differences, over all pairs; the device decides.

    Memory beside the result: 8 d' + 40 bytes a row of float32, d' being the next power of two.
    """
    real = DOUBLE if options.precision == "float64" else FLOAT
    if real == DOUBLE:
        X, Y = (None if a is None else a.astype(np.float64, copy=False) for a in (X, Y))
    n, d = X.shape
    data = skipping_points.ordered(X, h, options.log_weights, frame)
    queries = data if Y is None else skipping_points.ordered(Y, h, None, frame)
    m = len(queries.given)
    bounds = _bounds(data, queries, itself=Y is None, m=m, d=d, below=math.log2(tolerance / n), output=output)
    rows, width = queries.blocks * BLOCK, skipping_points.pitch(d)
    S = cp.zeros(rows, real)
    T = cp.zeros((rows, width), real) if output == "moments" else None
    _sum(data, queries, bounds, S, T, h, output, d, real, deterministic=options.deterministic)

    out = pairs_finish.empty(m, d if output == "moments" else 0)
    complete = cp.empty((1, m), np.float32)
    unit = 1.0 if real == DOUBLE else 1 / skipping_points.scale_of(h)
    _finish(real, width).launch(
        (-(-m // _THREADS_OF_FINISH),),
        (_THREADS_OF_FINISH,),
        *(queries.order, bounds.reference, S, T, *out, complete, m, d, unit),
    )
    guard = difference.Guard(fast_total=complete, least=0.5)
    precision = "float64" if real == DOUBLE else "float32"
    difference.launch(
        precision, X, Y, h, output, None, options.log_weights, out=out, guard=guard, one_split=True
    )
    return out


def _bounds(
    data: Ordered, queries: Ordered, *, itself: bool, m: int, d: int, below: float, output: Output
) -> Bounds:
    blocks, rows, screened = queries.blocks, queries.blocks * BLOCK, skipping_points.groups(d)
    near = None
    if not itself:  # blocks of data around the codes of the first and the last query of a block
        ends = cp.minimum(cp.arange(blocks)[:, None] * BLOCK + cp.asarray([0, BLOCK - 1]), m - 1)
        near = cp.searchsorted(data.codes, queries.codes[ends.ravel()]).reshape(blocks, 2) // BLOCK
        near = cp.ascontiguousarray(cp.minimum(near, data.blocks - 1), dtype=np.int32)
    bounds = Bounds(
        cp.empty(rows, np.float32),
        cp.empty(blocks, np.float32),
        cp.empty((blocks, 2), np.float32),
        cp.empty(rows, np.uint16) if screened else None,
        cp.empty(rows // 16, np.uint8) if screened else None,
    )
    _bounds_kernel(skipping_points.pitch(d), screened).launch(
        (blocks,),
        (BLOCK,),
        *(queries.local, queries.weights, queries.centres, queries.reach, queries.squares),
        *(data.local, data.weights, data.centres, data.reach, near, *bounds),
        *(m, data.blocks, 0 if itself else -(-data.blocks // _SAMPLED_BLOCKS), below),
        1 + d / 2 if output == "laplace" else 0.0,
    )
    return bounds


def _sum(
    data: Ordered,
    queries: Ordered,
    bounds: Bounds,
    S: Any,
    T: Any,
    h: float,
    output: Output,
    d: int,
    real: np.dtype,
    *,
    deterministic: bool,
) -> None:
    few = d <= FEW_DIMENSIONS
    row_tiles = 8 if few else _row_tiles(skipping_points.pitch(d))
    blocks_of_item = row_tiles // 4
    row_items = -(-queries.blocks // blocks_of_item)
    at_once = device.multiprocessors() * _BLOCKS_OF_MULTIPROCESSOR
    wanted = -(-at_once * (_THREADS // 32) * _ITEMS_OF_WARP // row_items)  # items of the same queries
    span = min(_SPAN, -(-data.blocks // wanted // 32) * 32) if not few else 0
    if few:
        span, spans = -(-data.blocks // (1 if deterministic else wanted) // 32) * 32, 1
    else:
        spans = -(-data.blocks // span) if deterministic else max(1, data.blocks // span // wanted)
    groups = -(-data.blocks // (span * spans))
    counts = cp.zeros(2, np.uint64)
    constant, slope = (1 + d / 2, math.log(2)) if output == "laplace" else (1.0, 0.0)
    in_doubles = data.given.dtype == DOUBLE
    of_data = data.given, data.source, data.local, data.centres, data.reach, data.low, data.high, data.weights, data.most
    of_queries = (
        *(queries.given, queries.source, queries.local, queries.centres, queries.reach, queries.low, queries.high),
    )
    summed = "moments" if output == "moments" else "sum"
    box_axes = data.low.shape[0]
    sizes = queries.blocks, data.blocks, row_items, groups
    scale = skipping_points.scale_of(h)
    if few:
        _boxes_kernel(summed, real, d).launch(
            (at_once,),
            (_THREADS,),
            *(*of_queries, bounds.reference, bounds.threshold, bounds.extent, *of_data, S, T, counts[:1], counts[1:]),
            *(*sizes, span, box_axes, in_doubles, constant, slope, scale),
        )
    else:
        _units_kernel(summed, real, skipping_points.pitch(d)).launch(
            (at_once,),
            (_THREADS,),
            *(*of_queries, queries.halves, bounds.limits, bounds.always, bounds.reference, bounds.threshold),
            *(*of_data, data.halves, data.norms, S, T, counts[:1], counts[1:]),
            *(*sizes, spans, span, d, box_axes, in_doubles, constant, slope, scale),
        )
    _last.append((counts, queries.blocks * data.blocks * 8))
    del _last[:-2]


_last: list[tuple[Any, int]] = []
_BLOCKS_OF_MULTIPROCESSOR = 4


def last_shares() -> list[float]:
    """Shares of all units that the last two passes took; waits for the device."""
    return [float(cp.asnumpy(counts)[1]) / all_units for counts, all_units in _last]


@core_compile.listed
def specialisations() -> Iterator[Specialisation]:
    """Every kernel of this module."""
    for d in (3, 5, 8, 16, 32, 64, 128):
        yield _bounds_kernel(skipping_points.pitch(d), skipping_points.groups(d))
    for summed, real in itertools.product(("sum", "moments"), C_TYPE):
        for d in range(2, FEW_DIMENSIONS + 1):
            yield _boxes_kernel(summed, real, d)
        for d in (8, 16, 32, 64, 128):
            if real == FLOAT or d <= _MOST_MOMENTS_IN_DOUBLE:
                yield _units_kernel(summed, real, d)
    for real, d in itertools.product(C_TYPE, (4, 8, 16, 32, 64, 128)):
        yield _finish(real, d)


def _row_tiles(width: int) -> int:
    """Tiles of 16 queries that a warp takes: their operands stay in registers."""
    return 8 if width <= 32 else 4


@functools.cache
def _bounds_kernel(width: int, screened: int) -> Specialisation:
    defines = core_compile.macros(DIM=width, GROUPS=screened)
    return Specialisation("density/skipping_bounds", "bound_sums", defines, "15P q 2i 2f")


@functools.cache
def _boxes_kernel(summed: str, real: np.dtype, d: int) -> Specialisation:
    name = f"near_boxes_{summed}_{'f64' if real == DOUBLE else 'f32'}"
    width = skipping_points.pitch(d)
    defines = core_compile.macros(KERNEL=name, OUTPUT=summed.upper(), REAL=C_TYPE[real], DIMENSIONS=d, DIM=width)
    return Specialisation("density/skipping_boxes", name, defines, "23P 7i 3d")


@functools.cache
def _units_kernel(summed: str, real: np.dtype, width: int) -> Specialisation:
    name = f"near_units_{summed}_{'f64' if real == DOUBLE else 'f32'}"
    defines = core_compile.macros(
        KERNEL=name,
        OUTPUT=summed.upper(),
        REAL=C_TYPE[real],
        DIM=width,
        GROUPS=-(-width // 16),
        ROW_TILES=_row_tiles(width),
    )
    return Specialisation("density/skipping_units", name, defines, "27P 9i 3d")


@functools.cache
def _finish(real: np.dtype, width: int) -> Specialisation:
    defines = core_compile.macros(REAL=C_TYPE[real], DIM=width)
    return Specialisation("density/skipping_finish", "finish_skipping", defines, "8P q i d")
