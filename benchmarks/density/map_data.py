"""Data of the map of densities: seven kinds in any number of dimensions, queries far away, Silverman's bandwidth."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

OUTLIER = 30.0
"""First coordinate of the outlier, in standard deviations."""

FAR = 30.0, 100.0
"""Least and largest distance of the far queries from the mean, in standard deviations."""


def normal(n: int, d: int, rng: np.random.Generator) -> np.ndarray:
    """One standard normal."""
    return rng.standard_normal((n, d))


def mixture(n: int, d: int, rng: np.random.Generator) -> np.ndarray:
    """Eight normals of standard deviation 1 whose means have standard deviation 2; columns are standardised."""
    means = 2 * rng.standard_normal((8, d))
    rows = means[rng.integers(8, size=n)] + rng.standard_normal((n, d))
    return (rows - rows.mean(0)) / rows.std(0)


def t3(n: int, d: int, rng: np.random.Generator) -> np.ndarray:
    """Independent columns of Student's t with 3 degrees of freedom, over its standard deviation."""
    return rng.standard_t(3, (n, d)) / np.sqrt(3)


def outlier(n: int, d: int, rng: np.random.Generator) -> np.ndarray:
    """One standard normal, but for the first row, whose first coordinate is 30."""
    rows = rng.standard_normal((n, d))
    rows[0, 0] = OUTLIER
    return rows


def lognormal(n: int, d: int, rng: np.random.Generator) -> np.ndarray:
    """One standard normal, but for the first column: the exponential of a normal, over its standard deviation."""
    rows = rng.standard_normal((n, d))
    rows[:, 0] = np.exp(rows[:, 0]) / np.sqrt(np.e * (np.e - 1))
    return rows


def clusters(n: int, d: int, rng: np.random.Generator) -> np.ndarray:
    """A hundred normals of standard deviation 1/4, whose means are standard normal."""
    means = rng.standard_normal((100, d))
    return means[rng.integers(100, size=n)] + 0.25 * rng.standard_normal((n, d))


def manifold(n: int, d: int, rng: np.random.Generator) -> np.ndarray:
    """A curved surface of 4 dimensions, or d - 1 where that is less; standardised, with noise of 0.1."""
    of = max(1, min(4, d - 1))
    first, second = rng.standard_normal((of, 32)), rng.standard_normal((32, d))
    rows = np.tanh(rng.standard_normal((n, of)) @ first) @ second
    return rows / rows.std(0) + 0.1 * rng.standard_normal((n, d))


KINDS: dict[str, Callable[[int, int, np.random.Generator], np.ndarray]] = {
    "normal": normal,
    "mixture": mixture,
    "t3": t3,
    "outlier": outlier,
    "lognormal": lognormal,
    "clusters": clusters,
    "manifold": manifold,
}


def drawn(kind: str, n: int, m: int, d: int, dtype: Any = np.float32) -> tuple[np.ndarray, np.ndarray]:
    """Data and queries of one distribution, always the same ones. The outlier is among the data."""
    rows = KINDS[kind](n + m, d, np.random.default_rng([list(KINDS).index(kind), d])).astype(dtype)
    return rows[:n], rows[n:]


def far(X: np.ndarray, count: int) -> np.ndarray:
    """Queries in random directions from the mean, 30 to 100 of the columns' mean standard deviations away."""
    rng = np.random.default_rng(len(KINDS))
    directions = rng.standard_normal((count, X.shape[1]))
    directions /= np.linalg.norm(directions, axis=1)[:, None]
    distances = deviation(X) * rng.uniform(*FAR, count)
    return (X.mean(0, dtype=np.float64) + distances[:, None] * directions).astype(X.dtype)


def deviation(X: np.ndarray) -> float:
    """The mean of the columns' standard deviations."""
    return float(X.std(0, dtype=np.float64).mean())


def silverman(X: np.ndarray) -> float:
    """Silverman's bandwidth for the mean of the columns' standard deviations."""
    n, d = X.shape
    return deviation(X) * float((4 / (d + 2)) ** (1 / (d + 4)) * n ** (-1 / (d + 4)))
