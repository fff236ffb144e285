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

# Numbers of an array of expansions, of which there are three at a time: 128 MiB each, and more for more points.
_MOST_NUMBERS = 2**24

_SAMPLE = 2048  # points that say where most of the data lie
_TRIMMED = (0.0, 1 / 512, 1 / 192)  # of them, beyond either end of a coordinate: 1 / 48 of the data at most


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
    sample = cp.asnumpy(X[:: max(1, len(X) // _SAMPLE)]).astype(np.float64)
    for part in _TRIMMED:
        found = _laid(np.quantile(sample, (part, 1 - part), axis=0), len(X) + m, plan)
        if found is not None:
            return found
    return None


def _laid(ends: np.ndarray, points: int, plan: Plan) -> Grid | None:
    """Lay cells from the least coordinates to the largest, (2, 2)."""
    if not np.abs(ends).max() < plane_plan.MOST_CELLS * plan.width:
        return None
    first, last = np.floor(ends / plan.width)
    rows, columns = (int(size) for size in last - first + 1)
    found = Grid((int(first[0]), int(first[1])), rows, columns)
    numbers = found.widened(plan.reach).number * plan.order**2
    return found if numbers <= _MOST_NUMBERS + points else None


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
