"""A frame or a series as an array, and what columns are called."""

from __future__ import annotations

from typing import Any

import numpy as np

from cukde.core.frames.libraries import library_of


def taken(argument: str, a: Any) -> Any:
    """Return a frame or a series as an array of numbers, (n, d) or (n,), NaN where values are missing.

    Columns of different dtypes are promoted as NumPy promotes them: booleans beside floats are floats.
    """
    library = library_of(a)
    assert library is not None
    out = library.whole(a)
    if out is not None:
        return out
    labels = library.labels(a)
    arrays = []
    for k, column in enumerate(library.columns(a)):
        array = library.numbers(column)
        if array is None:
            raise TypeError(_not_numbers(argument, None if labels is None else labels[k], library.dtype(column)))
        arrays.append(array)
    if labels is None:
        return arrays[0]
    if not arrays:
        return np.empty((a.shape[0], 0))
    dtype = np.result_type(*(each.dtype for each in arrays))
    out = type(arrays[0])((len(arrays[0]), len(arrays)), dtype)  # of CuPy for a frame on the GPU
    for k, each in enumerate(arrays):
        out[:, k] = each
    return out


def labels_of(a: Any) -> tuple[Any, ...] | None:
    """What the columns of a data frame of any library are called; None of what has no such names."""
    library = library_of(a)
    if library is not None:
        return library.labels(a)
    columns, dimensions = getattr(a, "columns", None), getattr(a, "ndim", 2)
    # A series of Dask has its name there, and a delayed object whatever it is asked for.
    if columns is None or not isinstance(dimensions, int) or dimensions != 2:
        return None
    try:
        return tuple(columns)
    except TypeError:
        return tuple(columns.to_pandas()) if hasattr(columns, "to_pandas") else None


def _not_numbers(argument: str, label: Any, dtype: Any) -> str:
    where = "it has" if label is None else f"its column {label!r} has"
    return (
        f"{argument} must hold real numbers (floating-point numbers of up to 8 bytes, integers or booleans); "
        f"{where} dtype {dtype}: convert {'it' if label is None else 'the column'} to numbers"
        + ("" if label is None else ", or leave it out")
    )
