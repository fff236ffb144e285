"""What a section of the suite is and leaves: rows of measurements, and tables of what is no measurement of ours."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from benchmarks import record
from benchmarks.peers import Peer

Cell = str | float | int | None


class Setting(NamedTuple):
    """What a section runs with."""

    quick: bool  # small sizes: all sections together take less than 90 seconds on two cores
    no_gpu: str | None  # why no GPU works here; None: one does


class Table(NamedTuple):
    """A table: what a source states beside the model, or errors that are no row of a record."""

    title: str
    columns: list[str]  # with units
    rows: list[list[Cell]]


class Outcome(NamedTuple):
    """What a section found; ``rows`` are those of a record, see :func:`benchmarks.tools.records.write`."""

    rows: list[dict[str, Any]]
    tables: list[Table] = []  # noqa: RUF012

    @staticmethod
    def joined(parts: Iterable[Outcome]) -> Outcome:
        """Everything that parts of a section found, in their order."""
        rows, tables = [], []
        for part in parts:
            rows += part.rows
            tables += part.tables
        return Outcome(rows, tables)


class Section(NamedTuple):
    """A part of the suite, which runs by itself in less than 8 minutes on a GPU."""

    number: int
    title: str
    source: str  # which table or figure of which paper
    run: Callable[[Setting], Outcome]


class Kept(list[dict[str, Any]]):
    """A list of rows that takes the place of the benchmarks' fixture ``compare``, for about ``seconds`` a call."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.seconds = seconds

    def __call__(
        self, call: Callable[[], Any], row: dict[str, Any], peers: Mapping[str, Peer | str], calls: int = 1
    ) -> list[dict[str, Any]]:
        """Time a call beside its peers; return the rows that come of it."""
        rows = record.compared(call, row, peers, calls=calls, seconds=self.seconds)
        self.extend(rows)
        return rows
