"""Passes that take each exponential once for the sums at both points: of two arrays, or of self-interaction (Y = X).

No exponent without weights is above 0, and a point's own pair has it: references are 0. Threads add to sums of rows and
of columns that no other adds to at the time, always in the same order: every run gives the same bits, and memory is
that of the results beside one tile a thread.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from cukde.core.cpu import threads
from cukde.density.pairs.cpu import differences, pair_blocks, query_blocks, tiles
from cukde.density.sums import PartialSums


def run(pairs: Any, n: int, m: int, k: int) -> tuple[PartialSums, PartialSums]:
    """Sums at the ``n`` queries of some pairs, and at the ``m`` data, with moments in ``k`` columns or none.

    ``pairs`` are :class:`cukde.density.pairs.cpu.passes.Differences`.
    """
    (at, others), add = (_none(rows, k) for rows in (n, m)), _adding(pairs)
    pair_blocks.run_between(lambda rows, columns: add(rows, columns, at, others), n, m)
    return at, others


def run_own(pairs: Any, n: int, k: int) -> PartialSums:
    """Sums of the data at themselves, with moments in ``k`` columns or none."""
    sums, nothing, add = _none(n, k), _none(0, k), _adding(pairs)
    pair_blocks.run_own(lambda rows, columns: add(rows, columns, sums, nothing if rows == columns else sums), n)
    return sums if k else sums._replace(moments=None)


def _none(rows: int, k: int) -> PartialSums:
    return PartialSums(np.zeros(rows), np.zeros(rows), np.zeros((rows, k)))


def _adding(pairs: Any) -> Any:
    least = tiles.NEGLIGIBLE[pairs.dtype.type]

    def add(rows: slice, columns: slice, at: PartialSums, others: PartialSums) -> None:
        """Add pairs of some queries and data to the sums of the queries, and of the data if these have sums."""
        of_data = others.total, others.moments
        for some, data in _stretches(rows, columns, pairs.stretch):
            pairs.add(differences.add_once, some, data, (at.total[some], at.moments[some], *of_data), least)

    return add


def _stretches(rows: slice, columns: slice, stretch: int) -> Iterator[tuple[slice, slice]]:
    """Cut a pair of blocks into the queries of a tile and stretches of data; checks for an interrupt at each."""
    for i in range(rows.start, rows.stop, query_blocks.TILE_QUERIES):
        for j in range(columns.start, columns.stop, stretch):
            threads.checkpoint()
            yield (
                slice(i, min(i + query_blocks.TILE_QUERIES, rows.stop)),
                slice(j, min(j + stretch, columns.stop)),
            )
