"""Passes over all pairs that cross-validation of the bandwidth makes, on the GPU.

Data are in coordinates in which one bandwidth h serves all columns: q_ij = scale |x_i - x_j|^2, scale = 1 / (2 h^2).
Weights are positive and sum to 1; None is 1/n each. There are two rows at least.

Of float64 data a logarithm is accurate to 1e-12 and a sum over pairs to 1e-12 of its absolute terms, of float32 data to
3e-5, where the smallest q_ij of a row is below 80; beyond, a logarithm to 8 eps times that
(``tests/bandwidth/test_passes.py`` measures it). The exponentials are one a scale and unordered pair of least squares,
and of leave-one-out sums at most: of many rows those that cannot matter are left out. They are two of the gradient of
the likelihood, one an ordered pair of ``settle`` and two of debiased points. Memory is O(n d + B n).
"""

from __future__ import annotations

from typing import Any

import cupy as cp
import numpy as np

from cukde.bandwidth.gpu import leave_one_out as bandwidth_leave_one_out, ordered_leave_one_out, pair_sums

LEAST_ROWS_OF_LINE = 65_536
"""Of data of one column: from here on a fast transform for each bandwidth takes less time than all pairs."""


def leave_one_out(X: Any, scales: np.ndarray, weights: Any | None) -> Any:
    """Return ``log sum_{j != i} w_j exp(-q_ij)`` for each scale and each row i, shape (B, n), float64.

    The term of a row with itself is left out of the sum and never subtracted from it, and the logarithm is finite
    however far a row is from all others.

    Parameters
    ----------
    X : array, shape (n, d)
        Data, float32 or float64, C-contiguous; pairs are computed in their type.
    scales : ndarray, shape (B,)
        On the host.
    weights : array, shape (n,), optional
        Float64.
    """
    return settle(X, scales, weights, *bandwidth_leave_one_out.symmetric(X, scales, weights))


def settle(X: Any, scales: np.ndarray, weights: Any | None, logs: Any, unsettled: Any) -> Any:
    """Put in ``logs``, and return it, what a pass left unsettled, (B, n) bool: by log-sum-exp, row by row.

    Those of all scales in one launch, and none where there are none; it waits once, for their number.
    """
    entries = cp.flatnonzero(unsettled)
    if len(entries):
        which, rows = entries // len(X), entries % len(X)
        logs[which, rows] = ordered_leave_one_out.plain(X, scales, weights, which, rows)
    return logs


def debiased_leave_one_out(X: Any, mean_shift: Any, totals: Any, scale: float, weights: Any | None) -> Any:
    """Return ``log sum_{j != i} w_j exp(-scale |x_i - t_ij|^2)`` for each row i, shape (n,), float64.

    t_ij is x_j debiased by the data without x_i: with u = x_i - x_j and ``a = w_i exp(-q_ij) / totals_j``, the share of
    x_i in the sum at x_j, ``x_i - t_ij = (u (1 - a/2) - mean_shift_j / 2) / (1 - a)``.

    Parameters
    ----------
    X, weights
        As for :func:`leave_one_out`.
    mean_shift : array, shape (n, d)
        ``sum_k w_k exp(-q_jk) (x_k - x_j) / totals_j``, float64.
    totals : array, shape (n,)
        ``sum_k w_k exp(-q_jk)`` with the term of the row itself, float64.
    """
    return ordered_leave_one_out.debiased(X, mean_shift, totals, scale, weights)


def least_squares(X: Any, scales: np.ndarray, coefficients: np.ndarray, weights: Any | None) -> np.ndarray:
    """Return sums over the pairs i < j for each scale, shape (B,), float64, on the host.

    ``w_i w_j [exp(-q/2) (p0 + p1 q + p2 q^2) + (v_i + v_j) exp(-q) (r0 + r1 q)]`` with ``v_j = 1 / (1 - w_j)``. The
    same bits on every run.

    Parameters
    ----------
    X, scales, weights
        As for :func:`leave_one_out`.
    coefficients : ndarray, shape (B, 5)
        p0, p1, p2, r0 and r1 of each scale, on the host.
    """
    return pair_sums.least_squares(X, scales, coefficients, weights)


def likelihood_gradient(X: Any, scale: float, logs: Any, weights: Any | None) -> np.ndarray:
    """Return ``sum_j w_j sum_{i != j} w_i exp(-q_ij - logs_j) (x_ik - x_jk)^2``, shape (d,), float64, on the host.

    Parameters
    ----------
    X, weights
        As for :func:`leave_one_out`.
    logs : array, shape (n,)
        As :func:`leave_one_out` returns them for this scale.
    """
    return pair_sums.likelihood_gradient(X, scale, logs, weights)


def least_squares_gradient(X: Any, scale: float, coefficients: np.ndarray, weights: Any | None) -> np.ndarray:
    """Return the sum of :func:`least_squares` with each pair times ``(x_ik - x_jk)^2``, shape (d,), on the host.

    ``coefficients`` are those of the one scale, shape (5,).
    """
    return pair_sums.least_squares_gradient(X, scale, coefficients, weights)
