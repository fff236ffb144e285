"""One pass over points: their largest distance to a centre, and whether all entries are finite."""

from __future__ import annotations

from typing import Any

import numpy as np

from cukde.core.cpu import meanwhile
from cukde.core.cpu.jit import OPTIONS as _JIT, njit

_ROWS = 2**14  # whose differences stay in cache


def _look(A: np.ndarray, centre: np.ndarray) -> tuple[float, bool]:
    """Return the same as :func:`loop`, to the last bit, by NumPy: squares are added in the same order."""
    largest = 0.0
    for start in range(0, len(A), _ROWS):
        rows = A[start : start + _ROWS]
        squares = np.zeros(len(rows))
        for k in range(A.shape[1]):
            steps = rows[:, k] - centre[k]
            squares += steps * steps
        largest = float(np.fmax(largest, np.fmax.reduce(squares)))
    return largest, bool(np.isfinite(A).all())


@njit(**_JIT)
def loop(A: Any, centre: Any) -> Any:
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


look = meanwhile.answered_by(_look, from_call=9)(loop)
"""The same, for callers that are not compiled."""
