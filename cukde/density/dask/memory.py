"""Pairs of blocks for which there is not enough memory: they are taken in parts until there is."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from cukde.core import warnings as core_warnings
from cukde.core.dask import check as dask_check

T = TypeVar("T")

# Rows that a block, or a piece of one, is not cut below: what such a pair takes is a hundredth of any GPU's memory, so
# the memory is with somebody else.
_FEWEST_ROWS = 2**10


class WithinMemory(Generic[T]):
    """Calls functions on pairs of blocks, and on halves of them where memory runs out, on later pairs at once.

    A MemoryError says that memory ran out; CuPy's is one.

    Parameters
    ----------
    release : callable
        Gives back memory that is kept for later.
    of_queries : callable
        Makes one result of a list of those at two parts of the queries, in order.
    of_data : callable
        Makes one result of a list of those over two parts of the data, at the same queries.
    """

    def __init__(
        self, release: Callable[[], None], of_queries: Callable[[list[T]], T], of_data: Callable[[list[T]], T]
    ) -> None:
        self._release = release
        self._of_queries = of_queries
        self._of_data = of_data
        self._most: int | None = None  # rows of a block for which there may be memory

    def __call__(self, compute: Callable[[Any, Any], T], y: Any, x: Any) -> T:
        """Return ``compute(y, x)`` of two blocks, by halves of them where it must be."""
        longer = max(len(y.points), len(x.points))
        if self._fits(longer):
            try:
                return compute(y, x)
            except MemoryError as error:
                reason = str(error)
            # Only now, outside the handler, has all gone that the failed call held.
            self._ran_out(longer, reason)
        if len(y.points) >= len(x.points):
            return self._merged(self._of_queries, [self(compute, half, x) for half in y.halves()])
        return self._merged(self._of_data, [self(compute, y, half) for half in x.halves()])

    def _merged(self, merge: Callable[[list[T]], T], parts: list[T]) -> T:
        """Merge results, which takes little memory: memory that is kept for later is given back where there is none."""
        with contextlib.suppress(MemoryError):
            return merge(parts)
        self._release()
        return merge(parts)

    def fewer(self, make: Callable[[int], Any], rows: int) -> Any:
        """Return ``make(rows)``, or of fewer rows where there is no memory for so many."""
        while True:
            if self._fits(rows):
                try:
                    return make(rows)
                except MemoryError as error:
                    reason = str(error)
                self._ran_out(rows, reason)
            rows = max(_FEWEST_ROWS, -(-rows // 2))

    def report(self, number: int) -> None:
        """Warn where memory ran out, of block ``number`` of the queries."""
        if self._most is not None:
            core_warnings.from_task(
                f"memory ran out at block {number} of the queries: it was computed in parts of at most {self._most} "
                "rows, with the same result; smaller blocks, or fewer threads at a time, leave more room",
                core_warnings.MemoryWarning,
            )

    def _fits(self, rows: int) -> bool:
        return self._most is None or rows <= self._most

    def _ran_out(self, rows: int, reason: str) -> None:
        self._release()
        dask_check.divisible(rows, _FEWEST_ROWS, reason)
        self._most = max(_FEWEST_ROWS, -(-rows // 2))
