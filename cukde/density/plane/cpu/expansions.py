"""Numba kernels of the fast Gauss transform of two or three columns, a block of cells of queries at a time.

See :mod:`cukde.density.plane.plan` for what they compute and its bound. A block is a tile of cells by the second and
the third coordinate, and a run of them by the first. Translations go plane by plane of the first coordinate: by the
third and by the second within a plane, and then from the planes of a window to a row of cells of queries. Of two
columns the second coordinate has one cell, one power and a window of 0.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cukde.core.cpu import loops
from cukde.core.cpu.jit import OPTIONS as _JIT, njit
from cukde.density.plane.cpu.cells import number, places

# Sums may be reordered; differences of a point and its centre may not, so they are taken elsewhere.
_FAST: dict[str, Any] = _JIT | {"fastmath": {"reassoc", "contract", "nsz", "arcp"}}

_POINTS = 32  # of a cell, whose powers are together


@njit(**_FAST)
def _add_product(out: Any, first: Any, factors: Any, terms: Any, rows: Any, at: Any, count: Any) -> None:
    """Add factors (r, k) times rows (k, .) to out (r, .), k below ``terms``, in ``count`` columns.

    Those of rows begin at ``at``, those of out at ``first``. Four rows at a time are added: loads and stores cost as
    much as multiply-adds.
    """
    for r in range(out.shape[0]):
        a = out[r, first : first + count]
        for k in range(0, terms - 3, 4):
            f0, f1, f2, f3 = factors[r, k], factors[r, k + 1], factors[r, k + 2], factors[r, k + 3]
            r0, r1 = rows[k, at : at + count], rows[k + 1, at : at + count]
            r2, r3 = rows[k + 2, at : at + count], rows[k + 3, at : at + count]
            for j in range(a.size):
                a[j] += (f0 * r0[j] + f1 * r1[j]) + (f2 * r2[j] + f3 * r3[j])
        for k in range(terms // 4 * 4, terms):
            f, row = factors[r, k], rows[k, at : at + count]
            for j in range(a.size):
                a[j] += f * row[j]


@njit(**_FAST)
def _powers(x: Any, v: Any, out: Any) -> None:
    """Write v x^k."""
    for k in range(out.size):
        out[k] = v
        v *= x


@njit(**_FAST)
def _products(a: Any, b: Any, out: Any) -> None:
    """Write a_k b_l, l the last."""
    for k in range(a.size):
        for j in range(b.size):
            out[k * b.size + j] = a[k] * b[j]


@njit(**_FAST)
def _horner(rows: Any, x: Any, value: Any, slope: Any) -> None:
    """Write sum_k rows[k] x^k, and where ``slope`` has room its derivative."""
    last = rows.shape[0] - 1
    for j in range(value.size):
        value[j] = rows[last, j]
    for j in range(slope.size):
        slope[j] = 0.0
    for k in range(last - 1, -1, -1):
        row = rows[k]
        for j in range(slope.size):
            slope[j] = slope[j] * x + value[j]
        for j in range(value.size):
            value[j] = value[j] * x + row[j]


@njit(**_JIT)
def _along(masses: Any, out: Any, error: Any, most: Any, mean: Any) -> None:
    """Take masses (., cells, ., 5) by one coordinate to cells of queries.

    They are bound of the error, most, mean, mass, and number of points.
    """
    reach = error.size // 2
    for i in range(masses.shape[0]):
        for g in range(masses.shape[1]):
            for j in range(masses.shape[2]):
                m = masses[i, g, j]
                if m[4] == 0.0:
                    continue
                for t in range(max(0, g - 2 * reach), min(out.shape[1], g + 1)):
                    o, to = t - g + 2 * reach, out[i, t, j]
                    to[0] += m[0] * (most[o] + error[o]) + m[1] * error[o]
                    to[1] += m[1] * most[o]
                    to[2] += m[2] * mean[o]
                    to[3] += m[3]
                    to[4] += m[4]


@njit(**_JIT)
def _moments(points: Any, weights: Any, first: Any, last: Any, axes: Any, centre: Any, unit: Any, M: Any) -> None:
    """Write moments (P, P_2 P_3) of the points of a cell."""
    order, inner = M.shape
    second, third = np.empty(inner // order), np.empty(order)
    by_first, by_others, power = np.empty((order, _POINTS)), np.empty((_POINTS, inner)), np.empty(order)
    M[:] = 0.0
    for start in range(first, last, _POINTS):
        count = min(_POINTS, last - start)
        for i in range(count):
            j = start + i
            a = (np.float64(points[axes[0], j]) - centre[0]) / unit
            b = (np.float64(points[axes[1], j]) - centre[1]) / unit
            c = (np.float64(points[axes[2], j]) - centre[2]) / unit
            _powers(a, weights[j] if weights.size else 1.0, power)
            for k in range(order):
                by_first[k, i] = power[k]
            _powers(b, 1.0, second)
            _powers(c, 1.0, third)
            _products(second, third, by_others[i])
        _add_product(M, 0, by_first, count, by_others, 0, inner)


@njit(**_JIT)
def block(
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
    bits: Any,
    within: Any,
    low: Any,
    axes: Any,
    width: Any,
    table: Any,
    table_of_second: Any,
    rows_of_table: Any,
    bounds: Any,
    bounds_of_second: Any,
    beyond: Any,
    rtol: Any,
    slope: Any,
    pair: Any,
    total: Any,
    moments: Any,
    left: Any,
) -> None:
    """Write sums of the queries of a block, whose cells are ``first`` to ``last``, and which are left.

    Parameters
    ----------
    query_cells, query_starts, Y
        Numbers of cells that hold queries, where each begins, and the queries (m, d) in that order.
    cells, starts, points, weights, mass
        Of the data: points (d, n), weights (n,) or empty, masses (cells,) of cells and ``whole`` of all.
    bits, within, low, axes, width
        Of the lattice and its layout.
    table, table_of_second, rows_of_table
        T[o, l, k] of the first coordinate and of the second, and T[k, (o, l)] of the third.
    bounds, bounds_of_second
        (3, 2 W + 1): error, most and mean.
    slope
        Moments about a query by derivatives of its polynomial.
    pair
        What a pair summed on its own costs, in multiply-adds.
    moments
        (m, d), or without rows where none are wanted.
    """
    order, of_second = table.shape[1], table_of_second.shape[1]
    reach, reach_second = table.shape[0] // 2, table_of_second.shape[0] // 2
    side, side_second = 1 << within[1], 1 << within[0]
    wide, wide_second = side + 2 * reach, side_second + 2 * reach_second
    first_x, block_y, block_z = places(query_cells[first], bits, within)
    block_y, block_z = block_y - block_y % side_second, block_z - block_z % side
    count_x = places(query_cells[last - 1], bits, within)[0] - first_x + 1
    # Which cell of the data is where, counted from a window beside the block.
    held = np.full((count_x + 2 * reach, wide_second, wide), -1, np.int64)
    masses = np.zeros((count_x + 2 * reach, wide_second, wide, 5))
    sources, source_points = 0, 0
    for tile_y in range(block_y - side_second, block_y + side_second + 1, side_second):
        for tile_z in range(block_z - side, block_z + side + 1, side):
            if (reach_second == 0 and tile_y != block_y) or tile_y < 0 or tile_z < 0:
                continue
            begin = loops.lower_bound(cells, number(max(0, first_x - reach), tile_y, tile_z, bits, within))
            end = loops.lower_bound(cells, number(first_x + count_x + reach, tile_y, tile_z, bits, within))
            for c in range(begin, end):
                x, y, z = places(cells[c], bits, within)
                gx, gy, gz = x - first_x + reach, y - block_y + reach_second, z - block_z + reach
                if 0 <= gy < wide_second and 0 <= gz < wide:
                    held[gx, gy, gz] = c
                    points_of_cell = starts[c + 1] - starts[c]
                    masses[gx, gy, gz, 1] = masses[gx, gy, gz, 2] = masses[gx, gy, gz, 3] = mass[c]
                    masses[gx, gy, gz, 4] = points_of_cell
                    sources += 1
                    source_points += points_of_cell
    by_third = np.zeros((count_x + 2 * reach, wide_second, side, 5))
    _along(masses.reshape((-1, wide, 1, 5)), by_third.reshape((-1, side, 1, 5)), bounds[0], bounds[1], bounds[2])
    by_second = np.zeros((count_x + 2 * reach, side_second, side, 5))
    _along(by_third, by_second, bounds_of_second[0], bounds_of_second[1], bounds_of_second[2])
    near = np.zeros((count_x, side_second * side, 5))
    _along(
        by_second.reshape((1, -1, side_second * side, 5)),
        near.reshape((1, count_x, side_second * side, 5)),
        bounds[0],
        bounds[1],
        bounds[2],
    )
    # About which cells an expansion is made, and what their pairs would cost.
    numbers = float(order) ** 2 * of_second
    of_cell = (2 * reach + 1) * order * numbers  # multiply-adds of its translation by one coordinate
    cell_at = np.full((count_x, side_second, side), -1, np.int64)
    direct, queries, targets = 0.0, 0, 0
    z_first, z_last, y_first, y_last = side, 0, side_second, 0
    for t in range(first, last):
        x, y, z = places(query_cells[t], bits, within)
        x, y, z = x - first_x, y - block_y, z - block_z
        found = near[x, y * side + z]
        found[0] += max(0.0, whole - found[3] * (1 - 1e-14)) * beyond
        count = query_starts[t + 1] - query_starts[t]
        if found[0] <= rtol * found[2] and count * found[4] * pair > of_cell:
            cell_at[x, y, z] = t
            direct += count * found[4]
            queries += count
            targets += 1
            z_first, z_last = min(z_first, z), max(z_last, z + 1)
            y_first, y_last = min(y_first, y), max(y_last, y + 1)
    # A cell of data goes to about half of the cells of a row, and so do the rows of a plane.
    columns, rows = 0.5 * max(0, z_last - z_first), 0.5 * max(0, y_last - y_first)
    work = order * numbers * columns * (sources + (rows * wide_second * count_x if reach_second else 0.0))
    work += targets * of_cell + 2 * numbers * (source_points + queries)
    if direct * pair <= work:
        left[query_starts[first] : query_starts[last]] = True
        return
    unit = 0.5 * width
    C = np.zeros((wide_second, order, of_second, side * order))
    some = np.zeros(wide_second, np.bool_)
    # Planes of the first coordinate, of which a window is kept.
    planes = 2 * reach + 1
    D = np.zeros((planes, order, side_second, of_second, side * order))
    plane_at, plane_has = np.full(planes, -1, np.int64), np.zeros(planes, np.bool_)
    B = np.zeros((order, side_second, of_second, side * order))
    M, centre = np.empty((order, of_second * order)), np.empty(3)
    local = np.empty((order, of_second * order))
    with_moments = len(moments) > 0
    u, du = np.empty(of_second * order), np.empty(of_second * order if with_moments else 0)
    v, dv, nothing = np.empty(order), np.empty(order if with_moments else 0), np.empty(0)
    at, count = z_first * order, (z_last - z_first) * order
    for tx in range(count_x):
        if cell_at[tx].max() < 0:
            continue
        for gx in range(tx, tx + planes):
            slot = gx % planes
            if plane_at[slot] == gx:
                continue
            plane_at[slot], plane_has[slot] = gx, False
            # By the third coordinate.
            for gy in range(wide_second):
                some[gy] = False
                if gy >= y_last + 2 * reach_second or gy < y_first:
                    continue
                for gz in range(z_first, z_last + 2 * reach):
                    c = held[gx, gy, gz]
                    if c < 0:
                        continue
                    if not some[gy]:
                        some[gy] = True
                        C[gy] = 0.0
                    centre[0] = (low[0] + first_x + gx - reach + 0.5) * width
                    centre[1] = (low[1] + block_y + gy - reach_second + 0.5) * width
                    centre[2] = (low[2] + block_z + gz - reach + 0.5) * width
                    _moments(points, weights, starts[c], starts[c + 1], axes, centre, unit, M)
                    begin, end = max(z_first, gz - 2 * reach), min(z_last, gz + 1)
                    skipped = begin - gz + 2 * reach
                    to, of = C[gy].reshape((-1, side * order)), M.reshape((-1, order))
                    _add_product(to, begin * order, of, order, rows_of_table, skipped * order, (end - begin) * order)
            # By the second.
            for gy in range(wide_second):
                if not some[gy]:
                    continue
                if not plane_has[slot]:
                    plane_has[slot] = True
                    D[slot] = 0.0
                for ty in range(max(y_first, gy - 2 * reach_second), min(y_last, gy + 1)):
                    T = table_of_second[ty - gy + 2 * reach_second]
                    for k in range(order):
                        _add_product(D[slot, k, ty], at, T, of_second, C[gy, k], at, count)
        # By the first, and the queries.
        for ty in range(y_first, y_last):
            begin, end = side, 0
            for tz in range(z_first, z_last):
                if cell_at[tx, ty, tz] >= 0:
                    begin, end = min(begin, tz), tz + 1
            if begin >= end:
                continue
            B[:, ty] = 0.0
            for gx in range(tx, tx + planes):
                slot = gx % planes
                if plane_has[slot]:
                    T, of_plane = table[tx - gx + 2 * reach], D[slot].reshape((order, -1))
                    for k in range(of_second):
                        column = ((ty * of_second + k) * side + begin) * order
                        _add_product(B.reshape((order, -1)), column, T, order, of_plane, column, (end - begin) * order)
            for tz in range(begin, end):
                t = cell_at[tx, ty, tz]
                if t < 0:
                    continue
                for k in range(order):
                    for j in range(of_second):
                        loops.copy(B[k, ty, j, tz * order : (tz + 1) * order], local[k, j * order : (j + 1) * order])
                centre[0] = (low[0] + first_x + tx + 0.5) * width
                centre[1] = (low[1] + block_y + ty + 0.5) * width
                centre[2] = (low[2] + block_z + tz + 0.5) * width
                off = near[tx, ty * side + tz, 0] * (1 + rtol)
                for i in range(query_starts[t], query_starts[t + 1]):
                    a = (np.float64(Y[i, axes[0]]) - centre[0]) / unit
                    b = (np.float64(Y[i, axes[1]]) - centre[1]) / unit
                    c = (np.float64(Y[i, axes[2]]) - centre[2]) / unit
                    _horner(local, a, u, du)
                    _horner(u.reshape((of_second, order)), b, v, dv)
                    value, by_third_power = 0.0, 0.0
                    for j in range(order - 1, -1, -1):
                        by_third_power = by_third_power * c + value
                        value = value * c + v[j]
                    total[i] = value
                    left[i] = not off <= rtol * value
                    if with_moments:
                        moments[i, axes[1]] = slope * _polynomial(dv, c)
                        moments[i, axes[2]] = slope * by_third_power
                        _horner(du.reshape((of_second, order)), b, v, nothing)
                        moments[i, 0] = slope * _polynomial(v, c)
    for t in range(first, last):
        x, y, z = places(query_cells[t], bits, within)
        if cell_at[x - first_x, y - block_y, z - block_z] < 0:
            left[query_starts[t] : query_starts[t + 1]] = True


@njit(**_FAST)
def _polynomial(v: Any, x: Any) -> Any:
    """sum_k v_k x^k."""
    value = 0.0
    for k in range(v.size - 1, -1, -1):
        value = value * x + v[k]
    return value
