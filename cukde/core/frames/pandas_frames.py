"""Frames and series of pandas, with columns of NumPy's dtypes, nullable, Arrow-backed and sparse ones."""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from decimal import Decimal
from typing import Any

import numpy as np

from cukde.core.frames.numbers import Numbers, of_objects


def labels(a: Any) -> tuple[Any, ...] | None:
    """Names of the columns of a frame; None of a series."""
    return tuple(a.columns) if a.ndim == 2 else None


def rows(a: Any) -> tuple[Any, ...]:
    """Names of the rows of a frame or a series of few."""
    return tuple(a.index)


def columns(a: Any) -> list[Any]:
    """The columns of a frame, or the series itself; by position, as names may be there twice."""
    return [a.iloc[:, k] for k in range(a.shape[1])] if a.ndim == 2 else [a]


def chosen(a: Any, places: list[int]) -> Any:
    """The frame of the columns at these positions."""
    return a.iloc[:, places]


def dtype(column: Any) -> Any:
    """The dtype as pandas prints it."""
    return column.dtype


def is_numeric(kind: Any) -> bool:
    """Whether a dtype is of real numbers that the backends take, whichever way pandas stores them."""
    plain = _plain(kind)
    return plain is not None and plain.kind in "fiub" and plain.itemsize <= 8


def numbers(column: Any, by_order: bool) -> Numbers | None:
    """Return the numbers of a column, or ``by_order`` of ordered categories; None if it holds anything else."""
    kind = column.dtype
    if by_order and is_category(column) and kind.ordered:
        codes = column.array.codes
        return Numbers(codes, codes < 0)
    if getattr(kind, "type", None) in (np.object_, Decimal):
        return of_objects(column.to_numpy(dtype=object), by_order)
    if not is_numeric(kind):
        return None
    if isinstance(kind, np.dtype):
        return Numbers(column.to_numpy())
    plain, missing = _plain(kind), column.isna().to_numpy()
    if not missing.any():
        return Numbers(column.to_numpy(dtype=plain))
    return Numbers(column.to_numpy(dtype=plain, na_value=0), missing)


def is_category(column: Any) -> bool:
    """Whether a column is of categories, ordered or not."""
    return isinstance(column.dtype, _pandas().CategoricalDtype)


def whole(a: Any) -> np.ndarray | None:
    """Return a frame as an array at once where all columns are of one plain dtype, else None."""
    if a.ndim == 1:
        return None
    kinds = set(a.dtypes)
    if len(kinds) == 1 and isinstance(kind := kinds.pop(), np.dtype) and is_numeric(kind):
        out: np.ndarray = a.to_numpy()
        return out
    return None


def name(a: Any) -> Any:
    """The name of a series."""
    return a.name


def row_label(a: Any, row: int) -> Any:
    """The label of a row."""
    return a.index[row]


def same_rows(a: Any, b: Any) -> bool:
    """Whether nothing says that rows at the same position are different ones."""
    return a.index is b.index or bool(a.index.equals(b.index)) or not contradict(a.index, b.index)


def contradict(a: Any, b: Any) -> bool:
    """Whether different labels say so: of two of which one is 0, 1, 2, ..., only if the other has the same, moved."""
    if len(a) != len(b):
        return False  # another error
    if a.inferred_type != b.inferred_type and not a.isin(b).any():
        return False  # such as numbers that a split has taken from 0, 1, 2, ... beside text
    is_numbered = any(index.equals(_pandas().RangeIndex(len(index))) for index in (a, b))
    return not is_numbered or bool(a.isin(b).all())


def series(values: Any, name: str | None, like: Any) -> Any:
    """Return a series with the rows of a frame or a series, or of new ones where ``like`` is None."""
    return _pandas().Series(values, index=_index(like), name=name)


def table(values: Any, labels: Iterable[Any], like: Any, rows: Iterable[Any] | None = None) -> Any:
    """Return a frame with columns of these names, and the rows of ``like``, or of the names ``rows``."""
    index = _index(like) if rows is None else list(rows)
    return _pandas().DataFrame(values, index=index, columns=list(labels))


def _plain(kind: Any) -> np.dtype | None:
    """NumPy's dtype of the values, None where there is none."""
    if isinstance(kind, np.dtype):
        return kind
    plain = kind.subtype if isinstance(kind, _pandas().SparseDtype) else getattr(kind, "numpy_dtype", None)
    return plain if isinstance(plain, np.dtype) else None


def _index(like: Any) -> Any:
    return getattr(like, "index", None)


def _pandas() -> Any:
    return importlib.import_module("pandas")
