"""SciPy, on the CPU: Kendall's tau by Knight's algorithm, densities by all pairs; NumPy arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import stats


def kendalltau(x: Any, y: Any) -> Any:
    """tau-b of two samples."""
    return stats.kendalltau(x, y).statistic


def kde(X: Any, Y: Any, h: float, weights: Any = None) -> Any:
    """Density, by its own form of bandwidth: a multiple of the data's covariance, as wide as ``h`` on average."""
    factor = h / float(np.sqrt(X.var(axis=0, ddof=1).mean()))
    return stats.gaussian_kde(X.T, bw_method=factor, weights=weights)(Y.T)
