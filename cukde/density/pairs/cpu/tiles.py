"""Numba kernels over one tile of pairs, queries by data, in single or double precision by their arrays.

Exponents are in bits (base 2). A tile holds, in turn, exponents, then weights exp2(exponent + shift), where
a query's shift takes its largest exponent so far to zero.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import types
from numba.extending import overload

from cukde.core.cpu import loops
from cukde.core.cpu.jit import njit

# Sums may be reordered and contracted; NaN and infinity do not occur in checked input.
_FAST = {"reassoc", "contract", "nsz", "arcp", "nnan", "ninf"}
_JIT: dict[str, Any] = {"fastmath": _FAST, "nogil": True, "error_model": "numpy", "cache": True}
_LN2 = math.log(2.0)

NEGLIGIBLE = {np.float32: -64.0, np.float64: -128.0}
"""Exponents, of a largest one of 0, below which terms of moments are none: their products with differences would be
less than normal numbers, which takes ten times as long."""

NOTHING = {np.float32: np.float32(-1e30), np.float64: -1e305}
"""Exponents of pairs that are left out: below any other."""

_TOGETHER = 64  # dimensions of a sum of squared differences, and of points that stay in cache

_DIMENSIONS = 8  # whose sums over queries stay in cache

_LANES = 64  # of a search for the largest; fewer and more take longer


def _exp2_coefficients(degree: int) -> list[float]:
    """Coefficients, lowest first, of 2^f on [-1/2, 1/2]: least squares in relative error, Chebyshev nodes."""
    nodes = 0.5 * np.cos(np.pi * (np.arange(400) + 0.5) / 400)
    powers = np.vander(nodes, degree + 1, increasing=True)
    fitted, *_ = np.linalg.lstsq(powers * np.exp2(-nodes)[:, None], np.ones_like(nodes), rcond=None)
    return [float(c) for c in fitted]


_S0, _S1, _S2, _S3, _S4, _S5 = (np.float32(c) for c in _exp2_coefficients(5))
_D0, _D1, _D2, _D3, _D4, _D5, _D6, _D7, _D8, _D9, _D10 = _exp2_coefficients(10)


def _exp2(x: Any) -> Any:
    """2**x for x <= 0, and 0 where that is below the normal numbers; accurate to 2e-7 single, 2e-15 double.

    Numba's own exp is a scalar library call unless SVML is installed, fifty times slower than this, which
    the compiler vectorises. Rounding is by rint: adding and subtracting a magic number would be folded away
    where sums may be reordered.
    """
    raise NotImplementedError("compiled code only")


@overload(_exp2, jit_options={"fastmath": _FAST, "error_model": "numpy"})
def _exp2_overload(x: Any) -> Any:
    if x == types.float32:

        def single(x: Any) -> Any:
            n = np.rint(max(x, np.float32(-126.0)))
            f = x - n
            p = ((((_S5 * f + _S4) * f + _S3) * f + _S2) * f + _S1) * f + _S0
            bits = np.float32(p).view(np.int32) + (np.int32(n) << np.int32(23))
            return np.int32(bits).view(np.float32) if x > np.float32(-126.0) else np.float32(0)

        return single

    def double(x: Any) -> Any:
        n = np.rint(max(x, -1022.0))
        f = x - n
        p = ((((_D10 * f + _D9) * f + _D8) * f + _D7) * f + _D6) * f + _D5
        p = ((((p * f + _D4) * f + _D3) * f + _D2) * f + _D1) * f + _D0
        bits = np.float64(p).view(np.int64) + (np.int64(n) << np.int64(52))
        return np.int64(bits).view(np.float64) if x > -1022.0 else 0.0

    return double


@njit(**_JIT)
def _largest(row: Any, lanes: Any) -> Any:
    """Largest of a row, found in lanes: one comparison after the other would wait four cycles for each."""
    lanes[:] = row[0]
    whole = row.size // _LANES * _LANES
    for start in range(0, whole, _LANES):
        part = row[start : start + _LANES]
        for j in range(_LANES):
            lanes[j] = lanes[j] if lanes[j] > part[j] else part[j]
    largest = row[0]
    for j in range(_LANES):
        largest = max(largest, lanes[j])
    for j in range(whole, row.size):
        largest = max(largest, row[j])
    return largest


@njit(**_JIT)
def _settle(row: Any, lanes: Any, shift: Any) -> Any:
    """Shift of a row whose largest exponent may exceed those before, and what sums so far are to be multiplied by."""
    settled = min(shift, -_largest(row, lanes))
    return settled, np.exp2(np.float64(settled) - np.float64(shift))


@njit(**_JIT)
def leave_out(tile: Any, own: Any, nothing: Any) -> None:
    """Write ``nothing`` to the column ``own`` (queries,) of each row, if the tile has it."""
    for i in range(tile.shape[0]):
        if 0 <= own[i] < tile.shape[1]:
            tile[i, own[i]] = nothing


@njit(**_JIT)
def weigh(tile: Any, shift: Any, rescale: Any, total: Any, least: float = -math.inf) -> None:
    """Turn exponents into weights in place, about a ``shift`` that is updated; add each row's sum to ``total``.

    ``rescale`` (float64, as ``total``) becomes what sums from before are worth beside the new shift. Weights of
    exponents up to ``least`` are 0.
    """
    lowest = tile.dtype.type(least)
    lanes = np.empty(_LANES, tile.dtype)
    for i in range(tile.shape[0]):
        row = tile[i]
        row_shift, factor = _settle(row, lanes, shift[i])
        row_sum = tile.dtype.type(0)
        for j in range(row.size):
            e = row[j] + row_shift
            w = _exp2(e) if e > lowest else tile.dtype.type(0)
            row[j] = w
            row_sum += w
        shift[i] = row_shift
        rescale[i] = factor
        total[i] = total[i] * factor + row_sum


@njit(**_JIT)
def count_weights(tile: Any) -> Any:
    """Return how many weights are not 0."""
    count = np.int32(0)
    for i in range(tile.shape[0]):
        row = tile[i]
        for j in range(row.size):
            count += np.int32(row[j] != 0)
    return count


@njit(**_JIT)
def sum_weights(tile: Any, shift: Any, total: Any) -> None:
    """Add each row's sum of weights to ``total``; the tile is left alone, the ``shift`` updated."""
    lanes = np.empty(_LANES, tile.dtype)
    for i in range(tile.shape[0]):
        row = tile[i]
        row_shift, factor = _settle(row, lanes, shift[i])
        row_sum = tile.dtype.type(0)
        for j in range(row.size):
            row_sum += _exp2(row[j] + row_shift)
        shift[i] = row_shift
        total[i] = total[i] * factor + row_sum


