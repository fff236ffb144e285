"""Lower bounds of the sums of queries before anything is summed, and from where on pairs may be left out."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import cupy as cp
import numpy as np

from cukde.core.gpu import compile as core_compile
from cukde.core.gpu.launch import Specialisation
from cukde.density.pairs.gpu.share import WHOLE
from cukde.density.pairs.gpu.skipping import items as skipping_items, points as skipping_points
from cukde.density.pairs.gpu.skipping.items import SPAN, THREADS, row_tiles
from cukde.density.pairs.gpu.skipping.plan import Prepared
from cukde.density.pairs.gpu.skipping.points import BLOCK

_MOST_AROUND = 16  # blocks of data that are looked at beforehand
_AROUND = 3  # blocks of data on either side of those that are looked at beforehand
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


def bounds_of(prepared: Prepared) -> Bounds:
    """Bound the sums of the queries from below, and find what can be left out of them."""
    (bounds,) = bounds_of_parts([prepared])
    return bounds


def bounds_of_parts(parts: Sequence[Prepared]) -> list[Bounds]:
    """The same of sums over several parts of the data, whose tolerances add up: all have one reference."""
    first = [_of_near_blocks(prepared) for prepared in parts]
    if len(parts) > 1:
        reference = functools.reduce(cp.logaddexp2, (bounds.reference for bounds in first))
        extent = cp.repeat(reference.reshape(-1, BLOCK).min(axis=1)[:, None], 2, axis=1)
        first = [bounds._replace(reference=reference, extent=extent) for bounds in first]
    for prepared, bounds in zip(parts, first, strict=True):
        _search(prepared, bounds)
    return [_limits(prepared, bounds) for prepared, bounds in zip(parts, first, strict=True)]


def _points(prepared: Prepared) -> tuple[Any, ...]:
    data, queries = prepared.data, prepared.queries
    return queries.local, queries.centres, queries.reach, data.local, data.weights, data.centres, data.reach


def _of_near_blocks(prepared: Prepared) -> Bounds:
    """Bounds by a few blocks of data, which are not yet what limits say."""
    data, queries, d = prepared.data, prepared.queries, prepared.d
    m, blocks, rows, screened = len(queries.order), queries.blocks, queries.blocks * BLOCK, skipping_points.groups(d)
    codes = (None, None) if prepared.itself else (queries.codes, data.codes)
    bounds = Bounds(
        cp.empty(rows, np.float32),
        cp.empty((blocks, 2), np.float32),
        cp.empty(blocks, np.float32),
        cp.empty(rows, np.uint16) if screened else None,
        cp.empty(rows // 16, np.uint8) if screened else None,
    )
    _bounds_kernel(skipping_points.pitch(d)).launch(
        (blocks,),
        (BLOCK,),
        *(*_points(prepared), *codes, bounds.reference, bounds.extent, m, len(data.codes), data.blocks),
        *((0, 2) if screened else (_AROUND, _MOST_AROUND)),
    )
    return bounds


def _search(prepared: Prepared, bounds: Bounds) -> None:
    """Raise the bounds of queries that are not data, by the blocks where their nearest data are likely to be."""
    if prepared.itself:
        return
    data, queries, d, points = prepared.data, prepared.queries, prepared.d, _points(prepared)
    m, rows, width = len(queries.order), queries.blocks * BLOCK, skipping_points.pitch(d)
    if skipping_points.groups(d):
        nearest = cp.zeros(rows, np.uint64)
        items = skipping_items.cut(queries.blocks, data.blocks, row_tiles(width) // 4, most_span=SPAN)
        _nearest_kernel(width).launch(
            (items.grid,),
            (THREADS,),
            *(queries.low, queries.high, queries.halves, bounds.extent),
            *(data.low, data.high, data.most, data.halves, data.norms, nearest, WHOLE.counter()),
            *(queries.blocks, data.blocks, items.rows, -(-data.blocks // items.span), items.span, data.low.shape[0]),
        )
        _found_kernel(width).launch(
            (-(-m // _WARPS_OF_SEARCH),),
            (32 * _WARPS_OF_SEARCH,),
            *(*points, queries.squares, nearest, bounds.reference, m, data.blocks),
            _MOST_LENGTH / prepared.shrink,
        )
    else:
        box_axes, groups = data.low.shape[0], -(-data.blocks // _BLOCKS_OF_GROUP)
        of_groups = cp.empty((2 * box_axes + 1, groups), np.float32)
        _groups_kernel().launch(
            (-(-groups // (THREADS // 32)),),
            (THREADS,),
            *(data.low, data.high, data.most, of_groups, data.blocks, groups, box_axes),
        )
        heaviest = None if prepared.options.log_weights is None else data.most.max(keepdims=True)
        _search_kernel(width).launch(
            (-(-m // _WARPS_OF_SEARCH),),
            (32 * _WARPS_OF_SEARCH,),
            *(*points, data.low, data.high, data.most, prepared.frame.box_axes, of_groups, heaviest, bounds.reference),
            *(m, data.blocks, groups, d, box_axes),
        )


def _limits(prepared: Prepared, bounds: Bounds) -> Bounds:
    """Find what can be left out of sums with these bounds."""
    data, queries, d, below = prepared.data, prepared.queries, prepared.d, prepared.below
    top = 1 + d / 2 if prepared.output == "laplace" else 0.0
    m, blocks, screened = len(queries.order), queries.blocks, skipping_points.groups(d)
    _limits_kernel(screened).launch(
        (blocks,),
        (BLOCK,),
        *(queries.squares, bounds.reference, bounds.threshold, bounds.extent, bounds.limits, bounds.always),
        *(m, below, top, prepared.shrink, below - 1 if prepared.plan.once else math.inf),
    )
    if screened:
        return bounds
    row_items = -(-blocks // 2)
    threshold = cp.empty((row_items, 2), np.float32)
    _thresholds_kernel().launch(
        (-(-row_items // (THREADS // 32)),),
        (THREADS,),
        *(queries.low, queries.high, bounds.extent, data.low, data.high, data.most, threshold),
        *(blocks, data.blocks, row_items, data.low.shape[0], prepared.tolerance, top),
    )
    return bounds._replace(threshold=threshold)


def kernels(d: int, *, itself: bool) -> Iterator[Specialisation]:
    """What :func:`bounds_of` launches."""
    width, screened = skipping_points.pitch(d), skipping_points.groups(d)
    if not itself:
        yield from (
            (_nearest_kernel(width), _found_kernel(width)) if screened else (_search_kernel(width), _groups_kernel())
        )
    if not screened:
        yield _thresholds_kernel()
    yield from (_limits_kernel(screened), _bounds_kernel(width))


@core_compile.specialised((4, 8, 16, 32, 64, 128))
def _bounds_kernel(width: int) -> Specialisation:
    return Specialisation("density/skipping_bounds", "bound_sums", core_compile.macros(DIM=width), "11P 2q 3i")


@core_compile.specialised((16, 32, 64, 128))
def _nearest_kernel(width: int) -> Specialisation:
    defines = core_compile.macros(
        GROUPS=skipping_points.groups(width), ROW_TILES=row_tiles(width), TOGETHER=_blocks_together(width)
    )
    return Specialisation("density/skipping_nearest", "nearest_data", defines, "11P 6i")


@core_compile.specialised((8, 16, 32, 64, 128))
def _found_kernel(width: int) -> Specialisation:
    defines = core_compile.macros(DIM=width, TOGETHER=_blocks_together(width))
    return Specialisation("density/skipping_found", "bound_by_found", defines, "10P q i f")


@core_compile.specialised()
def _groups_kernel() -> Specialisation:
    return Specialisation("density/skipping_groups", "group_boxes", (), "4P 3i")


@core_compile.specialised((4, 8))
def _search_kernel(width: int) -> Specialisation:
    return Specialisation("density/skipping_search", "search_boxes", core_compile.macros(DIM=width), "14P q 4i")


@core_compile.specialised((0, 1, 2, 4, 8))
def _limits_kernel(screened: int) -> Specialisation:
    defines = core_compile.macros(GROUPS=screened)
    return Specialisation("density/skipping_limits", "set_limits", defines, "6P q 4f")


@core_compile.specialised()
def _thresholds_kernel() -> Specialisation:
    return Specialisation("density/skipping_thresholds", "box_thresholds", (), "7P 4i 2f")


def _blocks_together(width: int) -> int:
    """Blocks of data that are looked at where one of them has the largest product; a power of two."""
    return max(1, 4 // skipping_points.groups(width))
