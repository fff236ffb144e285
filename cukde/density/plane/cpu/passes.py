"""Gaussian sums of two or three columns on the CPU: a fast Gauss transform where bandwidths are wide, else pairs.

See :mod:`cukde.density.plane.plan` for what is proved of the transform. Queries that are not accepted are summed by
:mod:`cukde.density.pairs.cpu.passes`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cukde.core.cpu import meanwhile, threads
from cukde.core.plan import note
from cukde.density.kept import kept
from cukde.density.one_dimension.plan import BANDWIDTHS
from cukde.density.options import Options
from cukde.density.pairs import counting
from cukde.density.pairs.cpu import passes as pairs_passes
from cukde.density.pairs.cpu.ends import ended
from cukde.density.pairs.cpu.weighted import weighted
from cukde.density.plan import cpu as plan_cpu
from cukde.density.plane import plan as plane_plan
from cukde.density.plane.cpu import cells, expansions, plain
from cukde.density.plane.plan import Plan
from cukde.density.sums import Output, PartialSums, put

# Cells of a run of a block by the first coordinate, by the number of columns, as powers of 2.
_RUN_BITS = {2: 4, 3: 6}

# A pair of the cells around, summed on its own, costs as much as so many multiply-adds of an expansion.
_PAIR_COST = 8.0


@meanwhile.answered_by(plain.partial_sums)
def partial_sums(
    X: np.ndarray,
    Y: np.ndarray | None,
    h: float,
    output: Output,
    options: Options,
    *,
    values: np.ndarray | None = None,
    ratio: bool = False,
) -> PartialSums:
    """Return what :func:`cukde.density.pairs.cpu.passes.partial_sums` does, to the tolerance beside its rounding.

    ``X`` (n, d) and ``Y`` (m, d), d 2 or 3. Pairs are taken in their type, expansions in double.
    """
    sums = _transformed(X, X if Y is None else Y, h, output, options)
    return pairs_passes.partial_sums(X, Y, h, output, options, values=values, ratio=ratio) if sums is None else sums


density, debias = ended(partial_sums)


def _transformed(X: np.ndarray, Y: np.ndarray, h: float, output: Output, options: Options) -> PartialSums | None:
    """Sums by the transform; None where others are faster, or where it cannot be."""
    if output not in plane_plan.SERVED:
        return None
    rtol = plane_plan.rtol_of(options.precision, options.rtol)
    if rtol < plane_plan.LEAST_RTOL or not _worth(X, Y, h, rtol, output):
        return None
    plan = plane_plan.plan(h, rtol, output, X.shape[1])
    return _sums(X, Y, plan, options._replace(rtol=rtol)) if plan.reach <= cells.MOST_REACH else None


def _worth(X: np.ndarray, Y: np.ndarray, h: float, tolerance: float, output: Output) -> bool:
    """Whether the transform is faster than the sum over the pairs that can matter, by their share of a sample."""
    n, m = len(X), len(Y)
    if not plan_cpu.plane_may_pay(n, m) or not BANDWIDTHS[0] < h < BANDWIDTHS[1]:
        return False
    share = counting.share(X, Y, h, tolerance / n)
    if output == "moments" and Y is X:  # pairs of data with themselves are taken once
        share /= 2
    return plan_cpu.plane_pays(n, m, X.shape[1], output, np.promote_types(X.dtype, Y.dtype).itemsize, share)


class _Data(NamedTuple):
    """Points cell by cell."""

    lattice: cells.Lattice
    numbers: np.ndarray  # (n,) ascending
    points: np.ndarray  # (d, n)
    weights: np.ndarray  # (n,), or empty


def _sums(X: np.ndarray, Y: np.ndarray, plan: Plan, options: Options) -> PartialSums | None:
    """Sums at the queries; None where there are more cells than numbers, or no data with a weight."""
    output = plan.output
    X, _, options = weighted(X, None, options)
    dtype, log_weights = np.promote_types(X.dtype, Y.dtype), options.log_weights
    if not len(X):
        return None
    data = kept(options.kept, "cells", X, (plan.width, dtype), lambda: _ordered(X, plan.width, dtype, log_weights))
    if data is None:
        return None
    numbers = cells.numbers(Y, data.lattice)
    order = np.argsort(numbers)
    moments = np.empty((len(Y) if output == "moments" else 0, X.shape[1]))
    total, left = np.empty(len(Y)), np.ones(len(Y), np.bool_)
    queries = np.ascontiguousarray(Y[order], data.points.dtype)
    _expand(data, numbers[order], queries, plan, total, moments, left)
    out = PartialSums(np.zeros(len(Y)), np.empty(len(Y)), np.empty_like(moments) if len(moments) else None)
    out.total[order] = total
    if out.moments is not None:
        out.moments[order] = moments
    rest = order[left]
    if len(rest):
        put(out, rest, pairs_passes.partial_sums(X, np.ascontiguousarray(Y[rest]), plan.bandwidth, output, options))
        note("again", output=output, again=len(rest) / len(Y))
    return out


def _ordered(X: np.ndarray, width: float, dtype: np.dtype, log_weights: np.ndarray | None) -> _Data | None:
    lattice = cells.lattice(X, width)
    if lattice is None:
        return None
    numbers = cells.numbers(X, lattice)
    order = np.argsort(numbers)
    points = np.ascontiguousarray(X[order].T, dtype)
    weights = np.empty(0) if log_weights is None else np.exp(log_weights[order])
    return _Data(lattice, numbers[order], points, weights)


def _expand(
    data: _Data,
    numbers: np.ndarray,
    Y: np.ndarray,
    plan: Plan,
    total: np.ndarray,
    moments: np.ndarray,
    left: np.ndarray,
) -> None:
    """Write the sums of queries that are accepted; say which are left."""
    inside = int(np.searchsorted(numbers, cells.OUTSIDE))
    if inside == 0:
        return
    data_cells, starts = _cells(data.numbers)
    query_cells, query_starts = _cells(numbers[:inside])
    mass = np.add.reduceat(data.weights, starts[:-1]) if data.weights.size else np.diff(starts).astype(np.float64)
    layout = cells.LAYOUT[plan.columns]
    _, firsts = np.unique(query_cells >> sum(layout.within) + _RUN_BITS[plan.columns], return_index=True)
    lasts = np.append(firsts[1:], len(query_cells))
    note("plane", output=plan.output, cells=len(query_cells))
    queries = query_cells, query_starts, Y
    source = data_cells, starts, data.points, data.weights, mass, float(mass.sum())
    lattice = *layout, data.lattice.low, data.lattice.axes, plan.width
    table, bounds = plan.translation, np.stack((plan.error, plan.most, plan.mean))
    of_second = (table, bounds) if plan.columns == 3 else (np.ones((1, 1, 1)), np.array([[0.0], [1.0], [1.0]]))
    rows_of_table = np.ascontiguousarray(table.transpose(2, 0, 1).reshape(plan.order, -1))
    tables = table, of_second[0], rows_of_table, bounds, of_second[1], plan.beyond, plan.rtol, plan.slope
    left[:inside] = False

    def block(i: int) -> None:
        threads.checkpoint()
        expansions.block(firsts[i], lasts[i], *queries, *source, *lattice, *tables, _PAIR_COST, total, moments, left)

    threads.run(block, range(len(firsts)))


def _cells(numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Numbers of the cells that points in order lie in, and where each begins, and the end."""
    starts = np.concatenate([[0], np.flatnonzero(np.diff(numbers)) + 1, [len(numbers)]])
    return numbers[starts[:-1]], starts