@njit(**_JIT)
def weigh_both(tile: Any, least: float, row_total: Any, column_total: Any) -> None:
    """Turn exponents up to 0 into weights in place; add the sums of rows, and of columns if they have totals (float64).

    Weights of exponents up to ``least`` are 0.
    """
    lowest, both = tile.dtype.type(least), column_total.size > 0
    columns = np.zeros(column_total.size, tile.dtype)
    for i in range(tile.shape[0]):
        row = tile[i]
        row_sum = tile.dtype.type(0)
        for j in range(row.size):
            w = _exp2(row[j]) if row[j] > lowest else tile.dtype.type(0)
            row[j] = w
            row_sum += w
        row_total[i] += row_sum
        if both:
            for j in range(row.size):
                columns[j] += row[j]
    for j in range(columns.size):
        column_total[j] += columns[j]


@njit(**_JIT)
def weigh_laplace(tile: Any, shift: Any, constant: Any, log2_weights: Any, total: Any, moments: Any) -> None:
    """Add each row's sum of weights to ``total``, and of weights times Laplace factors to ``moments`` (queries, 1).

    The tile is left alone, the shift updated. The factor is 1 + d/2 - r^2/(2 h^2) = ``constant`` + ln 2 (exponent -
    log2 weight).
    """
    ln2 = tile.dtype.type(_LN2)
    constant = tile.dtype.type(constant)
    lanes = np.empty(_LANES, tile.dtype)
    for i in range(tile.shape[0]):
        row = tile[i]
        row_shift, factor = _settle(row, lanes, shift[i])
        row_sum = moment = tile.dtype.type(0)
        for j in range(row.size):
            e = row[j]
            w = _exp2(e + row_shift)
            row_sum += w
            moment += w * (constant + ln2 * (e - log2_weights[j]))
        shift[i] = row_shift
        total[i] = total[i] * factor + row_sum
        moments[i, 0] = moments[i, 0] * factor + moment


