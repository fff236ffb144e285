"""Where the cells of a transform lie on a GPU, and which points are in them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import cupy as cp
import numpy as np

from cukde.core.gpu import merge_sort
from cukde.density.plane import plan as plane_plan
from cukde.density.plane.gpu.kernels import THREADS, blocks, kernel
from cukde.density.plane.plan import Plan

_BLOCKS_OF_EXTREMES = 256

_SAMPLE = 1024  # points that say where most of the data lie


class Grid(NamedTuple):
    """Cells by their least numbers: those that data were laid in, and the plan's window more on each side."""

    low: tuple[int, ...]
    size: tuple[int, ...]

    @property
    def number(self) -> int:
        """Number of cells."""
        return math.prod(self.size)

    @property
    def sizes(self) -> tuple[int, ...]:
        """As kernels take them, three, whose last is 1 of two coordinates."""
        return (*self.size, 1)[:3]

    @property
    def lows(self) -> tuple[int, ...]:
        """As kernels take them, three, whose last is 0 of two coordinates."""
        return (*self.low, 0)[:3]

    def along(self, axis: int) -> tuple[int, int]:
        """How many cells lie along a coordinate, and how far apart their numbers are."""
        return self.size[axis], math.prod(self.size[axis + 1 :])


class Sorted(NamedTuple):
    """Data cell by cell."""

    points: Any  # (n, d); those outside of the grid come last
    order: Any  # (n,) int64: their rows
    starts: Any  # (cells + 1,) int64: where each cell begins
    weights: Any | None  # (n,) float64, of the points; None: all are 1


class Some(NamedTuple):
    """Cells that have expansions."""

    places: Any  # (all cells,) int32: which of them a cell is, or -1
    numbers: Any  # int32: those that have one, as many as ``number``
    number: int


class Extent(NamedTuple):
    """Where data lie."""

    whole: np.ndarray  # (2, d): least and largest coordinates, infinite or NaN where some are
    sample: np.ndarray  # (up to 1024, d) float64, each coordinate in ascending order

    @classmethod
    def of(cls, X: Any) -> Extent:
        """Find them; waits for the device."""
        columns = X.shape[1]
        bits = cp.zeros(2 * columns, np.uint64)
        grid = min(_BLOCKS_OF_EXTREMES, -(-len(X) // THREADS))
        kernel("extremes", columns, X.dtype).launch((grid,), (THREADS,), X, bits, len(X))
        sample = cp.ascontiguousarray(X[:: max(1, len(X) // _SAMPLE)][:_SAMPLE])
        packed = cp.asnumpy(cp.concatenate((bits.view(np.uint8), sample.view(np.uint8).ravel())))  # one copy, one wait
        found, top = packed[: bits.nbytes].view(np.uint64), np.uint64(1 << 63)
        values = np.where(found & top, found ^ top, ~found).view(np.float64)
        points = packed[bits.nbytes :].view(X.dtype).reshape(-1, columns).astype(np.float64)
        return cls(np.stack((-values[columns:], values[:columns])), np.sort(points, axis=0))

    def trimmed(self, points: int) -> np.ndarray:
        """Coordinates of the sample without so many points beyond either end."""
        last = len(self.sample) - 1
        return self.sample[[min(points, last), max(0, last - points)]]

    def beyond(self, points: int) -> float:
        """About the share of data beyond those, of any coordinate."""
        return 2 * self.sample.shape[1] * (points + 0.5) / len(self.sample)


def grid(ends: np.ndarray, plan: Plan) -> Grid | None:
    """Lay cells from the least coordinates to the largest, (2, d); None where they would be too far out."""
    with np.errstate(invalid="ignore"):
        if not (ends[0] <= ends[1]).all() or not np.abs(ends).max() < plane_plan.MOST_CELLS * plan.width:
            return None
    first, last = np.floor(ends / plan.width)
    size = (int(count) + 2 * plan.reach for count in last - first + 1)
    return Grid(tuple(int(low) - plan.reach for low in first), tuple(size))


def numbers(A: Any, of: Grid, plan: Plan, held: Any | None = None) -> Any:
    """Number of the cell of each point, (n,) uint32, outside the number of cells; note in ``held`` which hold any."""
    cells = cp.empty(len(A), np.uint32)
    scalars = len(A), *of.sizes, *of.lows, plan.width
    kernel("cells_of_points", plan.columns, A.dtype).launch(blocks(len(A)), (THREADS,), A, cells, held, *scalars)
    return cells


def in_cells(X: Any, log_weights: Any | None, found: Grid, plan: Plan) -> Sorted:
    """Put data in the order of the cells of a grid."""
    cells, order = merge_sort.in_order(numbers(X, found, plan))
    starts = cp.searchsorted(cells, cp.arange(found.number + 1, dtype=np.uint32)).astype(np.int64, copy=False)
    return Sorted(X[order], order, starts, None if log_weights is None else cp.exp(log_weights[order]))


def within(flags: Any, of: Grid, axis: int, plan: Plan) -> Any:
    """Flags of cells that have a flag in their window by one coordinate."""
    out = cp.empty_like(flags)
    kernel("spread_flags").launch(blocks(of.number), (THREADS,), flags, out, of.number, *of.along(axis), plan.reach)
    return out


def listed(flags: Sequence[tuple[Any, Any | None]]) -> list[Some]:
    """Cells with both of two flags, or with one, for each pair of arrays of these; waits for the device."""
    counts, found = cp.zeros(len(flags), np.int32), []
    for at, (one, other) in enumerate(flags):
        places, numbers = cp.empty(len(one), np.int32), cp.empty(len(one), np.int32)
        arrays = one, other, places, numbers, counts[at:]
        kernel("list_cells").launch(blocks(len(one)), (THREADS,), *arrays, len(one))
        found.append((places, numbers))
    return [Some(*of, int(count)) for of, count in zip(found, cp.asnumpy(counts), strict=True)]
