"""Tables and arrays of Arrow."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

import numpy as np

from cukde.core.frames.libraries import Library
from cukde.core.frames.numbers import Numbers, of_objects


class Frames(Library):
    """A table has a schema; arrays have none, and no names."""

    def labels(self, a: Any) -> tuple[Any, ...] | None:
        return tuple(a.schema.names) if hasattr(a, "schema") else None

    def columns(self, a: Any) -> list[Any]:
        return list(a.columns) if hasattr(a, "schema") else [a]

    def chosen(self, a: Any, places: list[int]) -> Any:
        return a.select(places)

    def dtype(self, column: Any) -> Any:
        return column.type

    def numbers(self, column: Any, by_order: bool) -> Numbers | None:
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

    def is_category(self, column: Any) -> bool:
        return bool(sys.modules["pyarrow"].types.is_dictionary(column.type))

    def objects(self, column: Any) -> list[Any]:
        return list(column.to_pylist())

    def name(self, a: Any) -> None:
        return None

    def series(self, values: Any, name: str | None, like: Any) -> Any:
        return sys.modules["pyarrow"].array(np.asarray(values))

    def table(self, values: Any, labels: Iterable[Any], like: Any, rows: Iterable[Any] | None = None) -> Any:
        columns = [np.ascontiguousarray(column) for column in np.asarray(values).T]
        return sys.modules["pyarrow"].table(columns, names=[str(label) for label in labels])
