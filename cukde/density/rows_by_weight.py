"""Rows of the data that are drawn by their weights."""

from __future__ import annotations

from typing import Any

import numpy as np

from cukde.core import dispatch


def rows(n: int, weights: Any | None, u: np.ndarray) -> np.ndarray:
    """Return row numbers, chosen by weights from uniform random numbers."""
    if weights is None:
        return (u * n).astype(np.int64)
    cumulative = np.cumsum(scaled(dispatch.to_host(weights), np)[0])
    # From the right and before the end, so that rows of weight 0 are never chosen.
    places = np.minimum(u * cumulative[-1], np.nextafter(cumulative[-1], 0))
    found = np.searchsorted(cumulative, places, side="right")
    return np.minimum(found, n - 1)  # of weights that are NaN, which were not checked: results are NaN


def scaled(weights: Any, xp: Any) -> tuple[Any, int]:
    """Return weights over the power of two about the largest, exactly, so that sums do not overflow; and its exponent.

    There is at least one.
    """
    exponent = int(np.frexp(float(weights.max()))[1])
    return xp.ldexp(weights, -exponent), exponent
