"""Tables and arrays of Arrow."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

import numpy as np

from cukde.core.frames.numbers import Numbers, of_objects


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


def numbers(column: Any, by_order: bool) -> Numbers | None:
    """Return the numbers of a column, or ``by_order`` of ordered categories; None if it holds anything else."""
    arrow = sys.modules["pyarrow"]
    types, kind = arrow.types, column.type
    if types.is_null(kind) or types.is_decimal(kind):
        return of_objects(np.array(column.to_pylist(), object), by_order)
    missing = column.is_null() if column.null_count else None
    if by_order and types.is_dictionary(kind) and kind.ordered:
        whole = arrow.chunked_array([column] if isinstance(column, arrow.Array) else column.chunks, kind)
        column = whole.unify_dictionaries().combine_chunks().indices
    elif not (types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)):
        return None
    if missing is not None:
        column = column.fill_null(arrow.scalar(0).cast(column.type))
    zero_copy = {} if hasattr(column, "chunks") else {"zero_copy_only": False}  # of arrays that are not in chunks
    return Numbers(column.to_numpy(**zero_copy), None if missing is None else np.asarray(missing))


def is_category(column: Any) -> bool:
    """Whether a column is of categories, ordered or not."""
    return bool(sys.modules["pyarrow"].types.is_dictionary(column.type))


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
