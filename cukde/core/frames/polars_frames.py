"""Frames and series of polars, whose columns have names of text and whose rows have none."""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from typing import Any

import numpy as np


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


def numbers(column: Any) -> np.ndarray | None:
    """Return a column as an array, NaN where a value is missing; None if it holds anything but real numbers."""
    polars, kind = _polars(), column.dtype
    if not (kind.is_integer() or kind.is_float() or kind == polars.Boolean):
        return None
    if column.null_count():
        column = column.cast(kind if kind.is_float() else polars.Float64)
    out: np.ndarray = column.to_numpy()
    return out if out.dtype.kind in "fiub" and out.dtype.itemsize <= 8 else None  # not integers of 128 bits


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
