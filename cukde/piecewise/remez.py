"""Best uniform approximations on [-1, 1] by Remez's exchange, of many functions at once.

The error of the best approximation from n functions that satisfy Haar's condition takes its largest size, the level, at
n + 1 points with alternating signs. The exchange solves for the approximation whose error is levelled on n + 1 points,
takes as the next points the extrema of that error, and so on: first among the points of a Chebyshev grid, where this
ends after finitely many rounds, and then off the grid by parabolas.

Source: E. Ya. Remez (1934); C. de La Vallee Poussin's bound, by which the level never exceeds the least error.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

Function = Callable[[np.ndarray], np.ndarray]

_POINTS_AN_EXTREMUM, _LEAST_POINTS = 16, 128
_ROUNDS = 30
_AGREEMENT = 1e-9
"""Level and largest error on the grid that differ by less are the same."""
_SPACINGS = (1.0, 0.5, 0.25, 0.125)
"""Half-widths of the parabolas of the last rounds, in steps of the grid."""


def minimax(f: Function, basis: Function, n: int, noise: np.ndarray) -> np.ndarray:
    """Return the coefficients, shape (m, n), of the best approximations of m functions.

    Parameters
    ----------
    f : (m, g) points -> (m, g) values
    basis : (...) points -> (..., n) values
    n : number of basis functions
    noise : (m,)
        What rounding makes of the values; errors as small as that are not levelled further.
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
    """The approximation of smallest error so far, of each function."""

    def __init__(self, m: int, n: int) -> None:
        self.coefficients = np.zeros((m, n))
        self.level = np.zeros(m)
        self.peak = np.full(m, np.inf)

    def take(self, rows: np.ndarray, coefficients: np.ndarray, level: np.ndarray, peak: np.ndarray) -> None:
        better = peak < self.peak[rows]
        rows = rows[better]
        self.coefficients[rows], self.level[rows], self.peak[rows] = coefficients[better], level[better], peak[better]


def _on_grid(y: np.ndarray, B: np.ndarray, noise: np.ndarray) -> tuple[np.ndarray, _Best]:
    """Exchange among the points of the grid. Return the last references, (m, n + 1), and the best approximations."""
    m, (points, n) = len(y), B.shape
    # Spread as extrema of Chebyshev polynomials are, but inside, for a basis may vanish at the ends, and not symmetric,
    # for an even function may be interpolated in all points of a symmetric reference.
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
        found, alternates = _alternation(error, n + 1)
        rows = rows[alternates]
        reference[rows] = found[alternates]
        if not rows.size:
            break
    return reference, best


def _off_grid(
    f: Function, basis: Function, angle: np.ndarray, a: np.ndarray, step: float, rows: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Move the references of some functions to the extrema between the points of the grid.

    Return the coefficients and the references. All functions are evaluated, the others where they were.
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
        # Half a step at most: neighbours, a step apart or more, do not meet.
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
    """Choose extrema of alternating sign: (m, count) indices, and whether there are as many.

    A run of one sign gives its largest error. Of more runs than ``count`` the smallest go, so that signs alternate and
    the largest error of all stays.
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
    at = np.flatnonzero(size == peaks[run])
    at = at[np.unique(run[at], return_index=True)[1]]  # the first of equals
    runs = begins.sum(axis=1)
    ends = np.cumsum(runs)
    for row in np.flatnonzero(runs > count):
        mine = slice(ends[row] - runs[row], ends[row])
        chosen[row] = at[mine][_largest(peaks[mine], count)]
    just = np.flatnonzero(runs == count)
    chosen[just] = at[(ends[just] - count)[:, None] + np.arange(count)]
    return chosen % points, runs >= count


def _largest(peaks: np.ndarray, count: int) -> list[int]:
    """Leave out runs until ``count`` are left: the smaller end, or inside the smallest with its smaller neighbour."""
    left = list(range(len(peaks)))
    while len(left) > count:
        smallest = min(range(len(left)), key=lambda i: peaks[left[i]])
        if len(left) == count + 1 or smallest in (0, len(left) - 1):
            del left[0 if peaks[left[0]] < peaks[left[-1]] else -1]
        else:
            neighbour = min(smallest - 1, smallest + 1, key=lambda i: peaks[left[i]])
            first = min(smallest, neighbour)
            del left[first : first + 2]
    return left
