"""Compiled loops of cross-validation: sums over the pairs of two blocks of rows, tile by tile.

``XT`` is (d, n) float64; squared distances are summed in float64 and then rounded to the dtype of the Gaussians. The
first block is rows i0 to i1, the second j0 to j1; pairs within a block are taken once. Exponents are binary.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types
from numba.extending import overload

from cukde.core.cpu.jit import njit
from cukde.density.pairs.cpu.tiles import _FAST, _JIT, _LN2, _exp2

# Sizes of a tile of squared distances, which stays in the first-level cache for all bandwidths.
_ROWS, _COLUMNS = 32, 128
LEAST_SQUARED = -500.0  # exponent of float64 numbers whose squares are safely normal
_STRIP = 64  # columns whose least distance is known
# Squared distances may overflow; they are clipped such that small multiples of them are in range.
_IN_RANGE: dict[str, Any] = {
    "fastmath": {"reassoc", "contract", "nsz"},
    "nogil": True,
    "error_model": "numpy",
    "cache": True,
}


@njit(**_JIT)
def _corners(i0: Any, i1: Any, j0: Any, j1: Any) -> Any:
    """Yield first row, rows, first column and columns of each tile that holds a pair i < j."""
    for i in range(i0, i1, _ROWS):
        for j in range(j0, j1, _COLUMNS):
            width = min(_COLUMNS, j1 - j)
            if j + width > i + 1:
                yield i, min(_ROWS, i1 - i), j, width


@njit(**_IN_RANGE)
def _squares(XT: Any, i0: Any, j0: Any, height: Any, width: Any, far: Any, sums: Any, tile: Any) -> None:
    """Fill a corner of ``tile`` with |x_i - x_j|^2 of rows from i0 and columns from j0 on, at most ``far``."""
    sums = sums[:width]
    for i in range(height):
        sums[:] = 0.0
        for k in range(XT.shape[0]):
            coordinates = XT[k, j0 : j0 + sums.size]
            x = XT[k, i0 + i]
            for j in range(sums.size):
                difference = coordinates[j] - x
                sums[j] += difference * difference
        row = tile[i, :width]
        for j in range(sums.size):
            row[j] = sums[j] if sums[j] < far else far


def _kernel(shift: Any, c: Any, c_low: Any, t: Any) -> Any:
    """2^(shift - (c + c_low) t)."""
    raise NotImplementedError("compiled code only")


# Not reassociated: that would add the two parts of the coefficient.
@overload(_kernel, jit_options={"fastmath": _FAST - {"reassoc"}, "error_model": "numpy"})
def _kernel_overload(shift: Any, c: Any, c_low: Any, t: Any) -> Any:
    if t == types.float32:

        def single(shift: Any, c: Any, c_low: Any, t: Any) -> Any:
            return _exp2((shift - c * t) - c_low * t)

        return single

    def double(shift: Any, c: Any, c_low: Any, t: Any) -> Any:
        return _exp2(shift - c * t)

    return double


@njit(**_JIT)
def add_leave_one_out(
    XT: Any, i0: Any, i1: Any, j0: Any, j1: Any, weights: Any, coefficients: Any, shift: Any, far: Any, sums: Any
) -> None:
    """Add w_j 2^(shift - c t_ij) to ``sums[b, i]`` and w_i 2^(shift - c t_ij) to ``sums[b, j]`` for each pair.

    t_ij = |x_i - x_j|^2; ``coefficients`` (B, 2) are c in two parts, of the dtype of ``weights`` (n,), which is that of
    the Gaussians; ``sums`` (B, n) is float64. Sums of one row or one column of a tile have the dtype of the Gaussians.
    """
    zero = weights.dtype.type(0)
    tile, row_sums = np.empty((_ROWS, _COLUMNS), weights.dtype), np.empty(_COLUMNS)
    column_sums = np.empty(_COLUMNS, weights.dtype)
    for i, height, j, width in _corners(i0, i1, j0, j1):
        _squares(XT, i, j, height, width, far, row_sums, tile)
        of_columns, to_columns = weights[j : j + width], column_sums[:width]
        for b in range(coefficients.shape[0]):
            c, c_low = coefficients[b, 0], coefficients[b, 1]
            to_columns[:] = zero
            for row in range(height):
                first = max(0, i + row + 1 - j)
                t, w, to = tile[row, first:width], of_columns[first:], to_columns[first:]
                w_i, total = weights[i + row], zero
                for column in range(t.size):
                    k = _kernel(shift, c, c_low, t[column])
                    total += w[column] * k
                    to[column] += w_i * k
                sums[b, i + row] += total
            for column in range(width):
                sums[b, j + column] += to_columns[column]


@njit(**_IN_RANGE)
def _distances(XT: Any, i: Any, far: Any, t: Any, nearest: Any) -> None:
    """Fill ``t`` (n,) with |x_i - x_j|^2, at most ``far`` but for j = i, and ``nearest`` with each strip's least."""
    for strip in range(nearest.size):
        start = strip * _STRIP
        sums = t[start : start + _STRIP]
        sums[:] = 0.0
        for k in range(XT.shape[0]):
            coordinates = XT[k, start : start + sums.size]
            x = XT[k, i]
            for j in range(sums.size):
                difference = coordinates[j] - x
                sums[j] += difference * difference
        for j in range(sums.size):
            sums[j] = sums[j] if sums[j] < far else far
        if start <= i < start + _STRIP:
            sums[i - start] = 2.0 * far
        least = 2.0 * far
        for j in range(sums.size):
            least = min(least, sums[j])
        nearest[strip] = least


