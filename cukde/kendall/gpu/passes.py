"""Kendall's counts on the GPU: by sorting, O(n log n) a pair of variables, or by products of signs on tensor cores."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import cupy as cp
import numpy as np

from cukde.core import merge_tiles, plan as core_plan
from cukde.core.gpu import device
from cukde.kendall import plan as kendall_plan
from cukde.kendall.counts import PairCounts, Ties
from cukde.kendall.gpu import comparisons, inversions, sign_products
from cukde.kendall.gpu.comparisons import Pairing, Variables
from cukde.kendall.gpu.ranks import Ranks, ranks, values_of
from cukde.kendall.gpu.statistics import statistics
from cukde.kendall.statistics import Null

__all__ = ["matrix", "pairs", "statistics", "statistics_of_few"]


def pairs(x: Any, y: Any) -> PairCounts:
    """Count pairs of rows, as :func:`cukde.kendall.cpu.passes.pairs` does; nothing waits for the result."""
    core_plan.note("sorting")
    if x.dtype == y.dtype:  # fewer launches
        both = values_of(x, y)
        return inversions.counts(both[: len(x)], both[len(x) :])
    return inversions.counts(values_of(x), values_of(y))


def matrix(A: Any, B: Any = None, *, deletion: bool) -> PairCounts:
    """Count pairs of columns, as :func:`cukde.kendall.cpu.passes.matrix` does; fields broadcast to (p, q).

    Waits for the device once, to learn which columns hold NaN and which have ties.
    """
    symmetric = B is None
    sides = _sides(A, B)
    x, y = sides[0], sides[-1]
    p, q = len(x.whole), len(y.whole)
    plan = kendall_plan.matrix_on_gpu(
        p, q, A.shape[0], symmetric=symmetric, wide=False, capability=device.capability(), counted=True
    )
    untied = () if any(bool(side.tied.any()) for side in sides) else (kendall_plan.NO_TIES,)
    chosen = plan.first(*untied)
    core_plan.note(chosen, ties=not untied)
    count = _sorted if chosen == "sorting" else _multiplied
    if all(bool(side.whole.all()) for side in sides):
        return _whole(x, y, symmetric, count)

    counts = PairCounts.none(cp, (p, q))
    if x.whole.any() and y.whole.any():
        rows, columns = np.flatnonzero(x.whole), np.flatnonzero(y.whole)
        of_x = x.of(rows)
        whole = _whole(of_x, of_x if symmetric else y.of(columns), symmetric, count)
        _put(counts, np.ix_(rows, columns), whole)
    if deletion:
        gaps = ~(x.whole[:, None] & y.whole)
        i, j = np.nonzero(np.triu(gaps) if symmetric else gaps)
        gap_counts = inversions.counts(x.ranks.values, y.ranks.values, cp.asarray(i), cp.asarray(j))
        _put(counts, (i, j), gap_counts)
        if symmetric:
            _put(counts, (j, i), gap_counts.transposed)
    return counts


def statistics_of_few(
    x: Any, y: Any, pairing: Pairing, axis: int, variant: str, null: Null | None, complete: int
) -> tuple[Any, Any | None] | None:
    """Compute tau and p-values without counts in between, where there are so few samples that one launch is faster.

    Parameters
    ----------
    x, y : array
        Samples of variables along ``axis`` of two.
    pairing, variant, null, complete
        As :func:`cukde.kendall.gpu.comparisons.statistics` has them.
    """
    n, p, q = x.shape[axis], x.shape[1 - axis], 1 if pairing == "alike" else y.shape[1 - axis]
    wide = max(x.dtype.itemsize, y.dtype.itemsize) == 8
    if p * q == 0 or not kendall_plan.few_on_gpu(p * q, n, wide=wide):
        return None
    core_plan.note("comparisons")
    return comparisons.statistics(Variables(x, axis), Variables(y, axis), pairing, variant, null, complete)


class _Side(NamedTuple):
    """The variables of A or of B, and what the host knows of them."""

    ranks: Ranks
    whole: np.ndarray  # (p,) bool: without NaN
    tied: np.ndarray  # (p,) bool

    def of(self, rows: np.ndarray) -> _Side:
        """Some of the variables."""
        values, integers, reals = self.ranks
        # Rows of either are to have the same strides.
        integers, reals = (cp.ascontiguousarray(sums[:, rows]) for sums in (integers, reals))
        return _Side(Ranks(values[rows], integers, reals), self.whole[rows], self.tied[rows])


def _sides(A: Any, B: Any) -> list[_Side]:
    """Rank the variables of the matrices there are, and bring to the host which have NaN and which have ties."""
    matrices = [side.T for side in ((A,) if B is None else (A, B))]
    # Next to each other on the device, for one copy.
    sums = cp.empty(3 * sum(map(len, matrices)), np.int64)
    ranked, parts, end = [], [], 0
    for matrix in matrices:
        parts.append(slice(end, end := end + 3 * len(matrix)))
        ranked.append(ranks(matrix, merge_tiles.of_batch(sums, parts[-1]).reshape(3, -1)))
    on_host = cp.asnumpy(sums)
    sides = []
    for side_ranks, part in zip(ranked, parts, strict=True):
        samples, pairs, _ = on_host[part].reshape(3, -1)
        sides.append(_Side(side_ranks, samples == A.shape[0], pairs > 0))
    return sides


def _whole(x: _Side, y: _Side, symmetric: bool, count: Callable[..., tuple[Any, Any]]) -> PairCounts:
    """Counts of all pairs of variables without NaN, whose ties are the same in all pairs."""
    concordant, discordant = count(x, y, symmetric)
    samples, ties_x = x.ranks.down
    ties_y = ties_x if symmetric else y.ranks.down[1]
    return PairCounts(samples, concordant, discordant, ties_x, Ties(*(field.T for field in ties_y)))


def _multiplied(x: _Side, y: _Side, symmetric: bool) -> tuple[Any, Any]:
    values = x.ranks.values
    other = None if symmetric else y.ranks.values
    return sign_products.products(values, other, values.shape[1], x.tied, y.tied)


def _sorted(x: _Side, y: _Side, symmetric: bool) -> tuple[Any, Any]:
    p, q = len(x.tied), len(y.tied)
    mask = np.triu(np.ones((p, q), bool)) if symmetric else np.ones((p, q), bool)
    i, j = np.nonzero(mask)
    counts = inversions.counts(x.ranks.values, y.ranks.values, cp.asarray(i), cp.asarray(j))
    positions = np.empty((p, q), np.int64)
    positions[i, j] = np.arange(len(i))
    if symmetric:
        positions[j, i] = positions[i, j]
    on_device = cp.asarray(positions)
    return counts.concordant[on_device], counts.discordant[on_device]


def _put(counts: PairCounts, where: Any, pair_counts: PairCounts) -> None:
    """Write the counts of some pairs of variables."""
    for to, field in zip(counts.arrays, pair_counts.arrays, strict=True):
        to[where] = field
