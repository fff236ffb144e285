"""Best uniform approximations on [-1, 1] by Remez's exchange, of many functions at once.

Take the best approximation by n functions that satisfy Haar's condition. Its error reaches its largest size, the level,
at n + 1 points with alternating signs, the reference. The exchange solves for the approximation whose error is levelled
on a reference, takes the extrema of that error as the next reference, and repeats. It runs first on a Chebyshev grid,
where it ends after finitely many rounds, and then off the grid, where parabolas locate the extrema.

Sources: E. Ya. Remez (1934); C. de La Vallee Poussin's bound, by which the level never exceeds the least error.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

Function = Callable[[np.ndarray], np.ndarray]

_POINTS_AN_EXTREMUM, _LEAST_POINTS = 16, 128
_ROUNDS = 30
_AGREEMENT = 1e-9
"""Relative difference of the largest error on the grid from the level, at which the exchange ends."""
_SPACINGS = (1.0, 0.5, 0.25, 0.125)
"""Half-widths of the parabolas off the grid, one for each round, in steps of the grid."""


def minimax(f: Function, basis: Function, n: int, noise: np.ndarray) -> np.ndarray:
    """Return the coefficients, shape (m, n), of the best approximations of m functions.

    Parameters
    ----------
    f : (m, g) points -> (m, g) values
    basis : (...) points -> (..., n) values
    n : number of basis functions
    noise : (m,)
        Rounding error of the values; errors as small as that are not levelled further.
    """
    if n == 0:
        return np.zeros((len(noise), 0))
    angle = np.linspace(0, np.pi, max(_POINTS_AN_EXTREMUM * (n + 1), _LEAST_POINTS) + 1)
    t = -np.cos(angle)
    y = f(np.broadcast_to(t, (len(noise), len(t))))
    B = basis(t)
    reference, best = _on_grid(y, B, noise)
    rows = np.flatnonzero(np.abs(best.level) > 100 * noise)
    refined, extrema = _off_grid(f, basis, angle[reference], best.coefficients, angle[1], rows)
    at_extrema, B_at_extrema = f(extrema), basis(extrema)

    def peak(a: np.ndarray) -> np.ndarray:
        off_grid = np.abs(at_extrema - np.einsum("mpn,mn->mp", B_at_extrema, a)).max(axis=1)
        return np.maximum(np.abs(y - a @ B.T).max(axis=1), off_grid)

    return np.where((peak(refined) < peak(best.coefficients))[:, None], refined, best.coefficients)


class _Best:
    """The approximation of smallest error so far for each function."""

    def __init__(self, m: int, n: int) -> None:
        self.coefficients = np.zeros((m, n))
        self.level = np.zeros(m)
        self.peak = np.full(m, np.inf)

    def take(self, rows: np.ndarray, coefficients: np.ndarray, level: np.ndarray, peak: np.ndarray) -> None:
        better = peak < self.peak[rows]
        rows = rows[better]
        self.coefficients[rows], self.level[rows], self.peak[rows] = coefficients[better], level[better], peak[better]


def _on_grid(y: np.ndarray, B: np.ndarray, noise: np.ndarray) -> tuple[np.ndarray, _Best]:
    """Run the exchange on the grid. Return the last references, (m, n + 1), and the best approximations."""
    m, (points, n) = len(y), B.shape
    # Distributed like the extrema of Chebyshev polynomials. Without the ends, where a basis may vanish; not symmetric,
    # as an even function may be interpolated at all points of a symmetric reference.
    first = (np.arange(n + 1) + 0.4) * ((points - 1) / (n + 1))
    reference = np.tile(first.round().astype(np.int64), (m, 1))
    best = _Best(m, n)
    rows = np.arange(m)
    for _ in range(_ROUNDS):
        a, level = _levelled(B[reference[rows]], np.take_along_axis(y[rows], reference[rows], axis=1))
        error = y[rows] - a @ B.T
        peak = np.abs(error).max(axis=1)
        best.take(rows, a, level, peak)
        going = (peak > np.abs(level) * (1 + _AGREEMENT)) & (peak > noise[rows])
        rows, error = rows[going], error[going]
        extrema, alternates = _alternation(error, n + 1)
        rows = rows[alternates]
        reference[rows] = extrema[alternates]
        if not rows.size:
            break
    return reference, best


def _off_grid(
    f: Function, basis: Function, angle: np.ndarray, a: np.ndarray, step: float, rows: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Move the references of some functions to the extrema between grid points.

    Return coefficients and references of all functions; those of the others stay the same.
    """
    a, angle = a.copy(), angle.copy()
    for spacing in _SPACINGS:
        width = spacing * step
        around = angle[..., None] + width * np.array([-1.0, 0.0, 1.0])
        t = -np.cos(around)
        y = f(t.reshape(len(t), -1)).reshape(t.shape)
        e = y - np.einsum("mpqn,mn->mpq", basis(t), a)
        before, here, after = np.moveaxis(e * np.sign(e[..., 1:2]), -1, 0)
        curvature = before - 2 * here + after
        with np.errstate(divide="ignore", invalid="ignore"):
            shift = np.where(curvature < 0, (before - after) / (2 * curvature), 0.0)
        # At most half a step, so that neighbours, at least a step apart, do not meet.
        moved = np.clip(angle + width * np.clip(shift, -0.49, 0.49), 0, np.pi)
        rows = rows[(np.diff(moved[rows], axis=1) > 0.01 * width).all(axis=1)]
        angle[rows] = moved[rows]
        t = -np.cos(angle)
        a[rows], _ = _levelled(basis(t[rows]), f(t)[rows])
    return a, -np.cos(angle)


