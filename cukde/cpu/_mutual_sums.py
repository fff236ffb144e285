"""One pass over two arrays of points for the sums of each at the points of the other, every exponential taken once."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from cukde._partial import PartialSums
from cukde.cpu import _pair_blocks, _query_blocks, _threads


class Rectangle(Protocol):
    """Pairs of two arrays, ``rows`` of the first and ``columns`` of the second."""

    dtype: np.dtype
    shape: tuple[int, int]
    d: int

    stretch: int  # columns between two looks whether anybody still waits

    def add_mutual(
        self,
        rows: slice,
        columns: slice,
        totals: tuple[np.ndarray, np.ndarray],
        moments: tuple[np.ndarray, np.ndarray],
    ) -> None:
        """Add weights, and the columns' coordinates times them, to the sums of the rows, and reversed."""

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
        for i in range(rows.start, rows.stop, _query_blocks.TILE_QUERIES):
            own = slice(i, min(i + _query_blocks.TILE_QUERIES, rows.stop))
            for j in range(columns.start, columns.stop, pairs.stretch):
                _threads.checkpoint()
                pairs.add_mutual(own, slice(j, min(j + pairs.stretch, columns.stop)), totals, moments)

    _pair_blocks.run_between(task, n, m)
    first, second = (PartialSums(np.zeros(len(t)), t, s) for t, s in zip(totals, moments, strict=True))
    return pairs.about_both((first, second))
