"""Tables and arrays of Arrow."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

import numpy as np


def labels(a: Any) -> tuple[Any, ...] | None:
    """Names of the columns of a table; None of an array."""
    return tuple(a.schema.names) if hasattr(a, "schema") else None


def rows(a: Any) -> None:
    """Return None: rows have no names."""
    return None


def columns(a: Any) -> list[Any]:
    """The columns of a table, or the array itself."""
    return list(a.columns) if hasattr(a, "schema") else [a]


def chosen(a: Any, places: list[int]) -> Any:
    """The table of the columns at these positions."""
    return a.select(places)


def dtype(column: Any) -> Any:
    """The type as Arrow prints it."""
    return column.type


def numbers(column: Any) -> np.ndarray | None:
    """Return a column as an array, NaN where a value is missing; None if it holds anything but real numbers."""
    types, kind = sys.modules["pyarrow"].types, column.type
    if not (types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)):
        return None
    if column.null_count and not types.is_floating(kind):
        column = column.cast("float64")
    zero_copy = {} if hasattr(column, "chunks") else {"zero_copy_only": False}  # of arrays that are not in chunks
    out: np.ndarray = column.to_numpy(**zero_copy)
    return out


def whole(a: Any) -> None:
    """Return None: Arrow stores columns one by one."""
    return None


def name(a: Any) -> None:
    """Return None: arrays have no names."""
    return None


def row_label(a: Any, row: int) -> None:
    """Return None: rows have no labels."""
    return None


def same_rows(a: Any, b: Any) -> bool:
    """Return True: rows have positions alone."""
    return True


def series(values: Any, name: str | None, like: Any) -> Any:
    """Return an array."""
    return sys.modules["pyarrow"].array(np.asarray(values))


def table(values: Any, labels: Iterable[Any], like: Any, rows: Iterable[Any] | None = None) -> Any:
    """Return a table with columns of these names; rows have none."""
    columns = [np.ascontiguousarray(column) for column in np.asarray(values).T]
    return sys.modules["pyarrow"].table(columns, names=[str(label) for label in labels])
