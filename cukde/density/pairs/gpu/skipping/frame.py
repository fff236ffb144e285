"""What a sample says of all data: an origin, the axes along which they spread, and where they lie along these."""

from __future__ import annotations

from typing import Any, NamedTuple

import cupy as cp
import numpy as np

_ROWS = 2048  # of the sample, at most,
_ENTRIES = 2**16  # and so many entries: of many dimensions fewer rows do
_FEW_ROWS = 256  # of it, for medians and quantiles of every column
_QUERIES = 128  # rows of a sample of queries
_INTERVALS = 256  # along an axis, of equal shares of the sample
_ORDER_AXES = 5  # of the codes that put points in order
_BITS = 30  # of a code
_BOX_AXES = 16
_TURNS = 2  # of the iteration that finds axes: they steer what is left out, and need not be exact
_CLIPPED = 0.01  # of the sample on either side, along a coordinate: outliers say little of where the others spread
_MOST_OF_PRODUCT = 2**18  # multiply-adds: libraries take larger products with many threads, which take long to wake


class Frame(NamedTuple):
    """Axes of a data set; arrays on the device, all in one allocation.

    Results do not depend on them, but for the axes' being orthonormal: data near the sampled ones can have the same.
    """

    centre: Any  # (d,) float64
    axes: Any  # (k, d) float32, of codes
    edges: Any  # (k, 257) float32
    box_axes: Any  # (up to 16, d) float32
    bits: int  # of a code, an axis
    square: float  # that squared distances of nearly all points to the centre stay below


def sample(X: Any) -> np.ndarray:
    """Rows at equal distances, on the host; waits for the device."""
    return cp.asnumpy(_sampled(X, _rows(X)))


def samples(X: Any, Y: Any) -> tuple[np.ndarray, np.ndarray]:
    """Rows of the data, and fewer of queries of the same dtype, by one copy; waits for the device."""
    data, queries = _sampled(X, _rows(X)), _sampled(Y, _QUERIES)
    both = cp.asnumpy(cp.concatenate((data, queries)))
    return both[: len(data)], both[len(data) :]


def _rows(X: Any) -> int:
    return min(_ROWS, _ENTRIES // X.shape[1])


def _sampled(X: Any, rows: int) -> Any:
    return X[:: max(1, len(X) // rows)][:rows]


def frame(points: np.ndarray) -> Frame:
    """Find the axes of a sample: of up to three dimensions the coordinates, of more the principal axes."""
    columns = np.ascontiguousarray(points.T)
    d, rows = columns.shape
    few = np.sort(columns[:, :: max(1, rows // _FEW_ROWS)], axis=1)
    centre = few[:, few.shape[1] // 2 :][:, :1]
    about = columns - centre
    directions = np.eye(d)
    if d > 3:
        last = few.shape[1] - 1
        low, high = (few[:, [int(part * last)]] - centre for part in (_CLIPPED, 1 - _CLIPPED))
        directions = _principal(np.clip(about, low, high))
    k = min(d, _ORDER_AXES)
    along = np.sort(about if d <= 3 else product(directions[:k].astype(about.dtype), about), axis=1)
    edges = along[:, np.linspace(0, rows - 1, _INTERVALS + 1).astype(int)]
    squares = np.einsum("ij,ij->j", about, about)
    most = int(0.98 * (rows - 1))
    square = float(np.partition(squares, most)[most])
    on_device = _on_device(centre[:, 0], directions[:k], edges, directions[:_BOX_AXES])
    return Frame(*on_device, bits=_BITS // k, square=square)


def product(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    """A @ B by products so small that one thread takes them."""
    rows = max(1, _MOST_OF_PRODUCT // max(1, B.size))
    if len(A) <= rows:
        return A @ B
    return np.concatenate([A[first : first + rows] @ B for first in range(0, len(A), rows)])


def _principal(columns: np.ndarray) -> np.ndarray:
    """Up to 16 directions along which columns (d, rows) spread most, the first most of all: orthonormal rows, (., d).

    By orthogonal iteration, which begins with some of the points.
    """
    d, rows = columns.shape
    largest = np.abs(columns).max()
    columns = (columns / (largest if largest > 0 else 1)).astype(np.float32)
    points = np.ascontiguousarray(columns.T)
    if d <= _BOX_AXES:
        basis, along = np.eye(d), points
    else:
        start = np.zeros((d, _BOX_AXES))
        chosen = columns[:, :: max(1, rows // _BOX_AXES)][:, :_BOX_AXES]
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


def _on_device(
    centre: np.ndarray, axes: np.ndarray, edges: np.ndarray, box_axes: np.ndarray
) -> tuple[Any, Any, Any, Any]:
    """The arrays of a frame by one copy, the first of them in double."""
    singles, d = (axes, edges, box_axes), len(centre)
    sizes = [a.size for a in singles]
    packed = np.zeros(d + (sum(sizes) + 1) // 2)
    packed[:d] = centre
    packed[d:].view(np.float32)[: sum(sizes)] = np.concatenate([a.ravel() for a in singles])
    there = cp.asarray(packed)
    rest, parts = there[d:].view(np.float32), []
    for a, end in zip(singles, np.cumsum(sizes), strict=True):
        parts.append(rest[end - a.size : end].reshape(a.shape))
    return there[:d], *parts
