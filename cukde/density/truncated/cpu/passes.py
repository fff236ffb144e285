"""Densities of two and three dimensions to a relative tolerance on the CPU, without the pairs that cannot matter.

In two dimensions cells of many pairs are summed by a fast Gauss transform; all else is summed point by point over a
tree. See :mod:`cukde.density.truncated.plan` and :mod:`cukde.density.truncated.cpu.tree` for what is proved of each.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cukde.core.cpu import threads
from cukde.density.one_dimension.plan import BANDWIDTHS
from cukde.density.options import Options
from cukde.density.pairs.cpu import passes as pairs_passes
from cukde.density.sums import Epilogue, PartialSums, to_density
from cukde.density.truncated import plan as truncated_plan
from cukde.density.truncated.cpu import morton, plane, tree as truncated_tree

# Up to so many pairs, or queries, the sum over all pairs is as fast as it is to bring points in order.
_FEW_PAIRS, _FEW_QUERIES = 2**22, 128

# A pair summed on its own costs as much as so many multiply-adds of an expansion (CPU with AVX2).
_PAIR_COST = {4: 4.0, 8: 8.0}

_QUERIES = 128  # that a thread takes at a time, at the tree

# So many queries tell whether a tree leaves out enough: of more than this part of the pairs, or of a half where points
# have weights, the sum over all of them is as fast (measured over bandwidths from 0.1 to 100 deviations).
_SAMPLE = 32
_MOST_OF_PAIRS, _MOST_OF_WEIGHTED_PAIRS = 0.9, 0.5


def density(
    X: np.ndarray,
    Y: np.ndarray | None,
    h: float,
    options: Options,
    epilogue: Epilogue,
    *,
    points: None = None,
) -> np.ndarray:
    """Return what :func:`cukde.density.pairs.cpu.passes.density` does, to ``options.rtol`` beside its rounding.

    ``X`` (n, d) and ``Y`` (m, d) have two or three dimensions. Pairs are taken in their type, expansions in double.
    """
    sums = None
    queries = X if Y is None else Y
    if options.rtol and len(X) * len(queries) > _FEW_PAIRS and len(queries) > _FEW_QUERIES:
        sums = _sums(X, queries, h, options.rtol, options)
    if sums is None:
        return pairs_passes.density(X, Y, h, options, epilogue)
    return to_density(sums, *epilogue, np)


class _Data(NamedTuple):
    """Points in the order of the curve."""

    lattice: morton.Lattice
    codes: np.ndarray  # (n,) ascending
    points: np.ndarray  # (d, n)
    weights: np.ndarray  # (n,), or empty
    tree: truncated_tree.Tree


def _sums(X: np.ndarray, Y: np.ndarray, h: float, rtol: float, options: Options) -> PartialSums | None:
    """Sums at the queries; None where points have no order."""
    if not BANDWIDTHS[0] < h < BANDWIDTHS[1]:
        return None
    log_weights = options.log_weights
    if log_weights is not None:  # no exponent is low enough for rows without weight beside a query far from the rest
        counted = np.flatnonzero(log_weights > pairs_passes.LOG_ZERO)
        X, log_weights = X[counted], log_weights[counted]
        if len(X) == 0:
            return None
    data = _ordered(X, h, np.promote_types(X.dtype, Y.dtype), log_weights)
    if data is None:
        return None
    codes = morton.codes(Y, data.lattice)
    order = np.argsort(codes)
    codes, Y = codes[order], np.ascontiguousarray(Y[order], data.points.dtype)
    reference, total = np.zeros(len(Y)), np.empty(len(Y))
    left = np.ones(len(Y), np.bool_)
    if data.lattice.cells and X.shape[1] == 2 and rtol >= truncated_plan.LEAST_RTOL:
        _expanded(data, codes, Y, h, rtol, total, left)
    rest = np.flatnonzero(left)

    def walk(rows: np.ndarray) -> int:
        threads.checkpoint()
        pairs: int = truncated_tree.sums(Y, rows, *data.tree, h, rtol, reference, total)
        return pairs

    if len(rest) > 2 * _SAMPLE:
        most = _MOST_OF_PAIRS if log_weights is None else _MOST_OF_WEIGHTED_PAIRS
        sample = rest[np.linspace(0, len(rest) - 1, _SAMPLE).astype(int)]
        if walk(sample) > most * len(X) * _SAMPLE:
            sums = pairs_passes.partial_sums(X, Y[rest], h, "sum", options._replace(log_weights=log_weights))
            reference[rest], total[rest] = sums.reference, sums.total
            rest = rest[:0]
    threads.run(walk, [rest[i : i + _QUERIES] for i in range(0, len(rest), _QUERIES)], blas=False)
    out = PartialSums(np.empty(len(Y)), np.empty(len(Y)))
    out.reference[order], out.total[order] = reference, total
    return out


def _ordered(X: np.ndarray, h: float, dtype: np.dtype, log_weights: np.ndarray | None) -> _Data | None:
    lattice = morton.lattice(X, truncated_plan.width_of(h))
    if lattice is None:
        return None
    codes = morton.codes(X, lattice)
    order = np.argsort(codes)
    points = np.ascontiguousarray(X[order].T, dtype)
    log_w = np.empty(0) if log_weights is None else log_weights[order]
    weights = np.exp(log_w)
    return _Data(lattice, codes[order], points, weights, truncated_tree.tree(points, weights, log_w))


def _expanded(
    data: _Data, codes: np.ndarray, Y: np.ndarray, h: float, rtol: float, total: np.ndarray, left: np.ndarray
) -> None:
    """Write the sums of queries whose cells are accepted; say which are left."""
    plan = truncated_plan.plan(h, rtol)
    lattice = data.lattice
    low = lattice.low >> morton.CELL_BITS
    if plan.reach > plane.MOST_REACH or np.abs(low).max() + lattice.size > truncated_plan.MOST_CELLS:
        return
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
    queries = query_cells, query_starts, Y
    source = cells, starts, data.points, data.weights, mass, whole, low
    tables = plan.width, rows_of_table, table, plan.error, plan.most, plan.least, plan.beyond, plan.rtol
    pair = _PAIR_COST[data.points.itemsize]
    left[:inside] = False

    def block(i: int) -> None:
        threads.checkpoint()
        plane.block(blocks[i], firsts[i], lasts[i], *queries, *source, *tables, pair, total, left)

    threads.run(block, range(len(blocks)), blas=False)


def _cells(codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Codes of the cells that points in order lie in, and where each begins, and the end."""
    cells = codes >> 2 * morton.CELL_BITS
    starts = np.concatenate([[0], np.flatnonzero(np.diff(cells)) + 1, [len(cells)]])
    return cells[starts[:-1]], starts
