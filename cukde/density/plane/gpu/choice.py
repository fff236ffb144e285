"""Whether the transform takes less time on a GPU than pairs, and over which grid."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from cukde.core.gpu import device
from cukde.density.kept import kept
from cukde.density.options import Options
from cukde.density.plan import gpu as plan_gpu
from cukde.density.plan.shape import Shape
from cukde.density.plane import cost as plane_cost
from cukde.density.plane.gpu.cells import Extent, Grid, grid
from cukde.density.plane.plan import Plan

# Cells of a grid, of which there are some twenty numbers each, and numbers of an array of expansions, of which there
# are three at a time: so many are few, and so many more for a point.
_CELLS, _CELLS_OF_POINT = 2**22, 0.5
_NUMBERS, _NUMBERS_OF_POINT = 2**27, 32
_BYTES, _MOST_OF_MEMORY = 3 * 8, 0.5  # of such numbers, and their part of the device's memory

_TRIMMED = (0, 2, 5)  # points of a sample, beyond either end of a coordinate


class Chosen(NamedTuple):
    """The cells of a transform."""

    grid: Grid
    of_all: bool  # whether they hold all data; otherwise few lie far from the others, and are taken as pairs


def chosen(X: Any, options: Options, plan: Plan, shape: Shape) -> Chosen | None:
    """Lay the cells of data for a transform that is faster than pairs; None where none is. Waits for the device."""
    n, m, extent = shape.n, shape.m, kept(options.kept, "extent", X, None, lambda: Extent.of(X))
    if not np.isfinite(extent.whole).all():
        return None
    best, least = None, plan_gpu.plane_most_ms(_pairs_ms(extent, shape, plan, options.squared_radius))
    for trimmed in (*reversed(_TRIMMED), None):  # from the smallest grid on
        found = grid(extent.whole if trimmed is None else extent.trimmed(trimmed), plan)
        if found is None:
            break
        if found.number > _CELLS + _CELLS_OF_POINT * (n + m):
            break
        cells = plan_gpu.plane_filled(plan.columns) * found.number
        products = plane_cost.products(plan, cells) + plane_cost.adds(plan, n, m)
        if plan_gpu.plane_transform_ms(shape, products, 0.0) >= least:
            break
        ms = plan_gpu.plane_transform_ms(shape, products, 0.0 if trimmed is None else extent.beyond(trimmed))
        if ms < least:
            best, least = Chosen(found, of_all=trimmed is None), ms
    return best


def too_many(cells: int, n: int, m: int, plan: Plan) -> bool:
    """Whether expansions of so many cells take more memory than they should."""
    numbers = cells * plan.order**plan.columns
    most = _NUMBERS + _NUMBERS_OF_POINT * (n + m)
    return numbers > min(most, _MOST_OF_MEMORY * device.memory_bytes() / _BYTES)


def _pairs_ms(extent: Extent, shape: Shape, plan: Plan, squared_radius: float | None) -> float:
    """About what pairs take: all of them on the tensor cores, or those that can matter of data spread evenly."""
    low, high = extent.trimmed(max(_TRIMMED))
    return plan_gpu.plane_near_ms(shape, ((high - low) / plan.bandwidth).tolist(), squared_radius)
