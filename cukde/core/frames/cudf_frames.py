"""Frames and series of cuDF: their columns are arrays on the GPU."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

import numpy as np

from cukde.core.frames.pandas_frames import contradict


def labels(a: Any) -> tuple[Any, ...] | None:
    """Names of the columns of a frame; None of a series."""
    # cuDF's indexes do not let anyone go through them.
    return tuple(a.columns.to_pandas()) if a.ndim == 2 else None


def rows(a: Any) -> tuple[Any, ...]:
    """Names of the rows of a frame or a series of few."""
    return tuple(a.index.to_pandas())


def columns(a: Any) -> list[Any]:
    """The columns of a frame, or the series itself."""
    return [a.iloc[:, k] for k in range(a.shape[1])] if a.ndim == 2 else [a]


def chosen(a: Any, places: list[int]) -> Any:
    """The frame of the columns at these positions."""
    return a.iloc[:, places]


def dtype(column: Any) -> Any:
    """The dtype as cuDF prints it."""
    return column.dtype


def numbers(column: Any) -> Any | None:
    """Return a column as an array, NaN where a value is missing; None if it holds anything but real numbers."""
    kind = column.dtype
    if not isinstance(kind, np.dtype) or kind.kind not in "fiub":
        return None
    if not column.has_nulls:
        return column.to_cupy()
    out = column.fillna(0).to_cupy().astype(kind if kind.kind == "f" else np.float64)
    out[column.isna().to_cupy()] = np.nan
    return out


def whole(a: Any) -> Any | None:
    """Return None: columns are taken one by one, of which each may have missing values."""
    return None


def name(a: Any) -> Any:
    """The name of a series."""
    return a.name


def row_label(a: Any, row: int) -> Any:
    """The label of a row."""
    return a.index.to_pandas()[row]


def same_rows(a: Any, b: Any) -> bool:
    """Whether nothing says that rows at the same position are different ones."""
    if a.index is b.index or bool(a.index.equals(b.index)):
        return True
    return not contradict(a.index.to_pandas(), b.index.to_pandas())


def series(values: Any, name: str | None, like: Any) -> Any:
    """Return a series with the rows of a frame or a series."""
    return sys.modules["cudf"].Series(values, index=getattr(like, "index", None), name=name)


def table(values: Any, labels: Iterable[Any], like: Any, rows: Iterable[Any] | None = None) -> Any:
    """Return a frame with columns of these names, and the rows of ``like``, or of the names ``rows``."""
    index = getattr(like, "index", None) if rows is None else list(rows)
    return sys.modules["cudf"].DataFrame(values, index=index, columns=list(labels))
