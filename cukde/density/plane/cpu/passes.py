"""Gaussian sums of the plane on the CPU: a fast Gauss transform where bandwidths are wide, else pairs that can matter.

See :mod:`cukde.density.plane.plan` for what is proved of the transform. Cells that are not accepted are summed by
:mod:`cukde.density.pairs.cpu.passes`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cukde.core.cpu import meanwhile, threads
from cukde.density.kept import kept
from cukde.density.one_dimension.plan import BANDWIDTHS
from cukde.density.options import Options
from cukde.density.pairs import counting
from cukde.density.pairs.cpu import passes as pairs_passes
from cukde.density.pairs.cpu.ends import ended
from cukde.density.pairs.cpu.skipping import passes as skipping_passes
from cukde.density.pairs.cpu.weighted import weighted
from cukde.density.plane import plan as plane_plan, recent
from cukde.density.plane.cpu import expansions, morton, plain
from cukde.density.plane.plan import Plan
from cukde.density.sums import Output, PartialSums, put

squared_radii = pairs_passes.squared_radii

# Up to so many pairs, or queries, the sum over all pairs is as fast as it is to bring points in order.
_FEW_PAIRS, _FEW_QUERIES = 2**22, 128

# The transform takes as long for a point as the sum over so many pairs that can matter, by the size of a coordinate
# (two cores with AVX-512). Moments take it longer, and pairs of data with themselves are taken once.
_PAIRS_OF_POINT: dict[Output, dict[int, float]] = {
    "sum": {4: 1800.0, 8: 1100.0},
    "moments": {4: 2500.0, 8: 3500.0},
}

# A pair summed on its own costs as much as so many multiply-adds of an expansion (CPU with AVX2).
_PAIR_COST = {4: 4.0, 8: 8.0}


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

    ``X`` (n, 2) and ``Y`` (m, 2). Pairs are taken in their type, expansions in double.
    """
    sums = _transformed(X, X if Y is None else Y, h, output, options)
    return pairs_passes.partial_sums(X, Y, h, output, options, values=values, ratio=ratio) if sums is None else sums


density, debias = ended(partial_sums)


def _transformed(X: np.ndarray, Y: np.ndarray, h: float, output: Output, options: Options) -> PartialSums | None:
    """Sums by the transform; None where others are faster, or where it cannot be."""
    if output not in plane_plan.SERVED:
        return None
    rtol = plane_plan.rtol_of(options.precision, options.rtol)
    return _sums(X, Y, h, output, options._replace(rtol=rtol)) if _worth(X, Y, h, rtol, output) else None


def _worth(X: np.ndarray, Y: np.ndarray, h: float, tolerance: float, output: Output) -> bool:
    """Whether the transform is faster than the sum over the pairs that can matter, by their share of a sample."""
    n, m = len(X), len(Y)
    if n * m <= _FEW_PAIRS or m <= _FEW_QUERIES or not BANDWIDTHS[0] < h < BANDWIDTHS[1]:
        return False
    share = counting.share(X, Y, h, tolerance / n)
    return share * n * m > _PAIRS_OF_POINT[output][np.promote_types(X.dtype, Y.dtype).itemsize] * (n + m)


class _Data(NamedTuple):
    """Points in the order of the curve."""

    lattice: morton.Lattice
    codes: np.ndarray  # (n,) ascending
    points: np.ndarray  # (2, n)
    weights: np.ndarray  # (n,), or empty


