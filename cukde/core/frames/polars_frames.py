"""Frames and series of polars, whose columns have names of text and whose rows have none."""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from typing import Any

import numpy as np

from cukde.core.frames.libraries import Library
from cukde.core.frames.numbers import Numbers, of_objects


class Frames(Library):
    """A frame has columns, a series none."""

    library = "polars"

    def labels(self, a: Any) -> tuple[Any, ...] | None:
        return tuple(a.columns) if hasattr(a, "columns") else None

    def columns(self, a: Any) -> list[Any]:
        return a.get_columns() if hasattr(a, "columns") else [a]

    def numbers(self, column: Any, by_order: bool) -> Numbers | None:
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

    def is_category(self, column: Any) -> bool:
        polars = _polars()
        return column.dtype in (polars.Enum, polars.Categorical)

    def kind(self, column: Any) -> str | None:
        polars, kind = _polars(), column.dtype
        if kind in (polars.String, polars.Categorical):
            return "categorical"
        return "ordered" if kind == polars.Enum else "boolean" if kind == polars.Boolean else None

    def levels(self, column: Any) -> tuple[list[Any], bool] | None:
        return (column.dtype.categories.to_list(), True) if column.dtype == _polars().Enum else None

    def of_categories(self, labels: list[Any], levels: list[Any], ordered: bool) -> Any:
        return _polars().Series(labels, dtype=_polars().Enum(levels))

    def series(self, values: Any, name: str | None, like: Any) -> Any:
        return _polars().Series(name or "", np.asarray(values))

    def table(self, values: Any, labels: Iterable[Any], like: Any, rows: Iterable[Any] | None = None) -> Any:
        return _polars().DataFrame({str(label): values[:, k] for k, label in enumerate(labels)})


def _polars() -> Any:
    return importlib.import_module("polars")
