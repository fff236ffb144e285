"""The columns of files on which a command computes."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from cukde.cli.errors import CommandError


class Table(Protocol):
    """A file of any format, as commands use it."""

    path: Path
    names: list[str] | None  # of the columns, where the file has a header
    width: int  # number of columns

    def column(self, index: int) -> str:
        """Return the name of a column for messages."""

    def text_columns(self) -> dict[int, str]:
        """Return the columns without numbers, each with an example of its contents."""

    def read(self, columns: Sequence[int], *, finite: bool = True) -> np.ndarray:
        """Return the numbers of some columns, (rows, len(columns)), all finite; otherwise NaN where one is missing."""

    def cells(self) -> Iterator[list[str]]:
        """Yield each row as the text of its cells, all columns."""

    def arrow(self, names: list[str]) -> Any:
        """Return the whole table as pyarrow's, with columns of these names."""


def chosen(table: Table, spec: str | None, weights: int | None) -> list[int]:
    """Return the columns named in ``spec``, or every column but the weights, where all hold numbers."""
    if spec is None:
        columns = [index for index in range(table.width) if index != weights]
    else:
        columns = [find(table, name) for name in next(csv.reader([spec], skipinitialspace=True), [])]
    if len(set(columns)) < len(columns):
        raise CommandError(f"--columns names a column twice: {spec}")
    if not columns:
        raise CommandError(f"no columns to compute on: {table.path} has none beside the weights, or --columns is empty")
    _require_numbers(table, columns)
    return columns


def find(table: Table, name: str) -> int:
    """Return the position of a column given by name, or by 0-based index where the file has no header."""
    if table.names is not None:
        if table.names.count(name) == 1:
            return table.names.index(name)
        problem = "several columns" if name in table.names else "no column"
        raise CommandError(f"{table.path} has {problem} {name!r}; its columns are {', '.join(table.names)}")
    if name.isdecimal() and int(name) < table.width:
        return int(name)
    raise CommandError(f"{table.path} has no header and columns 0 to {table.width - 1}; choose by index; got {name!r}")


def matching(query: Table, train: Table, columns: list[int]) -> list[int]:
    """Return the query file's columns that correspond to the training file's ``columns``.

    They correspond by name if both files have a header. Otherwise the query file has the columns of the training file,
    or only the chosen ones, in the same order.
    """
    if query.names is not None and train.names is not None:
        positions = [find(query, train.names[index]) for index in columns]
    elif query.width == train.width:
        positions = columns
    elif query.width == len(columns):
        positions = list(range(query.width))
    else:
        raise CommandError(
            f"{query.path} must have {len(columns)} columns, as chosen from {train.path}, or {train.width} "
            f"laid out like it; got {query.width}"
        )
    _require_numbers(query, positions)
    return positions


def _require_numbers(table: Table, columns: list[int]) -> None:
    texts = table.text_columns()
    for index in columns:
        if index in texts:
            raise CommandError(
                f"{table.path}: {table.column(index)} holds no numbers ({texts[index]}); "
                "choose the columns to compute on with --columns"
            )
