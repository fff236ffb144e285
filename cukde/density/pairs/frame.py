"""What a sample says of all data: an origin, the axes along which they spread, and where they lie along these.

Both backends put points in order by it. Results do not depend on a frame: data near the sampled ones can have the same.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

INTERVALS = 256
"""Intervals along an axis, of equal shares of the sample."""

BOX_AXES = 16
"""Axes along which boxes of data may be taken, at most."""

_ROWS = 2048  # of the sample, at most,
_ENTRIES = 2**16  # and so many entries: of many dimensions fewer rows do
_FEW_ROWS = 256  # of it, for medians and quantiles of every column
_ORDER_AXES = 5  # of the codes that put points in order
_BITS = 30  # of a code
_TURNS = 2  # of the iteration that finds axes: they steer what is left out, and need not be exact
_CLIPPED = 0.01  # of the sample on either side, along a coordinate: outliers say little of where the others spread
_MOST_OF_PRODUCT = 2**18  # multiply-adds: libraries take larger products with many threads, which take long to wake


class Frame(NamedTuple):
    """Axes of a data set."""

    centre: np.ndarray  # (d,) float64
    axes: np.ndarray  # (k, d), of codes: orthonormal to rounding
    edges: np.ndarray  # (k, 257), of the intervals along these
    box_axes: np.ndarray  # (up to 16, d)
    bits: int  # of a code, an axis
    square: float  # that squared distances of nearly all points to the centre stay below


def rows(d: int) -> int:
    """Number of rows that a sample has at most."""
    return min(_ROWS, _ENTRIES // d)


def frame(points: np.ndarray) -> Frame:
    """Find the axes of a sample: of up to three dimensions the coordinates, of more the principal axes."""
    columns = np.ascontiguousarray(points.T)
    d, count = columns.shape
    few = np.sort(columns[:, :: max(1, count // _FEW_ROWS)], axis=1)
    centre = few[:, few.shape[1] // 2 :][:, :1]
    about = columns - centre
    directions = np.eye(d)
    if d > 3:
        last = few.shape[1] - 1
        low, high = (few[:, [int(part * last)]] - centre for part in (_CLIPPED, 1 - _CLIPPED))
        directions = _principal(np.clip(about, low, high))
    k = min(d, _ORDER_AXES)
    along = np.sort(about if d <= 3 else product(directions[:k].astype(about.dtype), about), axis=1)
    edges = along[:, np.linspace(0, count - 1, INTERVALS + 1).astype(np.intp)]
    squares = np.einsum("ij,ij->j", about, about)
    most = int(0.98 * (count - 1))
    square = float(np.partition(squares, most)[most])
    return Frame(centre[:, 0].astype(np.float64), directions[:k], edges, directions[:BOX_AXES], _BITS // k, square)


def product(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    """A @ B by products so small that one thread takes them."""
    count = max(1, _MOST_OF_PRODUCT // max(1, B.size))
    if len(A) <= count:
        return A @ B
    return np.concatenate([A[first : first + count] @ B for first in range(0, len(A), count)])


def _principal(columns: np.ndarray) -> np.ndarray:
    """Up to 16 directions along which columns (d, rows) spread most, the first most of all: orthonormal rows, (., d).

    By orthogonal iteration, which begins with some of the points.
    """
    d, count = columns.shape
    largest = np.abs(columns).max()
    columns = (columns / (largest if largest > 0 else 1)).astype(np.float32)
    points = np.ascontiguousarray(columns.T)
    if d <= BOX_AXES:
        basis, along = np.eye(d), points
    else:
        start = np.zeros((d, BOX_AXES))
        chosen = columns[:, :: max(1, count // BOX_AXES)][:, :BOX_AXES]
        start[:, : chosen.shape[1]] = chosen
        basis, along = _orthonormal(start, points)
        for _ in range(_TURNS):
            basis, along = _orthonormal(product(columns, along), points)
    within = np.linalg.eigh(product(along.T, along).astype(np.float64))[1]
    return (basis @ within[:, ::-1]).T


def _orthonormal(basis: np.ndarray, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """An orthonormal basis of the same space, in double so that it is one to rounding, and the points along it."""
    basis = np.linalg.qr(basis.astype(np.float64))[0]
    return basis, product(points, basis.astype(np.float32))
