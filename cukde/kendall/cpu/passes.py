"""Counts of concordant and discordant pairs on the CPU: ranks of each column, inversions of each pair of columns."""

from __future__ import annotations

from typing import Any

import numpy as np

from cukde.core import plan as core_plan
from cukde.core.cpu import meanwhile, threads
from cukde.core.cpu.jit import OPTIONS as _JIT, njit
from cukde.kendall import plan as kendall_plan
from cukde.kendall.counts import PairCounts, Ties
from cukde.kendall.cpu import few, inversions, ranks, sign_products
from cukde.kendall.statistics import statistics

__all__ = ["matrix", "pairs", "statistics"]


@meanwhile.answered_by(few.pairs_meanwhile)
def pairs(x: np.ndarray, y: np.ndarray) -> PairCounts:
    """Count pairs of samples of each row of ``x`` with the same row of ``y``.

    Parameters
    ----------
    x, y : ndarray (b, n)
        Real numbers of at most 64 bits. Samples with NaN in either row are left out.

    Returns
    -------
    PairCounts
        Of arrays (b,).
    """
    b, n = x.shape
    ranked_x, ranked_y = ranks.ranked(x, y)
    core_plan.note("trees")
    out = PairCounts.none(np, (b,))
    rows = np.arange(b)
    threads.run(
        lambda block: _count(ranked_x, ranked_y, rows[block], rows[block], rows[block], out),
        ranks.blocks(b, n),
    )
    return out


@meanwhile.answered_by(few.matrix_meanwhile)
def matrix(A: np.ndarray, B: np.ndarray | None = None, *, deletion: bool) -> PairCounts:
    """Count pairs of samples for all pairs of columns.

    Parameters
    ----------
    A, B : ndarray (n, p), (n, q)
        Real numbers of at most 64 bits. Without B the columns of A are paired with each other.
    deletion : bool
        Whether each pair of columns leaves out the samples with NaN in either column. Otherwise all counts of a column
        with NaN are 0.

    Returns
    -------
    PairCounts
        Of arrays (p, q). Without NaN the ties of x have shape (p, 1) and those of y (1, q).
    """
    n = len(A)
    x, *rest = ranks.ranked(A.T) if B is None else ranks.ranked(A.T, B.T)
    y = rest[0] if rest else x
    p, q = len(x.valid), len(y.valid)
    ties_x, ties_y = Ties(*(t[:, None] for t in x.ties)), Ties(*(t[None, :] for t in y.ties))
    whole = (x.valid == n)[:, None] & (y.valid == n)
    by_pair = deletion and not whole.all()
    out = PairCounts.none(np, (p, q), None if by_pair else (0, 0))
    flat = out.map(lambda a: a.reshape(-1))  # the same memory with one index

    def count(task: tuple[int, np.ndarray]) -> None:
        i, columns = task
        _count(x, y, np.full(len(columns), i), columns, i * q + columns, flat)

    remaining = whole | deletion
    if B is None:
        remaining = np.triu(remaining)
    rows, columns = np.flatnonzero(x.valid == n), np.flatnonzero(y.valid == n)
    plan = kendall_plan.matrix_on_cpu(len(rows), len(columns), n, symmetric=B is None)
    chosen = plan.first()
    core_plan.note(chosen)
    if chosen == "bits":
        sign_products.count(x, y, rows, columns, out.concordant, out.discordant)
        out.samples[whole] = n
        if by_pair:
            for sums, column_sums in zip((*out.x, *out.y), (*ties_x, *ties_y), strict=True):
                np.copyto(sums, column_sums, where=whole)
        remaining &= ~whole
    tasks = []
    for i in range(p):
        columns = np.flatnonzero(remaining[i])
        tasks += [(i, columns[block]) for block in ranks.blocks(len(columns), n)]
    threads.run(count, tasks)

    if B is None:
        for upper, lower in zip(out.arrays, out.transposed.arrays, strict=True):
            below = np.tril_indices(len(lower), -1)
            lower[below] = upper.T[below]
    if by_pair:
        return out
    if not whole.all():
        ties_x, ties_y = (Ties(*(np.where(whole, t, t.dtype.type(0)) for t in ties)) for ties in (ties_x, ties_y))
    return out._replace(x=ties_x, y=ties_y)


@njit(**_JIT)
def _count(x: Any, y: Any, columns_x: Any, columns_y: Any, places: Any, out: Any) -> None:
    """Count pairs of samples for ``columns_x[k]`` with ``columns_y[k]`` and write the counts at ``places[k]``.

    Ties are written unless their arrays in ``out`` are empty.
    """
    n = x.order.shape[1]
    index = x.order.dtype
    scratch = np.empty((3, n), index)
    again = np.empty((4, n), index)  # orders and ranks over the samples without NaN in either column
    for k in range(places.size):
        i, j, place = columns_x[k], columns_y[k], places[k]
        if x.valid[i] == n and y.valid[j] == n:
            m = n
            order_x, rank_x, ties_x = x.order[i], x.rank[i], ranks.read(x.ties, i)
            order_y, rank_y, ties_y = y.order[j], y.rank[j], ranks.read(y.ties, j)
        else:
            order_x, rank_x, order_y, rank_y = again[0], again[1], again[2], again[3]
            m, ties_x = ranks.restrict(x.order[i], x.rank[i], x.valid[i], y.rank[j], order_x, rank_x)
            m, ties_y = ranks.restrict(y.order[j], y.rank[j], y.valid[j], x.rank[i], order_y, rank_y)
        if out.x.pairs.size > 0:
            ranks.write(ties_x, place, out.x)
            ranks.write(ties_y, place, out.y)
        discordant, joint = inversions.discordant(
            order_x, rank_x, ties_x.pairs > 0, order_y, rank_y, ties_y.pairs > 0, m, scratch
        )
        out.samples[place] = m
        out.discordant[place] = discordant
        out.concordant[place] = m * (m - 1) // 2 - ties_x.pairs - ties_y.pairs + joint - discordant
