"""Sums of leave-one-out cross-validation on the CPU: tiles of squared distances, each used for all bandwidths.

Throughout, q_ij = ``scale`` |x_i - x_j|^2 with ``scale`` = 1 / (2 h^2), and v_j = 1 / (1 - w_j). ``X`` is (n, d),
n >= 2, C-contiguous, float32 or float64; ``weights`` is None (1/n each) or (n,) float64, positive, with sum 1.

Squared distances are float64. For float32 data :func:`leave_one_out` and :func:`least_squares` compute exponentials in
float32; passes of one bandwidth, which take most of their time elsewhere, are float64 throughout. Memory is
O(n d + B n) for B bandwidths. Every run gives the same bits, with any number of threads.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from cukde.bandwidth.cpu import tiles
from cukde.bandwidth.data import without_each
from cukde.core.cpu import threads
from cukde.density.pairs.cpu import pair_blocks, query_blocks, tiles as pairs_tiles

LEAST_ROWS_OF_LINE = 4_096
"""Rows of one column from which a fast transform for each bandwidth takes less time than all pairs."""

_LOG2_E = math.log2(math.e)
_LN2 = math.log(2.0)


class _Powers(NamedTuple):
    """Shifts and bounds of the binary exponents of Gaussians."""

    raised: int  # added to exponents, so that Gaussians underflow later and near exponents round as little as far ones
    raised_squared: int  # the same for Gaussians whose squares are summed too
    least_squared: float  # lowest exponent whose square is a normal number; below it Gaussians are 0


_POWERS = {
    np.dtype(np.float32): _Powers(60, 38, -63.0),
    np.dtype(np.float64): _Powers(900, 300, tiles.LEAST_SQUARED),
}
# Weights are in units of the smallest, so that their products with normal Gaussians are normal. The unit is at least
# this share of the largest weight, so that none overflows; with smaller weights Gaussians are float64.
_LEAST_WEIGHT = 2.0**-40

# Bounds of squared distances: multiples of the first, and squares of the second, are in range.
_FARTHEST = float(np.finfo(np.float64).max) / 16
_FAR = _FARTHEST**0.48
_QUERIES = 64  # in a task of an ordered pass
# Bits below the largest term from which on terms of ordered sums are negligible, and the lowest exponent.
_DIGITS, _SMALLEST_POWER = 60.0, 1022.0
_OWN = -1e300  # exponent of the self-interaction: negligible beside any other


def leave_one_out(X: np.ndarray, scales: np.ndarray, weights: np.ndarray | None) -> np.ndarray:
    """Return log sum_{i != j} w_i exp(-q_ij), shape (B, n), float64, for each of ``scales`` (B,).

    Sums over unordered pairs come first, with one exponential for each pair and bandwidth. Sums so small that terms
    lost by underflow may matter are computed again by log-sum-exp over ordered pairs, one row of distances at a time.
    """
    data, rates, _ = _data(X, scales)
    coefficients = rates * _LOG2_E
    relative, unit = _relative(weights, len(X))
    relative = relative.astype(_dtype(X, relative), copy=False)
    dtype = relative.dtype
    parts = np.empty((len(scales), 2), dtype)
    parts[:, 0] = coefficients
    parts[:, 1] = coefficients - parts[:, 0]
    info = np.finfo(dtype)
    shift, far = dtype.type(_POWERS[dtype].raised), dtype.type(info.max / 8)
    sums = np.zeros((len(scales), len(X)))

    def task(rows: slice, columns: slice) -> None:
        edges = rows.start, rows.stop, columns.start, columns.stop
        tiles.add_leave_one_out(data, *edges, relative, parts, shift, far, sums)

    pair_blocks.run(task, len(X))
    # No term lost by underflow exceeded the smallest normal number.
    unsettled = sums < relative.sum(dtype=np.float64) * float(info.smallest_normal) / float(info.eps)
    with np.errstate(divide="ignore"):
        logs: np.ndarray = np.log(sums, out=sums)
    logs += math.log(unit) - _LN2 * _POWERS[dtype].raised
    _settle(logs, unsettled, data, coefficients, _weights(weights, len(X)))
    return logs


def debiased_leave_one_out(
    X: np.ndarray, mean_shift: np.ndarray, totals: np.ndarray, scale: float, weights: np.ndarray | None
) -> np.ndarray:
    """Return log sum_{j != i} w_j exp(-scale |x_i - xt_j|^2), shape (n,), float64, xt_j debiased without x_i.

    ``totals`` (n,) are sum_k w_k exp(-q_jk), and ``mean_shift`` (n, d) is sum_k w_k exp(-q_jk) (x_k - x_j) / totals_j,
    both including k = j. The share of x_i in the sum at x_j is a = w_i exp(-q_ij) / totals_j. With u = x_i - x_j,

        x_i - xt_j = (u (1 - a/2) - mean_shift_j / 2) / (1 - a).

    This loses digits as 1 / (1 - a) grows, which is below about 2 for equal weights. It takes two exponentials for each
    ordered pair.
    """
    data, rates, unit = _data(X, np.array([scale]))
    c, n, w = float(rates[0]) * _LOG2_E, len(X), _weights(weights, len(X))
    half_shift = _transposed(mean_shift, 0.5 * unit)
    log2_weights, inverse_totals = np.log2(w), 1 / totals

    def fill(rows: np.ndarray, columns: slice, tile: np.ndarray) -> None:
        tiles.debiased_exponents(data, half_shift, rows, columns.start, c, w, log2_weights, inverse_totals, tile)

    tasks = [np.arange(start, min(start + _QUERIES, n)) for start in range(0, n, _QUERIES)]
    return np.concatenate(threads.run(lambda rows: _log_sums(fill, rows, n), tasks))


def least_squares(
    X: np.ndarray, scales: np.ndarray, coefficients: np.ndarray, weights: np.ndarray | None
) -> np.ndarray:
    """Return sum_{i < j} w_i w_j [exp(-q/2) (p0 + p1 q + p2 q^2) + (v_i + v_j) exp(-q) (r0 + r1 q)], shape (B,).

    ``coefficients`` (B, 5) are p0, p1, p2, r0, r1 for each of ``scales`` (B,). It takes one exponential for each pair
    and bandwidth.
    """
    relative, unit = _relative(weights, len(X))
    dtype = _dtype(X, relative)
    data, rates, _ = _data(X, scales)
    # The largest of p and of r, which may be out of the range of float32.
    sizes = np.stack([np.abs(coefficients[:, :3]).max(axis=1), np.abs(coefficients[:, 3:]).max(axis=1)], axis=1)
    sizes[sizes == 0] = 1.0
    terms = _terms(rates, coefficients / np.repeat(sizes, (3, 2), axis=1)).astype(dtype)
    relative = relative.astype(dtype, copy=False)
    factors = _factors(weights, len(X)).astype(dtype)
    _, raised, lowest = _POWERS[dtype]
    shift, least = dtype.type(raised), dtype.type(lowest)
    far = dtype.type(float(np.finfo(dtype).max) ** 0.48)  # its square is in range too

    def task(rows: slice, columns: slice) -> np.ndarray:
        sums = np.zeros((len(scales), 2))
        edges = rows.start, rows.stop, columns.start, columns.stop
        tiles.add_least_squares(data, *edges, relative, factors, terms, shift, least, far, sums)
        return sums

    sums = sum(pair_blocks.run(task, len(X))) * sizes * (unit * unit)
    out: np.ndarray = sums[:, 0] * 2.0**-raised + sums[:, 1] * 2.0 ** (-2 * raised)
    return out


def likelihood_gradient(X: np.ndarray, scale: float, logs: np.ndarray, weights: np.ndarray | None) -> np.ndarray:
    """Return sum_j w_j sum_{i != j} w_i exp(-q_ij - logs_j) (x_ik - x_jk)^2, shape (d,), in float64.

    ``logs`` (n,) are those of :func:`leave_one_out`. It takes two exponentials and one distance for each pair.
    """
    data, rates, unit = _data(X, np.array([scale]))
    c, w = float(rates[0]) * _LOG2_E, _weights(weights, len(X))
    log2_weights, bits = np.log2(w), logs * _LOG2_E

    def add(edges: tuple[int, int, int, int], sums: np.ndarray) -> None:
        tiles.add_likelihood_gradient(data, *edges, w, log2_weights, c, bits, _FARTHEST, sums)

    return _summed(add, X) / unit / unit


def least_squares_gradient(
    X: np.ndarray, scale: float, coefficients: np.ndarray, weights: np.ndarray | None
) -> np.ndarray:
    """Return the sum of :func:`least_squares` with each pair times (x_ik - x_jk)^2, shape (d,), in float64.

    ``coefficients`` (5,) are p0, p1, p2, r0, r1.
    """
    data, rates, unit = _data(X, np.array([scale]))
    w, factors = _weights(weights, len(X)), _factors(weights, len(X))
    terms = tuple(_terms(rates, coefficients[None])[0])

    def add(edges: tuple[int, int, int, int], sums: np.ndarray) -> None:
        tiles.add_least_squares_gradient(data, *edges, w, factors, terms, _FAR, sums)

    return _summed(add, X) / unit / unit


def _transposed(points: np.ndarray, unit: float) -> np.ndarray:
    """Return points times ``unit``, (d, n) float64."""
    return np.ascontiguousarray(points.T, np.float64) * unit


def _data(X: np.ndarray, scales: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    """Return data times a power of two, (d, n) float64, ``scales`` for their squared distances, and the power.

    The power makes the smallest bandwidth about 1, so that squares stay in range.
    """
    unit = 2.0 ** (math.frexp(float(scales.max()))[1] // 2)
    return _transposed(X, unit), scales / unit / unit, unit


def _weights(weights: np.ndarray | None, n: int) -> np.ndarray:
    return np.full(n, 1 / n) if weights is None else np.ascontiguousarray(weights)


def _relative(weights: np.ndarray | None, n: int) -> tuple[np.ndarray, float]:
    """Return weights in units of the smallest, and that unit, at least ``_LEAST_WEIGHT`` times the largest."""
    if weights is None:
        return np.ones(n), 1 / n
    unit = max(float(weights.min()), _LEAST_WEIGHT * float(weights.max()))
    return weights / unit, unit


def _dtype(X: np.ndarray, relative: np.ndarray) -> np.dtype:
    """Return the dtype of Gaussians with these weights."""
    return X.dtype if relative.min() >= 1 - 1e-9 else np.dtype(np.float64)


def _factors(weights: np.ndarray | None, n: int) -> np.ndarray:
    """Return v = 1 / (1 - w)."""
    return np.full(n, n / (n - 1)) if weights is None else 1 / without_each(weights, np)


def _terms(rates: np.ndarray, coefficients: np.ndarray) -> np.ndarray:
    """Return coefficients of squared distances, (B, 6): of the binary exponent of exp(-q/2), and of the polynomials."""
    powers = rates[:, None] ** np.array([0, 1, 2, 0, 1])
    return np.column_stack([0.5 * _LOG2_E * rates, coefficients * powers])


def _summed(add: Callable[[tuple[int, int, int, int], np.ndarray], None], X: np.ndarray) -> np.ndarray:
    """Return the sum over all pairs of blocks of the terms that ``add`` adds, shape (d,)."""

    def task(rows: slice, columns: slice) -> np.ndarray:
        sums = np.zeros(X.shape[1])
        add((rows.start, rows.stop, columns.start, columns.stop), sums)
        return sums

    out: np.ndarray = sum(pair_blocks.run(task, len(X)), np.zeros(X.shape[1]))
    return out


def _settle(
    logs: np.ndarray, unsettled: np.ndarray, data: np.ndarray, coefficients: np.ndarray, weights: np.ndarray
) -> None:
    """Write the logarithms of the rows that are ``unsettled`` (B, n), by log-sum-exp in float64."""
    rows = np.flatnonzero(unsettled.any(axis=0))
    # The nearest point may have the smallest weight.
    bits = min(_SMALLEST_POWER, _DIGITS - math.log2(float(weights.min())))

    def task(part: np.ndarray) -> None:
        tiles.write_far_rows(data, part, unsettled, weights, coefficients, bits, _FARTHEST, logs)

    threads.run(task, [rows[start : start + _QUERIES] for start in range(0, len(rows), _QUERIES)])


def _log_sums(fill: Callable[[np.ndarray, slice, np.ndarray], None], rows: np.ndarray, n: int) -> np.ndarray:
    """Return the logarithms of the sums of ``rows`` over all other points, float64.

    ``fill(rows, columns, tile)`` writes the binary exponents of a tile.
    """
    dtype = np.dtype(np.float64)
    shift = np.full(len(rows), np.finfo(dtype).max)
    total, rescale = np.zeros(len(rows)), np.empty(len(rows))
    step = query_blocks.tile_columns(dtype)
    for start in range(0, n, step):
        columns = slice(start, min(start + step, n))
        tile = query_blocks.scratch_tile(len(rows), columns.stop - start, dtype)
        fill(rows, columns, tile)
        diagonal = np.flatnonzero((rows >= start) & (rows < columns.stop))
        tile[diagonal, rows[diagonal] - start] = _OWN
        pairs_tiles.weigh(tile, shift, rescale, total)
    return np.log(total) - _LN2 * shift
