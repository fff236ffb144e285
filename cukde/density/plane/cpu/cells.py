"""Cells of a transform as numbers, in whose order those of a tile of the last coordinates are together, by the first.

Two columns are three whose second has a single cell.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from cukde.core.cpu import threads
from cukde.core.cpu.jit import OPTIONS as _JIT, njit
from cukde.density.one_dimension.cpu.boxes import chunks
from cukde.density.plane import plan as plane_plan

OUTSIDE = 1 << 62
"""Number of a point that no window of the data reaches."""

MOST_REACH = 8
"""Cells that a window may reach: a tile is as wide, and the tiles around it hold all that there is to look at."""


class Layout(NamedTuple):
    """Bits of a number, from the last: places in a tile, the place by the first coordinate, the tile."""

    bits: tuple[int, int, int]  # of a place by each coordinate
    within: tuple[int, int]  # of those, in a tile: by the second and third


LAYOUT = {2: Layout((30, 0, 30), (0, 4)), 3: Layout((20, 20, 20), (3, 3))}
"""By the number of columns."""

_BORDER = 16  # cells beside the data, at least a tile


class Lattice(NamedTuple):
    """Cells of data: point x is at floor(x / width) - low in each coordinate."""

    columns: int
    width: float
    low: np.ndarray  # (3,) int64

    @property
    def axes(self) -> np.ndarray:
        """Which column each of the three coordinates is; for the second of two, whose only power is 1, any."""
        return np.array([0, self.columns - 2, self.columns - 1])


def lattice(X: np.ndarray, width: float) -> Lattice | None:
    """Lay cells over points; None where there are more than numbers, or points are not or are too far from zero."""
    low, high = (np.array([f(column) for column in X.T], np.float64) for f in (np.min, np.max))
    columns = X.shape[1]
    size = 1 << LAYOUT[columns].bits[0]
    with np.errstate(invalid="ignore"):
        first, last = np.floor(low / width), np.floor(high / width)
        if not (last - first < size - 2 * _BORDER).all():
            return None
    if not max(np.abs(first).max(), np.abs(last).max()) + size < plane_plan.MOST_CELLS:
        return None
    found = np.zeros(3, np.int64)
    found[[0, -1]] = first[[0, -1]].astype(np.int64) - _BORDER
    if columns == 3:
        found[1] = int(first[1]) - _BORDER
    return Lattice(columns, width, found)


def numbers(A: np.ndarray, of: Lattice) -> np.ndarray:
    """Number of the cell of each point, (n,) int64."""
    out = np.empty(len(A), np.int64)
    layout = LAYOUT[of.columns]
    threads.run(lambda rows: _numbers(A[rows], of.axes, of.width, of.low, *layout, out[rows]), chunks(len(A)))
    return out


@njit(**_JIT)
def _numbers(A: Any, axes: Any, width: Any, low: Any, bits: Any, within: Any, out: Any) -> None:
    place = np.zeros(3, np.int64)
    for i in range(A.shape[0]):
        inside = True
        for k in range(3):
            if bits[k]:
                position = np.floor(np.float64(A[i, axes[k]]) / width) - low[k]
                inside = inside and position >= 0.0 and position < (np.int64(1) << bits[k])
                place[k] = np.int64(position) if inside else 0
        out[i] = number(place[0], place[1], place[2], bits, within) if inside else OUTSIDE


@njit(**_JIT)
def number(x: Any, y: Any, z: Any, bits: Any, within: Any) -> Any:
    """Return the number of a cell by its places."""
    inner = ((y & ((1 << within[0]) - 1)) << within[1]) | (z & ((1 << within[1]) - 1))
    tile = ((y >> within[0]) << (bits[2] - within[1])) | (z >> within[1])
    return (((tile << bits[0]) | x) << (within[0] + within[1])) | inner


@njit(**_JIT)
def places(cell: Any, bits: Any, within: Any) -> Any:
    """Return the places of a cell by its number."""
    z = cell & ((1 << within[1]) - 1)
    y = (cell >> within[1]) & ((1 << within[0]) - 1)
    x = (cell >> (within[0] + within[1])) & ((1 << bits[0]) - 1)
    tile = cell >> (within[0] + within[1] + bits[0])
    z |= (tile & ((1 << (bits[2] - within[1])) - 1)) << within[1]
    return x, y | ((tile >> (bits[2] - within[1])) << within[0]), z
