"""Numba kernels over points: what a call asks of them first, and the operands of the product of all pairs."""

from __future__ import annotations

from typing import Any

import numpy as np

from cukde.cpu._jit import njit

# Without the fast mathematics of the tiles: NaN and infinity are what one of these looks for.
_JIT: dict[str, Any] = {"nogil": True, "error_model": "numpy", "cache": True}


@njit(**_JIT)
def look(A: Any, centre: Any) -> Any:
    """Largest squared distance of a row to ``centre``, 0 without rows, and whether all entries are finite."""
    largest = 0.0
    finite = True
    for i in range(A.shape[0]):
        square = 0.0
        for k in range(A.shape[1]):
            step = A[i, k] - centre[k]
            square += step * step
        # Of finite entries too the square may leave the range: then they are looked at one by one.
        if not np.isfinite(square):
            for k in range(A.shape[1]):
                finite = finite and np.isfinite(A[i, k])
        largest = max(largest, square)
    return largest, finite


@njit(**_JIT)
def operand(A: Any, centre: Any, unit: Any, size: int, norms_first: bool, out: Any) -> None:
    """Write (A - centre) / unit in the dtype of ``out``, beside -|z|^2/2 of each group of ``size`` dimensions and 1.

    ``out`` has shape (n, d + 2 groups). Norms are those of the rounded coordinates: what is summed is then a square but
    for its own rounding.
    """
    n, d = A.shape
    one = out.dtype.type(1)
    for i in range(n):
        place = 0
        for begin in range(0, d, size):
            end = min(begin + size, d)
            half_norm = 0.0
            for k in range(begin, end):
                z = out.dtype.type((A[i, k] - centre[k]) / unit)
                half_norm += 0.5 * np.float64(z) * np.float64(z)
                out[i, place] = z
                place += 1
            norm = out.dtype.type(-half_norm)
            out[i, place], out[i, place + 1] = (norm, one) if norms_first else (one, norm)
            place += 2
