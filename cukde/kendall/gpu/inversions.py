"""Concordant and discordant pairs of samples from ranks, in O(n log n): launchers of ``inversions.cu``."""

from __future__ import annotations

import functools
from typing import Any

import cupy as cp
import numpy as np

from cukde.core import merge_tiles
from cukde.core.gpu import compile as core_compile, merge_sort
from cukde.core.gpu.launch import Launch, Specialisation
from cukde.kendall.counts import PairCounts, Ties
from cukde.kendall.gpu.ranks import PART, THREADS

# Of a pair of variables, see inversions.cu.
_FIGURES, _INTEGERS, _REALS = 10, 7, 4


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
    zeros, sums = cp.zeros(b * (_FIGURES + 1), np.uint64), cp.empty((_INTEGERS + _REALS, b), np.int64)
    figures, inversions = zeros[: b * _FIGURES].reshape(b, _FIGURES), zeros[b * _FIGURES :]
    integers, reals = sums[:_INTEGERS], sums[_INTEGERS:].view(np.float64)
    if n > 0:
        for pairs in merge_tiles.batches(b, n):
            in_batch = (merge_tiles.of_batch(a, pairs) for a in (figures, inversions))
            _count(*_of(pairs, x, rows_x), *_of(pairs, y, rows_y), *in_batch)
    if b > 0:
        _adding(b)(figures, inversions, integers, reals)
    samples, concordant, discordant, tied_x, classes_x, tied_y, classes_y = integers
    triples_x, variance_x, triples_y, variance_y = reals
    ties_x = Ties(tied_x, triples_x, variance_x, classes_x)
    ties_y = Ties(tied_y, triples_y, variance_y, classes_y)
    return PairCounts(samples, concordant, discordant, ties_x, ties_y)


def _of(pairs: slice, ranks: Any, rows: Any | None) -> tuple[Any, Any | None]:
    """The ranks and rows of a batch."""
    if rows is None:
        return merge_tiles.of_batch(ranks, pairs), None
    return ranks, merge_tiles.of_batch(rows, pairs)


def _count(x: Any, rows_x: Any | None, y: Any, rows_y: Any | None, figures: Any, inversions: Any) -> None:
    b, n = inversions.shape[0], x.shape[1]
    pair_keys, pair_runs, value_runs = _launches(b, n)
    keys = cp.empty((b, n), np.uint64)
    pair_keys(x, y, rows_x, rows_y, keys)
    keys = merge_sort.sort(keys)
    y_by_x = cp.empty((b, n), np.uint32)
    pair_runs(keys, y_by_x, figures)
    del keys  # the next sort may have the memory
    y_sorted = merge_sort.count_inversions(y_by_x, inversions)
    value_runs(y_sorted, figures)


@functools.lru_cache(maxsize=1024)
def _launches(b: int, n: int) -> tuple[Launch, Launch, Launch]:
    """The launches before, between and after the sorts."""
    parts = -(-n // PART)
    of_kernel = functools.partial(Launch, grid=(b * parts,), block=(THREADS,), scalars=(n, parts))
    return of_kernel(_kernel("pair_keys")), of_kernel(_kernel("pair_runs")), of_kernel(_kernel("value_runs"))


@functools.lru_cache(maxsize=1024)
def _adding(b: int) -> Launch:
    """The launch that computes the results from the figures."""
    return Launch(_kernel("pair_counts"), (-(-b // THREADS),), (THREADS,), (b,))


_TYPES = {"pair_keys": "5P q i", "pair_runs": "3P q i", "value_runs": "2P q i", "pair_counts": "4P q"}


@core_compile.specialised(_TYPES)
def _kernel(name: str) -> Specialisation:
    return Specialisation("kendall/inversions", name, (), _TYPES[name])
