"""Frames of data on the device: samples of points, and the arrays of a frame there."""

from __future__ import annotations

from typing import Any, NamedTuple

import cupy as cp
import numpy as np

from cukde.core.gpu import arrays
from cukde.density.pairs import frame as pairs_frame

_QUERIES = 128  # rows of a sample of queries


class Frame(NamedTuple):
    """Axes of a data set, see :mod:`cukde.density.pairs.frame`; arrays on the device, all in one allocation."""

    centre: Any  # (d,) float64
    axes: Any  # (k, d) float32, of codes
    edges: Any  # (k, 257) float32
    box_axes: Any  # (up to 16, d) float32
    bits: int  # of a code, an axis
    square: float  # that squared distances of nearly all points to the centre stay below


def sample(X: Any) -> np.ndarray:
    """Rows at equal distances, on the host; waits for the device."""
    return cp.asnumpy(_sampled(X, pairs_frame.rows(X.shape[1])))


def samples(X: Any, Y: Any) -> tuple[np.ndarray, np.ndarray]:
    """Rows of the data, and fewer of queries of the same dtype, by one copy; waits for the device."""
    data, queries = _sampled(X, pairs_frame.rows(X.shape[1])), _sampled(Y, _QUERIES)
    both = cp.asnumpy(cp.concatenate((data, queries)))
    return both[: len(data)], both[len(data) :]


def _sampled(X: Any, rows: int) -> Any:
    return X[:: max(1, len(X) // rows)][:rows]


def here(of: Frame) -> Frame:
    """The frame with its arrays on the current device."""
    return of._replace(**{name: arrays.asarray(getattr(of, name)) for name in ("centre", "axes", "edges", "box_axes")})


def frame(points: np.ndarray) -> Frame:
    """Find the frame of a sample, and bring it to the device."""
    found = pairs_frame.frame(points)
    on_device = _on_device(found.centre, found.axes, found.edges, found.box_axes)
    return Frame(*on_device, bits=found.bits, square=found.square)


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
