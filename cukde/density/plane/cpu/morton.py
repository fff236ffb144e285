"""Points of the plane in the order of a Z curve, by which neighbours in space are mostly neighbours."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from cukde.core.cpu import threads
from cukde.core.cpu.jit import njit
from cukde.density.one_dimension.cpu.boxes import chunks

_JIT: dict[str, Any] = {"nogil": True, "error_model": "numpy", "cache": True}

CELL_BITS = 2  # a cell is so many times halved to the steps of the curve: points of a cell have an order too
BLOCK_BITS = 4  # and a block is so many times a cell doubled
OUTSIDE = 1 << 62
"""Added to the code of a point that lies outside of the lattice, whose code is that of the nearest place in it."""

_BITS = 30  # of a coordinate


class Lattice(NamedTuple):
    """Steps of the curve: point x is at floor(x / step) - low, from 0 to size - 1 in each coordinate."""

    step: float
    low: np.ndarray  # (2,) int64
    size: int
    cells: bool  # whether steps are as fine as CELL_BITS says


def lattice(X: np.ndarray, width: float) -> Lattice | None:
    """Choose steps for points: those of cells of a width, or longer where there would be too many of them.

    None where points are not numbers, or too far from zero for any.
    """
    extremes = threads.run(lambda rows: _extremes(X[rows]), chunks(len(X)))
    low, high = (f(np.array([e[i] for e in extremes]), axis=0) for i, f in ((0, np.min), (1, np.max)))
    if not (np.isfinite(low).all() and np.isfinite(high).all()):
        return None
    size = 1 << _BITS
    border = 1 << CELL_BITS + BLOCK_BITS  # a block on each side, for queries beside the data
    step = width * 2.0**-CELL_BITS
    cells = True
    while not float((high / step - low / step).max()) < size - 4 * border:
        step *= 2
        cells = False
        if step == np.inf:
            return None
    if not max(np.abs(low).max(), np.abs(high).max()) / step < 2.0**52:
        return None
    first = np.floor(low / step).astype(np.int64)
    return Lattice(step, (first // border - 1) * border, size, cells)


def codes(A: np.ndarray, steps: Lattice) -> np.ndarray:
    """Places of points on the curve, (n,) int64."""
    out = np.empty(len(A), np.int64)
    threads.run(lambda rows: _codes(A[rows], 1 / steps.step, steps.low, steps.size, out[rows]), chunks(len(A)))
    return out


@njit(**_JIT)
def _extremes(A: Any) -> Any:
    """Least and largest of each column; infinite where some are not numbers."""
    low, high = np.full(A.shape[1], np.inf), np.full(A.shape[1], -np.inf)
    for i in range(A.shape[0]):
        for k in range(A.shape[1]):
            v = np.float64(A[i, k])
            if not abs(v) < np.inf:
                low[k] = -np.inf
            low[k], high[k] = min(low[k], v), max(high[k], v)
    return low, high


@njit(**_JIT)
def _codes(A: Any, inverse: Any, low: Any, size: Any, out: Any) -> None:
    for i in range(A.shape[0]):
        code = np.int64(0)
        for k in range(2):
            position = np.floor(np.float64(A[i, k]) * inverse) - low[k]
            if not (position >= 0.0 and position < size):
                code |= np.int64(OUTSIDE)
            cell = np.int64(min(max(position, 0.0), size - 1.0))
            code |= spread2(cell) << k
        out[i] = code


@njit(**_JIT)
def spread2(v: Any) -> Any:
    """Put a zero bit before each bit of a number."""
    v = (v | (v << 16)) & 0x0000FFFF0000FFFF
    v = (v | (v << 8)) & 0x00FF00FF00FF00FF
    v = (v | (v << 4)) & 0x0F0F0F0F0F0F0F0F
    v = (v | (v << 2)) & 0x3333333333333333
    return (v | (v << 1)) & 0x5555555555555555


@njit(**_JIT)
def gather2(v: Any) -> Any:
    """Take every other bit of a number, the last first: what :func:`spread2` undoes."""
    v = v & 0x5555555555555555
    v = (v | (v >> 1)) & 0x3333333333333333
    v = (v | (v >> 2)) & 0x0F0F0F0F0F0F0F0F
    v = (v | (v >> 4)) & 0x00FF00FF00FF00FF
    v = (v | (v >> 8)) & 0x0000FFFF0000FFFF
    return (v | (v >> 16)) & 0x00000000FFFFFFFF
