"""Densities of two dimensions to a relative tolerance on the GPU: a fast Gauss transform over a grid of cells.

Points are sorted into cells, ``kernels_cu/density/truncated.cu`` sums moments, accepts cells and takes values,
and translations are products of matrices. What is not accepted is summed over all pairs.
See :mod:`cukde.density.truncated.plan`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import cupy as cp
import numpy as np

from cukde.core.gpu import compile as core_compile, device
from cukde.core.gpu.launch import Specialisation
from cukde.density.one_dimension.plan import BANDWIDTHS
from cukde.density.options import Options
from cukde.density.pairs.gpu import passes as pairs_passes
from cukde.density.sums import Epilogue, PartialSums, to_density
from cukde.density.truncated import plan as truncated_plan
from cukde.density.truncated.plan import Plan

_THREADS, _MOST_POWERS = 256, 24
_LEAST_RTOL = 1e-11  # for which these powers are enough

# Up to so many pairs all of them take no longer: on an H200 the transform takes 3.7 ms however few points there are, by
# its launches and three reads of the data, and 5.1 ms for a million at as many queries.
_FEW_PAIRS = 2**32
_DOUBLE = 2  # a pair in double precision counts so many

# Numbers of an array of expansions, of which there are four at a time: 128 MiB each.
_MOST_NUMBERS = 2**24


class _Grid(NamedTuple):
    """Cells that hold all data, by their least numbers; those of queries have the plan's window more on each side."""

    low: tuple[int, int]
    rows: int
    columns: int


def density(X: Any, Y: Any | None, h: float, options: Options, epilogue: Epilogue, *, points: Any = None) -> Any:
    """Return what :func:`cukde.density.pairs.gpu.passes.density` does, to ``options.rtol`` beside its rounding.

    Without one it does the same. Else it waits for the device three times; while a stream is captured nothing may wait,
    and all pairs are summed.
    """
    queries = X if Y is None else Y
    sums, rtol = None, options.rtol or 0.0
    pairs = len(X) * len(queries) * (_DOUBLE if options.precision == "float64" else 1)
    if rtol >= _LEAST_RTOL and pairs > _FEW_PAIRS:
        sums = _sums(X, queries, h, rtol, options.log_weights)
    if sums is None:
        return pairs_passes.density(X, Y, h, options, epilogue, points=points)
    total, left = sums
    out = to_density(PartialSums(cp.zeros_like(total), total), *epilogue, cp)
    rest = cp.flatnonzero(left)
    if rest.size:
        if options.precision != "float64":  # mostly far from the data, where products round more than differences
            options = options._replace(precision="ieee")
        out[rest] = pairs_passes.density(X, cp.ascontiguousarray(queries[rest]), h, options, epilogue)
    return out


def _sums(X: Any, Y: Any, h: float, rtol: float, log_weights: Any) -> tuple[Any, Any] | None:
    """Sums at the queries, and whether each is left; None where a grid does not hold the cells."""
    if not BANDWIDTHS[0] < h < BANDWIDTHS[1] or device.capturing():
        return None
    plan = truncated_plan.plan(h, rtol)
    grid = _grid(X, plan)
    if grid is None or plan.order > _MOST_POWERS:
        return None
    M, mass = _moments(X, log_weights, plan, grid)
    accepted = _accepted(mass, plan, grid)
    B = _translated(M, plan)
    del M
    return _values(Y, B, accepted, plan, grid)


def _grid(X: Any, plan: Plan) -> _Grid | None:
    """Lay cells over the data, which waits for the device; None where they are too many or too far out."""
    low, high = cp.asnumpy(cp.stack([X.min(axis=0), X.max(axis=0)])).astype(np.float64)
    if not max(np.abs(low).max(), np.abs(high).max()) < truncated_plan.MOST_CELLS * plan.width:
        return None
    first, last = (np.floor(ends / plan.width) for ends in (low, high))
    rows, columns = (int(size) for size in last - first + 1)
    if (rows + 2 * plan.reach) * (columns + 2 * plan.reach) * plan.order**2 > _MOST_NUMBERS:
        return None
    return _Grid((int(first[0]), int(first[1])), rows, columns)


