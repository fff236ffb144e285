"""A frame or a series as an array, and what columns are called."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from cukde.core.frames.categories import Levels
from cukde.core.frames.libraries import Library, library_of
from cukde.core.frames.numbers import Numbers, together
from cukde.core.frames.unread import call


def taken(argument: str, a: Any, *, by_order: bool = False, kinds: Sequence[Levels | None] | None = None) -> Any:
    """Return a frame or a series as an array of numbers, (n, d) or (n,), NaN where values are missing.

    Columns of different dtypes are promoted as NumPy promotes them: booleans beside floats are floats. With
    ``by_order`` categories that have an order are numbers, too, and the array may be of ranks, see
    :func:`cukde.core.frames.numbers.together`. ``kinds`` are levels of columns of categories, which become codes, and
    None of others.
    """
    library = library_of(a)
    assert library is not None
    out = library.whole(a) if kinds is None else None
    if out is not None:
        return out
    labels = library.labels(a)
    columns = []
    for k, column in enumerate(library.columns(a)):
        label = None if labels is None else labels[k]
        if kinds is not None and (of := kinds[k]) is not None:
            name = "it" if labels is None else f"its column {label!r}"
            columns.append(Numbers(of.codes(argument, library.objects(column), name)))
            continue
        found = library.numbers(column, by_order)
        if found is None:
            raise TypeError(_not_numbers(argument, label, library, column, by_order))
        columns.append(found)
    if not columns:
        return np.empty((a.shape[0], 0))
    if labels is None and not by_order and columns[0].missing is None and columns[0].values.dtype != object:
        return columns[0].values
    out, rounded = together(columns, by_order=by_order)
    if rounded is not None:
        raise ValueError(not_exact(argument, None if labels is None else labels[rounded]))
    return out[:, 0] if labels is None else out


def is_of_categories(a: Any) -> bool:
    """Whether a frame or a series has a column of categories, which have no order or one of their own."""
    library = library_of(a)
    return library is not None and any(library.is_category(column) for column in library.columns(a))


def not_exact(argument: str, label: Any = None) -> str:
    """The error of integers that would be rounded."""
    where = "it has" if label is None else f"its column {label!r} has"
    return (
        f"{argument} must hold integers that float64 has, as all up to 2**53; {where} others: subtract an origin while "
        "they are integers, such as the smallest, from data, queries and bounds alike, or round them by astype(float)"
    )


def labels_of(a: Any) -> tuple[Any, ...] | None:
    """What the columns of a data frame of any library are called; None of what has no such names."""
    library = library_of(a)
    if library is not None:
        return library.labels(a)
    if call(a) is not None:  # a lazy frame, whose names take work
        return None
    columns, dimensions = getattr(a, "columns", None), getattr(a, "ndim", 2)
    # A series of Dask has its name there, and a delayed object whatever it is asked for.
    if columns is None or not isinstance(dimensions, int) or dimensions != 2:
        return None
    try:
        return tuple(columns)
    except TypeError:
        return tuple(columns.to_pandas()) if hasattr(columns, "to_pandas") else None


def _not_numbers(argument: str, label: Any, library: Library, column: Any, by_order: bool) -> str:
    dtype, is_category, has_levels = library.dtype(column), library.is_category(column), library.kind(column)
    where, it = ("it has", "it") if label is None else (f"its column {label!r} has", "the column")
    if by_order and is_category:
        advice = "give its categories an order, by cat.set_categories(..., ordered=True) of pandas or an Enum of polars"
    else:
        advice = f"convert {it} to numbers"
        if has_levels:
            advice += ", or take kde, conditional or KernelDensity, which have kernels for categories (kinds)"
    if str(dtype).lower().startswith(("datetime", "timedelta", "timestamp", "duration", "date", "time")):
        advice += ", such as seconds since the first"
    return (
        f"{argument} must hold real numbers (floating-point numbers of up to 8 bytes, integers or booleans); "
        f"{where} dtype {dtype}: {advice}" + ("" if label is None else ", or leave it out")
    )
