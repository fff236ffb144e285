"""Rows of the data that are drawn by their weights."""

from __future__ import annotations

from typing import Any

import numpy as np

from cukde.core import dispatch


def rows(n: int, weights: Any | None, u: np.ndarray) -> np.ndarray:
    """Return row numbers, chosen by weights from uniform random numbers."""
    if weights is None:
        return (u * n).astype(np.int64)
    cumulative = np.cumsum(dispatch.to_host(weights))
    # From the right and before the end, so that rows of weight 0 are never chosen.
    places = np.minimum(u * cumulative[-1], np.nextafter(cumulative[-1], 0))
    return np.searchsorted(cumulative, places, side="right")
