"""Concordant and discordant pairs of samples from ranks, in O(n log n): launchers of ``kernels_cu/inversions.cu``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import cupy as cp
import numpy as np

from cukde import _compile, _merge_tiles
from cukde._pair_counts import PairCounts, Ties
from cukde.gpu import _merge_sort
from cukde.gpu._operands import or_null
from cukde.gpu._ranks import PART, THREADS, blocks

_FIGURES = 10  # of a pair of variables, see inversions.cu


def counts(x: Any, y: Any, rows_x: Any | None = None, rows_y: Any | None = None) -> PairCounts:
    """Count the pairs of samples of b pairs of variables; every field has shape (b,).

    Parameters
    ----------
    x, y : array, shape (p, n) and (q, n)
        Ranks, uint32, of the samples of variables, a row each; all ones where a sample is missing. Samples that are
        missing in either variable of a pair are left out, and the ties are those of the samples that are left.
    rows_x, rows_y : array, shape (b,), optional
        int64: pair k has row ``rows_x[k]`` of x and ``rows_y[k]`` of y; by default row k.

    Notes
    -----
    Waits for nothing. Memory: 24 bytes a sample of the pairs that are sorted at a time.
    """
    x, y = cp.ascontiguousarray(x), cp.ascontiguousarray(y)
    rows_x, rows_y = (None if rows is None else cp.ascontiguousarray(rows) for rows in (rows_x, rows_y))
    n = x.shape[1]
    b = (x if rows_x is None else rows_x).shape[0]
    figures, inversions = cp.zeros((b, _FIGURES), np.uint64), cp.zeros(b, np.uint64)
    integers, reals = cp.empty((7, b), np.int64), cp.empty((4, b))
    if n > 0:
        for pairs in _merge_tiles.batches(b, n):
            _count(*_of(pairs, x, rows_x), *_of(pairs, y, rows_y), figures[pairs], inversions[pairs])
    if b > 0:
        _compile.kernel(*_kernel("pair_counts"))(
            blocks(b, THREADS), (THREADS,), (figures, inversions, integers, reals, b)
        )
    samples, concordant, discordant, tied_x, classes_x, tied_y, classes_y = integers
    return PairCounts(
        samples,
        concordant,
        discordant,
        Ties(tied_x, reals[0], reals[1], classes_x),
        Ties(tied_y, reals[2], reals[3], classes_y),
    )


def _of(pairs: slice, ranks: Any, rows: Any | None) -> tuple[Any, Any | None]:
    """The ranks and rows of a batch."""
    return (ranks[pairs], None) if rows is None else (ranks, rows[pairs])


def _count(x: Any, rows_x: Any | None, y: Any, rows_y: Any | None, figures: Any, inversions: Any) -> None:
    b, n = inversions.shape[0], x.shape[1]
    parts = -(-n // PART)
    grid, block, cut = (b * parts,), (THREADS,), (n, np.int32(parts))
    keys = cp.empty((b, n), np.uint64)
    _compile.kernel(*_kernel("pair_keys"))(grid, block, (x, y, or_null(rows_x), or_null(rows_y), keys, *cut))
    keys = _merge_sort.sort(keys)
    y_by_x = cp.empty((b, n), np.uint32)
    _compile.kernel(*_kernel("pair_runs"))(grid, block, (keys, y_by_x, figures, *cut))
    del keys  # the next sort may have the memory
    y_sorted = _merge_sort.count_inversions(y_by_x, inversions)
    _compile.kernel(*_kernel("value_runs"))(grid, block, (y_sorted, figures, *cut))


def specialisations() -> Iterator[tuple[str, str, _compile.Defines]]:
    """Stem, name and macros of every kernel of this module."""
    return (_kernel(name) for name in ("pair_keys", "pair_runs", "value_runs", "pair_counts"))


def _kernel(name: str) -> tuple[str, str, _compile.Defines]:
    return "inversions", name, ()
