"""What a sample says of all data: an origin, the axes along which they spread, and where they lie along these."""

from __future__ import annotations

from typing import Any, NamedTuple

import cupy as cp
import numpy as np

_ROWS = 2048  # of the sample
_FEW_ROWS = 256  # of it, for medians and quantiles of every column
_INTERVALS = 256  # along an axis, of equal shares of the sample
_ORDER_AXES = 5  # of the codes that put points in order
_BITS = 30  # of a code
MOST_BOX_AXES = 16
_CLIPPED = 0.01  # of the sample on either side, along a coordinate: outliers say little of where the others spread


class Frame(NamedTuple):
    """Axes of a data set; arrays on the device but for the sample."""

    sample: np.ndarray  # (rows, d) float64, on the host
    centre: Any  # (d,) float64
    axes: Any  # (k, d) float32, of codes
    edges: Any  # (k, 257) float32
    bits: int  # of a code, an axis
    box_axes: Any  # (up to 16, d) float32
    square: float  # that squared distances of nearly all points to the centre stay below


def sample(X: Any, rows: int = _ROWS) -> np.ndarray:
    """Rows at equal distances, float64, on the host; waits for the device."""
    step = max(1, len(X) // rows)
    return cp.asnumpy(X[::step][:rows]).astype(np.float64)


def frame(points: np.ndarray) -> Frame:
    """Find the axes of a sample: of up to three dimensions the coordinates, of more the principal axes."""
    d = points.shape[1]
    few = np.sort(points[:: max(1, len(points) // _FEW_ROWS)], axis=0)
    centre = few[len(few) // 2]
    about = points - centre
    directions = np.eye(d)
    if d > 3:
        low, high = (few[int(part * (len(few) - 1))] - centre for part in (_CLIPPED, 1 - _CLIPPED))
        clipped = np.clip(about, low, high)
        directions = np.linalg.eigh(clipped.T @ clipped)[1].T[::-1]
    k = min(d, _ORDER_AXES)
    along = np.sort(about @ directions[:k].T, axis=0)
    edges = along[np.linspace(0, len(along) - 1, _INTERVALS + 1).astype(int)].T
    arrays = (directions[:k], edges, directions[:MOST_BOX_AXES])
    axes, edges, box_axes = (cp.asarray(np.ascontiguousarray(a, dtype=np.float32)) for a in arrays)
    square = np.sort((about * about).sum(axis=1))[int(0.98 * (len(about) - 1))]
    return Frame(points, cp.asarray(centre), axes, edges, _BITS // k, box_axes, float(square))
