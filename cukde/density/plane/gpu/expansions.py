"""Launchers of ``kernels_cu/density/plane.cu`` from moments of cells to sums at queries.

See :mod:`cukde.density.plane.plan`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import cupy as cp
import numpy as np

from cukde.core.gpu import device
from cukde.density.plane.gpu.cells import Grid, Sorted
from cukde.density.plane.gpu.kernels import THREADS, kernel
from cukde.density.plane.plan import Plan
from cukde.density.sums import PartialSums

MOST_POWERS = 24
"""Of a plan that the kernels take."""

_POINTS_OF_PART = 1024  # points of a cell that one block takes
_THREADS_OF_TRANSLATION, _TILE = 128, 4
_BLOCKS_OF_WINDOWS = 8  # of a multiprocessor


class Tables(NamedTuple):
    """Of a plan, on the device."""

    translation: Any  # (2 W + 1, P, P): T[o, k, l]
    bounds: tuple[Any, Any, Any]  # error, most, least: (2 W + 1,)

    @classmethod
    def of(cls, plan: Plan) -> Tables:
        """Bring them there by one copy."""
        offsets, P = len(plan.error), plan.order
        columns = plan.translation.transpose(0, 2, 1).reshape(offsets * P * P)
        packed = cp.asarray(np.concatenate((columns, plan.error, plan.most, plan.least)))
        bounds = packed[offsets * P * P :].reshape(3, offsets)
        return cls(packed[: offsets * P * P].reshape(offsets, P, P), (bounds[0], bounds[1], bounds[2]))


class Moments(NamedTuple):
    """Of the cells of data."""

    M: Any  # (rows, columns, P, P): of powers of y and x
    mass: Any  # (rows, columns)
    whole: Any  # (1,): of all cells


def moments(data: Sorted, plan: Plan, grid: Grid) -> Moments:
    """Moments of the cells."""
    number, P = grid.number, plan.order
    M, mass = cp.empty((grid.rows, grid.columns, P, P)), cp.empty((grid.rows, grid.columns))
    most = len(data.points) // _POINTS_OF_PART  # of the parts of cells beyond their first
    parts = cp.empty((max(1, most), P, P))
    arrays = data.points, data.starts, data.weights, M, parts
    scalars = number, grid.columns, P, _POINTS_OF_PART, *grid.low, plan.width
    kernel("cell_moments", data.points.dtype).launch((number + most,), (THREADS,), *arrays, *scalars)
    kernel("add_parts").launch((number,), (THREADS,), data.starts, parts, M, mass, P, _POINTS_OF_PART)
    return Moments(M, mass, mass.sum()[None])


def accepted(cells: Moments, tables: Tables, plan: Plan, grid: Grid) -> Any:
    """Whether the bound holds of each cell of queries."""
    around = grid.widened(plan.reach)
    out = cp.empty((around.rows, around.columns), np.uint8)
    arrays = cells.mass, cells.whole, *tables.bounds, out
    scalars = grid.rows, grid.columns, plan.reach, plan.beyond, plan.rtol
    kernel("accept_cells").launch((-(-around.number // THREADS),), (THREADS,), *arrays, *scalars)
    return out


def translated(cells: Moments, wanted: Any, tables: Tables, plan: Plan, grid: Grid) -> Any:
    """Expansions about the wanted cells of queries, (rows + 2 W, columns + 2 W, P, P): of powers of y and x."""
    around, P = grid.widened(plan.reach), plan.order
    of_block = _THREADS_OF_TRANSLATION // (P // _TILE) ** 2
    translation = kernel("translate")

    def launch(
        source: Any, masses: Any | None, only: Any | None, out: Any, lines: int, count: int, *steps: int
    ) -> None:
        shape = -(-(count + 2 * plan.reach) // of_block), lines
        arrays = source, tables.translation, masses, only, out
        translation.launch(shape, (_THREADS_OF_TRANSLATION,), *arrays, count, plan.reach, P, *steps)

    # Along y first, in which neighbours are next to each other; then along x.
    C = cp.empty((grid.rows, around.columns, P, P))
    launch(cells.M, cells.mass, None, C, grid.rows, grid.columns, grid.columns, 1, around.columns, 1)
    B = cp.empty((around.rows, around.columns, P, P))
    launch(C, None, wanted, B, around.columns, grid.rows, 1, around.columns, 1, around.columns)
    return B


class Sums(NamedTuple):
    """At queries."""

    total: Any  # (m,) float64
    moments: Any | None  # (m, 2) float64
    rest: Any  # (m,) int64: rows of the queries that are left to the data around; at first so many as counts[0] says
    beyond: Any  # (m,) int64: rows of those that all data may matter to, as many as counts[1] says
    counts: Any  # (2,) int64


def values(Y: Any, order: Any | None, B: Any, accepted: Any, plan: Plan, grid: Grid, out: PartialSums) -> Sums:
    """Write the sums at the queries of accepted cells; ``order`` has near ones together."""
    around, m = grid.widened(plan.reach), len(Y)
    sums = Sums(out.total, out.moments, cp.empty(m, np.int64), cp.empty(m, np.int64), cp.zeros(2, np.int64))
    arrays = Y, order, B, accepted, sums.total, sums.moments, sums.rest, sums.counts
    scalars = m, around.rows, around.columns, plan.order, *around.low, plan.width, plan.slope
    of_queries = kernel("cell_values", Y.dtype, sums.moments is not None)
    of_queries.launch((-(-m // THREADS),), (THREADS,), *arrays, *scalars)
    return sums


def sum_windows(sums: Sums, data: Sorted, mass: Any, Y: Any, plan: Plan, grid: Grid) -> None:
    """Write the sums at the other queries where the cells around hold all data that can matter; ``mass`` is of all."""
    of_data = data.points, data.starts, data.weights, mass
    arrays = *of_data, Y, sums.rest, sums.total, sums.moments, sums.beyond, sums.counts
    scale = -0.5 / plan.bandwidth**2
    scalars = grid.rows, grid.columns, plan.reach, *grid.low, plan.width, scale, plan.beyond, plan.rtol
    of_queries = kernel("sum_window", Y.dtype, sums.moments is not None)
    blocks = min(len(Y), _BLOCKS_OF_WINDOWS * device.multiprocessors())
    of_queries.launch((blocks,), (THREADS,), *arrays, *scalars)