def _sums(X: np.ndarray, Y: np.ndarray, h: float, output: Output, options: Options) -> PartialSums | None:
    """Sums at the queries; None where points have no order, or there are more cells than numbers for them."""
    X, _, options = weighted(X, None, options)
    dtype, log_weights = np.promote_types(X.dtype, Y.dtype), options.log_weights
    data = None
    if len(X):
        data = kept(options.kept, "cells", X, (h, dtype), lambda: _ordered(X, h, dtype, log_weights))
    if data is None or not data.lattice.cells:
        return None
    codes = morton.codes(Y, data.lattice)
    order = np.argsort(codes)
    moments = np.empty((len(Y) if output == "moments" else 0, 2))
    total, left = np.empty(len(Y)), np.ones(len(Y), np.bool_)
    queries = np.ascontiguousarray(Y[order], data.points.dtype)
    if (plan := _planned(data.lattice, h, output, options)) is not None:
        _expand(data, codes[order], queries, plan, total, moments, left)
    out = PartialSums(np.zeros(len(Y)), np.empty(len(Y)), np.empty_like(moments) if len(moments) else None)
    out.total[order] = total
    if out.moments is not None:
        out.moments[order] = moments
    rest = order[left]
    if len(rest):
        put(out, rest, pairs_passes.partial_sums(X, np.ascontiguousarray(Y[rest]), h, output, options))
        skipping_passes.recent_shares()  # those of the rest say nothing of all pairs
    return out


def _ordered(X: np.ndarray, h: float, dtype: np.dtype, log_weights: np.ndarray | None) -> _Data | None:
    lattice = morton.lattice(X, plane_plan.width_of(h))
    if lattice is None:
        return None
    codes = morton.codes(X, lattice)
    order = np.argsort(codes)
    points = np.ascontiguousarray(X[order].T, dtype)
    weights = np.empty(0) if log_weights is None else np.exp(log_weights[order])
    return _Data(lattice, codes[order], points, weights)


def _planned(lattice: morton.Lattice, h: float, output: Output, options: Options) -> Plan | None:
    """Plan the expansions; None where there are none for the tolerance or for cells so far out."""
    rtol = options.rtol or 0.0
    if rtol < plane_plan.LEAST_RTOL:
        return None
    plan = plane_plan.plan(h, rtol, output)
    furthest = np.abs(lattice.low >> morton.CELL_BITS).max() + lattice.size
    return plan if plan.reach <= expansions.MOST_REACH and furthest <= plane_plan.MOST_CELLS else None


def _expand(
    data: _Data,
    codes: np.ndarray,
    Y: np.ndarray,
    plan: Plan,
    total: np.ndarray,
    moments: np.ndarray,
    left: np.ndarray,
) -> None:
    """Write the sums of queries whose cells are accepted; say which are left."""
    inside = int(np.searchsorted(codes, morton.OUTSIDE))
    if inside == 0:
        return
    cells, starts = _cells(data.codes)
    query_cells, query_starts = _cells(codes[:inside])
    mass = np.add.reduceat(data.weights, starts[:-1]) if data.weights.size else np.diff(starts).astype(np.float64)
    whole = float(mass.sum())
    table = np.ascontiguousarray(plan.translation)
    rows_of_table = np.ascontiguousarray(table.transpose(2, 0, 1).reshape(plan.order, -1))
    blocks, firsts = np.unique(query_cells >> 2 * morton.BLOCK_BITS, return_index=True)
    lasts = np.append(firsts[1:], len(query_cells))
    recent.note(plan.output, len(query_cells))
    queries = query_cells, query_starts, Y
    source = cells, starts, data.points, data.weights, mass, whole, data.lattice.low >> morton.CELL_BITS
    tables = plan.width, rows_of_table, table, plan.error, plan.most, plan.least, plan.beyond, plan.rtol, plan.slope
    pair = _PAIR_COST[data.points.itemsize]
    left[:inside] = False

    def block(i: int) -> None:
        threads.checkpoint()
        expansions.block(blocks[i], firsts[i], lasts[i], *queries, *source, *tables, pair, total, moments, left)

    threads.run(block, range(len(blocks)), blas=False)


def _cells(codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Codes of the cells that points in order lie in, and where each begins, and the end."""
    cells = codes >> 2 * morton.CELL_BITS
    starts = np.concatenate([[0], np.flatnonzero(np.diff(cells)) + 1, [len(cells)]])
    return cells[starts[:-1]], starts
