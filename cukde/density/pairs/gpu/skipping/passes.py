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
_UNITS_OF_BLOCKS = 8  # of 16 queries by 32 data, of two blocks
_SPAN = 128  # blocks of data that a warp lists at a time
_ITEMS_OF_WARP = 16  # at least, so that none waits long for the last;
_ITEMS_OF_WARP_OF_WIDE = 64  # of many dimensions a unit takes longer,
_ITEMS_OF_WARP_OF_BOXES = 128  # and wide blocks lie side by side, many in one item
_MOST_MOMENTS_IN_DOUBLE = 64  # dimensions
_MOST_AROUND = 16  # blocks of data that are looked at beforehand
_AROUND = 3  # blocks of data on either side of those that are looked at beforehand
_BLOCKS_OF_MULTIPROCESSOR = 4
_LEAST_OWN = 1 / 64  # of blocks: then products for those with a centre of their own are worth their operands
_BLOCKS_OF_GROUP = 32
_WARPS_OF_SEARCH = 8
_MOST_LENGTH = 360.0  # of points that have finite norms in float16


class Bounds(NamedTuple):
    """What is known of the sums of queries beforehand; ``skipping_limits.cu`` says what the arrays are."""

    reference: Any
    extent: Any
    threshold: Any  # of blocks of queries; where boxes decide alone, of pairs of such: two
    limits: Any | None
    always: Any | None


class Posed(NamedTuple):
    """A pass whose points are in order.

    Memory beside the result, in bytes a row of float32 with d' for d rounded up to a power of two: of data whose pairs
    are taken once 14 d' + 40; of other data and of queries 10 d' + 60, of both at once 18 d' + 60. Where many blocks
    have a centre of their own, data take up to 26 d' + 60.
    """

    data: Ordered
    queries: Ordered
    h: float
    output: Output
    options: Options
    tolerance: float
    shrink: float  # of the operands in float16
    axes: Any  # of boxes
    plan: Plan
    left: tuple[Left, ...]  # of the kernels of chunks; without such, everything

    @property
    def itself(self) -> bool:
        """Whether the queries are the data."""
        return self.queries is self.data

    @property
    def d(self) -> int:
        """Number of dimensions."""
        return int(self.data.given.shape[1])

    @property
    def below(self) -> float:
        """Bits below a query's bound from which on pairs may be left out (``skipping_limits.cu``)."""
        return math.log2(self.tolerance / len(self.data.given))