@njit(**_JIT)
def weigh_by_laplace(tile: Any, shift: Any, rescale: Any, constant: Any, log2_weights: Any, total: Any) -> None:
    """Turn exponents into weights times Laplace factors in place.

    The rest is as in :func:`weigh`, with weights alone in ``total``, and as in :func:`weigh_laplace`.
    """
    ln2 = tile.dtype.type(_LN2)
    constant = tile.dtype.type(constant)
    lanes = np.empty(_LANES, tile.dtype)
    for i in range(tile.shape[0]):
        row = tile[i]
        row_shift, factor = _settle(row, lanes, shift[i])
        row_sum = tile.dtype.type(0)
        for j in range(row.size):
            e = row[j]
            w = _exp2(e + row_shift)
            row_sum += w
            row[j] = w * (constant + ln2 * (e - log2_weights[j]))
        shift[i] = row_shift
        rescale[i] = factor
        total[i] = total[i] * factor + row_sum


@njit(**_JIT)
def _squared(a: Any, b: Any) -> Any:
    """Squared distance of two points of four coordinates."""
    t0, t1, t2, t3 = a[0] - b[0], a[1] - b[1], a[2] - b[2], a[3] - b[3]
    return t0 * t0 + t1 * t1 + t2 * t2 + t3 * t3


@njit(**_JIT)
def _four(a: Any, i: int, k: int) -> Any:
    """Four numbers of a row."""
    return a[i, k], a[i, k + 1], a[i, k + 2], a[i, k + 3]


@njit(**_JIT)
def differences(Y: Any, XT: Any, scale: Any, log2_weights: Any, tile: Any) -> None:
    """Fill a tile with log2 w_j - scale |y_i - x_j|^2 by summing squared differences; XT is (d, columns).

    Four queries and four dimensions go together, so that tile and points are read less often, in half of the time.
    Every so many dimensions are summed apart, so that sums of many round less.
    """
    q, d = Y.shape
    apart = np.empty((4, tile.shape[1]), tile.dtype)
    for i in range(q):
        loops.copy(log2_weights, tile[i])
    for begin in range(0, max(d, 1), _TOGETHER):
        end = min(begin + _TOGETHER, d)
        for i in range(0, q, 4):
            rows = tile[i : i + 4]
            to = rows if begin == 0 else apart[: rows.shape[0]]
            if begin > 0:
                apart[:] = 0
            if rows.shape[0] == 4:
                _subtract_of_four(Y[i : i + 4], XT, begin, end, scale, to)
            else:
                for r in range(rows.shape[0]):
                    _subtract(Y[i + r], XT, begin, end, scale, to[r])
            if begin > 0:
                for r in range(rows.shape[0]):
                    row, part = rows[r], apart[r]
                    for j in range(row.size):
                        row[j] += part[j]


@njit(**_JIT)
def _subtract(y: Any, XT: Any, begin: int, end: int, scale: Any, row: Any) -> None:
    """Subtract squared differences of a query in some dimensions."""
    singles = begin + (end - begin) % 4
    for k in range(begin, singles):
        x, of_query = XT[k], y[k]
        for j in range(row.size):
            difference = x[j] - of_query
            row[j] -= scale * (difference * difference)
    for k in range(singles, end, 4):
        x0, x1, x2, x3 = XT[k], XT[k + 1], XT[k + 2], XT[k + 3]
        of_four = y[k], y[k + 1], y[k + 2], y[k + 3]
        for j in range(row.size):
            row[j] -= scale * _squared((x0[j], x1[j], x2[j], x3[j]), of_four)


