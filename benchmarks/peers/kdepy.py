"""KDEpy: data binned to a grid and convolved by FFT, or a tree in several dimensions; NumPy arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
from KDEpy import FFTKDE, TreeKDE

# A step of a thirtieth of the bandwidth of a million points: more of them give no less error, and take no less time.
_GRID = 2**12


def kde(X: Any, Y: Any, h: float) -> Any:
    """Density; of one column interpolated from a grid."""
    if X.ndim == 2 and X.shape[1] > 1:
        return TreeKDE(bw=h).fit(X).evaluate(Y)
    grid = np.linspace(min(X.min(), Y.min()) - 4 * h, max(X.max(), Y.max()) + 4 * h, _GRID)
    return np.interp(Y, grid, FFTKDE(bw=h).fit(X).evaluate(grid))


def evaluate_grid(X: Any, axes: Any, h: float) -> Any:
    """Density on a product grid, at which its own is asked."""
    points = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(axes))
    return FFTKDE(bw=h).fit(X).evaluate(points.astype(np.float64)).reshape([len(g) for g in axes])
