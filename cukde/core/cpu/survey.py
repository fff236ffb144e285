"""A compiled loop over points: their largest distance to a centre, and whether all entries are finite."""

from __future__ import annotations

from typing import Any

import numpy as np

from cukde.core.cpu.jit import OPTIONS as _JIT, njit


@njit(**_JIT)
def look(A: Any, centre: Any) -> Any:
    """Return the largest squared distance of a row to ``centre``, 0 without rows, and whether all are finite."""
    largest = 0.0
    finite = True
    for i in range(A.shape[0]):
        square = 0.0
        for k in range(A.shape[1]):
            step = A[i, k] - centre[k]
            square += step * step
        # The square of finite entries may overflow: then the entries themselves are tested.
        if not np.isfinite(square):
            for k in range(A.shape[1]):
                finite = finite and np.isfinite(A[i, k])
        largest = max(largest, square)
    return largest, finite
