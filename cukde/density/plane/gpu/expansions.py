"""Launchers of ``kernels_cu/density/plane.cu`` from moments of cells to sums at queries.

See :mod:`cukde.density.plane.plan`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import cupy as cp
import numpy as np

from cukde.core.gpu import device
from cukde.density.plane.gpu import cells as plane_cells
from cukde.density.plane.gpu.cells import Grid, Some, Sorted
from cukde.density.plane.gpu.kernels import THREADS, blocks, kernel
from cukde.density.plane.plan import Plan
from cukde.density.sums import PartialSums

MOST_POWERS = 20
"""Of a plan that the kernels take."""

_POINTS_OF_PART = 1024  # points of a cell that one block takes
_TILE = 16  # sums of a thread in a translation
_BLOCKS_OF_WINDOWS = 8  # of a multiprocessor


class Tables(NamedTuple):
    """Of a plan, on the device."""

    translation: Any  # (2 W + 1, P, P): T[o, k, l]
    bounds: tuple[Any, Any, Any]  # error, most, mean: (2 W + 1,)

    @classmethod
    def of(cls, plan: Plan) -> Tables:
        """Bring them there by one copy."""
        offsets, P = len(plan.error), plan.order
        columns = plan.translation.transpose(0, 2, 1).reshape(offsets * P * P)
        packed = cp.asarray(np.concatenate((columns, plan.error, plan.most, plan.mean)))
        bounds = packed[offsets * P * P :].reshape(3, offsets)
        return cls(packed[: offsets * P * P].reshape(offsets, P, P), (bounds[0], bounds[1], bounds[2]))


class Bounds(NamedTuple):
    """Of the cells of a grid."""

    whole: Any  # (1,): the mass of all
    bound: Any  # (cells,): of the error of the sum
    wanted: Any  # (cells,) uint8: whether there is to be an expansion


def moments(data: Sorted, filled: Some, plan: Plan, grid: Grid) -> tuple[Any, Any]:
    """Moments of the cells that hold data, and masses of all."""
    P, count = plan.order, plan.order**plan.columns
    M, mass = cp.empty((filled.number, count)), cp.zeros(grid.number)
    most = len(data.points) // _POINTS_OF_PART  # of the parts of cells beyond their first
    parts = cp.empty((max(1, most), count))
    arrays = data.points, data.starts, filled.numbers, data.weights, M, parts
    scalars = filled.number, grid.number, P, _POINTS_OF_PART, *grid.sizes[1:], *grid.lows, plan.width
    of_cells = kernel("cell_moments", plan.columns, data.points.dtype)
    of_cells.launch((filled.number + most,), (THREADS,), *arrays, *scalars)
    of_sums = data.starts, filled.numbers, parts, M, mass
    kernel("add_parts").launch((filled.number,), (THREADS,), *of_sums, count, _POINTS_OF_PART)
    return M, mass


def bounds(mass: Any, held: Any | None, tables: Tables, plan: Plan, grid: Grid) -> Bounds:
    """Bound the error at queries of each cell; ``held`` says which hold any, None that all may."""
    whole, number, of_grid = mass.sum()[None], grid.number, blocks(grid.number)
    masses = mass
    for axis in range(plan.columns):
        spread = cp.empty((4, number))
        scalars = number, *grid.along(axis), plan.reach, int(axis == 0)
        kernel("spread_masses").launch(of_grid, (THREADS,), masses, *tables.bounds, spread, *scalars)
        masses = spread
    bound, wanted = cp.empty(number), cp.empty(number, np.uint8)
    arrays = masses, whole, held, bound, wanted
    kernel("choose_cells").launch(of_grid, (THREADS,), *arrays, number, plan.beyond, plan.rtol)
    return Bounds(whole, bound, wanted)


def targets(held: Any, wanted: Any, plan: Plan, grid: Grid) -> list[Some]:
    """Cells of each translation, the last coordinate first: reached by cells with data, and reaching wanted ones."""
    from_data = [held]
    to_wanted = [wanted]
    for axis in range(plan.columns - 1):
        from_data.append(plane_cells.within(from_data[-1], grid, plan.columns - 1 - axis, plan))
        to_wanted.append(plane_cells.within(to_wanted[-1], grid, axis, plan))
    return plane_cells.listed([*zip(from_data[1:], reversed(to_wanted[1:]), strict=True), (wanted, None)])


def translated(M: Any, filled: Some, targets: list[Some], tables: Tables, plan: Plan, grid: Grid) -> Any:
    """Expansions about the last of the targets, (cells, P^d): of powers of the last coordinate first."""
    count = plan.order**plan.columns
    translation = kernel("translate", plan.columns)
    for axis, to in zip(reversed(range(plan.columns)), targets, strict=True):
        out = cp.empty((to.number, count))
        arrays = M, filled.places, to.numbers, tables.translation, out
        scalars = to.number, *grid.along(axis), plan.reach, plan.order
        translation.launch(blocks(to.number * count // _TILE), (THREADS,), *arrays, *scalars)
        M, filled = out, to
    return M


class Sums(NamedTuple):
    """At queries."""

    total: Any  # (m,) float64
    moments: Any | None  # (m, d) float64
    rest: Any  # (m,) int64: rows of the queries that are left to the data around; at first so many as counts[0] says
    beyond: Any  # (m,) int64: rows of those that all data may matter to, as many as counts[1] says
    counts: Any  # (2,) int64


def values(Y: Any, order: Any, B: Any, of: Some, bound: Any, plan: Plan, grid: Grid, out: PartialSums) -> Sums:
    """Write the sums at the queries that the bound holds of; ``order`` has near ones together."""
    m = len(Y)
    sums = Sums(out.total, out.moments, cp.empty(m, np.int64), cp.empty(m, np.int64), cp.zeros(2, np.int64))
    arrays = Y, order, B, of.places, bound, sums.total, sums.moments, sums.rest, sums.counts
    scalars = m, *grid.sizes, plan.order, *grid.lows, plan.width, plan.slope, plan.rtol
    of_queries = kernel("cell_values", plan.columns, Y.dtype, sums.moments is not None)
    of_queries.launch(blocks(m), (THREADS,), *arrays, *scalars)
    return sums


def sum_windows(sums: Sums, data: Sorted, mass: Any, Y: Any, plan: Plan, grid: Grid) -> None:
    """Write the sums at the other queries where the cells around hold all data that can matter; ``mass`` is of all."""
    of_data = data.points, data.starts, data.weights, mass
    arrays = *of_data, Y, sums.rest, sums.total, sums.moments, sums.beyond, sums.counts
    scale = -0.5 / plan.bandwidth**2
    scalars = *grid.sizes, plan.reach, *grid.lows, plan.width, scale, plan.beyond, plan.rtol
    of_queries = kernel("sum_window", plan.columns, Y.dtype, sums.moments is not None)
    grid_blocks = min(len(Y), _BLOCKS_OF_WINDOWS * device.multiprocessors())
    of_queries.launch((grid_blocks,), (THREADS,), *arrays, *scalars)
