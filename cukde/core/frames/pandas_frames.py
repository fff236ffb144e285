"""Frames and series of pandas, with columns of NumPy's dtypes, nullable, Arrow-backed and sparse ones."""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from decimal import Decimal
from typing import Any

import numpy as np

from cukde.core.frames.libraries import Library
from cukde.core.frames.numbers import Numbers, of_objects


class Frames(Library):
    """Columns are taken by position, as names may be there twice."""

    library = "pandas"

    def labels(self, a: Any) -> tuple[Any, ...] | None:
        return tuple(self.host(a.columns)) if a.ndim == 2 else None

    def rows(self, a: Any) -> tuple[Any, ...]:
        return tuple(self.host(a.index))

    def columns(self, a: Any) -> list[Any]:
        return [a.iloc[:, k] for k in range(a.shape[1])] if a.ndim == 2 else [a]

    def chosen(self, a: Any, places: list[int]) -> Any:
        return a.iloc[:, places]

    def numbers(self, column: Any, by_order: bool) -> Numbers | None:
        kind = column.dtype
        if by_order and self.is_category(column) and kind.ordered:
            codes = column.array.codes
            return Numbers(codes, codes < 0)
        if getattr(kind, "type", None) in (np.object_, Decimal):
            return of_objects(column.to_numpy(dtype=object), by_order)
        if not _is_numeric(kind):
            return None
        if isinstance(kind, np.dtype):
            return Numbers(column.to_numpy())
        plain, missing = _plain(kind), column.isna().to_numpy()
        if not missing.any():
            return Numbers(column.to_numpy(dtype=plain))
        return Numbers(column.to_numpy(dtype=plain, na_value=0), missing)

    def is_category(self, column: Any) -> bool:
        return isinstance(column.dtype, _pandas().CategoricalDtype)

    def kind(self, column: Any) -> str | None:
        if self.is_category(column):
            return "ordered" if column.dtype.ordered else "categorical"
        if _is_numeric(column.dtype):
            return "boolean" if _plain(column.dtype).kind == "b" else None  # type: ignore[union-attr]
        found = _pandas().api.types.infer_dtype(column, skipna=True)
        return {"string": "categorical", "boolean": "boolean"}.get(found)

    def levels(self, column: Any) -> tuple[list[Any], bool] | None:
        return (list(column.cat.categories), bool(column.dtype.ordered)) if self.is_category(column) else None

    def of_categories(self, labels: list[Any], levels: list[Any], ordered: bool) -> Any:
        return _pandas().Categorical(labels, levels, ordered=ordered)

    def whole(self, a: Any) -> Any | None:
        if a.ndim == 1:
            return None
        kinds = set(a.dtypes)
        if len(kinds) == 1 and isinstance(kind := kinds.pop(), np.dtype) and _is_numeric(kind):
            return a.to_numpy()
        return None

    def row_label(self, a: Any, row: int) -> Any:
        return self.host(a.index)[row]

    def same_rows(self, a: Any, b: Any) -> bool:
        if a.index is b.index or bool(a.index.equals(b.index)):
            return True
        return not _contradict(self.host(a.index), self.host(b.index))

    def series(self, values: Any, name: str | None, like: Any) -> Any:
        return importlib.import_module(self.library).Series(values, index=getattr(like, "index", None), name=name)

    def table(self, values: Any, labels: Iterable[Any], like: Any, rows: Iterable[Any] | None = None) -> Any:
        index = getattr(like, "index", None) if rows is None else list(rows)
        return importlib.import_module(self.library).DataFrame(values, index=index, columns=list(labels))

    def host(self, index: Any) -> Any:
        """Return an index that can be gone through."""
        return index


def _is_numeric(kind: Any) -> bool:
    """Whether a dtype is of real numbers that the backends take, whichever way pandas stores them."""
    plain = _plain(kind)
    return plain is not None and plain.kind in "fiub" and plain.itemsize <= 8


def _contradict(a: Any, b: Any) -> bool:
    """Whether different labels say so: of two of which one is 0, 1, 2, ..., only if the other has the same, moved."""
    if len(a) != len(b):
        return False  # another error
    if a.inferred_type != b.inferred_type and not a.isin(b).any():
        return False  # such as numbers that a split has taken from 0, 1, 2, ... beside text
    is_numbered = any(index.equals(_pandas().RangeIndex(len(index))) for index in (a, b))
    return not is_numbered or bool(a.isin(b).all())


def _plain(kind: Any) -> np.dtype | None:
    """NumPy's dtype of the values, None where there is none."""
    if isinstance(kind, np.dtype):
        return kind
    plain = kind.subtype if isinstance(kind, _pandas().SparseDtype) else getattr(kind, "numpy_dtype", None)
    return plain if isinstance(plain, np.dtype) else None


def _pandas() -> Any:
    return importlib.import_module("pandas")