class Left(NamedTuple):
    """Pairs that other kernels than those of chunks take, by lists of int32; None: all."""

    rows: Any | None = None  # items of two blocks of queries
    columns: Any | None = None  # blocks of data, for queries that other kernels serve but for these

    @classmethod
    def of(cls, data: Ordered, queries: Ordered) -> tuple[tuple[Left, ...], bool]:
        """Find them; and whether enough are of blocks with a centre of their own. Waits for the device."""
        itself = queries is data
        both = cp.asnumpy(data.kinds if itself else cp.concatenate((data.kinds, queries.kinds)))
        if core_compile.is_rehearsal():
            both[:] = skipping_points.OWN
        of_data, of_queries = both[: data.blocks], both if itself else both[data.blocks :]
        least = skipping_points.COMMON
        rows, columns = np.unique(np.flatnonzero(of_queries < least) // 2), np.flatnonzero(of_data < least)
        left = []
        if len(rows):
            left.append(cls(rows=cp.asarray(rows.astype(np.int32))))
        if len(columns):
            left.append(cls(columns=cp.asarray(columns.astype(np.int32))))
        return tuple(left), bool((both == skipping_points.OWN).mean() > _LEAST_OWN)


class Plan(NamedTuple):
    """How a pass takes the pairs that can matter."""

    real: np.dtype  # of sums
    chunks: bool  # pairs of common blocks, or of a few dimensions of those that are not wide, by a kernel of their own
    products: bool  # other pairs by products of matrices, where blocks are not wide
    once: bool = False  # the kernel of chunks takes each pair once

    @classmethod
    def of(cls, d: int, output: Output, options: Options, *, itself: bool, ratio: bool) -> Plan:
        """Plan a pass; for ``ratio`` see :func:`pose`."""
        if options.precision == "float64":
            return cls(DOUBLE, False, False)
        unweighted = options.log_weights is None
        shift = output == "moments" and ratio and itself and unweighted
        once = shift and not options.deterministic
        products = output == "sum" or (output == "laplace" and unweighted) or shift
        if d <= FEW_DIMENSIONS:
            return cls(FLOAT, products and not options.deterministic, False, once)
        narrow = skipping_points.pitch(d) <= skipping_points.CHUNKS_WIDTH
        return cls(FLOAT, narrow and products and (once or output != "moments"), products, narrow and once)


def serves(output: Output, precision: str, d: int) -> bool:
    """Whether there are kernels for a pass on the current device."""
    capability = device.capability()
    if capability < (8, 0) or output not in ("sum", "moments", "laplace") or precision not in TOLERANCE:
        return False
    wide = precision == "float64" or capability != (9, 0)  # 128 dimensions take nearly all registers
    return 2 <= d <= (skipping_points.MOST_DIMENSIONS // 2 if wide else skipping_points.MOST_DIMENSIONS)


def tolerance_of(options: Options) -> float:
    """What may be left out of a query's sum, relative to what is kept; 0: nothing."""
    return TOLERANCE.get(options.precision, 0.0) if options.rtol is None else options.rtol


def pose(
    X: Any,
    Y: Any | None,
    h: float,
    output: Output,
    options: Options,
    frame: Frame,
    tolerance: float,
    data: Ordered | None = None,
    *,
    ratio: bool = False,
) -> Posed:
    """Put the points of a pass in order, on the current device and stream; waits for it where pairs are taken once.

    Parameters
    ----------
    X, Y : array, shape (n, d) and (m, d)
        Of one dtype, C-contiguous; ``Y`` None are the data themselves.
    frame : Frame
        Of the data.
    tolerance : float
        What is left out of a query's sum is at most this times what is kept; of output "laplace", of the sum of
        absolute terms.
    data : Ordered, optional
        The data, where they are in order already.
    ratio : bool
        Only moments / total is wanted: 2^e then is one float16 number, in moments and total alike, where the queries
        are the data without weights.
    """
    plan = Plan.of(X.shape[1], output, options, itself=Y is None, ratio=ratio)
    if plan.real == DOUBLE:
        X, Y = (None if a is None else a.astype(np.float64, copy=False) for a in (X, Y))
    points = functools.partial(skipping_points.ordered, h=h, frame=frame)
    weights, needed = options.log_weights, skipping_points.Needed
    posed_before = data is not None
    few = X.shape[1] <= FEW_DIMENSIONS
    if data is not None and not few:  # operands are those that they have
        right = data.right.first is not None
        plan = plan._replace(chunks=plan.chunks and data.chunks is not None, products=plan.products and right)
    if plan.chunks:
        of_data = needed(chunks=True, rounded=plan.once)
        of_queries = needed(left=posed_before and plan.products, chunks=True)
    else:
        of_queries = needed(left=plan.products)
        of_data = needed(left=plan.products and Y is None, right=plan.products, across=output == "moments")
    if data is None:
        data = points(X, log_weights=weights, needed=of_data)
    queries = data if Y is None else points(Y, log_weights=None, needed=of_queries)
    left: tuple[Left, ...] = (Left(),)
    if plan.chunks and not few:
        left, own = Left.of(data, queries)
        if plan.products and not posed_before:
            plan = plan._replace(products=own)
            if own:
                everything = needed(True, True, output == "moments", True, plan.once)
                data = skipping_points.again(data, h, weights, frame, everything)
                queries = data if Y is None else skipping_points.again(queries, h, None, frame, everything)
    shrink = skipping_points.shrink(frame, h)
    return Posed(data, queries, h, output, options, tolerance, shrink, frame.box_axes, plan, left)


def run(posed: Posed) -> PartialSums:
    """Sum over the pairs that can matter.

    Queries whose sums leave the range of float32 are summed again by differences, over all pairs; the device decides.
    """
    data, queries, h, output, options, *_, plan, _ = posed
    X, Y = data.given, None if posed.itself else queries.given
    m, d = queries.given.shape
    order, real = queries.order, plan.real
    reference, S, T, taken = _summed(posed)
    _recent[output] = taken
    del posed, data, queries  # the operands are not needed any more

    out = pairs_finish.empty(m, d if output == "moments" else 0)
    complete = cp.empty((1, m), np.float32)
    unit = 1.0 if real == DOUBLE else 1 / skipping_points.scale_of(h)
    of_row, of_column = (0, 0) if T is None else (stride // T.itemsize for stride in T.strides)
    _finish(real).launch(
        (-(-m // _THREADS),),
        (_THREADS,),
        *(order, reference, S, T, *out, complete, m, of_row, of_column, d, unit),
    )
    guard = difference.Guard(fast_total=complete, least=0.5)
    precision = "float64" if real == DOUBLE else "float32"
    difference.launch(precision, X, Y, h, output, None, options.log_weights, out=out, guard=guard, one_split=True)
    return out


def share(posed: Posed) -> float:
    """Share of all units that a pass takes; waits for the device."""
    return _summed(posed)[-1].share()


def _summed(posed: Posed) -> tuple[Any, Any, Any, Taken]:
    """References and sums of the queries in their order, and what was taken."""
    data, queries, plan = posed.data, posed.queries, posed.plan
    bounds, few = _bounds(posed), posed.d <= FEW_DIMENSIONS
    rows, width = queries.blocks * BLOCK, skipping_points.pitch(posed.d)
    S = cp.zeros(rows, plan.real)
    T = None
    if posed.output == "moments":  # of few dimensions neighbouring rows are added to at once
        T = cp.zeros((posed.d, rows), plan.real).T if few else cp.zeros((rows, width), plan.real)
    counts = cp.zeros(1, np.uint64)
    if plan.once:
        bounds.reference.fill(0)  # a point's own term is 1
        _sum_once(posed, bounds, S, T, counts)
    elif plan.chunks:
        (_sum_few if few else _sum_chunks)(posed, bounds, S, counts)
    if few:
        _sum_boxes(posed, bounds, S, T, counts)
    else:
        for left in posed.left:
            _sum_units(posed, bounds, S, T, counts, left)
    return bounds.reference, S, T, Taken(counts, queries.blocks * data.blocks * _UNITS_OF_BLOCKS)


def _bounds(posed: Posed) -> Bounds:
    """Bound the sums of the queries from below, and find what can be left out of them."""
    data, queries, _, output, _, tolerance, shrink, axes, *_ = posed
    itself, (m, d) = posed.itself, queries.given.shape
    blocks, rows, screened = queries.blocks, queries.blocks * BLOCK, skipping_points.groups(d)
    width = skipping_points.pitch(d)
    top = 1 + d / 2 if output == "laplace" else 0.0
    near = None
    if not itself:  # blocks of data around the codes of the first and the last query of a block
        ends = cp.minimum(cp.arange(blocks)[:, None] * BLOCK + cp.asarray([0, BLOCK - 1]), m - 1)
        near = cp.searchsorted(data.codes, queries.codes[ends.ravel()]).reshape(blocks, 2) // BLOCK
        near = cp.ascontiguousarray(cp.minimum(near, data.blocks - 1), dtype=np.int32)
    bounds = Bounds(
        cp.empty(rows, np.float32),
        cp.empty((blocks, 2), np.float32),
        cp.empty(blocks, np.float32),
        cp.empty(rows, np.uint16) if screened else None,
        cp.empty(rows // 16, np.uint8) if screened else None,
    )
    points = queries.local, queries.centres, queries.reach, data.local, data.weights, data.centres, data.reach
    _bounds_kernel(width).launch(
        (blocks,),
        (BLOCK,),
        *(*points, near, bounds.reference, bounds.extent, m, data.blocks),
        *((0, 2) if screened else (_AROUND, _MOST_AROUND)),
        top,
    )
    if not itself and screened:
        nearest = cp.zeros(rows, np.uint64)
        items = _items(queries.blocks, data.blocks, _row_tiles(width) // 4, most_span=_SPAN)
        _nearest_kernel(width).launch(
            (items.grid,),
            (_THREADS,),
            *(queries.low, queries.high, queries.halves, bounds.extent),
            *(data.low, data.high, data.most, data.halves, data.norms, nearest, cp.zeros(1, np.uint64)),
            *(queries.blocks, data.blocks, items.rows, -(-data.blocks // items.span), items.span, data.low.shape[0]),
        )
        _found_kernel(width).launch(
            (-(-m // _WARPS_OF_SEARCH),),
            (32 * _WARPS_OF_SEARCH,),
            *(*points, queries.squares, nearest, bounds.reference, m, data.blocks, _MOST_LENGTH / shrink, top),
        )
    elif not itself:
        box_axes, groups = data.low.shape[0], -(-data.blocks // _BLOCKS_OF_GROUP)
        of_groups = cp.empty((2 * box_axes + 1, groups), np.float32)
        _groups_kernel().launch(
            (-(-groups // (_THREADS // 32)),),
            (_THREADS,),
            *(data.low, data.high, data.most, of_groups, data.blocks, groups, box_axes),
        )
        heaviest = None if posed.options.log_weights is None else data.most.max(keepdims=True)
        _search_kernel(width).launch(
            (-(-m // _WARPS_OF_SEARCH),),
            (32 * _WARPS_OF_SEARCH,),
            *(*points, data.low, data.high, data.most, axes, of_groups, heaviest, bounds.reference),
            *(m, data.blocks, groups, d, box_axes, top),
        )
    below = posed.below
    _limits_kernel(screened).launch(
        (blocks,),
        (BLOCK,),
        *(queries.squares, bounds.reference, bounds.threshold, bounds.extent, bounds.limits, bounds.always),
        *(m, below, top, shrink, below - 1 if posed.plan.once else math.inf),
    )
    if screened:
        return bounds
    row_items = -(-blocks // 2)
    threshold = cp.empty((row_items, 2), np.float32)
    _thresholds_kernel().launch(
        (-(-row_items // (_THREADS // 32)),),
        (_THREADS,),
        *(queries.low, queries.high, bounds.extent, data.low, data.high, data.most, threshold),
        *(blocks, data.blocks, row_items, data.low.shape[0], tolerance, top),
    )
    return bounds._replace(threshold=threshold)


class _Items(NamedTuple):
    """How a pass is cut: an item is so many blocks of queries by `span` blocks of data, `spans` times."""

    grid: int  # blocks of threads
    rows: int  # items over queries
    groups: int  # and over data
    span: int
    spans: int


def _items(
    query_blocks: int,
    data_blocks: int,
    blocks_of_item: int,
    *,
    most_span: int,
    single: bool = False,
    of_warp: int = _ITEMS_OF_WARP,
) -> _Items:
    """Cut a pass so that the device is busy; ``single`` lets one warp take all data of its queries."""
    grid = device.multiprocessors() * _BLOCKS_OF_MULTIPROCESSOR
    rows = -(-query_blocks // blocks_of_item)
    groups = 1 if single else min(data_blocks, -(-grid * (_THREADS // 32) * of_warp // rows))
    of_group = -(-data_blocks // groups)
    span = min(of_group, most_span)
    if span > 32:
        span = -(-span // 32) * 32  # as many as lanes list at a time
    spans = -(-of_group // span)
    return _Items(grid, rows, -(-data_blocks // (span * spans)), span, spans)


def _sum_once(posed: Posed, bounds: Bounds, S: Any, T: Any, counts: Any) -> None:
    """Sum over pairs of blocks with a common centre, or of a few dimensions those that are not wide, each once."""
    data, d = posed.data, posed.d
    few, width, box_axes = d <= FEW_DIMENSIONS, skipping_points.pitch(d), data.low.shape[0]
    items = _items(data.blocks, data.blocks, 2, most_span=_SPAN)
    sizes = data.blocks, items.rows, -(-data.blocks // items.span), items.span, box_axes
    next_item = cp.zeros(1, np.uint64)
    if few:
        _boxes_once_kernel(d).launch(
            (items.grid,),
            (_THREADS,),
            *(data.local, data.centres, data.weights, data.kinds, data.low, data.high, data.parts, bounds.threshold),
            *(S, T, next_item, counts, *sizes, d),
        )
        return
    _pairs_once_kernel(width).launch(
        (items.grid,),
        (_THREADS,),
        *(data.low, data.high, bounds.threshold, bounds.extent, data.kinds, data.halves, data.norms),
        *(bounds.limits, bounds.always, data.chunks, S, T, next_item, counts, *sizes, posed.below, posed.shrink),
    )
    rows = data.blocks * BLOCK
    _own_kernel(width).launch((-(-rows // _THREADS),), (_THREADS,), data.local, data.kinds, S, T, rows)


def _sum_chunks(posed: Posed, bounds: Bounds, S: Any, counts: Any) -> None:
    """Sum over pairs of common blocks."""
    data, queries, width = posed.data, posed.queries, skipping_points.pitch(posed.d)
    items = _items(queries.blocks, data.blocks, 2, most_span=_SPAN, single=posed.options.deterministic)
    _sums_kernel(width).launch(
        (items.grid,),
        (_THREADS,),
        *(queries.low, queries.high, queries.kinds, queries.halves, queries.chunks),
        *(data.weights if posed.itself else None, bounds.limits, bounds.always, bounds.reference, bounds.threshold),
        *(data.low, data.high, data.kinds, data.most, data.halves, data.norms, data.chunks, S),
        *(cp.zeros(1, np.uint64), counts),
        *(queries.blocks, data.blocks, items.rows, items.groups, items.spans, items.span, data.low.shape[0]),
        *_factor(posed),
    )


def _sum_few(posed: Posed, bounds: Bounds, S: Any, counts: Any) -> None:
    """Sum over pairs of near parts of few dimensions that products serve."""
    data, queries = posed.data, posed.queries
    items = _items(queries.blocks, data.blocks, 2, most_span=_SPAN)
    _sums_few_kernel(posed.d).launch(
        (items.grid,),
        (_THREADS,),
        *(queries.local, queries.centres, queries.kinds, queries.low, queries.high, queries.parts),
        *(bounds.reference, bounds.extent, bounds.threshold),
        *(data.local, data.centres, data.weights, data.kinds, data.low, data.high, data.parts, data.most),
        *(S, cp.zeros(1, np.uint64), counts),
        *(queries.blocks, data.blocks, items.rows, -(-data.blocks // items.span), items.span, data.low.shape[0]),
        *(posed.options.log_weights is not None, *_factor(posed)),
    )


def _sum_boxes(posed: Posed, bounds: Bounds, S: Any, T: Any, counts: Any) -> None:
    """Sum over pairs of near parts of few dimensions; where products serve others, what these leave."""
    data, queries, d = posed.data, posed.queries, posed.d
    single, of_warp = posed.options.deterministic, _ITEMS_OF_WARP_OF_BOXES
    items = _items(queries.blocks, data.blocks, 2, most_span=data.blocks, single=single, of_warp=of_warp)
    _boxes_kernel(_summand(posed.output), posed.plan.real, d).launch(
        (items.grid,),
        (_THREADS,),
        *(*_points_of(queries), queries.parts, queries.kinds, bounds.reference, bounds.extent, bounds.threshold),
        *(*_points_of(data), data.weights, data.parts, data.kinds, data.most, posed.options.log_weights),
        *(S, T, cp.zeros(1, np.uint64), counts),
        *(queries.blocks, data.blocks, items.rows, items.groups, items.span, data.low.shape[0]),
        *(data.given.dtype == DOUBLE, posed.plan.chunks, *_factor(posed), skipping_points.scale_of(posed.h)),
    )


def _sum_units(posed: Posed, bounds: Bounds, S: Any, T: Any, counts: Any, left: Left) -> None:
    """Sum over units that screening keeps, but for those that are not left."""
    data, queries, d, plan = posed.data, posed.queries, posed.d, posed.plan
    width = skipping_points.pitch(d)
    items, there = _items_of(posed, left, _row_tiles(width) // 4)
    _units_kernel(_summand(posed.output), plan.real, width).launch(
        (items.grid,),
        (_THREADS,),
        *(*_points_of(queries), queries.halves, bounds.limits, bounds.always, bounds.reference, bounds.threshold),
        *(*_points_of(data), data.weights, data.most, posed.options.log_weights, data.halves, data.norms),
        *(*queries.left, queries.exponents, data.weights if posed.itself else None, queries.kinds),
        *(*data.right, data.across, data.exponents, data.kinds, *left, S, T, cp.zeros(1, np.uint64), counts),
        *(queries.blocks, data.blocks, items.rows, items.groups, items.spans, items.span, d, data.low.shape[0]),
        *(data.given.dtype == DOUBLE, plan.products, there, *_factor(posed), skipping_points.scale_of(posed.h)),
    )


def _items_of(posed: Posed, left: Left, blocks_of_item: int) -> tuple[_Items, int]:
    """Items of what is left, and how many blocks of data they are over."""
    there = posed.data.blocks if left.columns is None else len(left.columns)
    blocks = posed.queries.blocks if left.rows is None else blocks_of_item * len(left.rows)
    wide = skipping_points.pitch(posed.d) > skipping_points.CHUNKS_WIDTH
    of_warp = _ITEMS_OF_WARP_OF_WIDE if wide else _ITEMS_OF_WARP
    single = posed.options.deterministic
    return _items(blocks, there, blocks_of_item, most_span=_SPAN, single=single, of_warp=of_warp), there


def _points_of(points: Ordered) -> tuple[Any, ...]:
    return points.given, points.source, points.local, points.centres, points.reach, points.low, points.high


def _summand(output: Output) -> str:
    return "moments" if output == "moments" else "sum"


def _factor(posed: Posed) -> tuple[float, float]:
    """Constant and slope of the factor of a pair (``skipping.cuh``)."""
    return (1 + posed.d / 2, math.log(2)) if posed.output == "laplace" else (1.0, 0.0)


class Taken(NamedTuple):
    """Units that a pass took, on the device."""

    counts: Any  # (1,) uint64
    units: int  # that there are

    def share(self) -> float:
        """Share of the units; waits for the device."""
        return min(1.0, float(cp.asnumpy(self.counts)[0]) / self.units)


_recent: dict[Output, Taken] = {}


def recent_shares() -> dict[Output, float]:
    """Shares of all pairs that the last passes took, by output, and forget them; waits for the device.

    Passes over all pairs are not among them.
    """
    taken = dict(_recent)
    _recent.clear()
    return {output: of_pass.share() for output, of_pass in taken.items()}


@core_compile.listed
def specialisations() -> Iterator[Specialisation]:
    """Every kernel of this module."""
    yield _thresholds_kernel()
    for d in (3, 8, 16, 32, 64, 128):
        yield _bounds_kernel(skipping_points.pitch(d))
    for d in (3, 8, 32, 64, 128):
        yield _limits_kernel(skipping_points.groups(d))
    yield _groups_kernel()
    for d in (4, 8):
        yield _search_kernel(d)
    for d in (16, 32, 64, 128):
        yield _nearest_kernel(d)
    for d in (8, 16, 32, 64, 128):
        yield _found_kernel(d)
    for summed, real in itertools.product(("sum", "moments"), C_TYPE):
        for d in range(2, FEW_DIMENSIONS + 1):
            yield _boxes_kernel(summed, real, d)
        for d in (8, 16, 32, 64, 128):
            if real == FLOAT or d <= _MOST_MOMENTS_IN_DOUBLE:
                yield _units_kernel(summed, real, d)
    for d in (3, 4, 5):
        yield _boxes_once_kernel(d)
        yield _sums_few_kernel(d)
    for d in (8, 16, 32):
        yield _pairs_once_kernel(d)
        yield _own_kernel(d)
    for d in (16, 32):
        yield _sums_kernel(d)
    for real in C_TYPE:
        yield _finish(real)


def _row_tiles(width: int) -> int:
    """Tiles of 16 queries that a warp takes: their operands stay in registers."""
    return 8 if width <= 32 else 4


def _blocks_together(width: int) -> int:
    """Blocks of data that are looked at where one of them has the largest product; a power of two."""
    return max(1, 4 // skipping_points.groups(width))


@functools.cache
def _bounds_kernel(width: int) -> Specialisation:
    return Specialisation("density/skipping_bounds", "bound_sums", core_compile.macros(DIM=width), "10P q 3i f")


@functools.cache
def _nearest_kernel(width: int) -> Specialisation:
    defines = core_compile.macros(
        GROUPS=skipping_points.groups(width), ROW_TILES=_row_tiles(width), TOGETHER=_blocks_together(width)
    )
    return Specialisation("density/skipping_nearest", "nearest_data", defines, "11P 6i")


@functools.cache
def _found_kernel(width: int) -> Specialisation:
    defines = core_compile.macros(DIM=width, TOGETHER=_blocks_together(width))
    return Specialisation("density/skipping_found", "bound_by_found", defines, "10P q i 2f")


@functools.cache
def _groups_kernel() -> Specialisation:
    return Specialisation("density/skipping_groups", "group_boxes", (), "4P 3i")


@functools.cache
def _search_kernel(width: int) -> Specialisation:
    return Specialisation("density/skipping_search", "search_boxes", core_compile.macros(DIM=width), "14P q 4i f")


@functools.cache
def _limits_kernel(screened: int) -> Specialisation:
    defines = core_compile.macros(GROUPS=screened)
    return Specialisation("density/skipping_limits", "set_limits", defines, "6P q 4f")


@functools.cache
def _thresholds_kernel() -> Specialisation:
    return Specialisation("density/skipping_thresholds", "box_thresholds", (), "7P 4i 2f")


@functools.cache
def _boxes_kernel(summed: str, real: np.dtype, d: int) -> Specialisation:
    name = f"near_boxes_{summed}_{'double' if real == DOUBLE else 'single'}"
    width = skipping_points.pitch(d)
    defines = core_compile.macros(KERNEL=name, OUTPUT=summed.upper(), REAL=C_TYPE[real], DIMENSIONS=d, DIM=width)
    return Specialisation("density/skipping_boxes", name, defines, "28P 8i 3d")


@functools.cache
def _units_kernel(summed: str, real: np.dtype, width: int) -> Specialisation:
    name = f"near_units_{summed}_{'double' if real == DOUBLE else 'single'}"
    defines = core_compile.macros(
        KERNEL=name,
        OUTPUT=summed.upper(),
        REAL=C_TYPE[real],
        REAL_BITS=8 * real.itemsize,
        DIM=width,
        GROUPS=skipping_points.groups(width),
        ROW_TILES=_row_tiles(width),
    )
    return Specialisation("density/skipping_units", name, defines, "40P 11i 3d")


@functools.cache
def _boxes_once_kernel(d: int) -> Specialisation:
    most = max(d, 3)
    slots = 8 if most == 3 else 16
    of_warp = _few_bytes(most) + 2 * BLOCK * 32 + slots * 36 * 4
    defines = core_compile.macros(DIMENSIONS=most, DIM=skipping_points.pitch(most))
    shared = _THREADS // 32 * of_warp
    return Specialisation("density/skipping_mutual_few", "near_boxes_once", defines, "12P 6i", shared)


@functools.cache
def _sums_few_kernel(d: int) -> Specialisation:
    most = max(d, 3)
    defines = core_compile.macros(DIMENSIONS=most, DIM=skipping_points.pitch(most))
    shared = _THREADS // 32 * _few_bytes(most)
    return Specialisation("density/skipping_sums_few", "near_sums_few", defines, "20P 7i 2f", shared)


def _few_bytes(d: int) -> int:
    """Shared memory of a warp (``skipping_few.cuh``): rows, two times 32 columns, and a list of parts."""
    left = 48 if d <= 3 else 32
    return 2 * BLOCK * left + 2 * 32 * (32 + (2 + d) * 4) + 2 * _SPAN * 4


@functools.cache
def _pairs_once_kernel(width: int) -> Specialisation:
    groups = skipping_points.groups(width)
    defines = core_compile.macros(DIM=width, GROUPS=groups, ROW_TILES=_row_tiles(width))
    return Specialisation("density/skipping_mutual", "near_pairs_once", defines, "14P 5i 2f", _ring_bytes(groups))


@functools.cache
def _sums_kernel(width: int) -> Specialisation:
    groups = skipping_points.groups(width)
    defines = core_compile.macros(GROUPS=groups, ROW_TILES=_row_tiles(width))
    return Specialisation("density/skipping_sums", "near_sums", defines, "20P 7i 2f", _ring_bytes(groups))


def _ring_bytes(groups: int) -> int:
    """Shared memory of a block of threads (``skipping_ring.cuh``)."""
    points = 128 // groups + 3 * 32  # of rows, and of three chunks
    return _THREADS // 32 * (points * (64 * groups + 8) + _SPAN * 16 + 16)


@functools.cache
def _own_kernel(width: int) -> Specialisation:
    return Specialisation("density/skipping_own", "add_own", core_compile.macros(DIM=width), "4P q")


@functools.cache
def _finish(real: np.dtype) -> Specialisation:
    defines = core_compile.macros(REAL=C_TYPE[real])
    return Specialisation("density/skipping_finish", "finish_skipping", defines, "8P 3q i d")
