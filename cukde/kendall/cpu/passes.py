"""Counts of concordant and discordant pairs on the CPU: ranks once per column, inversions once per pair of columns."""

from __future__ import annotations

from typing import Any

import numpy as np

from cukde.core.cpu import threads
from cukde.core.cpu.jit import njit
from cukde.kendall.counts import PairCounts, Ties
from cukde.kendall.cpu import inversions, ranks, sign_products
from cukde.kendall.statistics import statistics

__all__ = ["matrix", "pairs", "statistics"]

_JIT: dict[str, Any] = {"nogil": True, "error_model": "numpy", "cache": True}


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
    out = _zeros((b,), (b,))
    rows = np.arange(b)
    threads.run(
        lambda block: _count(ranked_x, ranked_y, rows[block], rows[block], rows[block], out),
        ranks.blocks(b, n),
        blas=False,
    )
    return out


def matrix(A: np.ndarray, B: np.ndarray | None = None, *, deletion: bool) -> PairCounts:
    """Count pairs of samples for all pairs of columns.

    Parameters
    ----------
    A, B : ndarray (n, p), (n, q)
        Real numbers of at most 64 bits. Without B the columns of A are paired with each other.
    deletion : bool
        Whether samples with NaN are left out, for each pair of columns those that have NaN in either. Otherwise pairs
        with a column that has NaN are not counted, and all their counts are 0.

    Returns
    -------
    PairCounts
        Of arrays (p, q); where no column has NaN ties of x are (p, 1) and those of y (1, q).
    """
    n = len(A)
    x, *rest = ranks.ranked(A.T) if B is None else ranks.ranked(A.T, B.T)
    y = rest[0] if rest else x
    p, q = len(x.valid), len(y.valid)
    ties_x, ties_y = Ties(*(t[:, None] for t in x.ties)), Ties(*(t[None, :] for t in y.ties))
    whole = (x.valid == n)[:, None] & (y.valid == n)
    by_pair = deletion and not whole.all()
    out = _zeros((p, q), (p, q) if by_pair else (0, 0))
    flat = out.of_each(lambda a: a.reshape(-1))  # the same memory with one index

    def count(task: tuple[int, np.ndarray]) -> None:
        i, columns = task
        _count(x, y, np.full(len(columns), i), columns, i * q + columns, flat)

    left = whole | deletion
    if B is None:
        left = np.triu(left)
    rows, columns = np.flatnonzero(x.valid == n), np.flatnonzero(y.valid == n)
    if sign_products.pays(n, len(rows) if B is None else len(rows) + len(columns), int((left & whole).sum())):
        sign_products.count(x, y, rows, columns, out.concordant, out.discordant)
        out.samples[whole] = n
        if by_pair:
            for ties, of_columns in zip((*out.x, *out.y), (*ties_x, *ties_y), strict=True):
                np.copyto(ties, of_columns, where=whole)
        left &= ~whole
    tasks = []
    for i in range(p):
        columns = np.flatnonzero(left[i])
        tasks += [(i, columns[block]) for block in ranks.blocks(len(columns), n)]
    threads.run(count, tasks, blas=False)

    if B is None:
        for upper, lower in zip(out.arrays, out.turned.arrays, strict=True):
            below = np.tril_indices(len(lower), -1)
            lower[below] = upper.T[below]
    if by_pair:
        return out
    if not whole.all():
        ties_x, ties_y = (Ties(*(np.where(whole, t, t.dtype.type(0)) for t in ties)) for ties in (ties_x, ties_y))
    return out._replace(x=ties_x, y=ties_y)


def _zeros(shape: tuple[int, ...], ties: tuple[int, ...]) -> PairCounts:
    """Counts of zero, and sums over ties of a shape of their own."""
    samples, concordant, discordant = (np.zeros(shape, np.int64) for _ in range(3))
    return PairCounts(samples, concordant, discordant, ranks.no_ties(*ties), ranks.no_ties(*ties))


@njit(**_JIT)
def _count(x: Any, y: Any, columns_x: Any, columns_y: Any, places: Any, out: Any) -> None:
    """Count pairs of samples of columns of x with columns of y, side by side; write at ``places``.

    Ties are written where ``out`` has room for them.
    """
    n = x.order.shape[1]
    index = x.order.dtype
    scratch = np.empty((3, n), index)
    again = np.empty((4, n), index)  # orders and ranks of two columns with NaN over the samples that both have
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
