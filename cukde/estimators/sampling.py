"""Samples of a kernel density, by the random numbers that scikit-learn draws: the same ones on every device."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

from cukde.core import dispatch


def draw(
    points: Any,
    weights: Any | None,
    h: Any,
    kernel: str,
    count: int,
    random_state: Any,
    backend: ModuleType,
    take: Callable[[Any, Any | None, np.ndarray, ModuleType], Any],
) -> Any:
    """Return ``count`` points, float64: of the data, moved by the kernel. Random numbers are drawn on the host.

    ``take`` returns data by numbers between 0 and 1, as :func:`taken` does.
    """
    from sklearn.utils import check_random_state

    rng = check_random_state(random_state)
    u = rng.uniform(0, 1, size=count)
    centres = take(points, weights, u, backend)
    return centres + backend.xp.asarray(_steps(rng, centres.shape, h, kernel))


def taken(points: Any, weights: Any | None, u: np.ndarray, backend: ModuleType) -> Any:
    """Return data by their weights, float64, from numbers between 0 and 1."""
    return points[backend.xp.asarray(rows(len(points), weights, u))].astype(np.float64)


def rows(n: int, weights: Any | None, u: np.ndarray) -> np.ndarray:
    """Rows of data by their weights, from numbers between 0 and 1."""
    if weights is None:
        return (u * n).astype(np.int64)
    cumulative = np.cumsum(dispatch.to_host(weights))
    # From the right, and before the end: a row without weight is never taken.
    at = np.minimum(u * cumulative[-1], np.nextafter(cumulative[-1], 0))
    return np.searchsorted(cumulative, at, side="right")


def _steps(rng: Any, shape: tuple[int, int], h: Any, kernel: str) -> np.ndarray:
    """Points drawn by the kernel around 0."""
    from scipy.special import gammainc

    steps: np.ndarray = rng.normal(size=shape)
    d = shape[1]
    if kernel == "tophat":
        # The radius of a normal point, sent through its own distribution, is uniform: its root is that in a ball.
        squares = np.einsum("ij,ij->i", steps, steps)
        steps *= (gammainc(0.5 * d, 0.5 * squares) ** (1 / d) / np.sqrt(squares))[:, None]
    return steps @ np.linalg.cholesky(h).T if np.ndim(h) == 2 else steps * h