@njit(**_JIT)
def write_far_rows(
    XT: Any, rows: Any, unsettled: Any, weights: Any, coefficients: Any, bits: Any, far: Any, logs: Any
) -> None:
    """Write log sum_{j != i} w_j 2^(-c t_ij) to ``logs[b, i]`` for ``rows`` where ``unsettled[b, i]``.

    t_ij = |x_i - x_j|^2; ``coefficients`` (B,) are c. Gaussians are relative to that of the nearest point, so that one
    row of distances serves all bandwidths. Strips whose Gaussians are smaller by more than ``bits`` are skipped.
    """
    n = XT.shape[1]
    t, nearest = np.empty(n), np.empty((n + _STRIP - 1) // _STRIP)
    for i in rows:
        _distances(XT, i, far, t, nearest)
        least = nearest.min()
        for b in range(coefficients.size):
            if not unsettled[b, i]:
                continue
            c, total = coefficients[b], 0.0
            for strip in range(nearest.size):
                if c * (nearest[strip] - least) > bits:
                    continue
                w, distances = weights[strip * _STRIP : (strip + 1) * _STRIP], t[strip * _STRIP : (strip + 1) * _STRIP]
                for j in range(distances.size):
                    total += w[j] * _exp2(c * (least - distances[j]))
            logs[b, i] = np.log(total) - _LN2 * (c * least)


@njit(**_JIT)
def add_least_squares(
    XT: Any,
    i0: Any,
    i1: Any,
    j0: Any,
    j1: Any,
    weights: Any,
    factors: Any,
    coefficients: Any,
    shift: Any,
    least: Any,
    far: Any,
    sums: Any,
) -> None:
    """Add to ``sums`` (B, 2), float64, w_i w_j f P(t) and w_i w_j (v_i + v_j) f^2 R(t) for each pair.

    f = 2^(shift - c t), t = |x_i - x_j|^2, P = p0 + p1 t + p2 t^2, R = r0 + r1 t; ``coefficients`` (B, 6) are c, p0,
    p1, p2, r0, r1, of the dtype of ``weights`` (n,), which is that of the Gaussians f; ``factors`` (n,) are v. Sums of
    one row of a tile have that dtype. Below 2^``least`` f is 0, since subnormal squares would take a hundred times as
    long.
    """
    zero = weights.dtype.type(0)
    tile, row_sums = np.empty((_ROWS, _COLUMNS), weights.dtype), np.empty(_COLUMNS)
    for i, height, j, width in _corners(i0, i1, j0, j1):
        _squares(XT, i, j, height, width, far, row_sums, tile)
        for b in range(coefficients.shape[0]):
            c, p0, p1 = coefficients[b, 0], coefficients[b, 1], coefficients[b, 2]
            p2, r0, r1 = coefficients[b, 3], coefficients[b, 4], coefficients[b, 5]
            for row in range(height):
                first = max(0, i + row + 1 - j)
                t, w, v = tile[row, first:width], weights[j + first : j + width], factors[j + first : j + width]
                v_i, of_p, of_r = factors[i + row], zero, zero
                for column in range(t.size):
                    q = t[column]
                    e = shift - c * q
                    f = _exp2(e) if e > least else zero
                    weighted = w[column] * f
                    of_p += weighted * ((p2 * q + p1) * q + p0)
                    of_r += weighted * f * ((v_i + v[column]) * (r1 * q + r0))
                w_i = np.float64(weights[i + row])
                sums[b, 0] += w_i * of_p
                sums[b, 1] += w_i * of_r


@njit(**_JIT)
def _add_squared_differences(XT: Any, i0: Any, j0: Any, height: Any, width: Any, tile: Any, sums: Any) -> None:
    """Add the sum of tile[i, j] (x_ik - x_jk)^2 over a corner of the tile to ``sums`` (d,)."""
    for k in range(XT.shape[0]):
        coordinates = XT[k, j0 : j0 + width]
        total = 0.0
        for i in range(height):
            row = tile[i, :width]
            x = XT[k, i0 + i]
            for j in range(row.size):
                difference = coordinates[j] - x
                total += row[j] * (difference * difference)
        sums[k] += total


@njit(**_JIT)
def add_likelihood_gradient(
    XT: Any, i0: Any, i1: Any, j0: Any, j1: Any, weights: Any, log2_weights: Any, c: Any, logs: Any, far: Any, sums: Any
) -> None:
    """Add w_i w_j (2^(-c t - l_j) + 2^(-c t - l_i)) (x_ik - x_jk)^2 to ``sums`` (d,) for each pair, in float64.

    t = |x_i - x_j|^2; l = ``logs`` (n,) are the binary logarithms of the sums.
    """
    tile, row_sums = np.empty((_ROWS, _COLUMNS)), np.empty(_COLUMNS)
    for i, height, j, width in _corners(i0, i1, j0, j1):
        _squares(XT, i, j, height, width, far, row_sums, tile)
        for row in range(height):
            first = max(0, i + row + 1 - j)
            tile[row, :first] = 0.0
            t, w = tile[row, first:width], weights[j + first : j + width]
            log2_w, logs_j = log2_weights[j + first : j + width], logs[j + first : j + width]
            w_i, log2_w_i, log_i = weights[i + row], log2_weights[i + row], logs[i + row]
            for column in range(t.size):
                # No term exceeds its sum, but far away rounding alone could make a power overflow.
                e = -c * t[column]
                of_j = w[column] * _exp2(min(e - logs_j[column] + log2_w_i, 0.0))
                t[column] = of_j + w_i * _exp2(min(e - log_i + log2_w[column], 0.0))
        _add_squared_differences(XT, i, j, height, width, tile, sums)


@njit(**_JIT)
def add_least_squares_gradient(
    XT: Any, i0: Any, i1: Any, j0: Any, j1: Any, weights: Any, factors: Any, coefficients: Any, far: Any, sums: Any
) -> None:
    """Add w_i w_j (f P(t) + (v_i + v_j) f^2 R(t)) (x_ik - x_jk)^2 to ``sums`` (d,) for each pair, in float64.

    As :func:`add_least_squares`, with one bandwidth and no shift; ``coefficients`` are a tuple.
    """
    tile, row_sums = np.empty((_ROWS, _COLUMNS)), np.empty(_COLUMNS)
    c, p0, p1, p2, r0, r1 = coefficients
    for i, height, j, width in _corners(i0, i1, j0, j1):
        _squares(XT, i, j, height, width, far, row_sums, tile)
        for row in range(height):
            first = max(0, i + row + 1 - j)
            tile[row, :first] = 0.0
            t, w, v = tile[row, first:width], weights[j + first : j + width], factors[j + first : j + width]
            w_i, v_i = weights[i + row], factors[i + row]
            for column in range(t.size):
                q = t[column]
                e = -c * q
                f = _exp2(e) if e > LEAST_SQUARED else 0.0
                value = ((p2 * q + p1) * q + p0) + f * ((v_i + v[column]) * (r1 * q + r0))
                t[column] = w_i * w[column] * f * value
        _add_squared_differences(XT, i, j, height, width, tile, sums)


@njit(**_JIT)
def debiased_exponents(
    XT: Any,
    half_shift: Any,
    rows: Any,
    j0: Any,
    c: Any,
    weights: Any,
    log2_weights: Any,
    inverse_totals: Any,
    tile: Any,
) -> None:
    """Fill a tile with log2 w_j - c |x_i - xt_j|^2, xt_j debiased without x_i, for ``rows`` and columns from j0 on.

    ``half_shift`` (d, n) is half of the mean shift m. With u = x_i - x_j and r the share of all points but x_i in the
    sum at x_j, x_i - xt_j = (u (1 + r)/2 - m_j/2) / r. For small r the two terms nearly cancel. They are subtracted in
    each dimension, since a square computed from u.u, u.m and m.m would lose twice as many digits.
    """
    width = tile.shape[1]
    w, log2_w, inverse = weights[j0 : j0 + width], log2_weights[j0 : j0 + width], inverse_totals[j0 : j0 + width]
    scale, square = np.empty(width), np.empty(width)
    for i in range(tile.shape[0]):
        row, point = tile[i], rows[i]
        square[:] = 0.0
        for k in range(XT.shape[0]):
            coordinates = XT[k, j0 : j0 + width]
            x = XT[k, point]
            for j in range(width):
                difference = x - coordinates[j]
                square[j] += difference * difference
        w_i = weights[point]
        for j in range(width):
            # The share of the other points, at least that of x_j.
            rest = max(1.0 - w_i * inverse[j] * _exp2(-c * square[j]), w[j] * inverse[j])
            scale[j] = 0.5 + 0.5 * rest
            row[j] = -c / (rest * rest)
        square[:] = 0.0
        for k in range(XT.shape[0]):
            coordinates, shifts = XT[k, j0 : j0 + width], half_shift[k, j0 : j0 + width]
            x = XT[k, point]
            for j in range(width):
                difference = (x - coordinates[j]) * scale[j] - shifts[j]
                square[j] += difference * difference
        for j in range(width):
            row[j] = row[j] * square[j] + log2_w[j]
