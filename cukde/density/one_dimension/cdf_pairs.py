"""Sums of the normal distribution function over all pairs of a line, a tile after the other, by array operations."""

from __future__ import annotations

import math
from types import ModuleType
from typing import Any

import numpy as np

from cukde.density.options import LOG_ZERO
from cukde.density.sums import PartialSums, merge, nothing

# Pairs of a tile, of which some ten arrays of float64 are held at a time; and data beside each other in it.
_TILE = 2**22
_COLUMNS = 2**12

_LARGEST = float(np.finfo(np.float64).max)


def sums(X: Any, Y: Any | None, h: float, log_weights: Any | None, backend: ModuleType) -> PartialSums:
    """Sum over the data ``X`` (n, 1) at the queries ``Y`` (m, 1), or at the data where it is None, in double precision.

    Every run gives the same bits, and nothing waits for the device.
    """
    xp = backend.xp
    x, y = (a.reshape(-1).astype(xp.float64, copy=False) for a in (X, X if Y is None else Y))
    columns = min(len(x), _COLUMNS)
    rows = max(1, _TILE // columns)
    reference, total = xp.empty(len(y)), xp.empty(len(y))
    for first in range(0, len(y), rows):
        queries = slice(first, min(first + rows, len(y)))
        merged = nothing(queries.stop - queries.start, None, xp)
        for start in range(0, len(x), columns):
            some = slice(start, start + columns)
            tile = _tile(x[some], y[queries], h, None if log_weights is None else log_weights[some], backend)
            merged = merge([merged, tile], xp)
        reference[queries], total[queries] = merged.reference, merged.total
    return PartialSums(reference, total)


def _tile(x: Any, y: Any, h: float, log_weights: Any | None, backend: ModuleType) -> PartialSums:
    """Sums of a tile, of terms that are right however small they are: exponents apart, scaled erfc beside them."""
    xp = backend.xp
    u = (y[:, None] - x) / h
    exponent = -0.5 * (u * u)
    tail = 0.5 * backend.erfcx(abs(u) * math.sqrt(0.5))
    left = u >= 0  # of the query
    factor = xp.where(left, 1 - xp.exp(exponent) * tail, tail)
    exponent = xp.where(left, 0.0, exponent)
    if log_weights is not None:  # nothing of a row without weight, however far to the left of the others a query lies
        exponent += xp.where(log_weights > LOG_ZERO, log_weights, -math.inf)
    reference = xp.maximum(exponent.max(axis=1), -_LARGEST)
    return PartialSums(reference, (xp.exp(exponent - reference[:, None]) * factor).sum(axis=1))