@njit(**_JIT)
def _subtract_of_four(Y: Any, XT: Any, begin: int, end: int, scale: Any, rows: Any) -> None:
    """Subtract squared differences of four queries in some dimensions."""
    r0, r1, r2, r3 = rows[0], rows[1], rows[2], rows[3]
    singles = begin + (end - begin) % 4
    for k in range(begin, singles):
        x, y0, y1, y2, y3 = XT[k], Y[0, k], Y[1, k], Y[2, k], Y[3, k]
        for j in range(r0.size):
            t0, t1, t2, t3 = x[j] - y0, x[j] - y1, x[j] - y2, x[j] - y3
            r0[j] -= scale * (t0 * t0)
            r1[j] -= scale * (t1 * t1)
            r2[j] -= scale * (t2 * t2)
            r3[j] -= scale * (t3 * t3)
    for k in range(singles, end, 4):
        x0, x1, x2, x3 = XT[k], XT[k + 1], XT[k + 2], XT[k + 3]
        p0, p1, p2, p3 = _four(Y, 0, k), _four(Y, 1, k), _four(Y, 2, k), _four(Y, 3, k)
        for j in range(r0.size):
            x = x0[j], x1[j], x2[j], x3[j]
            r0[j] -= scale * _squared(x, p0)
            r1[j] -= scale * _squared(x, p1)
            r2[j] -= scale * _squared(x, p2)
            r3[j] -= scale * _squared(x, p3)


@njit(**_JIT)
def whitened_differences(Y: Any, XT: Any, lost_Y: Any, lost_XT: Any, scale: Any, log2_weights: Any, tile: Any) -> None:
    """The same with what points have lost by rounding; near points are subtracted exactly before that is added."""
    for i in range(Y.shape[0]):
        row = tile[i]
        loops.copy(log2_weights, row)
        for k in range(Y.shape[1]):
            coordinates, lost, y, lost_y = XT[k], lost_XT[k], Y[i, k], lost_Y[i, k]
            for j in range(row.size):
                high, low = coordinates[j] - y, lost[j] - lost_y
                row[j] -= scale * (high * high + low * (high + high + low))


@njit(**_JIT)
def add_difference_moments(tile: Any, Y: Any, XT: Any, moments: Any) -> None:
    """Add sum_j tile[i, j] (x_jk - y_ik) to ``moments`` (queries, d): differences first, so nothing cancels.

    The sum over a tile is in the tile's own precision; four queries and two dimensions go together.
    """
    q, d = Y.shape
    fours = q // 4 * 4
    for begin in range(0, d, _TOGETHER):
        end = min(begin + _TOGETHER, d)
        for i in range(0, fours, 4):
            for k in range(begin, end - end % 2, 2):
                _add_moments_of_four(tile[i : i + 4], Y[i : i + 4], XT, k, moments[i : i + 4])
            if end % 2:
                for r in range(i, i + 4):
                    _add_moment(tile[r], Y[r], XT, end - 1, moments[r])
        for i in range(fours, q):
            for k in range(begin, end):
                _add_moment(tile[i], Y[i], XT, k, moments[i])


@njit(**_JIT)
def _add_moment(row: Any, y: Any, XT: Any, k: int, moments: Any) -> None:
    """Add the sum of a query in a dimension."""
    x, of_query, total = XT[k], y[k], row.dtype.type(0)
    for j in range(row.size):
        total += row[j] * (x[j] - of_query)
    moments[k] += total


@njit(**_JIT)
def _add_moments_of_four(rows: Any, Y: Any, XT: Any, k: int, moments: Any) -> None:
    """Add the sums of four queries in two dimensions."""
    x0, x1 = XT[k], XT[k + 1]
    r0, r1, r2, r3 = rows[0], rows[1], rows[2], rows[3]
    y00, y01, y10, y11 = Y[0, k], Y[0, k + 1], Y[1, k], Y[1, k + 1]
    y20, y21, y30, y31 = Y[2, k], Y[2, k + 1], Y[3, k], Y[3, k + 1]
    s00 = s01 = s10 = s11 = s20 = s21 = s30 = s31 = rows.dtype.type(0)
    for j in range(r0.size):
        a, b = x0[j], x1[j]
        s00 += r0[j] * (a - y00)
        s01 += r0[j] * (b - y01)
        s10 += r1[j] * (a - y10)
        s11 += r1[j] * (b - y11)
        s20 += r2[j] * (a - y20)
        s21 += r2[j] * (b - y21)
        s30 += r3[j] * (a - y30)
        s31 += r3[j] * (b - y31)
    moments[0, k] += s00
    moments[0, k + 1] += s01
    moments[1, k] += s10
    moments[1, k + 1] += s11
    moments[2, k] += s20
    moments[2, k + 1] += s21
    moments[3, k] += s30
    moments[3, k + 1] += s31


