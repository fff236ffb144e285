"""Numba kernels of the two-dimensional fast Gauss transform, a block of cells of queries at a time.

See :mod:`cukde.density.plane.plan` for what they compute and its bound. Cells are known by their codes on the curve
of :mod:`cukde.density.plane.cpu.morton`, so that those of a block are one stretch of the list of them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cukde.core.cpu import loops
from cukde.core.cpu.jit import njit
from cukde.density.plane.cpu.morton import BLOCK_BITS, gather2, spread2

_JIT: dict[str, Any] = {"nogil": True, "error_model": "numpy", "cache": True}
# Sums may be reordered; differences of a point and its centre may not, so they are taken elsewhere.
_FAST: dict[str, Any] = _JIT | {"fastmath": {"reassoc", "contract", "nsz", "arcp"}}

_SIDE = 1 << BLOCK_BITS
MOST_REACH = _SIDE
"""Cells that a window may reach: data of the blocks around a block are all there is to look at."""

_NO_LESS = 1e-280  # a sum that may be less than this is left to exponents


@njit(**_FAST)
def _add_rows(row: Any, coefficients: Any, rows: Any, first: Any, last: Any) -> None:
    """Add sum_k coefficients_k rows[k, first:last] to row[first:last], four rows at a time: stores cost as much."""
    count = coefficients.size
    out = row[first:last]
    for k in range(0, count - 3, 4):
        c0, c1, c2, c3 = coefficients[k], coefficients[k + 1], coefficients[k + 2], coefficients[k + 3]
        r0, r1, r2, r3 = (
            rows[k, first:last],
            rows[k + 1, first:last],
            rows[k + 2, first:last],
            rows[k + 3, first:last],
        )
        for j in range(out.size):
            out[j] += (c0 * r0[j] + c1 * r1[j]) + (c2 * r2[j] + c3 * r3[j])
    for k in range(count // 4 * 4, count):
        c, r = coefficients[k], rows[k, first:last]
        for j in range(out.size):
            out[j] += c * r[j]


@njit(**_FAST)
def _add_point(M: Any, a: Any, b: Any, v: Any, powers: Any) -> None:
    """Add v a^k b^l to M[k, l]."""
    p = 1.0
    for k in range(powers.size):
        powers[k] = p
        p *= b
    for k in range(M.shape[0]):
        row = M[k]
        for j in range(powers.size):
            row[j] += v * powers[j]
        v *= a


@njit(**_FAST)
def _value(B: Any, first: Any, a: Any, b: Any, v: Any) -> Any:
    """sum_kl B[k, first + l] a^k b^l."""
    last = B.shape[0] - 1
    row = B[last, first : first + v.size]
    for j in range(v.size):
        v[j] = row[j]
    for k in range(last - 1, -1, -1):
        row = B[k, first : first + v.size]
        for j in range(v.size):
            v[j] = v[j] * a + row[j]
    value = 0.0
    for j in range(v.size - 1, -1, -1):
        value = value * b + v[j]
    return value


@njit(**_FAST)
def _value_and_slopes(B: Any, first: Any, a: Any, b: Any, v: Any, w: Any) -> Any:
    """The same with its derivatives by a and by b."""
    last = B.shape[0] - 1
    row = B[last, first : first + v.size]
    for j in range(v.size):
        v[j] = row[j]
        w[j] = 0.0
    for k in range(last - 1, -1, -1):
        row = B[k, first : first + v.size]
        for j in range(v.size):
            w[j] = w[j] * a + v[j]
            v[j] = v[j] * a + row[j]
    value, by_a, by_b = 0.0, 0.0, 0.0
    for j in range(v.size - 1, -1, -1):
        by_b = by_b * b + value
        value = value * b + v[j]
        by_a = by_a * b + w[j]
    return value, by_a, by_b


@njit(**_JIT)
def _within(code: Any) -> Any:
    """Place of a cell in its block."""
    return gather2(code) & (_SIDE - 1), gather2(code >> 1) & (_SIDE - 1)


@njit(**_JIT)
def block(
    code: Any,
    first: Any,
    last: Any,
    query_cells: Any,
    query_starts: Any,
    Y: Any,
    cells: Any,
    starts: Any,
    points: Any,
    weights: Any,
    mass: Any,
    whole: Any,
    low: Any,
    width: Any,
    rows_of_table: Any,
    table: Any,
    error: Any,
    most: Any,
    least: Any,
    beyond: Any,
    rtol: Any,
    slope: Any,
    pair: Any,
    total: Any,
    moments: Any,
    left: Any,
) -> None:
    """Write sums of the queries of the block ``code``, whose cells are ``first`` to ``last``, and which are left.

    Parameters
    ----------
    query_cells, query_starts, Y
        Codes of cells that hold queries, where each begins, and the queries (m, 2) in that order.
    cells, starts, points, weights, mass
        Of the data: points (2, n), weights (n,) or empty, masses (cells,) of cells and ``whole`` of all.
    low, width
        Number of the first cell in each coordinate, and width of a cell.
    rows_of_table, table
        T[l, (o, k)] of the second coordinate, (P, (2 W + 1) P), and T[o, k, l] of the first.
    slope
        Moments about a query by derivatives of its polynomial.
    pair
        What a pair summed on its own costs, in multiply-adds.
    moments
        (m, 2), or without rows where none are wanted.
    """
    order, reach = table.shape[1], error.size // 2
    wide = _SIDE + 2 * reach
    unit = 0.5 * width
    block_x, block_y = gather2(code), gather2(code >> 1)
    # Which cell of the data is where, counted from a window beside the block.
    held = np.full((wide, wide), -1, np.int64)
    sources, source_points = 0, 0
    for dx in range(-1, 2):
        for dy in range(-1, 2):
            if block_x + dx < 0 or block_y + dy < 0:
                continue
            near = (spread2(block_x + dx) | (spread2(block_y + dy) << 1)) << 2 * BLOCK_BITS
            begin = loops.lower_bound(cells, near)
            end = loops.lower_bound(cells, near + (1 << 2 * BLOCK_BITS))
            for c in range(begin, end):
                sx, sy = _within(cells[c])
                gx, gy = dx * _SIDE + sx + reach, dy * _SIDE + sy + reach
                if 0 <= gx < wide and 0 <= gy < wide:
                    held[gx, gy] = c
                    sources += 1
                    source_points += starts[c + 1] - starts[c]
    # Sums of masses by the second coordinate: errors, most, least, all, and numbers of points.
    along = np.zeros((wide, _SIDE, 5))
    for gx in range(wide):
        for gy in range(wide):
            c = held[gx, gy]
            if c < 0:
                continue
            m, count = mass[c], starts[c + 1] - starts[c]
            for ty in range(max(0, gy - 2 * reach), min(_SIDE, gy + 1)):
                o = ty - gy + 2 * reach
                along[gx, ty, 0] += m * error[o]
                along[gx, ty, 1] += m * most[o]
                along[gx, ty, 2] += m * least[o]
                along[gx, ty, 3] += m
                along[gx, ty, 4] += count
    # Which cells are accepted, and what their pairs would cost.
    cell_at = np.full((_SIDE, _SIDE), -1, np.int64)
    direct, queries = 0.0, 0
    y_first, y_last = _SIDE, 0
    for t in range(first, last):
        tx, ty = _within(query_cells[t])
        off, near_sum, inside, around = 0.0, 0.0, 0.0, 0.0
        for gx in range(tx, tx + 2 * reach + 1):
            o = tx - gx + 2 * reach
            off += error[o] * along[gx, ty, 1] + (most[o] + error[o]) * along[gx, ty, 0]
            near_sum += least[o] * along[gx, ty, 2]
            inside += along[gx, ty, 3]
            around += along[gx, ty, 4]
        off += max(0.0, whole - inside * (1 - 1e-14)) * beyond
        if near_sum > _NO_LESS and off <= rtol * near_sum:
            count = query_starts[t + 1] - query_starts[t]
            cell_at[tx, ty] = t
            direct += count * around
            queries += count
            y_first, y_last = min(y_first, ty), max(y_last, ty + 1)
    # A cell of data goes to about half of the columns of a block, a row to about half of its rows.
    columns = 0.5 * max(0, y_last - y_first)
    work = float(order) ** 3 * columns * (sources + 0.5 * _SIDE * wide) + 2.0 * order**2 * (source_points + queries)
    if direct * pair <= work:
        left[query_starts[first] : query_starts[last]] = True
        return
    # By the second coordinate.
    C = np.zeros((wide, order, _SIDE * order))
    some = np.zeros(wide, np.bool_)
    M, powers = np.empty((order, order)), np.empty(order)
    for gx in range(wide):
        for gy in range(wide):
            begin, end = max(y_first, gy - 2 * reach), min(y_last, gy + 1)
            c = held[gx, gy]
            if c < 0 or begin >= end:
                continue
            some[gx] = True
            M[:] = 0.0
            centre_x = (low[0] + block_x * _SIDE + gx - reach + 0.5) * width
            centre_y = (low[1] + block_y * _SIDE + gy - reach + 0.5) * width
            for j in range(starts[c], starts[c + 1]):
                a = (np.float64(points[0, j]) - centre_x) / unit
                b = (np.float64(points[1, j]) - centre_y) / unit
                _add_point(M, a, b, weights[j] if weights.size else 1.0, powers)
            skipped = begin - gy + 2 * reach
            shifted = rows_of_table[:, skipped * order : (skipped + end - begin) * order]
            for k in range(order):
                _add_rows(C[gx, k, begin * order : end * order], M[k], shifted, 0, (end - begin) * order)
    # By the first, and the queries.
    B, slopes = np.empty((order, _SIDE * order)), np.empty(order)
    for tx in range(_SIDE):
        has_queries = False
        for ty in range(_SIDE):
            has_queries = has_queries or cell_at[tx, ty] >= 0
        if not has_queries:
            continue
        B[:] = 0.0
        for gx in range(tx, tx + 2 * reach + 1):
            if some[gx]:
                T = table[tx - gx + 2 * reach]
                for k in range(order):
                    _add_rows(B[k], T[k], C[gx], y_first * order, y_last * order)
        centre_x = (low[0] + block_x * _SIDE + tx + 0.5) * width
        for ty in range(_SIDE):
            t = cell_at[tx, ty]
            if t < 0:
                continue
            centre_y = (low[1] + block_y * _SIDE + ty + 0.5) * width
            for i in range(query_starts[t], query_starts[t + 1]):
                a = (np.float64(Y[i, 0]) - centre_x) / unit
                b = (np.float64(Y[i, 1]) - centre_y) / unit
                if len(moments):
                    total[i], by_a, by_b = _value_and_slopes(B, ty * order, a, b, powers, slopes)
                    moments[i, 0], moments[i, 1] = slope * by_a, slope * by_b
                else:
                    total[i] = _value(B, ty * order, a, b, powers)
    for t in range(first, last):
        tx, ty = _within(query_cells[t])
        if cell_at[tx, ty] < 0:
            left[query_starts[t] : query_starts[t + 1]] = True