def _cells(A: Any, plan: Plan, low: tuple[int, int], rows: int, columns: int) -> tuple[Any, Any]:
    """Cells of points in ascending order, int64, and their rows; points outside of the grid are in the one after it."""
    x, y = (cp.floor(A[:, k] / plan.width) - low[k] for k in (0, 1))
    inside = (x >= 0) & (x < rows) & (y >= 0) & (y < columns)
    cells = cp.where(inside, x * columns + y, float(rows * columns)).astype(np.int64)
    order = cp.argsort(cells)
    return cells[order], order


def _moments(X: Any, log_weights: Any, plan: Plan, grid: _Grid) -> tuple[Any, Any]:
    """Moments (rows, columns, P, P) and masses (rows, columns) of the cells of data."""
    x = X.astype(np.float64, copy=False)
    cells, order = _cells(x, plan, *grid)
    number = grid.rows * grid.columns
    starts = cp.searchsorted(cells, cp.arange(number + 1))
    weights = None if log_weights is None else cp.exp(log_weights)
    M = cp.empty((grid.rows, grid.columns, plan.order, plan.order))
    mass = cp.empty((grid.rows, grid.columns))
    order, starts = (a.astype(np.int64, copy=False) for a in (order, starts))
    arrays = cp.ascontiguousarray(x), order, starts, weights, M, mass
    _CELL_MOMENTS.launch((number,), (_THREADS,), *arrays, grid.columns, plan.order, *grid.low, plan.width)
    return M, mass


def _accepted(mass: Any, plan: Plan, grid: _Grid) -> Any:
    """Whether the bound holds of each cell of queries."""
    rows, columns = grid.rows + 2 * plan.reach, grid.columns + 2 * plan.reach
    out = cp.empty((rows, columns), np.uint8)
    tables = (cp.asarray(table) for table in (plan.error, plan.most, plan.least))
    arrays = mass, mass.sum()[None], *tables, out
    scalars = grid.rows, grid.columns, plan.reach, plan.beyond, plan.rtol
    _ACCEPT_CELLS.launch((-(-rows * columns // _THREADS),), (_THREADS,), *arrays, *scalars)
    return out


def _translated(M: Any, plan: Plan) -> Any:
    """Expansions B[l, k] about the cells of queries, (rows + 2 W, columns + 2 W, P, P).

    One coordinate after the other, a product of matrices for each offset.
    """
    rows, columns, P, _ = M.shape
    wide, high = columns + 2 * plan.reach, rows + 2 * plan.reach
    # Of a table T[o, l, k] a product takes powers k of data to powers l of queries.
    tables = cp.asarray(np.ascontiguousarray(plan.translation.transpose(0, 2, 1)))
    C = cp.zeros((rows, wide, P, P))
    for o in range(2 * plan.reach + 1):
        C[:, o : o + columns] += cp.matmul(M.reshape(-1, P), tables[o]).reshape(M.shape)
    C = cp.ascontiguousarray(C.transpose(0, 1, 3, 2))
    B = cp.zeros((high, wide, P, P))
    for o in range(2 * plan.reach + 1):
        B[o : o + rows] += cp.matmul(C.reshape(-1, P), tables[o]).reshape(C.shape)
    return B


def _values(Y: Any, B: Any, accepted: Any, plan: Plan, grid: _Grid) -> tuple[Any, Any]:
    """Sums at the queries, (m,), and whether each is left."""
    y = Y.astype(np.float64, copy=False)
    rows, columns = accepted.shape
    low = (grid.low[0] - plan.reach, grid.low[1] - plan.reach)
    cells, order = _cells(y, plan, low, rows, columns)
    m = len(Y)
    total, left = cp.empty(m), cp.empty(m, np.uint8)
    arrays = cp.ascontiguousarray(y), order.astype(np.int64, copy=False), cells, B, accepted, total, left
    scalars = m, rows * columns, columns, plan.order, *low, plan.width
    _CELL_VALUES.launch((-(-m // _THREADS),), (_THREADS,), *arrays, *scalars)
    return total, left


@core_compile.listed
def specialisations() -> Iterator[Specialisation]:
    """Every kernel of this module."""
    return iter((_CELL_MOMENTS, _ACCEPT_CELLS, _CELL_VALUES))


_CELL_MOMENTS = Specialisation("density/truncated", "cell_moments", (), "6P 2i 3d")
_ACCEPT_CELLS = Specialisation("density/truncated", "accept_cells", (), "6P 3i 2d")
_CELL_VALUES = Specialisation("density/truncated", "cell_values", (), "7P 2q 2i 3d")
