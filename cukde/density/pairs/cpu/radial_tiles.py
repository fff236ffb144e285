"""Numba kernels over one tile of squared distances in bandwidths, queries by data, single or double by their array.

They sum kernels of bounded support, see :mod:`cukde.density.kernels`, or make the exponents of the exponential kernel.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from cukde.core.cpu.jit import njit
from cukde.density.kernels import COSINE_SERIES
from cukde.density.pairs.cpu.tiles import _JIT

TOPHAT, EPANECHNIKOV, LINEAR, COSINE = range(4)
CODES = {"tophat": TOPHAT, "epanechnikov": EPANECHNIKOV, "linear": LINEAR, "cosine": COSINE}

_LOG2_E = math.log2(math.e)
_BEYOND = 2.0  # a squared distance at which these kernels are 0
_G0, _G1, _G2, _G3, _G4, _G5, _G6, _G7, _G8, _G9 = COSINE_SERIES[:10]
_F0, _F1, _F2, _F3, _F4, _F5 = (np.float32(g) for g in COSINE_SERIES[:6])


@njit(**_JIT)
def to_exponents(tile: Any, log2_weights: Any) -> None:
    """Turn squared distances into the exponents of the exponential kernel in place, log2 w_j - log2(e) t, in bits."""
    scale = tile.dtype.type(_LOG2_E)
    for i in range(tile.shape[0]):
        row = tile[i]
        for j in range(row.size):
            row[j] = log2_weights[j] - scale * np.sqrt(row[j])


@njit(**_JIT)
def take_edges(tile: Any, code: int, edge: Any, Y: Any, XT: Any, squared_h: float, weights: Any, total: Any) -> None:
    """Add the pairs at the edge to ``total``, from differences in double, and take them off the tile.

    ``edge`` is from and to which squared distance; ``XT`` is (d, columns).
    """
    least, largest = edge
    middle, half = (least + largest) / tile.dtype.type(2), (largest - least) / tile.dtype.type(2)
    beyond = tile.dtype.type(_BEYOND)
    columns = np.empty(tile.shape[1], np.int32)
    for i in range(tile.shape[0]):
        row = tile[i]
        near = 0
        for j in range(row.size):
            near += abs(row[j] - middle) <= half
        if near == 0:
            continue
        count = 0
        for j in range(row.size):  # without a branch, which would often be foretold wrongly
            columns[count] = j
            count += abs(row[j] - middle) <= half
        for index in range(count):
            j = columns[index]
            q = 0.0
            for k in range(Y.shape[1]):
                difference = np.float64(XT[k, j]) - np.float64(Y[i, k])
                q += difference * difference
            total[i] += weights[j] * value(code, q / squared_h)
            row[j] = beyond


@njit(**_JIT)
def value(code: int, q: float) -> float:
    """A kernel at a squared distance."""
    if q >= 1.0:
        return 0.0
    if code == TOPHAT:
        return 1.0
    if code == LINEAR:
        return (1.0 - q) / (1.0 + np.sqrt(q))
    if code == COSINE:
        return (1.0 - q) * cosine_factor_double(q)
    return 1.0 - q


@njit(**_JIT)
def cosine_factor_double(q: float) -> float:
    """cos(pi sqrt(q) / 2) / (1 - q) for q <= 1."""
    p = ((((_G9 * q + _G8) * q + _G7) * q + _G6) * q + _G5) * q + _G4
    return (((p * q + _G3) * q + _G2) * q + _G1) * q + _G0


@njit(**_JIT)
def cosine_factor_single(q: Any) -> Any:
    return ((((_F5 * q + _F4) * q + _F3) * q + _F2) * q + _F1) * q + _F0


@njit(**_JIT)
def add_values(tile: Any, code: int, weights: Any, total: Any) -> None:
    """Add each row's sum of weight times kernel to ``total``; weights and sums are double."""
    one, zero = tile.dtype.type(1), tile.dtype.type(0)
    for i in range(tile.shape[0]):
        row = tile[i]
        row_sum = 0.0
        if code == TOPHAT:
            for j in range(row.size):
                row_sum += weights[j] if row[j] < one else 0.0
        elif code == EPANECHNIKOV:
            for j in range(row.size):
                row_sum += weights[j] * np.float64(max(one - row[j], zero))
        elif code == LINEAR:
            for j in range(row.size):
                row_sum += weights[j] * np.float64(max(one - np.sqrt(row[j]), zero))
        elif tile.itemsize == 4:
            for j in range(row.size):
                q = min(row[j], one)
                row_sum += weights[j] * np.float64((one - q) * cosine_factor_single(q))
        else:
            for j in range(row.size):
                q = min(row[j], one)
                row_sum += weights[j] * ((one - q) * cosine_factor_double(q))
        total[i] += row_sum
