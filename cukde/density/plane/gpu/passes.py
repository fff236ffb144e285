"""Gaussian sums of two or three columns on the GPU: a fast Gauss transform over a grid of cells, else pairs.

Queries for which the bound does not hold are summed over the data around, pair by pair, or over all data where
those further away may matter. Data outside of the grid are summed as pairs at all queries.
See :mod:`cukde.density.plane.plan`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import cupy as cp
import numpy as np

from cukde.core.gpu import device, merge_sort
from cukde.core.gpu.launch import Specialisation, begin
from cukde.core.plan import note
from cukde.density.kept import kept
from cukde.density.one_dimension.plan import BANDWIDTHS
from cukde.density.options import Options
from cukde.density.pairs.gpu import ends, finish as pairs_finish, operands as pairs_operands, passes as pairs_passes
from cukde.density.pairs.gpu.shape import shape_of
from cukde.density.plan import gpu as plan_gpu
from cukde.density.plan.shape import Shape
from cukde.density.plane import plan as plane_plan
from cukde.density.plane.gpu import cells as plane_cells, choice, expansions, kernels as plane_kernels
from cukde.density.plane.plan import Plan
from cukde.density.sums import Epilogue, Output, PartialSums, merge, moment_columns, put

laplace_density = pairs_passes.laplace_density

_MOST_FAR = 1 / 32  # of the data, outside of the grid


class _Start(NamedTuple):
    """What the pass over debiased data can start from, where pairs have moved them."""

    points: Any  # for pairs
    narrow: bool  # whether the transform would be no faster for the density


def partial_sums(
    X: Any, Y: Any | None, h: float, output: Output, options: Options, *, values: Any = None, ratio: bool = False
) -> PartialSums:
    """Return what :func:`cukde.density.pairs.gpu.passes.partial_sums` does, to the tolerance beside its rounding.

    The transform waits for the device five times. While a stream is captured nothing may wait, and pairs are summed.
    """
    options = pairs_passes.located(X, Y, h, options)
    sums = transformed(X, Y, h, output, options)
    return pairs_passes.partial_sums(X, Y, h, output, options, values=values, ratio=ratio) if sums is None else sums


def density(X: Any, Y: Any | None, h: float, options: Options, epilogue: Epilogue, *, points: Any = None) -> Any:
    """See :func:`cukde.density.pairs.gpu.passes.density`."""
    of_pairs = None if points is None else points.points
    options = pairs_passes.located(X, Y, h, options if of_pairs is None else of_pairs.located(options))
    sums = None if points is not None and points.narrow else transformed(X, Y, h, "sum", options)
    if sums is None:
        return pairs_passes.density(X, Y, h, options, epilogue, points=of_pairs)
    return ends.density(sums, epilogue)


def debias(X: Any, Y: Any, h: float, score_h: float, options: Options) -> tuple[Any, Any, Any]:
    """See :func:`cukde.density.pairs.gpu.passes.debias`."""
    options = pairs_passes.located(X, Y, h, options)
    sums = transformed(X, None, score_h, "moments", options.at_ratio(h / score_h))
    if sums is None:
        moved, queries, points = pairs_passes.debias(X, Y, h, score_h, options)
        # Of more pairs and no smaller a bandwidth they were faster.
        return moved, queries, _Start(points, narrow=len(Y) <= len(X) and h <= score_h)
    return *ends.ready(X, Y, sums, h, score_h), None


class _Expanded(NamedTuple):
    """Data in cells, and what their kernels come to there."""

    data: plane_cells.Sorted
    far: Any  # rows of the data outside of the grid
    bounds: expansions.Bounds
    of: plane_cells.Some  # the cells about which there are polynomials
    B: Any  # those


def _expanded(
    X: Any, log_weights: Any | None, held: Any | None, m: int, chosen: choice.Chosen, plan: Plan
) -> _Expanded | None:
    """Expand the kernels of data; None where the grid does not hold nearly all of them, or for too much memory."""
    grid, tables = chosen.grid, expansions.Tables.of(plan)
    data = plane_cells.in_cells(X, log_weights, grid, plan)
    far = data.order[len(X) :] if chosen.of_all else data.order[int(data.starts[-1]) :]
    if len(far) > _MOST_FAR * len(X):
        return None
    held_data = (data.starts[1:] > data.starts[:-1]).view(np.uint8)
    (filled,) = plane_cells.listed([(held_data, None)])
    if choice.too_many(filled.number, len(X), m, plan):
        return None
    M, mass = expansions.moments(data, filled, plan, grid)
    bounds = expansions.bounds(mass, held, tables, plan, grid)
    targets = expansions.targets(held_data, bounds.wanted, plan, grid)
    if choice.too_many(max(to.number for to in targets), len(X), m, plan):
        return None
    B = expansions.translated(M, filled, targets, tables, plan, grid)
    return _Expanded(data, far, bounds, targets[-1], B)


def transformed(X: Any, Y: Any | None, h: float, output: Output, options: Options) -> PartialSums | None:
    """Sums by the transform alone; None where pairs are faster, or where it cannot be."""
    if output not in plane_plan.SERVED or not BANDWIDTHS[0] < h < BANDWIDTHS[1] or device.capturing():
        return None
    options = pairs_passes.located(X, Y, h, options)
    rtol = plane_plan.rtol_of(options.precision, options.rtol)
    n, m = len(X), len(X if Y is None else Y)
    too_small = plan_gpu.plane_is_too_small(n, m, options.precision, options.squared_radius)
    if rtol < plane_plan.LEAST_RTOL or too_small:
        return None
    plan = plane_plan.plan(h, rtol, output, X.shape[1])
    return _sums(X, Y, h, output, options, plan) if plan.order <= expansions.MOST_POWERS else None


def kernels(storage: np.dtype, shape: Shape) -> Iterator[Specialisation]:
    """What a pass launches."""
    yield from plane_kernels.kernels(shape.d, storage, moments=shape.output == "moments")
    yield from merge_sort.kernels_of_order(max(shape.n, shape.m))


def _sums(X: Any, Y: Any | None, h: float, output: Output, options: Options, plan: Plan) -> PartialSums | None:
    """Sums at the queries; None where a grid does not hold nearly all data."""
    X, Y = pairs_operands.of_one_dtype(X, Y)
    queries = X if Y is None else Y
    shape = shape_of(output, len(X), len(queries), plan.columns, options, itself=Y is None)
    chosen = choice.chosen(X, options, plan, shape)
    if chosen is None:
        return None
    begin(*kernels(X.dtype, shape))
    grid, log_weights = chosen.grid, options.log_weights
    key = *chosen, plan.bandwidth, plan.rtol, output
    # Expansions that are kept are for any queries.
    held = cp.zeros(grid.number, np.uint8) if options.kept is None else None
    near = plane_cells.numbers(queries, grid, plan, held)
    expanded = kept(
        options.kept,
        "cells",
        (X, log_weights),
        key,
        lambda: _expanded(X, log_weights, held, len(queries), chosen, plan),
    )
    if expanded is None:
        return None
    data, far, bounds, of, B = expanded
    del expanded
    out = pairs_finish.empty(len(queries), moment_columns(output, plan.columns, None))
    out.reference.fill(0.0)
    order = data.order if Y is None else merge_sort.in_order(near)[1]
    sums = expansions.values(queries, order, B, of, bounds.bound, plan, grid, out)
    del B
    expansions.sum_windows(sums, data, bounds.whole, queries, plan, grid)
    note("plane", output=output, cells=of.number)
    if len(far):
        of_far = options if log_weights is None else options._replace(log_weights=log_weights[far])
        out = merge([out, pairs_passes.partial_sums(X[far], queries, h, output, of_far)], cp)
    if count := int(sums.counts[1]):
        rest = cp.sort(sums.beyond[:count])
        put(out, rest, pairs_passes.partial_sums(X, queries[rest], h, output, options))
    return out
