"""Where the cells of the plane's transform lie on a GPU, and which points are in them."""

from __future__ import annotations

from typing import Any, NamedTuple

import cupy as cp
import numpy as np

from cukde.density.plane import plan as plane_plan
from cukde.density.plane.gpu.kernels import THREADS, kernel
from cukde.density.plane.plan import Plan

_BLOCKS_OF_EXTREMES = 256

_SAMPLE = 1024  # points that say where most of the data lie


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
    """Data cell by cell."""

    points: Any  # (n, 2); those outside of the grid come last
    order: Any  # (n,) int64: their rows
    starts: Any  # (cells + 1,) int64: where each cell begins
    weights: Any | None  # (n,) float64, of the points; None: all are 1


class Extent(NamedTuple):
    """Where data lie."""

    whole: np.ndarray  # (2, 2): least and largest coordinates, infinite or NaN where some are
    sample: np.ndarray  # (up to 1024, 2) float64, each coordinate in ascending order

    @classmethod
    def of(cls, X: Any) -> Extent:
        """Find them; waits for the device."""
        bits = cp.zeros(4, np.uint64)
        blocks = min(_BLOCKS_OF_EXTREMES, -(-len(X) // THREADS))
        kernel("extremes", X.dtype).launch((blocks,), (THREADS,), X, bits, len(X))
        sample = cp.ascontiguousarray(X[:: max(1, len(X) // _SAMPLE)][:_SAMPLE])
        packed = cp.asnumpy(cp.concatenate((bits.view(np.uint8), sample.view(np.uint8).ravel())))  # one copy, one wait
        found, top = packed[: bits.nbytes].view(np.uint64), np.uint64(1 << 63)
        values = np.where(found & top, found ^ top, ~found).view(np.float64)
        points = packed[bits.nbytes :].view(X.dtype).reshape(-1, 2).astype(np.float64)
        return cls(np.stack((-values[2:], values[:2])), np.sort(points, axis=0))

    def trimmed(self, points: int) -> np.ndarray:
        """Coordinates of the sample without so many points beyond either end."""
        last = len(self.sample) - 1
        return self.sample[[min(points, last), max(0, last - points)]]

    def beyond(self, points: int) -> float:
        """About the share of data beyond those, of either coordinate."""
        return 4 * (points + 0.5) / len(self.sample)


def grid(ends: np.ndarray, plan: Plan) -> Grid | None:
    """Lay cells from the least coordinates to the largest, (2, 2); None where they would be too far out."""
    with np.errstate(invalid="ignore"):
        if not (ends[0] <= ends[1]).all() or not np.abs(ends).max() < plane_plan.MOST_CELLS * plan.width:
            return None
    first, last = np.floor(ends / plan.width)
    rows, columns = (int(size) for size in last - first + 1)
    return Grid((int(first[0]), int(first[1])), rows, columns)


def in_cells(X: Any, log_weights: Any | None, found: Grid, plan: Plan) -> Sorted:
    """Put data in the order of the cells of a grid."""
    cells = cp.empty(len(X), np.int32)
    scalars = len(X), found.rows, found.columns, *found.low, plan.width
    kernel("cells_of_points", X.dtype).launch((-(-len(X) // THREADS),), (THREADS,), X, cells, *scalars)
    order = cp.argsort(cells).astype(np.int64, copy=False)
    starts = cp.searchsorted(cells[order], cp.arange(found.number + 1, dtype=np.int32)).astype(np.int64, copy=False)
    return Sorted(X[order], order, starts, None if log_weights is None else cp.exp(log_weights[order]))
