"""Numba kernels over members of a stack: their sums over all pairs."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from cukde.core.cpu.jit import njit
from cukde.density.pairs.cpu import tiles
from cukde.density.pairs.cpu.tiles import _JIT

SUM, MOMENTS, LAPLACE = range(3)

_HALF_LOG2_E = 0.5 * math.log2(math.e)
_LN2 = math.log(2)

# Weights below this logarithm, in bits, stand for zero: no exponent is low enough for such rows beside a far query.
_LOG2_ZERO = -1e29

_TILE = 2**13  # pairs of a tile, so that it stays in the fastest cache; a row of the data's length is always one
_NO_SHIFT, _NO_SINGLE_SHIFT = (float(np.finfo(dtype).max) for dtype in (np.float64, np.float32))  # larger than any
_NOTHING = -_NO_SHIFT  # the reference of a sum of nothing

# Single precision rounds a sum of squared differences by some 3 eps. Queries whose largest exponent is below minus
# this, in bits, are taken again in double, or their densities would be off by more than 1e-5.
_FAR = 24.0


@njit(**_JIT)
def sums(
    X: Any, Y: Any, log2_weights: Any, h: Any, output: int, begin: int, reference: Any, total: Any, moments: Any
) -> None:
    """Write the sums of members at their queries from ``begin`` on, for ``partial_sums`` of the passes.

    X (b, n, d); Y (b or 1, m, d); log2_weights (b or 1, n), or (0, n) for equal ones; h (b,); reference, total (b, q);
    moments (b, q, k), in the unit of the points for output MOMENTS.
    """
    n, d = X.shape[1:]
    queries = total.shape[1]
    data, weights, exact_weights = np.empty((d, n), X.dtype), np.empty(n, X.dtype), np.empty(n)
    y = np.empty((max(1, _TILE // n), d), X.dtype)
    for i in range(X.shape[0]):
        # A power of two brings h below 2 and changes no bit of the coordinates; squares then stay in range.
        unit = 2.0 ** -max(0, math.frexp(h[i])[1] - 1)
        scale = _HALF_LOG2_E / (h[i] * unit) ** 2
        rows = _lay_out(X[i], log2_weights, i, unit, data, weights, exact_weights)
        if rows == 0:  # unchecked weights
            reference[i] = _NOTHING
            total[i] = 0
            moments[i] = 0
            continue
        points, of_points = data.reshape(-1)[: d * rows].reshape(d, rows), weights[:rows]
        asked = Y[min(i, Y.shape[0] - 1)]
        for start in range(0, queries, y.shape[0]):
            end = min(start + y.shape[0], queries)
            count = end - start
            for q in range(count):
                for k in range(d):
                    y[q, k] = asked[begin + start + q, k] * X.dtype.type(unit)
            part = slice(start, end)
            a, s, v = reference[i, part], total[i, part], moments[i, part]
            _block(y[:count], points, X.dtype.type(scale), of_points, output, a, s, v)
            if X.itemsize == 4:
                _take_far(y[:count], points, scale, exact_weights[:rows], output, a, s, v)
            if output == MOMENTS:
                for q in range(start, end):
                    for k in range(d):
                        moments[i, q, k] /= unit


@njit(**_JIT)
def _lay_out(A: Any, log2_weights: Any, member: int, unit: float, data: Any, weights: Any, exact_weights: Any) -> int:
    """Write the rows of a member that have weight, times a unit and transposed, to the front of ``data``.

    The logarithms of their weights go to ``weights`` and, in double, to ``exact_weights``. The number of these rows is
    returned.
    """
    rows = A.shape[0]
    if log2_weights.shape[0] > 0:
        member_weights = log2_weights[min(member, log2_weights.shape[0] - 1)]
        rows = 0
        for j in range(A.shape[0]):
            rows += member_weights[j] > _LOG2_ZERO
    flat = data.reshape(-1)
    row = 0
    for j in range(A.shape[0]):
        weight = 0.0 if log2_weights.shape[0] == 0 else log2_weights[min(member, log2_weights.shape[0] - 1), j]
        if weight > _LOG2_ZERO:
            weights[row] = exact_weights[row] = weight
            for k in range(A.shape[1]):
                flat[k * rows + row] = A[j, k] * A.dtype.type(unit)
            row += 1
    return rows


@njit(**_JIT)
def _take_far(
    Y: Any, XT: Any, scale: float, log2_weights: Any, output: int, reference: Any, total: Any, moments: Any
) -> None:
    """Take queries far from all data again, in double."""
    far = 0
    for q in range(Y.shape[0]):
        far += reference[q] < -_FAR * _LN2
    if far == 0:
        return
    y, data = np.empty((far, Y.shape[1])), np.empty(XT.shape)
    row = 0
    for q in range(Y.shape[0]):
        if reference[q] < -_FAR * _LN2:
            for k in range(Y.shape[1]):
                y[row, k] = Y[q, k]
            row += 1
    for k in range(XT.shape[0]):
        for j in range(XT.shape[1]):
            data[k, j] = XT[k, j]
    a, s, v = np.empty(far), np.empty(far), np.empty((far, moments.shape[1]))
    _block(y, data, scale, log2_weights, output, a, s, v)
    row = 0
    for q in range(Y.shape[0]):
        if reference[q] < -_FAR * _LN2:
            reference[q], total[q] = a[row], s[row]
            for k in range(moments.shape[1]):
                moments[q, k] = v[row, k]
            row += 1


@njit(**_JIT)
def _block(
    Y: Any, XT: Any, scale: Any, log2_weights: Any, output: int, reference: Any, total: Any, moments: Any
) -> None:
    """Write the sums of some queries over all data of a member, in the precision of the points."""
    q = Y.shape[0]
    tile, shift, rescale = np.empty((q, XT.shape[1]), XT.dtype), np.empty(q, XT.dtype), np.empty(q)
    tiles.differences(Y, XT, scale, log2_weights, tile)
    for i in range(q):
        shift[i] = _NO_SINGLE_SHIFT if XT.itemsize == 4 else _NO_SHIFT
        total[i] = 0
    moments[:] = 0
    if output == LAPLACE:
        tiles.weigh_laplace(tile, shift, 1 + 0.5 * Y.shape[1], log2_weights, total, moments)
    else:
        tiles.weigh(tile, shift, rescale, total)
    if output == MOMENTS:
        tiles.add_difference_moments(tile, Y, XT, moments)
    for i in range(q):
        reference[i] = -_LN2 * shift[i]
