"""The fast Gauss transform of the plane by NumPy alone, for calls that would else wait for the compiler.

See :mod:`cukde.density.plane.plan` for the method and its bound. Cells lie in a table, so that a translation is a
product of matrices for all cells at once. Queries of cells that are not accepted are summed over all pairs.
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

_NO_LESS = 1e-280  # a sum that may be less than this is left to exponents


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
            sums = _transformed(X, X if Y is None else Y, plane_plan.plan(h, rtol, output), options)
    return sums


def _transformed(X: np.ndarray, Y: np.ndarray, plan: Plan, options: Options) -> PartialSums | None:
    if len(X) + len(Y) > _MOST_POINTS:
        return None
    weights = np.ones(len(X)) if options.log_weights is None else np.exp(options.log_weights)
    low = np.floor(X.min(axis=0) / plan.width) - plan.reach
    high = np.floor(X.max(axis=0) / plan.width) + plan.reach
    shape = high - low + 1
    if not (np.abs([low, high]).max() < plane_plan.MOST_CELLS and np.prod(shape) * plan.order**2 <= _MOST_NUMBERS):
        return None
    size = int(shape[0]), int(shape[1])
    M, mass = np.zeros((*size, plan.order, plan.order)), np.zeros(size)
    for place, rows, a, b in _by_cell(X, low, size, plan):
        M[place] = (a * weights[rows, None]).T @ b
        mass[place] = weights[rows].sum()
    accepted = _accepted(mass, plan)
    B = np.zeros_like(M)
    for o, T in enumerate(plan.translation):  # by the second coordinate
        _shifted(B, M @ T.T, o - plan.reach, 1)
    M[:] = 0.0
    for o, T in enumerate(plan.translation):  # by the first
        _shifted(M, T @ B, o - plan.reach, 0)
    out = PartialSums(np.zeros(len(Y)), np.ones(len(Y)), np.zeros((len(Y), 2)) if plan.output == "moments" else None)
    left = np.ones(len(Y), bool)
    for place, rows, a, b in _by_cell(Y, low, size, plan):
        if accepted[place]:
            left[rows] = False
            of_a = a @ M[place]
            out.total[rows] = np.einsum("ij,ij->i", of_a, b)
            if out.moments is not None:
                out.moments[rows, 0] = np.einsum("ij,ij->i", _slopes(a) @ M[place], b)
                out.moments[rows, 1] = np.einsum("ij,ij->i", of_a, _slopes(b))
    if out.moments is not None:
        out.moments[:] *= plan.slope
    if left.any():
        rest = few.many(X, Y[left], plan.bandwidth, plan.output, options)
        if rest is None:
            return None
        put(out, left, rest)
    return out


def _by_cell(
    A: np.ndarray, low: np.ndarray, size: tuple[int, int], plan: Plan
) -> Iterator[tuple[tuple[int, int], np.ndarray, np.ndarray, np.ndarray]]:
    """Yield cells of the table that hold points, the rows of those, and powers of both of their coordinates."""
    cell = np.floor(A / plan.width) - low
    held = np.flatnonzero(((cell >= 0) & (cell < size)).all(axis=1))
    number = cell[held].astype(np.int64) @ (size[1], 1)
    order = np.argsort(number, kind="stable")
    rows, number = held[order], number[order]
    starts = np.append(np.flatnonzero(np.diff(number, prepend=-1)), len(rows))
    coordinates = (A[rows] - (cell[rows] + low + 0.5) * plan.width) / (0.5 * plan.width)
    powers = np.ones((plan.order, len(rows), 2))
    for k in range(1, plan.order):
        np.multiply(powers[k - 1], coordinates, powers[k])
    powers = powers.transpose(2, 1, 0)
    for start, stop in itertools.pairwise(starts):
        a, b = powers[:, start:stop]
        yield divmod(int(number[start]), size[1]), rows[start:stop], a, b


def _slopes(powers: np.ndarray) -> np.ndarray:
    """Derivatives of powers."""
    out = np.zeros_like(powers)
    out[:, 1:] = powers[:, :-1] * np.arange(1, powers.shape[1])
    return out


def _shifted(to: np.ndarray, what: np.ndarray, by: int, axis: int) -> None:
    """Add entries of a table to those so many cells further on."""
    count = to.shape[axis] - abs(by)
    if count > 0:
        at, of = (slice(max(0, step), max(0, step) + count) for step in (by, -by))
        to[(slice(None),) * axis + (at,)] += what[(slice(None),) * axis + (of,)]


def _accepted(mass: np.ndarray, plan: Plan) -> np.ndarray:
    """Cells of queries whose sums are within the tolerance, as the masses around them show."""

    def near(table: np.ndarray, factors: np.ndarray, axis: int) -> np.ndarray:
        out = np.zeros_like(table)
        for o, factor in enumerate(factors):
            _shifted(out, table * factor, o - plan.reach, axis)
        return out

    everywhere = np.ones_like(plan.error)
    off = near(near(mass, plan.most, 1), plan.error, 0) + near(near(mass, plan.error, 1), plan.most + plan.error, 0)
    inside = near(near(mass, everywhere, 1), everywhere, 0)
    off += np.maximum(0.0, mass.sum() - inside * (1 - 1e-14)) * plan.beyond
    least = near(near(mass, plan.least, 1), plan.least, 0)
    out: np.ndarray = (least > _NO_LESS) & (off <= plan.rtol * least)
    return out
