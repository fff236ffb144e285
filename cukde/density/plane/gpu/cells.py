"""Where the cells of the plane's transform lie on a GPU, and which points are in them."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any, NamedTuple

import cupy as cp
import numpy as np

from cukde.core.gpu import compile as core_compile
from cukde.core.gpu.launch import C_TYPE, Specialisation
from cukde.density.plane import plan as plane_plan
from cukde.density.plane.plan import Plan

THREADS = 256

_BLOCKS_OF_EXTREMES = 256

# Multiply-adds of the translations, and numbers of an array of expansions, of which there are three at a time: so many
# are few, and so many more for each point. On an H200 2^32 of the first take about 0.7 ms.
_PRODUCTS, _PRODUCTS_OF_POINT = 2**32, 2**14
_NUMBERS, _NUMBERS_OF_POINT = 2**24, 4

_SAMPLE = 1024  # points that say where most of the data lie
_TRIMMED = (0, 2, 5)  # of them, beyond either end of a coordinate: 1 / 48 of the data or so at most


class Grid(NamedTuple):
    """Cells of data, by their least numbers; those of queries have the plan's window more on each side."""

    low: tuple[int, int]
    rows: int
    columns: int

    @property
    def number(self) -> int:
        """Number of cells."""
        return self.rows * self.columns

    def widened(self, reach: int) -> Grid:
        """Return it with so many cells more on each side."""
        return Grid((self.low[0] - reach, self.low[1] - reach), self.rows + 2 * reach, self.columns + 2 * reach)


class Sorted(NamedTuple):
    """Points cell by cell."""

    points: Any  # (n, 2), as they were given
    order: Any  # (n,) int64: their rows; those outside of the grid come last
    cells: Any  # (n,) int32, of these, ascending


def grid(X: Any, m: int, plan: Plan) -> Grid | None:
    """Lay cells over the data, or over most of them where they are spread out; waits for the device.

    None where cells would be too many or too far out.
    """
    whole = _extremes(X)
    found = _laid(whole, len(X) + m, plan)
    if found is not None or not np.isfinite(whole).all():
        return found
    sample = np.sort(cp.asnumpy(X[:: max(1, len(X) // _SAMPLE)][:_SAMPLE]).astype(np.float64), axis=0)
    for trimmed in _TRIMMED:
        ends = sample[[min(trimmed, len(sample) - 1), max(0, len(sample) - 1 - trimmed)]]
        found = _laid(ends, len(X) + m, plan)
        if found is not None:
            return found
    return None


def _laid(ends: np.ndarray, points: int, plan: Plan) -> Grid | None:
    """Lay cells from the least coordinates to the largest, (2, 2)."""
    if not (ends[0] <= ends[1]).all() or not np.abs(ends).max() < plane_plan.MOST_CELLS * plan.width:
        return None
    first, last = np.floor(ends / plan.width)
    rows, columns = (int(size) for size in last - first + 1)
    found = Grid((int(first[0]), int(first[1])), rows, columns)
    numbers = found.widened(plan.reach).number * plan.order**2
    products = 2 * (2 * plan.reach + 1) * plan.order * numbers
    few = products <= _PRODUCTS + _PRODUCTS_OF_POINT * points and numbers <= _NUMBERS + _NUMBERS_OF_POINT * points
    return found if few else None


def _extremes(X: Any) -> np.ndarray:
    """Least and largest coordinates, (2, 2); NaN or infinite where some are."""
    bits = cp.zeros(4, np.uint64)
    blocks = min(_BLOCKS_OF_EXTREMES, -(-len(X) // THREADS))
    _kernel("extremes", X.dtype).launch((blocks,), (THREADS,), X, bits, len(X))
    found = cp.asnumpy(bits)
    top = np.uint64(1 << 63)
    values = np.where(found & top, found ^ top, ~found).view(np.float64)
    return np.stack((-values[2:], values[:2]))


def in_cells(A: Any, of: Grid, plan: Plan) -> Sorted:
    """Put points in the order of the cells of a grid; those outside of it have the number after the last."""
    cells = cp.empty(len(A), np.int32)
    scalars = len(A), of.rows, of.columns, *of.low, plan.width
    _kernel("cells_of_points", A.dtype).launch((-(-len(A) // THREADS),), (THREADS,), A, cells, *scalars)
    order = cp.argsort(cells)
    return Sorted(A, order.astype(np.int64, copy=False), cells[order])


@core_compile.listed
def specialisations() -> Iterator[Specialisation]:
    """Every kernel of this module."""
    return (_kernel(name, storage) for name in _TYPES for storage in C_TYPE)


_TYPES = {"extremes": "2P q", "cells_of_points": "2P q 2i 3d"}


@functools.cache
def _kernel(name: str, storage: np.dtype) -> Specialisation:
    return Specialisation("density/plane", name, core_compile.macros(STORAGE=C_TYPE[storage], MOMENTS=0), _TYPES[name])
