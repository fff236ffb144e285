"""Mass of normal distributions of one covariance in boxes, by randomised quasi-Monte-Carlo sampling.

The integral about a centre is one over the unit cube (Genz 1992): each variable in turn is drawn between its bounds,
given those before it, and the integrand is the product of the chances to lie between them. The points are a Korobov
lattice, folded so that the integrand is periodic, and shifted at random. Centres have shifts of their own, which fill
the cube evenly as well, so that their errors cancel: what is estimated, from several shifts, is the error of the sum.

Sources: Genz, A. (1992). Numerical computation of multivariate normal probabilities. *J. Comput. Graph. Statist.* 1.
Hickernell, F. J. (2002). Obtaining O(N^(-2+eps)) convergence for lattice quadrature rules. *MCQMC 2000*.
"""

from __future__ import annotations

import math
from types import ModuleType
from typing import Any

import numpy as np

from cukde.core.warnings import ConvergenceWarning, of_user
from cukde.estimators import tiles

TOLERANCE = 1e-5
"""Of a mass: three standard errors."""

_SHIFTS = 8  # from which the error is estimated
_FIRST = 16  # points of the first lattice
_LARGEST = 2**26  # points of a lattice, whose products are integers of 64 bits
_GENERATOR = 17797  # of the lattices
_LEAST_GROWTH, _MOST_GROWTH = 4, 16  # of a lattice at once: those before it are wasted
_ENTRIES = {"cpu": 2**13, "gpu": 2**22}  # of the arrays that are there at a time; on the CPU of its caches
_LEAST, _MOST = 1e-300, 1 - 2**-53  # of a number whose quantile is finite


def mass(
    low: Any, high: Any, weights: Any, correlation: np.ndarray, backend: ModuleType, *, most: int, rng: Any
) -> float:
    """Return the weighted sum of masses between bounds, (n, c) in deviations from n centres, to :data:`TOLERANCE`.

    ``most`` is the largest number of points about a centre, where a warning tells the error.
    """
    xp = backend.xp
    ndtr = backend.special().ndtr
    # Columns that leave least are drawn first, so that later chances vary less.
    order = np.argsort(backend.asnumpy(weights @ (ndtr(high) - ndtr(low))))
    low, high = low[:, xp.asarray(order)], high[:, xp.asarray(order)]
    factor = np.linalg.cholesky(correlation[np.ix_(order, order)])
    largest = max(1, min(_LARGEST, most // _SHIFTS))
    size = min(_FIRST, largest)

    def sampled() -> np.ndarray:
        return _by_shifts(low, high, weights, factor, size, rng.random((_SHIFTS, len(order) - 1)), backend)

    while True:
        sums = sampled()
        if TOLERANCE < _error(sums) < 1.4 * TOLERANCE and 2 * size <= largest:
            sums = np.concatenate([sums, sampled()])  # as many shifts again, for less than a larger lattice takes
        error = _error(sums)
        if error <= TOLERANCE or 2 * size > largest:
            break
        growth = min(_MOST_GROWTH, max(_LEAST_GROWTH, 2 ** math.ceil(math.log2(error / TOLERANCE))))
        size = min(size * growth, 2 ** int(math.log2(largest)))
    if error > TOLERANCE:
        of_user(
            f"the mass in a box is known to {error:.1g} only, from {len(sums) * size} points for each centre: "
            f"give more than maxpts={most}",
            ConvergenceWarning,
        )
    return float(sums.mean())


def _error(sums: np.ndarray) -> float:
    """Three standard errors of the mean."""
    return 3 * float(sums.std(ddof=1)) / math.sqrt(len(sums))


def _by_shifts(
    low: Any, high: Any, weights: Any, factor: np.ndarray, size: int, shifts: np.ndarray, backend: ModuleType
) -> np.ndarray:
    """Return the weighted sum of means over a lattice of ``size`` points, for each of its shifts."""
    xp = backend.xp
    n, c = low.shape
    # Steps of an additive recurrence in c - 1 dimensions, from the root of x^c = x + 1.
    root = 2.0
    for _ in range(60):
        root = (1 + root) ** (1 / c)
    steps = root ** -np.arange(1.0, c)
    generators = [pow(_GENERATOR, k, size) for k in range(c - 1)]
    columns = min(size, _ENTRIES[backend.name])
    rows = max(1, _ENTRIES[backend.name] // columns)

    def of_tile(tile: tuple[int, int]) -> Any:
        row, column = tile
        chosen = slice(row, row + rows)
        L, U, w = low[chosen], high[chosen], weights[chosen]
        own = xp.arange(row, row + len(w))[:, None]
        lattice = xp.arange(column, min(column + columns, size))
        points = [(lattice * generator % size) / size for generator in generators]

        def drawn(shift: np.ndarray, k: int) -> Any:
            x = points[k] + (own * steps[k] + shift[k]) % 1.0
            x -= xp.rint(x)
            return 2 * abs(x)

        return xp.stack([w @ _chances(L, U, factor, shift, drawn, backend).sum(axis=1) for shift in shifts])

    places = [(row, column) for row in range(0, n, rows) for column in range(0, size, columns)]
    return np.asarray(backend.asnumpy(sum(tiles.over(of_tile, places, backend)))) / size


def _chances(L: Any, U: Any, factor: np.ndarray, shift: np.ndarray, drawn: Any, backend: ModuleType) -> Any:
    """Return the integrand at points of the cube, a row for each centre."""
    xp, special = backend.xp, backend.special()
    below, above = (special.ndtr(side[:, :1]) for side in (L, U))
    out = above - below
    variables: list[Any] = []
    for k in range(1, len(factor)):
        u = below + drawn(shift, k - 1) * (above - below)
        variables.append(special.ndtri(xp.clip(u, _LEAST, _MOST)))
        mean = sum(float(factor[k, j]) * variable for j, variable in enumerate(variables))
        below, above = (special.ndtr((side[:, k : k + 1] - mean) / float(factor[k, k])) for side in (L, U))
        out = out * (above - below)
    return out
