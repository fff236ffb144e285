"""How the report writes numbers, times and texts, and lays out the cells of a table: all of it stands here."""

from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import dataclass
from string import ascii_lowercase
from typing import Literal

from benchmarks.sources.section import Cell, Table

_SUPERSCRIPTS = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")
_LONG = 24  # characters: a longer reason that stands in several cells goes below the table


@dataclass(frozen=True)
class Written:
    """A cell as it is shown."""

    text: str
    kind: Literal["number", "text", "reason"]  # a reason: a text in a column of numbers


@dataclass(frozen=True)
class Layout:
    """A table as it is shown; ``numeric`` says which columns have numbers, and stand to the right."""

    columns: list[str]
    numeric: list[bool]
    rows: list[list[Written]]
    reasons: list[tuple[str, str]]  # a mark of cells and what it stands for


def number(value: float | int) -> str:
    """Counts whole; others by three significant digits, in powers of ten below a thousandth and from a million."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if math.isnan(value):
        return "not a number"
    return ("−" if value < 0 else "") + _size(abs(value))


def _size(value: float | int) -> str:
    if isinstance(value, int) and value < 10**12:
        return f"{value:,}"
    if value == 0:
        return "0"
    if math.isinf(value):
        return "∞"
    if 1e-3 <= value < 1e6:
        return f"{value:,.{max(0, 2 - math.floor(math.log10(value)))}f}"
    mantissa, exponent = f"{value:.2e}".split("e")
    return f"{mantissa}×10{str(int(exponent)).translate(_SUPERSCRIPTS)}"


def duration(seconds: float) -> str:
    """Of seconds: 0.42 s, 8.1 s, 3 min 20 s."""
    whole = round(seconds)
    if whole < 60:
        return f"{seconds:.2g} s" if seconds < 9.95 else f"{whole} s"
    return f"{whole // 60} min {whole % 60} s"


def pieces(text: str) -> list[tuple[str, bool]]:
    """Cut a text at what stands in backquotes, which is code; whether a piece is code stands beside it."""
    cut = re.split(r"`([^`]+)`", text)
    return [(piece, index % 2 == 1) for index, piece in enumerate(cut) if piece]


def layout(table: Table) -> Layout:
    """Write the cells of a table."""
    columns = list(zip(*table.rows, strict=True)) or [()] * len(table.columns)
    numeric = [any(isinstance(cell, int | float) for cell in column) for column in columns]
    often = Counter(cell for row in table.rows for cell in row if isinstance(cell, str) and len(cell) > _LONG)
    repeated = [text for text, count in often.items() if count > 1][: len(ascii_lowercase)]
    marks = {text: f"[{mark}]" for text, mark in zip(repeated, ascii_lowercase, strict=False)}
    rows = [[_cell(cell, of, marks) for cell, of in zip(row, numeric, strict=True)] for row in table.rows]
    return Layout(table.columns, numeric, rows, [(mark, text) for text, mark in marks.items()])


def _cell(cell: Cell, of_numbers: bool, marks: dict[str, str]) -> Written:
    if cell is None:
        return Written("", "text")
    if isinstance(cell, str):
        return Written(marks.get(cell, cell), "reason" if of_numbers or cell in marks else "text")
    return Written(number(cell), "number")
