"""Samples of a kernel density, by the random numbers that scikit-learn draws: the same ones on every device."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np

from cukde import _dispatch


def draw(
    points: Any, weights: Any | None, h: Any, kernel: str, count: int, random_state: Any, backend: ModuleType
) -> Any:
    """Return ``count`` points, float64: of the data, moved by the kernel. Random numbers are drawn on the host."""
    from scipy.special import gammainc
    from sklearn.utils import check_random_state

    rng = check_random_state(random_state)
    n, d = points.shape
    u = rng.uniform(0, 1, size=count)
    if weights is None:
        rows = (u * n).astype(np.int64)
    else:
        cumulative = np.cumsum(_dispatch.to_host(weights))
        # From the right: a row without weight is never taken.
        rows = np.minimum(np.searchsorted(cumulative, u * cumulative[-1], side="right"), n - 1)
    steps = rng.normal(size=(count, d))
    if kernel == "tophat":
        # The radius of a normal point, sent through its own distribution, is uniform: its root is that in a ball.
        squares = np.einsum("ij,ij->i", steps, steps)
        steps *= (gammainc(0.5 * d, 0.5 * squares) ** (1 / d) / np.sqrt(squares))[:, None]
    steps = steps @ np.linalg.cholesky(h).T if np.ndim(h) == 2 else steps * h
    xp = backend.xp
    return points[xp.asarray(rows)].astype(xp.float64) + xp.asarray(steps)
