"""What a sample of the data says of all: an origin, the axes along which they spread, and where they lie along these."""

from __future__ import annotations

from typing import Any, NamedTuple

import cupy as cp
import numpy as np

_ROWS = 4096  # of the sample
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


def sample(X: Any, rows: int = _ROWS) -> np.ndarray:
    """Rows at equal distances, float64, on the host; waits for the device."""
    step = max(1, len(X) // rows)
    return cp.asnumpy(X[::step][:rows]).astype(np.float64)


def frame(points: np.ndarray) -> Frame:
    """Find the axes of a sample: of up to three dimensions the coordinates, of more the principal axes."""
    d = points.shape[1]
    centre = np.median(points, axis=0)
    about = points - centre
    directions = np.eye(d)
    if d > 3:
        low, high = np.quantile(about, (_CLIPPED, 1 - _CLIPPED), axis=0)
        clipped = np.clip(about, low, high)
        directions = np.linalg.eigh(clipped.T @ clipped)[1].T[::-1]
    k = min(d, _ORDER_AXES)
    along = about @ directions[:k].T
    edges = np.quantile(along, np.linspace(0, 1, _INTERVALS + 1), axis=0).T
    arrays = (directions[:k], edges, directions[:MOST_BOX_AXES])
    axes, edges, box_axes = (cp.asarray(np.ascontiguousarray(a, dtype=np.float32)) for a in arrays)
    return Frame(points, cp.asarray(centre), axes, edges, _BITS // k, box_axes)
