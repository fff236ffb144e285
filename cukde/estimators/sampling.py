"""Samples of a kernel density, from the random numbers that scikit-learn draws, the same on every device."""

from __future__ import annotations

import math
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

from cukde.density import rows_by_weight
from cukde.density.kernels import COSINE_SERIES


def source(random_state: Any) -> Any:
    """Return a source of random numbers; a Generator has all methods that are called here."""
    from sklearn.utils import check_random_state

    return random_state if isinstance(random_state, np.random.Generator) else check_random_state(random_state)


def draw(
    points: Any,
    weights: Any | None,
    h: Any,
    kernel: str,
    count: int,
    rng: Any,
    backend: ModuleType,
    take: Callable[[Any, Any | None, np.ndarray, ModuleType], Any],
    local_factors: Any | None = None,
) -> Any:
    """Return ``count`` rows of the data, moved by the kernel, float64. Random numbers are drawn on the host.

    ``take`` returns rows of the data from uniform random numbers, like :func:`taken`.
    """
    u = rng.uniform(0, 1, size=count)
    centres = take(points, weights, u, backend)
    steps = backend.xp.asarray(_steps(rng, centres.shape, h, kernel))
    if local_factors is not None:
        steps = steps * take(local_factors[:, None], weights, u, backend)
    return centres + steps


def taken(points: Any, weights: Any | None, u: np.ndarray, backend: ModuleType) -> Any:
    """Return rows of the data, float64, chosen by their weights from uniform random numbers."""
    return points[backend.xp.asarray(rows_by_weight.rows(len(points), weights, u))].astype(np.float64)


def _steps(rng: Any, shape: tuple[int, int], h: Any, kernel: str) -> np.ndarray:
    """Return points drawn from the kernel at 0."""
    from scipy.special import gammainc

    steps: np.ndarray = rng.normal(size=shape)
    if kernel != "gaussian":
        squares = np.einsum("ij,ij->i", steps, steps)
        if kernel == "tophat":
            # The distribution function of a normal point's radius gives a uniform number; its root is a ball's radius.
            radii = gammainc(0.5 * shape[1], 0.5 * squares) ** (1 / shape[1])
        else:
            radii = _radii(rng, *shape, kernel)
        steps *= (radii / np.sqrt(squares))[:, None]
    return steps @ np.linalg.cholesky(h).T if np.ndim(h) == 2 else steps * h


def _radii(rng: Any, count: int, d: int, kernel: str) -> np.ndarray:
    """Return distances from the centre, whose density is K(t) t^(d - 1): of the variables t, or t^2, Gamma and Beta."""
    if kernel == "exponential":
        return np.asarray(rng.gamma(d, size=count))
    if kernel == "linear":
        return np.asarray(rng.beta(d, 2, size=count))
    if kernel == "epanechnikov":
        return np.sqrt(rng.beta(0.5 * d, 2, size=count))
    # The cosine is at least pi/4 of 1 - t^2, and at most as large: so many of the radii of that kernel stay.
    out = np.empty(0)
    while len(out) < count:
        t = np.sqrt(rng.beta(0.5 * d, 2, size=math.ceil(1.3 * (count - len(out))) + 8))
        share = np.polynomial.polynomial.polyval(t * t, COSINE_SERIES)
        out = np.concatenate([out, t[rng.uniform(size=len(t)) < share]])
    return out[:count]