@njit(**_JIT)
def add_both_moments(tile: Any, Y: Any, XT: Any, moments: Any, opposite: Any) -> None:
    """Add weights times differences to ``moments``; subtract their sums over queries from ``opposite`` (columns, d).

    The sums over queries are in the tile's own precision; a few dimensions of all columns are taken at a time.
    """
    d = Y.shape[1]
    for begin in range(0, d, _DIMENSIONS):
        sums = np.zeros((min(_DIMENSIONS, d - begin), tile.shape[1]), tile.dtype)
        _add_both(tile, Y, XT, begin, moments, sums)
        for j in range(sums.shape[1]):
            for k in range(sums.shape[0]):
                opposite[j, begin + k] -= sums[k, j]


@njit(**_JIT)
def _add_both(tile: Any, Y: Any, XT: Any, begin: int, moments: Any, sums: Any) -> None:
    """Add the terms of some dimensions to sums over columns, and to those over queries."""
    q, end = Y.shape[0], begin + sums.shape[0]
    fours, odd = q // 4 * 4, end - (end - begin) % 2
    for i in range(0, fours, 4):
        for k in range(begin, odd, 2):
            both = sums[k - begin : k - begin + 2]
            _add_both_of_four(tile[i : i + 4], Y[i : i + 4], XT, k, moments[i : i + 4], both)
    for i in range(q):
        for k in range(odd if i < fours else begin, end):
            moments[i, k] += _both(tile[i], Y[i, k], XT[k], sums[k - begin])


@njit(**_JIT)
def _both(row: Any, y: Any, x: Any, sums: Any) -> Any:
    total = row.dtype.type(0)
    for j in range(row.size):
        term = row[j] * (x[j] - y)
        total += term
        sums[j] += term
    return total


@njit(**_JIT)
def _add_both_of_four(rows: Any, Y: Any, XT: Any, k: int, moments: Any, sums: Any) -> None:
    """Add the terms of four queries in two dimensions."""
    x0, x1, r0, r1, r2, r3 = XT[k], XT[k + 1], rows[0], rows[1], rows[2], rows[3]
    to0, to1 = sums[0], sums[1]
    y00, y01, y10, y11 = Y[0, k], Y[0, k + 1], Y[1, k], Y[1, k + 1]
    y20, y21, y30, y31 = Y[2, k], Y[2, k + 1], Y[3, k], Y[3, k + 1]
    s00 = s01 = s10 = s11 = s20 = s21 = s30 = s31 = rows.dtype.type(0)
    for j in range(r0.size):
        a, b, w0, w1, w2, w3 = x0[j], x1[j], r0[j], r1[j], r2[j], r3[j]
        a0, a1, a2, a3 = a - y00, a - y10, a - y20, a - y30
        b0, b1, b2, b3 = b - y01, b - y11, b - y21, b - y31
        s00 += w0 * a0
        s10 += w1 * a1
        s20 += w2 * a2
        s30 += w3 * a3
        s01 += w0 * b0
        s11 += w1 * b1
        s21 += w2 * b2
        s31 += w3 * b3
        to0[j] += w0 * a0 + w1 * a1 + w2 * a2 + w3 * a3
        to1[j] += w0 * b0 + w1 * b1 + w2 * b2 + w3 * b3
    moments[0, k] += s00
    moments[0, k + 1] += s01
    moments[1, k] += s10
    moments[1, k + 1] += s11
    moments[2, k] += s20
    moments[2, k + 1] += s21
    moments[3, k] += s30
    moments[3, k + 1] += s31
