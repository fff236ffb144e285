"""scikit-learn's KernelDensity with its own defaults, or to a tolerance, built anew for every call; NumPy arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.neighbors import KernelDensity


def kde(X: Any, Y: Any, h: float, weights: Any = None) -> Any:
    """Density."""
    return np.exp(KernelDensity(bandwidth=h).fit(X, sample_weight=weights).score_samples(Y))


def rtol_kde(X: Any, Y: Any, h: float) -> Any:
    """Density to a relative tolerance of 1e-4, by its tree."""
    return np.exp(KernelDensity(bandwidth=h, rtol=1e-4).fit(X).score_samples(Y))
