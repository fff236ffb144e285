"""Numba loops over tiles of pairs by squared differences of points as they are given: no pass over them goes before.

Columns of a tile's data are written to memory that stays in cache, which takes the time of some queries. No step of a
tile waits for Python's lock.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from cukde.core.cpu.jit import njit
from cukde.density.pairs.cpu import tiles
from cukde.density.pairs.cpu.tiles import _JIT
from cukde.density.plan import cpu as plan_cpu

_ROWS = 16  # written to columns together

# Columns from which it pays to count weights, one in how many is few, and how many are passed over together.
_SPARSE_FROM, _SPARSE, _CHUNK = 8, 16, 16

# Not that NaN and infinity are impossible: they are looked for.
_LOOKING: dict[str, Any] = _JIT | {"fastmath": {"reassoc", "contract", "nsz"}}


class Points(NamedTuple):
    """Queries and data, C-contiguous; arrays without rows stand for none. ``scale`` has the dtype of the tiles."""

    queries: np.ndarray  # (q, d) in the dtype of the tiles
    data: np.ndarray  # (n, d)
    centre: np.ndarray  # (d,) float64, which is subtracted from data in double before these are rounded
    log2_weights: np.ndarray  # (n,) in the dtype of the tiles
    softness: np.ndarray  # (n,), factors of exponents
    lost_queries: np.ndarray  # (q, d) float64, what rounding has taken from points
    lost_data: np.ndarray  # (n, d)
    own: np.ndarray  # (q,) int64, rows that queries leave out
    scale: Any
    nothing: Any  # exponent of what is left out


class Room(NamedTuple):
    """Memory of a tile of ``step`` rows and of their columns; ``size`` (1,) becomes the sum of absolute coordinates."""

    tile: np.ndarray
    columns: np.ndarray
    step: int
    size: np.ndarray


@njit(**_LOOKING)
def _to_columns(data: Any, centre: Any, out: Any) -> Any:
    """Write data (c, d) to ``out`` (d, c); return the sum of absolute coordinates."""
    c, d = data.shape
    size = out.dtype.type(0)
    for begin in range(0, c, _ROWS):
        end = min(begin + _ROWS, c)
        for k in range(d):
            column = out[k]
            if centre.size:
                for j in range(begin, end):
                    column[j] = data[j, k] - centre[k]
                    size += abs(column[j])
            else:
                for j in range(begin, end):
                    column[j] = data[j, k]
                    size += abs(column[j])
    return size


@njit(**_LOOKING)
def _by_rows(data: Any, centre: Any, queries: Any, scale: Any, before: Any, tile: Any) -> Any:
    """Fill a tile as :func:`tiles.differences` does, from rows; return the sum of absolute coordinates."""
    c, d = data.shape
    row, size = np.empty(d, tile.dtype), tile.dtype.type(0)
    for j in range(c):
        x = data[j]
        if centre.size:
            for k in range(d):
                row[k] = x[k] - centre[k]
        else:
            for k in range(d):
                row[k] = x[k]
        for k in range(d):
            size += abs(row[k])
        for i in range(queries.shape[0]):
            y, square = queries[i], tile.dtype.type(0)
            for k in range(d):
                difference = row[k] - y[k]
                square += difference * difference
            tile[i, j] = before[j] - scale * square
    return size


_served_by_rows = njit(**_JIT)(plan_cpu.takes_rows)


@njit(**_JIT)
def _takes_rows(of: Any) -> Any:
    """Whether columns of the data are not needed."""
    q, d = of.queries.shape
    return _served_by_rows(q, d) and of.lost_data.size == 0


@njit(**_JIT)
def _exponents(of: Any, start: int, stop: int, room: Any) -> Any:
    """Tile of exponents in bits of some data, their columns, and their weights."""
    (q, d), c = of.queries.shape, stop - start
    tile, columns = room.tile[: q * c].reshape((q, c)), room.columns[: d * c].reshape((d, c))
    by_rows = _takes_rows(of)
    if not by_rows:
        room.size[0] += _to_columns(of.data[start:stop], of.centre, columns)
    weights = of.log2_weights[start:stop] if of.log2_weights.size else np.zeros(c, tile.dtype)
    before = np.zeros(c, tile.dtype) if of.softness.size else weights
    if by_rows:
        room.size[0] += _by_rows(of.data[start:stop], of.centre, of.queries, of.scale, before, tile)
    elif of.lost_data.size:
        lost = np.empty((d, c), np.float64)
        _to_columns(of.lost_data[start:stop], of.centre[:0], lost)
        tiles.whitened_differences(of.queries, columns, of.lost_queries, lost, of.scale, before, tile)
    else:
        tiles.differences(of.queries, columns, of.scale, before, tile)
    if of.softness.size:
        softness = of.softness[start:stop]
        for i in range(q):
            for j in range(c):
                tile[i, j] = tile[i, j] * softness[j] + weights[j]
    if of.own.size:
        tiles.leave_out(tile, of.own - start, of.nothing)
    return tile, columns, weights


@njit(**_JIT)
def _adds_rows(of: Any, tile: Any) -> Any:
    """Whether terms are added row by row: nobody has written columns, or few weights of the tile are not 0."""
    is_wide = of.queries.shape[1] >= _SPARSE_FROM
    return _takes_rows(of) or (is_wide and tiles.count_weights(tile) * _SPARSE < tile.size)


@njit(**_JIT)
def _add_moments(of: Any, start: int, tile: Any, columns: Any, soften: bool, moments: Any) -> None:
    """Add differences times a tile of weights, and softness if they are those of a gradient."""
    if soften and of.softness.size:
        for i in range(tile.shape[0]):
            for j in range(tile.shape[1]):
                tile[i, j] *= of.softness[start + j]
    if _adds_rows(of, tile):
        data = of.data[start : start + tile.shape[1]]
        _add_moments_of_some(tile, of.queries, data, of.centre, moments, moments[:0])
    else:
        tiles.add_difference_moments(tile, of.queries, columns, moments)
    if of.lost_data.size:
        for i in range(tile.shape[0]):
            for j in range(tile.shape[1]):
                for k in range(moments.shape[1]):
                    moments[i, k] += tile[i, j] * (of.lost_data[start + j, k] - of.lost_queries[i, k])


@njit(**_JIT)
def _add_moments_of_some(tile: Any, queries: Any, data: Any, centre: Any, moments: Any, opposite: Any) -> None:
    """Add the same row by row, where few weights are not 0, or queries are few; to ``opposite`` (c, d), if it has rows,
    the opposite differences.
    """
    d, c = queries.shape[1], tile.shape[1]
    term = np.empty(d, tile.dtype)
    for i in range(tile.shape[0]):
        row, y, to = tile[i], queries[i], moments[i]
        for begin in range(0, c, _CHUNK):
            end = min(begin + _CHUNK, c)
            most = abs(row[begin])
            for j in range(begin, end):
                most = max(most, abs(row[j]))
            if most == 0:
                continue
            for j in range(begin, end):
                if row[j] == 0:
                    continue
                w, x = row[j], data[j]
                if centre.size:
                    for k in range(d):
                        term[k] = w * (tile.dtype.type(x[k] - centre[k]) - y[k])
                else:
                    for k in range(d):
                        term[k] = w * (tile.dtype.type(x[k]) - y[k])
                for k in range(d):
                    to[k] += term[k]
                if opposite.size:
                    for k in range(d):
                        opposite[j, k] -= term[k]


@njit(**_JIT)
def add_sums(of: Any, begin: int, end: int, room: Any, shift: Any, total: Any) -> None:
    """Add the sums of weights of data from ``begin`` to ``end`` to ``total``, about a ``shift`` that is updated."""
    for start in range(begin, end, room.step):
        tile, _, _ = _exponents(of, start, min(start + room.step, end), room)
        tiles.sum_weights(tile, shift, total)


@njit(**_JIT)
def add_laplace(
    of: Any, begin: int, end: int, room: Any, constant: float, shift: Any, total: Any, moments: Any
) -> None:
    """Add the sums of weights, and of weights times Laplace factors, see :func:`tiles.weigh_laplace`."""
    for start in range(begin, end, room.step):
        tile, _, weights = _exponents(of, start, min(start + room.step, end), room)
        tiles.weigh_laplace(tile, shift, constant, weights, total, moments)


@njit(**_JIT)
def add_laplace_moments(
    of: Any, begin: int, end: int, room: Any, constant: float, soften: bool, shift: Any, total: Any, moments: Any
) -> None:
    """Add the sums of weights, and of weights times Laplace factors and differences to ``moments`` (q, d)."""
    rescale = np.empty(total.size)
    for start in range(begin, end, room.step):
        tile, columns, weights = _exponents(of, start, min(start + room.step, end), room)
        tiles.weigh_by_laplace(tile, shift, rescale, constant, weights, total)
        _rescale(moments, rescale)
        _add_moments(of, start, tile, columns, soften, moments)


@njit(**_JIT)
def add_moments(
    of: Any, begin: int, end: int, room: Any, least: float, soften: bool, shift: Any, total: Any, moments: Any
) -> None:
    """Add the sums of weights, and of weights times differences to ``moments``; those up to ``least`` are 0."""
    rescale = np.empty(total.size)
    for start in range(begin, end, room.step):
        tile, columns, _ = _exponents(of, start, min(start + room.step, end), room)
        tiles.weigh(tile, shift, rescale, total, least)
        _rescale(moments, rescale)
        _add_moments(of, start, tile, columns, soften, moments)


@njit(**_JIT)
def add_values(of: Any, begin: int, end: int, room: Any, values: Any, shift: Any, total: Any, moments: Any) -> None:
    """Add the sums of weights, and of weights times ``values`` (n, k) to ``moments`` (q, k)."""
    rescale, product = np.empty(total.size), np.empty(moments.shape, room.tile.dtype)
    for start in range(begin, end, room.step):
        stop = min(start + room.step, end)
        tile, _, _ = _exponents(of, start, stop, room)
        tiles.weigh(tile, shift, rescale, total)
        _rescale(moments, rescale)
        np.dot(tile, values[start:stop], product)
        moments += product


@njit(**_JIT)
def _rescale(moments: Any, rescale: Any) -> None:
    for i in range(moments.shape[0]):
        for k in range(moments.shape[1]):
            moments[i, k] *= rescale[i]


@njit(**_JIT)
def add_once(
    of: Any,
    begin: int,
    end: int,
    room: Any,
    least: float,
    query_total: Any,
    query_moments: Any,
    total: Any,
    moments: Any,
) -> None:
    """Add weights of exponents up to 0 to sums of the queries, and to those of the data where ``total`` (n,) has rows.

    Moments, if they have columns, are sums of differences, at queries (q, d) and data (n, d). Weights of exponents up
    to ``least`` are 0.
    """
    d, both = query_moments.shape[1], total.size > 0
    for start in range(begin, end, room.step):
        stop = min(start + room.step, end)
        tile, columns, _ = _exponents(of, start, stop, room)
        tiles.weigh_both(tile, least, query_total, total[start:stop])
        if d == 0:
            continue
        opposite = moments[start:stop] if both else moments[:0]
        if _adds_rows(of, tile):
            _add_moments_of_some(tile, of.queries, of.data[start:stop], of.centre, query_moments, opposite)
        elif both:
            tiles.add_both_moments(tile, of.queries, columns, query_moments, opposite)
        else:
            tiles.add_difference_moments(tile, of.queries, columns, query_moments)
