"""Passes that take each exponential once for the sums at both points: of two arrays, or of self-interaction (Y = X)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import numpy as np

from cukde.core.cpu import threads
from cukde.density.pairs.cpu import pair_blocks, query_blocks
from cukde.density.sums import PartialSums


class Rectangle(Protocol):
    """Pairs of two arrays, ``rows`` of the first and ``columns`` of the second."""

    dtype: np.dtype
    shape: tuple[int, int]
    d: int

    stretch: int  # columns between two checks for an interrupt

    def add_mutual(
        self,
        rows: slice,
        columns: slice,
        totals: tuple[np.ndarray, np.ndarray],
        moments: tuple[np.ndarray, np.ndarray],
    ) -> None:
        """Add weights, and the columns' coordinates times them, to the sums of the rows, and reversed."""

    def add_own(self, rows: slice, columns: slice, total: np.ndarray, moments: np.ndarray) -> None:
        """Add the columns to the sums of the rows alone, where both are points of one array."""

    def about_queries(self, rows: slice, total: np.ndarray, moments: np.ndarray) -> np.ndarray:
        """Turn sums of some rows into moments about them, in the data's own unit."""

    def about_both(self, sums: tuple[PartialSums, PartialSums]) -> tuple[PartialSums, PartialSums]:
        """Turn such sums into moments about the points, in the data's own unit."""


def run(pairs: Rectangle) -> tuple[PartialSums, PartialSums]:
    """Output "moments" at the points of the first array, and at those of the second; references are 0.

    Threads add to sums of rows and of columns that no other adds to at the time, always in the same order: every run
    gives the same bits, and memory is that of the results beside one tile a thread.
    """
    n, m = pairs.shape
    totals, moments = (np.zeros(n), np.zeros(m)), (np.zeros((n, pairs.d)), np.zeros((m, pairs.d)))

    def task(rows: slice, columns: slice) -> None:
        for stretch, others in _stretches(rows, columns, pairs.stretch):
            pairs.add_mutual(stretch, others, totals, moments)

    pair_blocks.run_between(task, n, m)
    first, second = (PartialSums(np.zeros(len(t)), t, s) for t, s in zip(totals, moments, strict=True))
    return pairs.about_both((first, second))


def run_own(pairs: Rectangle) -> PartialSums:
    """Output "moments" of self-interaction (Y = X), all weights equal; references are 0, the largest exponents.

    Bits and memory are as of :func:`run`.
    """
    n = pairs.shape[1]
    total, moments = np.zeros(n), np.zeros((n, pairs.d))

    def task(rows: slice, columns: slice) -> None:
        for stretch, others in _stretches(rows, columns, pairs.stretch):
            if rows == columns:
                pairs.add_own(stretch, others, total, moments)
            else:
                pairs.add_mutual(stretch, others, (total, total), (moments, moments))

    pair_blocks.run_own(task, n)
    return PartialSums(np.zeros(n), total, pairs.about_queries(slice(0, n), total, moments))


def _stretches(rows: slice, columns: slice, stretch: int) -> Iterator[tuple[slice, slice]]:
    """Cut a pair of blocks into the queries of a tile and stretches of data; checks for an interrupt at each."""
    for i in range(rows.start, rows.stop, query_blocks.TILE_QUERIES):
        for j in range(columns.start, columns.stop, stretch):
            threads.checkpoint()
            yield (
                slice(i, min(i + query_blocks.TILE_QUERIES, rows.stop)),
                slice(j, min(j + stretch, columns.stop)),
            )
