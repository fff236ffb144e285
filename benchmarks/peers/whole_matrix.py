"""The density as its formula has it, all kernel values in memory at once; NumPy or CuPy arrays."""

from __future__ import annotations

import math
from typing import Any

import numpy as np


def kde(X: Any, Y: Any, h: float) -> Any:
    """Density; no other matrix of the size of the kernel values is made."""
    n, d = X.shape
    matrix = Y @ X.T
    matrix *= -2
    matrix += (X * X).sum(1)
    matrix += (Y * Y).sum(1)[:, None]
    matrix *= -0.5 / h**2
    np.exp(matrix, out=matrix)  # of CuPy arrays CuPy's own
    return matrix.sum(1) * (math.exp(-0.5 * d * math.log(2 * math.pi * h * h)) / n)
