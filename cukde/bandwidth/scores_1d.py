"""Leave-one-out sums in one dimension, in time about linear in the number of rows, by the fast Gauss transform."""

from __future__ import annotations

import math
from types import ModuleType
from typing import Any

import numpy as np

from cukde.bandwidth import backends as own_backends
from cukde.bandwidth.data import with_lonely, without_each
from cukde.density import backends
from cukde.density.options import Options

# An own term is taken off a sum of which at least this part is left: the rest has then lost three digits of fifteen.
_LEAST_REST = 1e-3

_FEW = 1024  # rows whose pairs are all taken


def leave_one_out(X: Any, scales: np.ndarray, weights: Any, backend: ModuleType) -> Any:
    """Return ``log sum_{i != j} w_i exp(-q_ij)`` for each scale, shape (B, n), as a backend's pass over all pairs does.

    Always in double: that costs a transform nothing.
    """
    xp = backend.xp
    x = xp.ascontiguousarray(X, dtype=xp.float64)
    log_weights = xp.full(len(x), -math.log(len(x))) if weights is None else xp.log(weights)
    return xp.stack([_leave_one_out(x, float(scale), log_weights, backend) for scale in scales])


def least_squares(X: Any, scales: np.ndarray, coefficients: np.ndarray, weights: Any, backend: ModuleType) -> Any:
    """Return the backend's sums over pairs of kde's criterion, p0 and r0 alone, shape (B,), on the host."""
    xp, n = backend.xp, len(X)
    w = xp.full(n, 1 / n) if weights is None else weights
    half, whole = (
        backend.asnumpy(xp.exp(leave_one_out(X, scales * part, weights, backend)) @ factor)
        for part, factor in ((0.5, 0.5 * w), (1.0, w / without_each(w, xp)))
    )
    return coefficients[:, 0] * half + coefficients[:, 3] * whole


def _leave_one_out(X: Any, scale: float, log_weights: Any, backend: ModuleType) -> Any:
    """Of one scale: the own term is taken off, but for rows that others hardly reach, which are summed apart."""
    xp = backend.xp
    sums = _sums(X, None, scale, log_weights, backend)
    rest = sums.total - xp.exp(log_weights - sums.reference)
    lonely = rest < _LEAST_REST * sums.total
    logs = sums.reference + xp.log(xp.where(lonely, 1.0, rest))

    def of_others(data: Any, queries: Any) -> Any:
        of_data = _sums(X[data], X[queries], scale, log_weights[data], backend)
        return of_data.reference + xp.log(of_data.total)

    def of_few(rows: Any) -> Any:
        if len(rows) == 1:
            return xp.full(1, -np.inf)
        scales, weights = np.array([scale]), xp.exp(log_weights[rows])
        return own_backends.passes(backend).leave_one_out(X[rows], scales, weights)[0]

    return with_lonely(logs, lonely, _FEW, of_few, of_others, xp)


def _sums(X: Any, Y: Any, scale: float, log_weights: Any, backend: ModuleType) -> Any:
    options = Options("float64", log_weights)
    return backends.one_dimension(backend).partial_sums(X, Y, 1 / math.sqrt(2 * scale), "sum", options)
