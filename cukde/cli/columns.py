"""Which columns of the training and query files a command computes on."""

from __future__ import annotations

import csv

from cukde.cli.errors import CommandError
from cukde.cli.table import Table


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
    """Return the query file's columns that answer to the training file's ``columns``.

    By name where both files have a header. Otherwise by position: the query file is laid out like the
    training file, or holds the chosen columns alone.
    """
    if query.names is not None and train.names is not None:
        found = [find(query, train.names[index]) for index in columns]
    elif query.width == train.width:
        found = columns
    elif query.width == len(columns):
        found = list(range(query.width))
    else:
        raise CommandError(
            f"{query.path} must have {len(columns)} columns, as chosen from {train.path}, or {train.width} "
            f"laid out like it; got {query.width}"
        )
    _require_numbers(query, found)
    return found


def _require_numbers(table: Table, columns: list[int]) -> None:
    texts = table.text_columns()
    for index in columns:
        if index in texts:
            raise CommandError(
                f"{table.path}: {table.column(index)} holds no numbers ({texts[index]}); "
                "choose the columns to compute on with --columns"
            )
