"""Sums over the pairs that can matter, in the order of the queries."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import cupy as cp
import numpy as np

from cukde.core.gpu import compile as core_compile
from cukde.core.gpu.launch import C_TYPE, DOUBLE, FLOAT, Specialisation, begin
from cukde.core.plan import note
from cukde.density.options import Options
from cukde.density.pairs.gpu import difference, finish as pairs_finish
from cukde.density.pairs.gpu.share import WHOLE, Share
from cukde.density.pairs.gpu.skipping import (
    bounds as skipping_bounds,
    items as skipping_items,
    points as skipping_points,
)
from cukde.density.pairs.gpu.skipping.bounds import Bounds, bounds_of
from cukde.density.pairs.gpu.skipping.items import ITEMS_OF_WARP, SPAN, THREADS, Items, row_tiles
from cukde.density.pairs.gpu.skipping.plan import Left, Plan, Prepared
from cukde.density.pairs.gpu.skipping.points import BLOCK, FEW_DIMENSIONS, Ordered
from cukde.density.sums import Output, PartialSums

_UNITS_OF_BLOCKS = 8  # of 16 queries by 32 data, of two blocks
_ITEMS_OF_WARP_OF_WIDE = 64  # of many dimensions a unit takes longer than others,
_ITEMS_OF_WARP_OF_BOXES = 128  # and wide blocks lie side by side, many in one item
_BY_CHUNKS: tuple[Output, ...] = ("sum", "laplace")  # outputs that kernels of chunks sum of queries


def run(prepared: Prepared) -> PartialSums:
    """Sum over the pairs that can matter.

    Queries whose sums leave the range of float32 are summed again by differences, over all pairs; the device decides.
    """
    storage, left = prepared.data.given.dtype, bool(prepared.left)
    begin(*kernels(prepared.plan, prepared.output, storage, prepared.d, itself=prepared.itself, left=left))
    return completed(prepared, *summed(prepared, bounds_of(prepared)))


def kernels(
    plan: Plan, output: Output, storage: np.dtype, d: int, *, itself: bool, left: bool
) -> Iterator[Specialisation]:
    """What :func:`run` launches, first what takes longest to compile; ``left``: kernels of chunks leave some units."""
    width, few = skipping_points.pitch(d), d <= FEW_DIMENSIONS
    if few or left or not plan.chunks:
        yield _boxes_kernel(output, plan.real, d) if few else _units_kernel(output, plan.real, width)
    if plan.once:
        yield _boxes_once_kernel(d) if few else _pairs_once_kernel(width)
        if not few:
            yield _own_kernel(width)
    elif plan.chunks:
        yield _sums_few_kernel(output, d) if few else _sums_kernel(output, width)
    precision = "float64" if plan.real == DOUBLE else "float32"
    yield difference.specialise(output, precision, storage, d, 0).kernel
    yield from skipping_bounds.kernels(d, itself=itself)
    yield _finish(plan.real)


def completed(prepared: Prepared, reference: Any, S: Any, T: Any | None, taken: Taken) -> PartialSums:
    """Make of what :func:`summed` returns, of the whole pass, what :func:`run` does."""
    data, queries, h, output, options, *_, plan, _ = prepared
    X, Y = data.given, None if prepared.itself else queries.given
    order = queries.order
    note("skipping", output=output, share=taken.share)
    del prepared, data, queries  # the operands are not needed any more
    return _completed(X, Y, h, output, options, plan, order, reference, S, T)


def completed_rows(prepared: Prepared, rows: Any, S: Any, T: Any) -> tuple[Any, PartialSums]:
    """Points of some rows of data whose pairs are taken once, and the sums at them, in their order."""
    X = prepared.data.given
    points, order = X[rows], cp.arange(len(rows))
    of = prepared.h, prepared.output, prepared.options, prepared.plan
    return points, _completed(X, points, *of, order, cp.zeros(len(rows), S.dtype), S, T)


def _completed(
    X: Any,
    Y: Any | None,
    h: float,
    output: Output,
    options: Options,
    plan: Plan,
    order: Any,
    reference: Any,
    S: Any,
    T: Any | None,
) -> PartialSums:
    """Sums in double at the queries as they are given; those that left the range of float32 anew, by differences."""
    columns = X.shape[1] if output == "moments" else int(output == "laplace")
    unit = 1.0 if output == "laplace" else 1 / skipping_points.scale_of(h)
    out, guard = finished(order, reference, S, T, columns, unit)
    precision = "float64" if plan.real == DOUBLE else "float32"
    difference.launch(precision, X, Y, h, output, None, options.log_weights, out=out, guard=guard, one_split=True)
    return out


def finished(
    order: Any, reference: Any, S: Any, T: Any | None, columns: int, unit: float
) -> tuple[PartialSums, difference.Guard]:
    """Sums in double at the queries as they are given, and which of them are to be summed again."""
    m = len(order)
    out = pairs_finish.empty(m, columns)
    complete = cp.empty((1, m), np.float32)
    of_row, of_column = (0, 0) if T is None else (stride // T.itemsize for stride in T.strides)
    _finish(S.dtype).launch(
        (-(-m // THREADS),),
        (THREADS,),
        *(order, reference, S, T, *out, complete, m, of_row, of_column, columns, unit),
    )
    return out, difference.Guard(fast_total=complete, least=0.5)


def share(prepared: Prepared) -> float:
    """Share of all units that a pass takes; waits for the device."""
    return summed(prepared, bounds_of(prepared))[-1].share()


def summed(prepared: Prepared, bounds: Bounds, share: Share = WHOLE) -> tuple[Any, Any, Any, Taken]:
    """References and sums of the queries in their order, and what was taken; or a share of the sums.

    References of a pass that takes pairs once are 0, so that shares of its sums add up.
    """
    data, queries, plan, few = prepared.data, prepared.queries, prepared.plan, prepared.d <= FEW_DIMENSIONS
    rows, width = queries.blocks * BLOCK, skipping_points.pitch(prepared.d)
    S = cp.zeros(rows, plan.real)
    T = None
    if prepared.output == "moments":  # of few dimensions neighbouring rows are added to at once
        T = cp.zeros((prepared.d, rows), plan.real).T if few else cp.zeros((rows, width), plan.real)
    elif prepared.output == "laplace":
        T = cp.zeros((rows, 1), plan.real)
    counts = cp.zeros(1, np.uint64)
    if plan.once:
        bounds.reference.fill(0)  # a point's own term is 1
        _sum_once(prepared, bounds, S, T, counts, share)
    elif plan.chunks:
        (_sum_few if few else _sum_chunks)(prepared, bounds, S, T, counts)
    if few:
        _sum_boxes(prepared, bounds, S, T, counts, share)
    else:
        for left in prepared.left:
            _sum_units(prepared, bounds, S, T, counts, left, share)
    return bounds.reference, S, T, Taken(counts, units(queries.blocks, data.blocks))


def units(query_blocks: int, data_blocks: int) -> int:
    """How many there are of so many blocks."""
    return query_blocks * data_blocks * _UNITS_OF_BLOCKS


def _sum_once(prepared: Prepared, bounds: Bounds, S: Any, T: Any, counts: Any, share: Share) -> None:
    """Sum over pairs of blocks with a common centre, or of a few dimensions those that are not wide, each once."""
    data, d = prepared.data, prepared.d
    few, width, box_axes = d <= FEW_DIMENSIONS, skipping_points.pitch(d), data.low.shape[0]
    items = skipping_items.cut(data.blocks, data.blocks, 2, most_span=SPAN, of_warp=share.of * ITEMS_OF_WARP)
    sizes = data.blocks, items.rows, -(-data.blocks // items.span), items.span, box_axes
    next_item = share.counter()
    if few:
        _boxes_once_kernel(d).launch(
            (items.grid,),
            (THREADS,),
            *(data.local, data.centres, data.weights, data.kinds, data.low, data.high, data.parts, bounds.threshold),
            *(S, T, next_item, counts, *sizes, d),
        )
        return
    _pairs_once_kernel(width).launch(
        (items.grid,),
        (THREADS,),
        *(data.low, data.high, bounds.threshold, bounds.extent, data.kinds, data.halves, data.norms),
        *(bounds.limits, bounds.always, data.chunks, S, T, next_item, counts, *sizes, prepared.below, prepared.shrink),
    )
    rows = data.blocks * BLOCK
    _own_kernel(width).launch((-(-rows // THREADS),), (THREADS,), data.local, data.kinds, S, T, rows, share.first == 0)


def _sum_chunks(prepared: Prepared, bounds: Bounds, S: Any, T: Any | None, counts: Any) -> None:
    """Sum over pairs of common blocks."""
    data, queries, width = prepared.data, prepared.queries, skipping_points.pitch(prepared.d)
    items = skipping_items.cut(queries.blocks, data.blocks, 2, most_span=SPAN, single=prepared.options.deterministic)
    _sums_kernel(prepared.output, width).launch(
        (items.grid,),
        (THREADS,),
        *(queries.low, queries.high, queries.kinds, queries.halves, queries.chunks),
        *(data.weights if prepared.itself else None, bounds.limits, bounds.always, bounds.reference, bounds.threshold),
        *(data.low, data.high, data.kinds, data.most, data.halves, data.norms, data.chunks, S, T),
        *(WHOLE.counter(), counts),
        *(queries.blocks, data.blocks, items.rows, items.groups, items.spans, items.span, data.low.shape[0]),
        _at_zero(prepared),
    )


def _sum_few(prepared: Prepared, bounds: Bounds, S: Any, T: Any | None, counts: Any) -> None:
    """Sum over pairs of near parts of few dimensions that products serve."""
    data, queries = prepared.data, prepared.queries
    items = skipping_items.cut(queries.blocks, data.blocks, 2, most_span=SPAN)
    _sums_few_kernel(prepared.output, prepared.d).launch(
        (items.grid,),
        (THREADS,),
        *(queries.local, queries.centres, queries.kinds, queries.low, queries.high, queries.parts),
        *(bounds.reference, bounds.extent, bounds.threshold),
        *(data.local, data.centres, data.weights, data.kinds, data.low, data.high, data.parts, data.most),
        *(S, T, WHOLE.counter(), counts),
        *(queries.blocks, data.blocks, items.rows, -(-data.blocks // items.span), items.span, data.low.shape[0]),
        *(prepared.options.log_weights is not None, _at_zero(prepared)),
    )


def _sum_boxes(prepared: Prepared, bounds: Bounds, S: Any, T: Any | None, counts: Any, share: Share) -> None:
    """Sum over pairs of near parts of few dimensions; where products serve others, what these leave."""
    data, queries, d = prepared.data, prepared.queries, prepared.d
    single, of_warp = prepared.options.deterministic, share.of * _ITEMS_OF_WARP_OF_BOXES
    items = skipping_items.cut(queries.blocks, data.blocks, 2, most_span=data.blocks, single=single, of_warp=of_warp)
    _boxes_kernel(prepared.output, prepared.plan.real, d).launch(
        (items.grid,),
        (THREADS,),
        *(*_points_of(queries), queries.parts, queries.kinds, bounds.reference, bounds.extent, bounds.threshold),
        *(*_points_of(data), data.weights, data.parts, data.kinds, data.most, prepared.options.log_weights),
        *(S, T, share.counter(), counts),
        *(queries.blocks, data.blocks, items.rows, items.groups, items.span, data.low.shape[0]),
        *(data.given.dtype == DOUBLE, prepared.plan.chunks, _at_zero(prepared), skipping_points.scale_of(prepared.h)),
    )


def _sum_units(
    prepared: Prepared, bounds: Bounds, S: Any, T: Any | None, counts: Any, left: Left, share: Share
) -> None:
    """Sum over units that screening keeps, but for those that are not left."""
    data, queries, d, plan = prepared.data, prepared.queries, prepared.d, prepared.plan
    width = skipping_points.pitch(d)
    items, there = _items_of(prepared, left, row_tiles(width) // 4, share)
    _units_kernel(prepared.output, plan.real, width).launch(
        (items.grid,),
        (THREADS,),
        *(*_points_of(queries), queries.halves, bounds.limits, bounds.always, bounds.reference, bounds.threshold),
        *(*_points_of(data), data.weights, data.most, prepared.options.log_weights, data.halves, data.norms),
        *(*queries.left, queries.exponents, data.weights if prepared.itself else None, queries.kinds),
        *(*data.right, data.across, data.exponents, data.kinds, *left, S, T, share.counter(), counts),
        *(queries.blocks, data.blocks, items.rows, items.groups, items.spans, items.span, d, data.low.shape[0]),
        *(data.given.dtype == DOUBLE, plan.products, there, _at_zero(prepared), skipping_points.scale_of(prepared.h)),
    )


def _items_of(prepared: Prepared, left: Left, blocks_of_item: int, share: Share) -> tuple[Items, int]:
    """Items of what is left, and how many blocks of data they are over."""
    there = prepared.data.blocks if left.columns is None else len(left.columns)
    blocks = prepared.queries.blocks if left.rows is None else blocks_of_item * len(left.rows)
    wide = skipping_points.pitch(prepared.d) > skipping_points.CHUNKS_WIDTH
    of_warp = share.of * (_ITEMS_OF_WARP_OF_WIDE if wide else ITEMS_OF_WARP)
    single = prepared.options.deterministic
    return skipping_items.cut(blocks, there, blocks_of_item, most_span=SPAN, single=single, of_warp=of_warp), there


def _points_of(points: Ordered) -> tuple[Any, ...]:
    return points.given, points.source, points.local, points.centres, points.reach, points.low, points.high


def _at_zero(prepared: Prepared) -> float:
    """Laplace factor of a pair at the distance 0."""
    return 1 + prepared.d / 2


class Taken(NamedTuple):
    """Units that a pass took, on the device."""

    counts: Any  # (1,) uint64
    units: int  # that there are

    def share(self) -> float:
        """Share of the units; waits for the device."""
        return min(1.0, float(cp.asnumpy(self.counts)[0]) / self.units)


def _cases(widths: Iterable[int]) -> Iterator[tuple[Output, np.dtype, int]]:
    for width in widths:
        yield from ((output, FLOAT, width) for output in ("sum", "moments", "laplace"))
        if width <= 64:
            yield "sum", DOUBLE, width


@core_compile.specialised(cases=lambda: _cases(range(2, FEW_DIMENSIONS + 1)))
def _boxes_kernel(output: Output, real: np.dtype, d: int) -> Specialisation:
    name = f"near_boxes_{output}_{'double' if real == DOUBLE else 'single'}"
    width = skipping_points.pitch(d)
    defines = core_compile.macros(KERNEL=name, OUTPUT=output.upper(), REAL=C_TYPE[real], DIMENSIONS=d, DIM=width)
    return Specialisation("density/skipping_boxes", name, defines, "28P 8i 2d")


@core_compile.specialised(cases=lambda: _cases((8, 16, 32, 64, 128)))
def _units_kernel(output: Output, real: np.dtype, width: int) -> Specialisation:
    name = f"near_units_{output}_{'double' if real == DOUBLE else 'single'}"
    defines = core_compile.macros(
        KERNEL=name,
        OUTPUT=output.upper(),
        REAL=C_TYPE[real],
        REAL_BITS=8 * real.itemsize,
        DIM=width,
        GROUPS=skipping_points.groups(width),
        ROW_TILES=row_tiles(width),
        MOST_SQUARE=int(skipping_points.MOST_SQUARE),
    )
    return Specialisation("density/skipping_units", name, defines, "40P 11i 2d")


@core_compile.specialised((3, 4, 5))
def _boxes_once_kernel(d: int) -> Specialisation:
    most = max(d, 3)
    slots = 8 if most == 3 else 16
    of_warp = _few_bytes(most) + 2 * BLOCK * 32 + slots * 36 * 4
    defines = core_compile.macros(DIMENSIONS=most, DIM=skipping_points.pitch(most))
    shared = THREADS // 32 * of_warp
    return Specialisation("density/skipping_mutual_few", "near_boxes_once", defines, "12P 6i", shared)


@core_compile.specialised(_BY_CHUNKS, (3, 4, 5))
def _sums_few_kernel(output: Output, d: int) -> Specialisation:
    most, name = max(d, 3), f"near_{output}_few"
    defines = core_compile.macros(KERNEL=name, OUTPUT=output.upper(), DIMENSIONS=most, DIM=skipping_points.pitch(most))
    shared = THREADS // 32 * _few_bytes(most)
    return Specialisation("density/skipping_sums_few", name, defines, "21P 7i f", shared)


def _few_bytes(d: int) -> int:
    """Shared memory of a warp (``skipping_few.cuh``): rows, two times 32 columns, and a list of parts."""
    left = 48 if d <= 3 else 32
    return 2 * BLOCK * left + 2 * 32 * (32 + (2 + d) * 4) + 2 * SPAN * 4


@core_compile.specialised((8, 16, 32))
def _pairs_once_kernel(width: int) -> Specialisation:
    groups = skipping_points.groups(width)
    defines = core_compile.macros(DIM=width, GROUPS=groups, ROW_TILES=row_tiles(width))
    return Specialisation("density/skipping_mutual", "near_pairs_once", defines, "14P 5i 2f", _ring_bytes(groups))


@core_compile.specialised(_BY_CHUNKS, (16, 32))
def _sums_kernel(output: Output, width: int) -> Specialisation:
    groups, name = skipping_points.groups(width), f"near_{output}_by_chunks"
    defines = core_compile.macros(KERNEL=name, OUTPUT=output.upper(), GROUPS=groups, ROW_TILES=row_tiles(width))
    return Specialisation("density/skipping_sums", name, defines, "21P 7i f", _ring_bytes(groups))


def _ring_bytes(groups: int) -> int:
    """Shared memory of a block of threads (``skipping_ring.cuh``)."""
    points = 128 // groups + 3 * 32  # of rows, and of three chunks
    return THREADS // 32 * (points * (64 * groups + 8) + SPAN * 16 + 16)


@core_compile.specialised((8, 16, 32))
def _own_kernel(width: int) -> Specialisation:
    return Specialisation("density/skipping_own", "add_own", core_compile.macros(DIM=width), "4P q f")


@core_compile.specialised(C_TYPE)
def _finish(real: np.dtype) -> Specialisation:
    defines = core_compile.macros(REAL=C_TYPE[real])
    return Specialisation("density/skipping_finish", "finish_skipping", defines, "8P 3q i d")
