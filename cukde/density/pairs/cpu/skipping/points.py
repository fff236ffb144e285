"""Points in an order that puts near ones together, in blocks of 64 with their boxes."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from cukde.core.cpu import threads
from cukde.core.cpu.jit import OPTIONS, njit
from cukde.density.pairs.frame import BOX_AXES, INTERVALS, Frame

BLOCK = 64

BLOCKS_OF_GROUP = 16
"""Blocks that have a box in common, which is looked at first."""

_LOG2_E = math.log2(math.e)
_MOST_ROWS = 2**32
_MORE = 1 + 1e-13  # than the rounding of a sum of 64 weights
_ROWS_OF_TASK = 8192
_BLOCKS_OF_TASK = 256
_FURTHEST = 1e17  # coordinate in single precision, whose square is within its range
_LARGEST_LOG = 690.0  # of a tolerance: more means the same
_BITS_OF_INTERVAL = INTERVALS.bit_length() - 1


class Boxes(NamedTuple):
    """Boxes of blocks, or of groups of blocks, with what bounds their points' terms."""

    low: np.ndarray  # (d, boxes), in the dtype of the points
    high: np.ndarray
    mass: np.ndarray  # (boxes,) float64: at least the weights that a query counts; the largest weight of all data is 1
    softest: np.ndarray  # (boxes,) float64: least 1 / factor^2 of the bandwidth; without local factors 1
    sharpest: np.ndarray  # (boxes,) float64: the largest


class Screen(NamedTuple):
    """Points in single precision, for pairs that are summed in double; no blocks where boxes decide alone."""

    points: np.ndarray  # (blocks, d, 64) float32
    error: np.ndarray  # (blocks,) float32: how far rounding has moved a point at most
    scale: float  # of the coordinates of :class:`Data`
    centre: np.ndarray  # (d,) float64, in their unit
    axes: np.ndarray  # (d, d) float64, orthonormal, that coordinates are along; or empty: their own
    bits: float  # for a squared distance
    low: np.ndarray  # (d, blocks) float32: boxes of the points, where they are along axes; or empty
    high: np.ndarray


class Data(NamedTuple):
    """Data in order, for one bandwidth."""

    points: np.ndarray  # (blocks, d, 64) float32 or float64, times ``unit``; the last repeats its last point
    n: int
    unit: float  # a power of two, which keeps squares within their range
    scale: float  # bits of an exponent for a squared distance of points times ``unit``
    log2_weights: np.ndarray  # (blocks, 64) float64, the largest 0; or empty: (0, 64)
    largest_log_weight: float  # what they lack, as a natural logarithm
    factors: np.ndarray  # (blocks, 64) float64: 1 / factor^2; or empty
    mass: float  # of all points
    blocks: Boxes
    groups: Boxes
    screen: Screen
    lost: np.ndarray  # (blocks, d, 64), of whitened points, see the options of a pass; or empty: (0, d, 64)

    def beside_largest(self, atol: float) -> float:
        """An absolute tolerance of sums, where the largest weight is 1."""
        return math.exp(min(_LARGEST_LOG, math.log(atol) - self.largest_log_weight)) if atol > 0 else 0.0


def ordered(X: np.ndarray, frame: Frame) -> np.ndarray:
    """Rows of points (n, d) in the order of Morton codes along the frame's axes, (n,) int64."""
    keys = np.empty(len(X), np.uint64)  # a code, and a row: a sort of unique numbers is fast and needs no second array
    axes, edges = frame.axes.astype(np.float64), frame.edges.astype(np.float64)

    def task(rows: slice) -> None:
        threads.checkpoint()
        _codes(X[rows], frame.centre, axes, edges, frame.bits, rows.start, keys[rows])

    threads.run(task, _cut(len(X), _ROWS_OF_TASK))
    keys.sort()
    return (keys & np.uint64(_MOST_ROWS - 1)).astype(np.int64)


def unit_of(h: float) -> float:
    """The power of two that brings a bandwidth to between 1/2 and 1."""
    return math.ldexp(1.0, -math.frexp(h)[1])


