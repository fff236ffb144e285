"""The fast Gauss transform by NumPy alone, for calls that would else wait for the compiler.

See :mod:`cukde.density.plane.plan` for the method and its bound. Cells lie in a table, so that a translation is a
product of matrices for all cells at once. Queries that are not accepted are summed over all pairs.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np

from cukde.density.one_dimension.plan import BANDWIDTHS
from cukde.density.options import Options
from cukde.density.pairs.cpu import few
from cukde.density.plane import plan as plane_plan
from cukde.density.plane.plan import Plan
from cukde.density.sums import Output, PartialSums, put

# Points together, and numbers in the table, up to which this takes less than compiling does.
_MOST_POINTS, _MOST_NUMBERS = 2**19, 2**23


def partial_sums(
    X: np.ndarray,
    Y: np.ndarray | None,
    h: float,
    output: Output,
    options: Options,
    *,
    values: np.ndarray | None = None,
    ratio: bool = False,
) -> PartialSums | None:
    """Return what :func:`cukde.density.plane.cpu.passes.partial_sums` does, or None where compiling takes no longer."""
    sums = few.many(X, Y, h, output, options, values=values)
    if sums is None and output in plane_plan.SERVED and not options.deterministic and options.precision != "ieee":
        rtol = plane_plan.rtol_of(options.precision, options.rtol)
        if rtol >= plane_plan.LEAST_RTOL and BANDWIDTHS[0] < h < BANDWIDTHS[1]:
            sums = _transformed(X, X if Y is None else Y, plane_plan.plan(h, rtol, output, X.shape[1]), options)
    return sums


def _transformed(X: np.ndarray, Y: np.ndarray, plan: Plan, options: Options) -> PartialSums | None:
    d = plan.columns
    if len(X) + len(Y) > _MOST_POINTS:
        return None
    weights = np.ones(len(X)) if options.log_weights is None else np.exp(options.log_weights)
    low = np.floor(X.min(axis=0) / plan.width) - plan.reach
    high = np.floor(X.max(axis=0) / plan.width) + plan.reach
    shape = high - low + 1
    if not (np.abs([low, high]).max() < plane_plan.MOST_CELLS and np.prod(shape) * plan.order**d <= _MOST_NUMBERS):
        return None
    size = tuple(int(side) for side in shape)
    B, mass = np.zeros(size + (plan.order,) * d), np.zeros(size)
    for place, rows, powers in _by_cell(X, low, size, plan):
        B[place] = ((powers[0] * weights[rows, None]).T @ _products(powers[1:])).reshape((plan.order,) * d)
        mass[place] = weights[rows].sum()
    off, expected = _bound(mass, plan)
    for axis in range(d):
        B = _translated(B, plan, axis)
    out = PartialSums(np.zeros(len(Y)), np.ones(len(Y)), np.zeros((len(Y), d)) if plan.output == "moments" else None)
    left = np.ones(len(Y), bool)
    for place, rows, powers in _by_cell(Y, low, size, plan):
        if off[place] > plan.rtol * expected[place]:
            continue
        polynomial = B[place].reshape(plan.order, -1)
        of_first = powers[0] @ polynomial
        out.total[rows] = np.einsum("ij,ij->i", of_first, _products(powers[1:]))
        left[rows] = ~(off[place] * (1 + plan.rtol) <= plan.rtol * out.total[rows])
        if out.moments is not None:
            out.moments[rows, 0] = np.einsum("ij,ij->i", _slopes(powers[0]) @ polynomial, _products(powers[1:]))
            for axis in range(1, d):
                others = [_slopes(p) if k == axis else p for k, p in enumerate(powers)][1:]
                out.moments[rows, axis] = np.einsum("ij,ij->i", of_first, _products(others))
    if out.moments is not None:
        out.moments[:] *= plan.slope
    if left.any():
        rest = few.many(X, Y[left], plan.bandwidth, plan.output, options)
        if rest is None:
            return None
        put(out, left, rest)
    return out


def _by_cell(
    A: np.ndarray, low: np.ndarray, size: tuple[int, ...], plan: Plan
) -> Iterator[tuple[tuple[np.intp, ...], np.ndarray, list[np.ndarray]]]:
    """Yield cells of the table that hold points, the rows of those, and powers of each of their coordinates."""
    cell = np.floor(A / plan.width) - low
    held = np.flatnonzero(((cell >= 0) & (cell < size)).all(axis=1))
    number = np.ravel_multi_index(tuple(cell[held].astype(np.int64).T), size)
    order = np.argsort(number, kind="stable")
    rows, number = held[order], number[order]
    starts = np.append(np.flatnonzero(np.diff(number, prepend=-1)), len(rows))
    coordinates = (A[rows] - (cell[rows] + low + 0.5) * plan.width) / (0.5 * plan.width)
    powers = np.ones((plan.order, len(rows), A.shape[1]))
    for k in range(1, plan.order):
        np.multiply(powers[k - 1], coordinates, powers[k])
    powers = powers.transpose(2, 1, 0)
    for start, stop in itertools.pairwise(starts):
        yield np.unravel_index(number[start], size), rows[start:stop], list(powers[:, start:stop])


def _products(powers: list[np.ndarray]) -> np.ndarray:
    """Products of powers of several coordinates, (points, P^k)."""
    out = powers[0]
    for more in powers[1:]:
        out = (out[:, :, None] * more[:, None, :]).reshape(len(out), -1)
    return out


def _slopes(powers: np.ndarray) -> np.ndarray:
    """Derivatives of powers."""
    out = np.zeros_like(powers)
    out[:, 1:] = powers[:, :-1] * np.arange(1, powers.shape[1])
    return out


def _translated(moments: np.ndarray, plan: Plan, axis: int) -> np.ndarray:
    """Take moments by one coordinate to the cells around."""
    out = np.zeros_like(moments)
    to, source = (np.moveaxis(table, plan.columns + axis, -1) for table in (out, moments))
    for o, T in enumerate(plan.translation):
        _shifted(to, source @ T.T, o - plan.reach, axis)
    return out


def _shifted(to: np.ndarray, what: np.ndarray, by: int, axis: int) -> None:
    """Add entries of a table to those so many cells further on."""
    count = to.shape[axis] - abs(by)
    if count > 0:
        at, of = (slice(max(0, step), max(0, step) + count) for step in (by, -by))
        to[(slice(None),) * axis + (at,)] += what[(slice(None),) * axis + (of,)]


def _bound(mass: np.ndarray, plan: Plan) -> tuple[np.ndarray, np.ndarray]:
    """Bound of the error, and about the sum, at queries of each cell."""

    def near(table: np.ndarray, factors: np.ndarray, axis: int) -> np.ndarray:
        out = np.zeros_like(table)
        for o, factor in enumerate(factors):
            _shifted(out, table * factor, o - plan.reach, axis)
        return out

    off, most, mean, inside = np.zeros_like(mass), mass, mass, mass
    for axis in range(plan.columns):
        off = near(off, plan.most + plan.error, axis) + near(most, plan.error, axis)
        most, mean = near(most, plan.most, axis), near(mean, plan.mean, axis)
        inside = near(inside, np.ones_like(plan.error), axis)
    off += np.maximum(0.0, mass.sum() - inside * (1 - 1e-14)) * plan.beyond
    return off, mean
