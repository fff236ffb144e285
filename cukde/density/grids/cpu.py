"""Densities on product grids on the CPU: points spread over cells, transforms, and factors of the exact product."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from cukde.core.cpu import meanwhile, threads
from cukde.core.cpu.jit import OPTIONS as _JIT, njit
from cukde.density.grids import spread as by_arrays
from cukde.density.grids.plan import Plan
from cukde.density.one_dimension.cpu import boxes
from cukde.density.plan import compositions as plan_compositions

_POINTS = 2**20  # between two looks whether the caller still waits
_PIECES, _LEAST_COLUMNS = 16, 32  # of a product, at most and each at least
_BAND = 2**15  # cells that a band has about: they stay in a core's own cache


def _spread(x: np.ndarray, weights: np.ndarray | None, plan: Plan) -> np.ndarray | None:
    """Return the same as :func:`spread`, by NumPy; None where compiling takes no longer."""
    if not plan_compositions.spreads_meanwhile(len(x), plan.order ** len(plan.axes)):
        return None
    out: np.ndarray = by_arrays.spread(x, weights, plan, np)
    return out


@meanwhile.answered_by(_spread)
def spread(x: np.ndarray, weights: np.ndarray | None, plan: Plan) -> np.ndarray:
    """Return the weight in each cell of a plan's grid, float64; without weights every point's is 1/n.

    Points are brought together by bands of rows of the grid. Of two bands with one between them no point adds to the
    same row, so that threads take every other band at a time, and sums do not depend on how many threads there are.
    """
    axes, order = plan.axes, plan.order
    mass = np.zeros(plan.cells)
    n, d = x.shape
    rows = max(order, _BAND // (mass.size // len(mass)))
    bands = -(-len(mass) // rows)
    scales = np.array([(axis.low, 1 / axis.step, axis.before, axis.first, axis.last) for axis in axes])
    pieces = boxes.chunks(n)
    counts = np.zeros((len(pieces), bands), np.int64)
    threads.run(lambda i: _count(x[pieces[i]], scales, 0.5 * order, rows, counts[i]), range(len(pieces)))
    starts, offsets = boxes.stretches(counts)
    places = np.empty((int(starts[-1]), d + 1))
    point_weights = np.empty(0) if weights is None else weights
    threads.run(
        lambda i: _gather(
            x, pieces[i].start, pieces[i].stop, scales, 0.5 * order, rows, point_weights, offsets[i], places
        ),
        range(len(pieces)),
    )
    sizes, flat = np.array(plan.cells), mass.reshape(-1)
    order_tuple = (0.0,) * order  # its length is part of its type: loops over an order are compiled for it

    def add_band(b: int) -> None:
        for start in range(starts[b], starts[b + 1], _POINTS):
            threads.checkpoint()
            _add(places[start : min(start + _POINTS, starts[b + 1])], order_tuple, sizes, flat)

    for parity in (0, 1):
        turn = [b for b in range(parity, bands, 2) if starts[b] < starts[b + 1]]
        threads.run(add_band, turn)
    return mass


def interpolate(a: np.ndarray, k: int, first: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return sums of values (g, p) and numbers along axis ``k`` of ``a`` from ``first`` (g,) on."""
    from scipy import sparse

    g, order = values.shape
    columns, starts = first[:, None] + np.arange(order), np.arange(0, g * order + 1, order)
    matrix = sparse.csr_array((values.ravel(), columns.ravel(), starts), shape=(g, a.shape[k]))
    source = np.moveaxis(a, k, 0)
    out = matrix @ source.reshape(len(source), -1)
    return np.moveaxis(out.reshape(g, *source.shape[1:]), 0, k)


def by_rows(fill: Callable[[slice], None], n: int) -> None:
    """Call a function on all of ``n`` rows, some at a time."""
    threads.run(fill, boxes.chunks(n, 64))


