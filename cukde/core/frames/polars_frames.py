"""Frames and series of polars, whose columns have names of text and whose rows have none."""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from typing import Any

import numpy as np

from cukde.core.frames.numbers import Numbers, of_objects


def labels(a: Any) -> tuple[Any, ...] | None:
    """Names of the columns of a frame; None of a series."""
    return tuple(a.columns) if hasattr(a, "columns") else None


def rows(a: Any) -> None:
    """Return None: rows have no names."""
    return None


def columns(a: Any) -> list[Any]:
    """The columns of a frame, or the series itself."""
    return a.get_columns() if hasattr(a, "columns") else [a]


def chosen(a: Any, places: list[int]) -> Any:
    """The frame of the columns at these positions."""
    return a[:, places]


def dtype(column: Any) -> Any:
    """The dtype as polars prints it."""
    return column.dtype


def numbers(column: Any, by_order: bool) -> Numbers | None:
    """Return the numbers of a column, or ``by_order`` of ordered categories; None if it holds anything else."""
    polars, kind = _polars(), column.dtype
    if kind in (polars.Object, polars.Null) or kind.is_decimal() or "128" in str(kind):
        return of_objects(np.array(column.to_list(), object), by_order)
    if by_order and kind == polars.Enum:
        column = column.to_physical()
    elif not (kind.is_integer() or kind.is_float() or kind == polars.Boolean):
        return None
    missing = column.is_null().to_numpy() if column.null_count() else None
    if missing is not None:
        column = column.fill_null(False if kind == polars.Boolean else 0)
    return Numbers(column.to_numpy(), missing)


def is_category(column: Any) -> bool:
    """Whether a column is of categories, ordered or not."""
    polars = _polars()
    return column.dtype in (polars.Enum, polars.Categorical)


def whole(a: Any) -> None:
    """Return None: polars stores columns one by one."""
    return None


def name(a: Any) -> Any:
    """The name of a series."""
    return a.name


def row_label(a: Any, row: int) -> None:
    """Return None: rows have no labels."""
    return None


def same_rows(a: Any, b: Any) -> bool:
    """Return True: rows have positions alone."""
    return True


def series(values: Any, name: str | None, like: Any) -> Any:
    """Return a series."""
    return _polars().Series(name or "", np.asarray(values))


def table(values: Any, labels: Iterable[Any], like: Any, rows: Iterable[Any] | None = None) -> Any:
    """Return a frame with columns of these names; rows have none."""
    return _polars().DataFrame({str(label): values[:, k] for k, label in enumerate(labels)})


def _polars() -> Any:
    return importlib.import_module("polars")
