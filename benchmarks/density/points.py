"""Points of the SD-KDE benchmark: a 16-dimensional mixture of 8 Gaussians, standardised; h by Silverman's rule."""

from __future__ import annotations

import numpy as np


def mixture(n: int, m: int, d: int = 16, seed: int = 0) -> tuple[np.ndarray, np.ndarray, float]:
    """Data, queries and bandwidth, float32."""
    rng = np.random.default_rng(seed)
    means = 2 * rng.standard_normal((8, d))
    points = means[rng.integers(8, size=n + m)] + rng.standard_normal((n + m, d))
    points = ((points - points.mean(0)) / points.std(0)).astype(np.float32)
    h = float(points.std(0).mean() * (4 / (d + 2)) ** (1 / (d + 4)) * n ** (-1 / (d + 4)))
    return points[:n], points[n:], h