def add_product(a: np.ndarray, b: np.ndarray, out: np.ndarray) -> None:
    """Add a.T @ b to ``out``, cut along its longer side by its size alone, whatever the threads."""
    if out.shape[0] > out.shape[1]:
        a, b, out = b, a, out.T
    columns = out.shape[1]
    pieces = max(1, min(_PIECES, columns // _LEAST_COLUMNS))

    def add(piece: int) -> None:
        part = slice(columns * piece // pieces, columns * (piece + 1) // pieces)
        out[:, part] += a.T @ b[:, part]

    threads.run(add, range(pieces), blas=True)


@njit(**_JIT)
def _position(x: Any, i: Any, k: Any, scales: Any) -> Any:
    """Where a point lies along an axis, in cells."""
    return (np.float64(x[i, k]) - scales[k, 0]) * scales[k, 1] + scales[k, 2]


@njit(**_JIT)
def _within(x: Any, i: Any, scales: Any) -> Any:
    """Whether a point has a place on the grid along every axis; one that is NaN has none."""
    inside = True
    for k in range(x.shape[1]):
        position = _position(x, i, k, scales)
        inside &= (position >= scales[k, 3]) & (position <= scales[k, 4])
    return inside


@njit(**_JIT)
def _count(x: Any, scales: Any, half: Any, rows: Any, counts: Any) -> None:
    for i in range(x.shape[0]):
        if _within(x, i, scales):
            position = _position(x, i, 0, scales)
            counts[np.int64(position + half) // rows] += 1


@njit(**_JIT)
def _gather(
    x: Any, first: Any, last: Any, scales: Any, half: Any, rows: Any, weights: Any, offsets: Any, places: Any
) -> None:
    """Write where points are, in cells, and their weights, band by band."""
    each = 1.0 / x.shape[0]
    for i in range(first, last):
        if _within(x, i, scales):
            position = _position(x, i, 0, scales)
            band = np.int64(position + half) // rows
            to = offsets[band]
            offsets[band] = to + 1
            for k in range(x.shape[1]):
                places[to, k] = _position(x, i, k, scales) + half
            places[to, x.shape[1]] = weights[i] if weights.size else each


@njit(fastmath={"contract"}, **_JIT)
def _spline(rest: Any, order_tuple: Any, out: Any) -> None:
    """Write a spline's values at cells in ascending order, for a point so far beyond the last of them."""
    order = len(order_tuple)
    out[order - 1] = 1.0
    for k in range(2, order + 1):
        scale = 1.0 / (k - 1)
        out[order - k] = (1 - rest) * out[order - k + 1] * scale
        for cell in range(order - k + 1, order - 1):
            j = order - 1 - cell
            out[cell] = ((rest + j) * out[cell] + (k - rest - j) * out[cell + 1]) * scale
        out[order - 1] = rest * out[order - 1] * scale


@njit(fastmath={"contract"}, **_JIT)
def _add(places: Any, order_tuple: Any, sizes: Any, cells: Any) -> None:
    """Add the weights of points to ``cells``, a grid of ``sizes`` in one row: products of splines to rows of it."""
    order, last = len(order_tuple), sizes.size - 1
    along, shares, starts = np.empty(order), np.empty(order**last), np.empty(order**last, np.int64)
    for point in range(places.shape[0]):
        shares[0], starts[0], count = places[point, last + 1], 0, 1
        for k in range(last):
            cell = np.int64(places[point, k])
            _spline(places[point, k] - cell, order_tuple, along)
            for row in range(count - 1, -1, -1):  # each becomes several, from the last on, which are written last
                share, start = shares[row], starts[row] + cell - order + 1
                for p in range(order):
                    shares[row * order + p], starts[row * order + p] = share * along[p], (start + p) * sizes[k + 1]
            count *= order
        cell = np.int64(places[point, last])
        _spline(places[point, last] - cell, order_tuple, along)
        for row in range(count):
            share, to = shares[row], cells[starts[row] + cell - order + 1 : starts[row] + cell + 1]
            for p in range(order):
                to[p] += share * along[p]