def data(
    X: np.ndarray,
    order: np.ndarray,
    h: float,
    frame: Frame,
    *,
    log_weights: np.ndarray | None,
    local_factors: np.ndarray | None,
    screened: bool,
    boxed: bool = False,
    lost: np.ndarray | None = None,
    own_out: bool = False,
) -> Data:
    """Put data (n, d) in order, which ``order`` is; weights and factors are those of the rows of ``X``, (n,) float64.

    All weights are positive. ``screened`` asks for coordinates in single precision, and ``boxed`` for these along the
    axes of the frame, where they are as many as dimensions, with boxes: order follows axes, and such boxes are tighter.
    ``own_out`` says that queries leave out data.
    """
    n, d = X.shape
    count = -(-n // BLOCK)
    unit = unit_of(h)
    points = np.empty((count, d, BLOCK), X.dtype)
    boxes = _boxes(count, d, X.dtype)
    scale = 0.5 * _LOG2_E / (h * unit) ** 2
    screened |= boxed
    rounds = boxed or (screened and X.dtype == np.float64)
    screen_points = np.empty((count if rounds else 0, d, BLOCK), np.float32)
    screen = Screen(
        points if screened and not rounds else screen_points,
        np.zeros(count if screened else 0, np.float32),
        math.sqrt(scale) if rounds else 1.0,
        frame.centre * unit if rounds else np.zeros(d),
        frame.box_axes.astype(np.float64) if boxed and 3 < d <= BOX_AXES else np.empty((0, d)),
        1.0 if rounds or not screened else scale,
        *(np.empty((d, count if boxed else 0), np.float32) for _ in range(2)),
    )
    log2_weights, factors, largest = np.empty((0, BLOCK)), np.empty((0, BLOCK)), 0.0
    if log_weights is not None:
        largest = float(log_weights.max())
        log2_weights = in_blocks((log_weights - largest) * _LOG2_E, order, count)
    if local_factors is not None:
        factors = in_blocks(1 / (local_factors * local_factors), order, count)

    def task(blocks: slice) -> None:
        threads.checkpoint()
        _fill(X, order, unit, blocks.start, blocks.stop, points, boxes.low, boxes.high)
        _bound(n, log2_weights, factors, blocks.start, blocks.stop, boxes.mass, boxes.softest, boxes.sharpest)
        if rounds:
            _round(points, blocks.start, blocks.stop, screen)

    threads.run(task, _cut(count, _BLOCKS_OF_TASK))
    mass = float(boxes.mass.sum())
    if own_out:
        boxes.mass[:] -= np.exp2(log2_weights.max(axis=1)) * _MORE if len(log2_weights) else 1.0
    groups = _boxes(-(-count // BLOCKS_OF_GROUP), d, X.dtype)
    _unite(boxes, groups)
    of_points = np.empty((0, d, BLOCK), X.dtype)
    if lost is not None:
        of_points = np.stack([in_blocks(column * unit, order, count) for column in lost.T], axis=1)
    return Data(points, n, unit, scale, log2_weights, largest, factors, mass, boxes, groups, screen, of_points)


def _cut(count: int, most: int) -> list[slice]:
    """Parts of rows or blocks, of at most so many."""
    return [slice(start, min(start + most, count)) for start in range(0, count, most)]


def _boxes(count: int, d: int, dtype: np.dtype) -> Boxes:
    return Boxes(np.empty((d, count), dtype), np.empty((d, count), dtype), *(np.empty(count) for _ in range(3)))


def in_blocks(values: np.ndarray, order: np.ndarray, count: int) -> np.ndarray:
    """Values of points by block and place, (blocks, 64); places that are left have the last one."""
    out = np.empty(count * BLOCK)
    out[: len(order)] = values[order]
    out[len(order) :] = out[len(order) - 1]
    return out.reshape(count, BLOCK)


@njit(**OPTIONS)
def _codes(X: Any, centre: Any, axes: Any, edges: Any, bits: int, first: int, keys: Any) -> None:
    """Morton codes before the numbers of rows, from ``first`` on. A code has along each axis the interval, and
    beyond its 8 bits the place within it.
    """
    k, d = axes.shape
    about, places = np.empty(d), np.empty(k, np.int64)
    steps = 1 << max(0, bits - _BITS_OF_INTERVAL)
    for i in range(X.shape[0]):
        for c in range(d):
            about[c] = X[i, c] - centre[c]
        for a in range(k):
            along = 0.0
            for c in range(d):
                along += axes[a, c] * about[c]
            interval, step = 0, INTERVALS // 2
            while step > 0:
                interval += step * (along >= edges[a, interval + step])  # a branch would be foretold wrongly
                step >>= 1
            low, high = edges[a, interval], edges[a, interval + 1]
            part = (along - low) / (high - low) if high > low else 0.0
            place = interval * steps + np.int64(min(max(part, 0.0), 1.0 - 1e-9) * steps)
            places[a] = place >> max(0, _BITS_OF_INTERVAL - bits)
        code = 0
        for bit in range(bits - 1, -1, -1):
            for a in range(k):
                code = code << 1 | (places[a] >> bit & 1)
        keys[i] = np.uint64(code * _MOST_ROWS + first + i)


@njit(**OPTIONS)
def _fill(X: Any, order: Any, unit: float, first: int, last: int, points: Any, low: Any, high: Any) -> None:
    """Write some blocks of points, and their boxes."""
    n, d = X.shape
    scale = points.dtype.type(unit)
    for b in range(first, last):
        for c in range(d):
            low[c, b] = high[c, b] = X[order[b * BLOCK], c] * scale
        for j in range(BLOCK):
            row = order[min(b * BLOCK + j, n - 1)]
            for c in range(d):
                v = X[row, c] * scale
                points[b, c, j] = v
                low[c, b], high[c, b] = min(low[c, b], v), max(high[c, b], v)


@njit(**OPTIONS)
def _bound(
    n: int, log2_weights: Any, factors: Any, first: int, last: int, mass: Any, softest: Any, sharpest: Any
) -> None:
    """Write the mass of some blocks, and the range of their factors."""
    for b in range(first, last):
        count = min(BLOCK, n - b * BLOCK)
        mass[b] = np.exp2(log2_weights[b, :count]).sum() if log2_weights.size else count
        softest[b] = sharpest[b] = 1.0
        if factors.size:
            softest[b], sharpest[b] = factors[b].min(), factors[b].max()


@njit(**OPTIONS)
def rounded(point: Any, screen: Any, out: Any) -> float:
    """Write a point in single precision; return how far that has moved it, at most."""
    moved, length, d, turned = 0.0, 0.0, point.size, screen.axes.shape[0] > 0
    for c in range(d):
        z = 0.0
        if turned:
            for k in range(d):
                z += screen.axes[c, k] * ((np.float64(point[k]) - screen.centre[k]) * screen.scale)
        else:
            z = (np.float64(point[c]) - screen.centre[c]) * screen.scale
        out[c] = np.float32(min(max(z, -_FURTHEST), _FURTHEST))
        error = z - np.float64(out[c])
        moved += error * error
        length += z * z
    return 1.0001 * np.sqrt(moved) + (1e-14 if turned else 1e-15) * np.sqrt(length) + 1e-30


@njit(**OPTIONS)
def _round(points: Any, first: int, last: int, screen: Any) -> None:
    """Write some blocks in single precision, by how much a point may have moved, and their boxes if they have some."""
    out = screen.points
    for b in range(first, last):
        largest = 0.0
        for j in range(BLOCK):
            largest = max(largest, rounded(points[b, :, j], screen, out[b, :, j]))
        screen.error[b] = np.float32(largest)
        if screen.low.shape[1] > 0:
            for c in range(out.shape[1]):
                screen.low[c, b], screen.high[c, b] = out[b, c].min(), out[b, c].max()


@njit(**OPTIONS)
def _unite(boxes: Any, groups: Any) -> None:
    """Write the boxes of groups, from those of their blocks."""
    for g in range(groups.mass.size):
        start, stop = g * BLOCKS_OF_GROUP, min((g + 1) * BLOCKS_OF_GROUP, boxes.mass.size)
        for c in range(boxes.low.shape[0]):
            groups.low[c, g], groups.high[c, g] = boxes.low[c, start:stop].min(), boxes.high[c, start:stop].max()
        groups.mass[g] = boxes.mass[start:stop].sum()
        groups.softest[g], groups.sharpest[g] = boxes.softest[start:stop].min(), boxes.sharpest[start:stop].max()
