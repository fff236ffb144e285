"""Rows of a record by operation, sizes and program, over the seeds: what tables, figures and findings are made of."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from benchmarks.sources.section import Cell, Series, Table

# Characters of a reason that a cell holds; longer ones go below the table.
_LONGEST = 60


def told(value: float) -> str:
    """A time or a factor in a sentence: three digits, or all of those before the point."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


class Key(NamedTuple):
    """What was run by which program."""

    op: str
    n: int
    m: int
    program: str


class Summary(NamedTuple):
    """Of the seeds: milliseconds, the median and the ends of the spread, and the worst error; or a reason."""

    ms: float | None = None
    low: float | None = None
    high: float | None = None
    error: float | None = None
    reason: str | None = None
    part: str | None = None  # "1.00% of the queries", of which the time of all is extrapolated

    def whence(self) -> str:
        """Say after a time where it comes from, unless it was measured as it is."""
        return f", extrapolated from {self.part}" if self.part else ""


def program(row: Mapping[str, Any]) -> str:
    """Name of our own program in a row."""
    name = f"cukde, {row['backend'].upper()}"
    return name if row["precision"] == "float32" else f"{name}, {row['precision']}"


def summaries(rows: Iterable[Mapping[str, Any]]) -> dict[Key, Summary]:
    """Each program of each size, rivals too."""
    times: dict[Key, dict[Any, tuple[float, float | None]]] = {}
    reasons: dict[Key, str] = {}
    taken_of: dict[Key, str] = {}
    for row in rows:
        for name, taken, part in _parts(row):
            key = Key(row["op"], row["shape"]["n"], row["shape"]["m"], name)
            if "median_ms" in part:  # ours are in the row of each rival
                times.setdefault(key, {})[row.get("seed")] = part["median_ms"], part.get("rel_err_max")
                if taken:
                    taken_of[key] = taken
            elif "reason" in part:
                reasons.setdefault(key, part["reason"])
    out = {key: Summary(reason=reason) for key, reason in reasons.items()}
    for key, of_seeds in times.items():
        ms = [median for median, _ in of_seeds.values()]
        errors = [error for _, error in of_seeds.values() if error is not None]
        out[key] = Summary(float(np.median(ms)), min(ms), max(ms), max(errors, default=None), part=taken_of.get(key))
    return out


def _parts(row: Mapping[str, Any]) -> Iterator[tuple[str, str | None, Mapping[str, Any]]]:
    """A program, the part of the queries that it was timed with if not all, and what is known of it."""
    yield program(row), None, row
    if "peer" in row:
        name, _, taken = row["peer"]["name"].partition(" (from ")
        yield name, taken.removesuffix(")") or None, row["peer"]


def table(
    title: str,
    found: Mapping[Key, Summary],
    sizes: Iterable[tuple[str, int, int]],
    programs: Sequence[str],
    value: Callable[[Key, Summary], Cell],
    note: str = "",
) -> Table:
    """A row for an operation and its sizes, a column for a program; long reasons are below."""
    reasons: list[str] = []
    rows: list[list[Cell]] = []
    for op, n, m in sizes:
        keys = [Key(op, n, m, name) for name in programs]
        cells = [_cell(key, found.get(key, Summary()), value, reasons) for key in keys]
        rows.append([op, n, m, *cells])
    below = [note, *(f"({i}) {reason}." for i, reason in enumerate(reasons, 1))]
    return Table(title, ["operation", "n", "m", *programs], rows, " ".join(filter(None, below)))


def _cell(key: Key, of: Summary, value: Callable[[Key, Summary], Cell], reasons: list[str]) -> Cell:
    if of.reason is None:
        return None if of.ms is None else value(key, of)
    if len(of.reason) <= _LONGEST:
        return of.reason
    if of.reason not in reasons:
        reasons.append(of.reason)
    return f"none ({reasons.index(of.reason) + 1})"


def line(name: str, found: Mapping[Key, Summary], keys: Sequence[Key], x: Callable[[Key], float]) -> Series:
    """Median times and their spread over the seeds; no values where nothing was measured."""
    known = [(x(key), found[key]) for key in keys if key in found and found[key].ms is not None]
    if not known:
        return Series(name, [x(key) for key in keys], [None] * len(keys))
    xs, of = zip(*known, strict=True)
    low, high = ([_number(end) for end in ends] for ends in zip(*((s.low, s.high) for s in of), strict=True))
    if low == high:  # one seed
        return Series(name, list(xs), [s.ms for s in of])
    return Series(name, list(xs), [s.ms for s in of], low, high)


def _number(value: float | None) -> float:
    assert value is not None  # of a summary with a time
    return value
