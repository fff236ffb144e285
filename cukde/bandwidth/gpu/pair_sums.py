"""Sums over unordered pairs of data rows: the launcher of ``pair_sums.cu``."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from typing import Any, Literal, get_args

import cupy as cp
import numpy as np

from cukde.bandwidth.data import without_each
from cukde.bandwidth.gpu.lines import TILE, put, transposed
from cukde.bandwidth.gpu.ordered_leave_one_out import unit_of
from cukde.core.gpu import compile as core_compile, device, survey
from cukde.core.gpu.launch import C_TYPE, DOUBLE, FLOAT, Specialisation
from cukde.density.pairs.gpu.operands import LOG2_E

Operation = Literal["least_squares", "least_squares_gradient", "likelihood_gradient"]

_THREADS = 256
_WARPS = _THREADS // 32
_GROUP = 4  # sums of a warp at a time

# Tiles take equally long: so many blocks that the last of them is soon done, and so few that their sums take little.
_BLOCKS_PER_MULTIPROCESSOR = 8

# An exponential of so many bits below 1 is zero, and the square of as many times the ratio of the scales of a launch is
# in range: in double, of an int32, which exp2_from counts bits in.
_BITS_TO_ZERO = {FLOAT: 200.0, DOUBLE: 1100.0}
_MOST_RATIO = {FLOAT: 1e15, DOUBLE: 1e6}

# What a = -q log2(e) / 2 is multiplied by for q.
_PER_BIT = -2 / LOG2_E


def least_squares(X: Any, scales: np.ndarray, coefficients: np.ndarray, weights: Any | None) -> np.ndarray:
    """Return sums over the pairs i < j for each scale, shape (B,), float64, on the host.

    ``w_i w_j [exp(-q/2) (p0 + p1 q + p2 q^2) + (v_i + v_j) exp(-q) (r0 + r1 q)]`` with ``v_j = 1 / (1 - w_j)``; p0 to
    r1 are the ``coefficients`` (B, 5) of each scale, on the host. The same bits on every run.
    """
    out = np.empty(len(scales))
    for group in _of_similar_scale(scales, _MOST_RATIO[X.dtype]):
        out[group] = _least_squares("least_squares", X, scales[group], coefficients[group], weights)[0]
    return out


def least_squares_gradient(X: Any, scale: float, coefficients: np.ndarray, weights: Any | None) -> np.ndarray:
    """The same of one bandwidth, with its (5,) coefficients, and each pair times ``(x_ik - x_jk)^2``, shape (d,)."""
    operation: Operation = "least_squares_gradient"
    sums, unit = _least_squares(operation, X, np.array([scale]), np.asarray(coefficients)[None], weights)
    return sums / unit**2


def likelihood_gradient(X: Any, scale: float, logs: Any, weights: Any | None) -> np.ndarray:
    """Return ``sum_j w_j sum_{i != j} w_i exp(-q_ij - logs_j) (x_ik - x_jk)^2``, shape (d,), float64, on the host.

    ``logs`` are as ``leave_one_out`` returns them for this scale.
    """
    unit = unit_of(scale)
    terms = np.zeros((1, 8))
    terms[0, 0] = -LOG2_E * scale / unit**2
    exponents = -LOG2_E * logs
    sums = _launch("likelihood_gradient", X, weights, exponents, terms, X.shape[1], unit, 0.0)
    return sums / unit**2


def _of_similar_scale(scales: np.ndarray, most: float) -> Iterator[np.ndarray]:
    """Indices of scales, in groups within each of which they differ by no more than a factor of ``most``."""
    order = np.argsort(scales)
    while len(order):
        near = int(np.searchsorted(scales[order], scales[order[0]] * most, side="right"))
        yield order[:near]
        order = order[near:]


def _least_squares(
    operation: Operation, X: Any, scales: np.ndarray, coefficients: np.ndarray, weights: Any | None
) -> tuple[np.ndarray, float]:
    """The sums, and the power of two that distances are in."""
    n, real = len(X), X.dtype
    unit = unit_of(scales.min())
    size = np.abs(coefficients).max(axis=1)
    size[size == 0] = 1
    of_scale = 0.5 * LOG2_E * scales / unit**2
    count = len(scales)
    terms = np.zeros((count, 8))
    terms[:, 0] = -of_scale
    terms[:, 1:6] = coefficients / size[:, None] * _PER_BIT ** np.array([0, 1, 2, 0, 1])
    if weights is None:
        terms[:, 4:6] *= 2 * n / (n - 1)
    factors = 0.5 if weights is None else 1 / without_each(weights, cp)
    columns = count if operation == "least_squares" else X.shape[1]
    limit = _BITS_TO_ZERO[real] / of_scale.min()
    sums = _launch(operation, X, weights, factors, terms, columns, unit, limit)
    return sums * size, unit


def _launch(
    operation: Operation,
    X: Any,
    weights: Any | None,
    factors: Any,
    terms: np.ndarray,
    columns: int,
    unit: float,
    limit: float,
) -> np.ndarray:
    """The sums of ``columns``, on the host."""
    n, d = X.shape
    real = X.dtype
    tiles = -(-n // TILE)
    blocks = min(tiles * (tiles + 1) // 2, _BLOCKS_PER_MULTIPROCESSOR * device.multiprocessors())
    dimensions, padded = (-(-count // _GROUP) * _GROUP for count in (d, columns))
    lines = transposed(X, unit, lines=dimensions, others=2)
    # Weights about 1, whose products are in range; those of equal weights are 1.
    put(lines[-2], 1.0 if weights is None else weights, 0, n)
    put(lines[-1], factors, 0)
    sums = cp.zeros((blocks * _WARPS, padded))
    arrays = lines, cp.asarray(terms.astype(real)), sums
    counts = n, lines.shape[1], d, dimensions, len(terms), padded
    _kernel(operation, real).launch((blocks,), (_THREADS,), *arrays, *counts, weights is not None, limit)
    total: np.ndarray = cp.asnumpy(survey.total(sums))[:columns]
    return total / math.pow(n, 2)


@core_compile.listed
def specialisations() -> Iterator[Specialisation]:
    """Every kernel of this module."""
    for operation in get_args(Operation):
        for real in (FLOAT, DOUBLE):
            yield _kernel(operation, real)


@functools.cache
def _kernel(operation: Operation, real: np.dtype) -> Specialisation:
    name = f"{operation}_{'f64' if real == DOUBLE else 'ieee'}"
    defines = core_compile.macros(KERNEL=name, OPERATION=operation.upper(), REAL=C_TYPE[real])
    return Specialisation("bandwidth/pair_sums", name, defines, f"3P 2q 5i {real.char}")
