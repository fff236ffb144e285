"""The columns of files on which a command computes."""

from __future__ import annotations

import contextlib
import csv
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn, Protocol

import numpy as np

from cukde.cli.errors import CommandError, note

FILL = "fill or drop that row, or write --nan-policy omit"
"""What to do about a missing number."""

EXACT = 2**53  # up to here every whole number is a float


class Table(Protocol):
    """A file of any format, as commands use it."""

    path: Path
    names: list[str] | None  # of the columns, where the file has a header
    width: int  # number of columns
    aside: dict[int, str]  # columns that hold no data unless they are asked for, and what they hold instead

    def column(self, index: int) -> str:
        """Return the name of a column for messages."""

    def text_columns(self) -> dict[int, str]:
        """Return the columns without numbers, each with an example of its contents."""

    def read(self, columns: Sequence[int], *, finite: bool = True) -> np.ndarray:
        """Return the numbers of some columns, (rows, len(columns)), all finite; otherwise NaN where one is missing.

        Whole numbers are exact or refused.
        """

    def cells(self) -> Iterator[list[str]]:
        """Yield each row as the text of its cells, all columns."""

    def arrow(self, names: list[str]) -> Any:
        """Return the whole table as pyarrow's, with columns of these names."""


def chosen(table: Table, spec: str | None, weights: int | None, index: str | None = None) -> list[int]:
    """Return the columns named in ``spec``, or every column of data but the weights, where all hold numbers.

    ``index`` names the column that holds row labels, or "none".
    """
    if index is not None:
        table.aside = {} if index == "none" else {find(table, index): "row labels"}
    if spec is None:
        columns = [k for k in range(table.width) if k != weights and k not in table.aside]
        for k, holds in table.aside.items():
            note(f"{table.path}: {table.column(k)} was taken as {holds} and left out (--index none to keep it)")
    else:
        columns = [find(table, name) for name in next(csv.reader([spec], skipinitialspace=True), [])]
    if len(set(columns)) < len(columns):
        raise CommandError(f"--columns names a column twice: {spec}")
    if not columns:
        raise CommandError(f"no columns to compute on: {table.path} has none beside the weights, or --columns is empty")
    _require_numbers(table, columns)
    return columns


def find(table: Table, name: str) -> int:
    """Return the position of a column given by name, or by 0-based index where no name is a number."""
    position = int(name) if name.isdecimal() and int(name) < table.width else None
    if table.names is None:
        if position is None:
            columns = f"columns 0 to {table.width - 1}"
            raise CommandError(f"{table.path} has no header and {columns}; choose by index; got {name!r}")
        return position
    if table.names.count(name) == 1:
        return table.names.index(name)
    if position is not None and not any(map(str.isdecimal, table.names)):
        return position
    problem = "several columns" if name in table.names else "no column"
    raise CommandError(f"{table.path} has {problem} {name!r}; its columns are {', '.join(table.names)}")


def matching(query: Table, train: Table, columns: list[int]) -> list[int]:
    """Return the query file's columns that correspond to the training file's ``columns``.

    They correspond by name if both files have a header. Otherwise the query file has the columns of the training file,
    or only the chosen ones, in the same order.
    """
    if query.names is not None and train.names is not None:
        positions = [find(query, train.names[index]) for index in columns]
    elif query.width == train.width:
        positions = columns
    elif query.width - len(query.aside) == len(columns):
        positions = [k for k in range(query.width) if k not in query.aside]
    else:
        raise CommandError(
            f"{query.path} must have {len(columns)} columns, as chosen from {train.path}, or {train.width} "
            f"laid out like it; got {query.width}"
        )
    _require_numbers(query, positions)
    return positions


def refuse_missing(table: Table, row: int, index: int, got: object) -> NoReturn:
    """Raise for a number that is not finite, or missing."""
    advice = "fill or drop that row" if got in (np.inf, -np.inf) else FILL
    raise CommandError(
        f"{table.path}, row {row} (from 0), {table.column(index)}: expected a finite number; got {got}: {advice}"
    )


def together(path: Path, arrays: list[np.ndarray], columns: list[str]) -> np.ndarray:
    """Put columns side by side in their common dtype; refuse one whose whole numbers it cannot hold."""
    if any(a.dtype.kind in "iu" and abs(a.astype(np.float64)).max(initial=0) >= EXACT for a in arrays):
        for dtype in (np.int64, np.uint64):
            if all(_fits(a, dtype) for a in arrays):
                return np.stack([a.astype(dtype) for a in arrays], axis=1)
    out = np.stack(arrays, axis=1)
    for k, (values, column) in enumerate(zip(arrays, columns, strict=True)):
        if values.dtype.kind in "iu" and out.dtype.kind == "f" and abs(out[:, k]).max(initial=0) >= EXACT:
            exact(path, column, values.tolist(), out[:, k], alone=False)
    return out


def _fits(values: np.ndarray, dtype: type) -> bool:
    """Whether an integer type holds all values exactly."""
    if values.dtype.kind == "f" and not ((values == np.rint(values)) & (abs(values) < EXACT)).all():
        return False
    limits = np.iinfo(dtype)
    return bool(limits.min <= int(values.min(initial=0)) and int(values.max(initial=0)) <= limits.max)


def exact(path: Path, column: str, whole: list[int | None], values: np.ndarray, *, alone: bool = True) -> np.ndarray:
    """Return floating-point values, or as integers the whole numbers that they round, if that is possible.

    Not whole is None; columns that are not ``alone`` stay what they are.
    """
    rounded = (n for n, value in zip(whole, values.tolist(), strict=True) if n is not None and n != value)
    first = next(rounded, None)
    if first is None:
        return values
    if alone and None not in whole:
        for dtype in (np.int64, np.uint64):
            with contextlib.suppress(OverflowError):
                return np.array(whole, dtype)
    raise CommandError(
        f"{path}, {column}: {first} would be rounded; whole numbers beyond 2**53 are exact up to 64 bits, where all "
        "chosen columns hold whole numbers and none is missing: choose such with --columns, or subtract a number from "
        "the column"
    )


def _require_numbers(table: Table, columns: list[int]) -> None:
    texts = table.text_columns()
    for index in columns:
        if index in texts:
            raise CommandError(
                f"{table.path}: {table.column(index)} holds no numbers ({texts[index]}); "
                "choose the columns to compute on with --columns"
            )
