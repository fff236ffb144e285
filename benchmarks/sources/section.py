"""What a section of the suite is, and what it leaves: rows of measurements, tables, figures and findings, as JSON."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

Cell = str | float | int | None
"""Of a table: numbers are formatted by the report, None is an empty cell, and a reason for having none is a text."""


class Setting(NamedTuple):
    """What a section runs with."""

    quick: bool  # small sizes: all sections together take less than 90 seconds on two cores
    no_gpu: str | None  # why no GPU works here; None: one does


@dataclass(frozen=True)
class Series:
    """A line or a group of bars; ``low`` and ``high`` are the ends of a band about ``y``."""

    name: str
    x: list[Any]
    y: list[float | None]
    low: list[float] | None = None
    high: list[float] | None = None

    def __post_init__(self) -> None:
        lengths = {len(numbers) for numbers in (self.x, self.y, self.low, self.high) if numbers is not None}
        if len(lengths) > 1 or (self.low is None) != (self.high is None):
            raise ValueError(
                f"series {self.name!r}: x, y and the ends of a band must be as many; got {sorted(lengths)}"
            )


@dataclass(frozen=True)
class Figure:
    """A figure by its numbers: the report draws it."""

    title: str
    x_label: str  # with the unit
    y_label: str
    series: list[Series]
    kind: Literal["lines", "points", "bars"] = "lines"
    log_x: bool = False
    log_y: bool = False
    caption: str = ""


@dataclass(frozen=True)
class Table:
    """A table, with a note below it."""

    title: str
    columns: list[str]  # with units
    rows: list[list[Cell]]
    note: str = ""

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.columns):
                raise ValueError(
                    f"table {self.title!r}: a row must have {len(self.columns)} cells, one a column; got {row}"
                )


@dataclass(frozen=True)
class Outcome:
    """What a section found; ``rows`` are those of a record, see :func:`benchmarks.tools.records.write`."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    figures: list[Figure] = field(default_factory=list)
    findings: list[str] = field(default_factory=list)  # sentences with the measured numbers, and where sources differ

    @staticmethod
    def joined(parts: Iterable[Outcome]) -> Outcome:
        """Everything that parts of a section found, in their order."""
        found = Outcome()
        for part in parts:
            for kind in dataclasses.fields(Outcome):
                getattr(found, kind.name).extend(getattr(part, kind.name))
        return found

    def as_json(self) -> dict[str, Any]:
        """Dicts and lists alone."""
        return dataclasses.asdict(self)

    @staticmethod
    def from_json(stored: dict[str, Any]) -> Outcome:
        """Read what :meth:`as_json` gave."""
        figures = [Figure(**f | {"series": [Series(**s) for s in f["series"]]}) for f in stored["figures"]]
        return Outcome(stored["rows"], [Table(**t) for t in stored["tables"]], figures, stored["findings"])


class Section(NamedTuple):
    """A part of the suite, which runs by itself in less than 8 minutes on a GPU."""

    number: int
    title: str
    source: str  # which table or figure of which paper
    run: Callable[[Setting], Outcome]
