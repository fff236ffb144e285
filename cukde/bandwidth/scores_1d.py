"""Leave-one-out sums in one dimension, in time about linear in the number of rows, by the fast Gauss transform."""

from __future__ import annotations

import math
from types import ModuleType
from typing import Any

import numpy as np

from cukde.bandwidth import backends as own_backends
from cukde.bandwidth.data import without_each
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
    xp, n = backend.xp, len(X)
    sums = _sums(X, None, scale, log_weights, backend)
    rest = sums.total - xp.exp(log_weights - sums.reference)
    lonely = rest < _LEAST_REST * sums.total
    logs = sums.reference + xp.log(xp.where(lonely, 1.0, rest))
    few = xp.flatnonzero(lonely)
    if len(few):
        logs[few] = _among(X[few], scale, log_weights[few], backend)
        if len(few) < n:
            others = xp.flatnonzero(~lonely)
            from_others = _of_others(X[others], X[few], scale, log_weights[others], backend)
            logs[few] = xp.logaddexp(logs[few], from_others)
    return logs


def _among(X: Any, scale: float, log_weights: Any, backend: ModuleType) -> Any:
    """The same by halves, each the other's data: nothing is subtracted. A single row has nothing."""
    xp, n = backend.xp, len(X)
    if n == 1:
        return xp.full(1, -np.inf)
    if n <= _FEW:
        return own_backends.passes(backend).leave_one_out(X, np.array([scale]), xp.exp(log_weights))[0]
    parts = slice(None, n // 2), slice(n // 2, None)
    within = [_among(X[part], scale, log_weights[part], backend) for part in parts]
    cross = [
        _of_others(X[data], X[queries], scale, log_weights[data], backend)
        for queries, data in zip(parts, reversed(parts), strict=True)
    ]
    return xp.concatenate([xp.logaddexp(*both) for both in zip(within, cross, strict=True)])


def _of_others(X: Any, Y: Any, scale: float, log_weights: Any, backend: ModuleType) -> Any:
    sums = _sums(X, Y, scale, log_weights, backend)
    return sums.reference + backend.xp.log(sums.total)


def _sums(X: Any, Y: Any, scale: float, log_weights: Any, backend: ModuleType) -> Any:
    options = Options("float64", log_weights)
    return backends.one_dimension(backend).partial_sums(X, Y, 1 / math.sqrt(2 * scale), "sum", options)
