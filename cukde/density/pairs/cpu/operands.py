"""The operands of the product of all pairs."""

from __future__ import annotations

from typing import Any

import numpy as np

from cukde.core.cpu import meanwhile
from cukde.core.cpu.jit import njit

# Without the fast mathematics of the tiles: coordinates may be NaN or infinite where nothing was checked.
_JIT: dict[str, Any] = {"nogil": True, "error_model": "numpy", "cache": True}


_ROWS = 2**13  # whose coordinates stay in cache


def _operand(A: np.ndarray, centre: np.ndarray, unit: float, size: int, norms_first: bool, out: np.ndarray) -> float:
    """Write and return the same as :func:`operand`, by NumPy."""
    largest = 0.0
    for start in range(0, len(A), _ROWS):
        of_rows = out[start : start + _ROWS]
        z = ((A[start : start + _ROWS] - centre) / unit).astype(out.dtype)
        column = 0
        for begin in range(0, A.shape[1], size):
            group = z[:, begin : begin + size]
            half_norms = 0.5 * np.einsum("ik,ik->i", group, group, dtype=np.float64)
            last = column + 1 + group.shape[1]
            of_rows[:, column + 1 : last] = group
            norms, ones = (column, last) if norms_first else (last, column)
            of_rows[:, norms], of_rows[:, ones] = -half_norms, 1
            column = last + 1
            largest = max(largest, float(half_norms.max(initial=0.0)))
    return largest


@meanwhile.answered_by(_operand, from_call=9)
@njit(**_JIT)
def operand(A: Any, centre: Any, unit: Any, size: int, norms_first: bool, out: Any) -> float:
    """Write (A - centre) / unit in the dtype of ``out``, between -|z|^2/2 of each group of ``size`` dimensions and 1.

    ``out`` has shape (n, d + 2 groups); ``norms_first`` is of one operand. A product that runs from the norm of one
    point over the coordinates to the norm of the other stays within either norm; half of its rounding is gained. Norms
    are those of the rounded coordinates: what is summed is then a square but for its own rounding. The largest norm is
    returned.
    """
    n, d = A.shape
    one = out.dtype.type(1)
    largest = 0.0
    for i in range(n):
        column = 0
        for begin in range(0, d, size):
            end = min(begin + size, d)
            first, half_norm = column, 0.0
            column += 1
            for k in range(begin, end):
                z = out.dtype.type((A[i, k] - centre[k]) / unit)
                half_norm += 0.5 * np.float64(z) * np.float64(z)
                out[i, column] = z
                column += 1
            norm = out.dtype.type(-half_norm)
            out[i, first], out[i, column] = (norm, one) if norms_first else (one, norm)
            column += 1
            largest = max(largest, half_norm)
    return largest