def _levelled(B: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Solve y_i = sum_j a_j B_ij + (-1)^i level for each function: (m, n) coefficients and (m,) levels."""
    signs = np.where(np.arange(y.shape[1]) % 2, -1.0, 1.0)
    matrix = np.concatenate([B, np.broadcast_to(signs[:, None], (*y.shape, 1))], axis=2)
    solution = np.linalg.solve(matrix, y[..., None])[..., 0]
    return solution[:, :-1], solution[:, -1]


def _alternation(error: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return ``count`` extrema of alternating sign, (m, count) indices, and whether there are as many.

    Each run of errors of one sign offers its largest. Of more runs than ``count`` the smallest are dropped such that
    signs alternate and the largest error of all stays.
    """
    m, points = error.shape
    chosen = np.zeros((m, count), np.int64)
    if m == 0:
        return chosen, np.zeros(0, bool)
    size = np.abs(error).ravel()
    negative = error < 0
    begins = np.ones((m, points), bool)
    begins[:, 1:] = negative[:, 1:] != negative[:, :-1]
    starts = np.flatnonzero(begins)
    peaks = np.maximum.reduceat(size, starts)
    run = np.cumsum(begins.ravel()) - 1
    places = np.flatnonzero(size == peaks[run])
    places = places[np.unique(run[places], return_index=True)[1]]  # the first of equals
    runs = begins.sum(axis=1)
    ends = np.cumsum(runs)
    for row in np.flatnonzero(runs > count):
        of_row = slice(ends[row] - runs[row], ends[row])
        chosen[row] = places[of_row][_largest(peaks[of_row], count)]
    exact = np.flatnonzero(runs == count)
    chosen[exact] = places[(ends[exact] - count)[:, None] + np.arange(count)]
    return chosen % points, runs >= count


def _largest(peaks: np.ndarray, count: int) -> list[int]:
    """Drop runs until ``count`` remain: the smaller end, or an inner smallest with its smaller neighbour."""
    kept = list(range(len(peaks)))
    while len(kept) > count:
        smallest = min(range(len(kept)), key=lambda i: peaks[kept[i]])
        if len(kept) == count + 1 or smallest in (0, len(kept) - 1):
            del kept[0 if peaks[kept[0]] < peaks[kept[-1]] else -1]
        else:
            neighbour = min(smallest - 1, smallest + 1, key=lambda i: peaks[kept[i]])
            first = min(smallest, neighbour)
            del kept[first : first + 2]
    return kept
