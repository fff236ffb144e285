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

from cukde.bandwidth.gpu import leave_one_out as bandwidth_leave_one_out, ordered_leave_one_out
from cukde.bandwidth.gpu.ordered_leave_one_out import debiased as debiased_leave_one_out
from cukde.bandwidth.gpu.pair_sums import least_squares, least_squares_gradient, likelihood_gradient

__all__ = [
    "debiased_leave_one_out",
    "least_squares",
    "least_squares_gradient",
    "leave_one_out",
    "likelihood_gradient",
]

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
