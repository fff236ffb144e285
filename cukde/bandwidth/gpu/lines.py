"""Properties of data rows, each in a line of its own: the operand of ``lines.cuh``."""

from __future__ import annotations

from typing import Any

import cupy as cp
import numpy as np

TILE = 64  # rows and columns of pairs

_MOST_STAGED = 256  # rows staged at a time


def transposed(points: Any, unit: float, *, lines: int, others: int = 0) -> Any:
    """Return points times ``unit`` in ``lines`` lines, zero beyond their columns, and room for others behind them.

    Of the dtype of the points, shape (lines + others, padded); a line holds zeros past the rows, of others nothing.
    """
    n, d = points.shape
    out = cp.empty((lines + others, -(-n // TILE) * TILE + _MOST_STAGED - TILE), points.dtype)
    put(out[:d], points.T, 0, unit)
    out[d:lines] = 0
    return out


def put(lines: Any, values: Any, past_the_end: float, factor: float = 1.0) -> None:
    """Write values of rows into lines, in their dtype, times ``factor``, and a number past them; or a number alone."""
    if np.ndim(values) == 0:
        lines[...] = values
        return
    n = values.shape[-1]
    cp.multiply(values, factor, out=lines[..., :n], casting="same_kind")
    lines[..., n:] = past_the_end
