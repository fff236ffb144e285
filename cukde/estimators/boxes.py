r"""Mass of a mixture of normal distributions of one covariance in a box.

Bounds become deviations from each centre. Where columns are independent a mass is a product of differences of the
normal distribution function; in two columns it is that of a rectangle (:mod:`cukde.estimators.rectangles`). In more, a
bound that lies far from a centre changes nothing: centres with at most two columns left are summed exactly, the others
by :mod:`cukde.estimators.sampled_boxes`.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from cukde.estimators import rectangles, sampled_boxes, tiles

_FAR = 6.0  # deviations from a centre to a bound that changes nothing, to 1e-9, where others are sampled
_ROWS = {"cpu": 2**12, "gpu": 2**18}  # whose arrays are there at a time


class Box(NamedTuple):
    """A box and the normal distribution about a centre, in the columns that are bounded."""

    low: np.ndarray  # (c,), in deviations
    high: np.ndarray
    scale: np.ndarray  # (c,), the deviations in units of the data
    correlation: np.ndarray  # (c, c)

    @property
    def independent(self) -> bool:
        """Whether the columns are."""
        return np.count_nonzero(self.correlation) == len(self.scale)

    def sides(self, X: Any, xp: Any) -> tuple[Any, Any]:
        """Bounds as deviations from centres, (n, c)."""
        Z = X / xp.asarray(self.scale)
        return xp.asarray(self.low) - Z, xp.asarray(self.high) - Z


def mass(
    X: Any,
    weights: Any,
    covariance: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    backend: ModuleType,
    *,
    most: int,
    rng: np.random.Generator | None,
) -> float:
    """Return the mass between bounds, (d,) on the host and infinite or not, of centres ``X`` (n, d) float64.

    ``weights`` (n,) sum to 1. A column whose bounds are in the other order changes the sign, as in an integral.
    ``most`` is the largest number of points at which the integral about a centre is sampled.
    """
    sign = -1.0 if np.count_nonzero(low > high) % 2 else 1.0
    low, high = np.minimum(low, high), np.maximum(low, high)
    if (low == high).any():
        return 0.0
    bounded = np.flatnonzero((low > -np.inf) | (high < np.inf))
    if not len(bounded):
        return 1.0
    if len(bounded) < len(low):
        X, covariance, low, high = X[:, bounded], covariance[np.ix_(bounded, bounded)], low[bounded], high[bounded]
    scale = np.sqrt(np.diag(covariance))
    with np.errstate(all="ignore"):  # bounds may leave the range of deviations
        box = Box(low / scale, high / scale, scale, covariance / np.outer(scale, scale))
        exact, sampled = _exact(X, weights, box, backend)
        if sampled:
            L, U, w = (backend.xp.concatenate(parts) for parts in zip(*sampled, strict=True))
            exact += sampled_boxes.mass(L, U, w, box.correlation, backend, most=most, rng=rng)
    return sign * min(1.0, max(0.0, exact))


def _exact(X: Any, weights: Any, box: Box, backend: ModuleType) -> tuple[float, list[tuple[Any, Any, Any]]]:
    """Return the mass of centres that are summed exactly; and the bounds and weights of the others."""
    xp = backend.xp
    pairs = len(box.scale) == 2

    def of_rows(rows: slice) -> tuple[Any, list[tuple[Any, Any, Any]]]:
        (L, U), w = box.sides(X[rows], xp), weights[rows]
        if box.independent:
            return xp.vdot(w, _between(L, U, backend).prod(axis=1)), []
        if pairs:
            return xp.vdot(w, rectangles.masses(L, U, box.correlation[0, 1], backend)), []
        masses, left = _near_few_bounds(L, U, box, backend)
        return xp.vdot(w, masses), [(L[left], U[left], w[left])] if bool(left.any()) else []

    step = _ROWS[backend.name]
    found = tiles.over(of_rows, [slice(i, i + step) for i in range(0, len(X), step)], backend)
    return float(sum(mass for mass, _ in found)), [part for _, parts in found for part in parts]


def _near_few_bounds(L: Any, U: Any, box: Box, backend: ModuleType) -> tuple[Any, Any]:
    """Return masses where at most two columns have a bound that is near, else 0; and where that is so."""
    xp = backend.xp
    near = (L > -_FAR) | (U < _FAR)
    outside = ((L > _FAR) | (U < -_FAR)).any(axis=1)
    count = near.sum(axis=1)
    out = xp.where((count == 0) & ~outside, 1.0, 0.0)
    for columns in (1, 2):
        rows = xp.flatnonzero((count == columns) & ~outside)
        if not len(rows):
            continue
        first, last = near[rows].argmax(axis=1), near.shape[1] - 1 - near[rows, ::-1].argmax(axis=1)
        if columns == 1:
            out[rows] = _between(L[rows, first], U[rows, first], backend)
        else:
            low, high = (xp.stack([side[rows, first], side[rows, last]], axis=1) for side in (L, U))
            correlation = xp.asarray(box.correlation)[first, last]
            out[rows] = rectangles.masses(low, high, correlation, backend)
    return out, (count > 2) & ~outside


def _between(low: Any, high: Any, backend: ModuleType) -> Any:
    """Return the mass of the standard normal distribution between bounds, with all digits in both tails."""
    xp, ndtr = backend.xp, backend.special().ndtr
    right = low > 0
    return ndtr(xp.where(right, -low, high)) - ndtr(xp.where(right, -high, low))
