"""Missing values: where the first of a frame is, and which rows are left out for them."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import Any

import numpy as np

from cukde.core import check as core_check, dispatch
from cukde.core.entry import check
from cukde.core.frames.libraries import library_of


def refuse(argument: str, given: Any, array: Any, *, may_omit: bool) -> None:
    """Raise for a frame or a series with missing values, NaN in its array; the error names the first."""
    if array.dtype.kind != "f":
        return
    flags = array != array
    if not bool(flags.any()):
        return
    library = library_of(given)
    assert library is not None
    flags = dispatch.to_host(flags)
    labels = library.labels(given)
    if labels is None:
        row, column, count = int(flags.argmax()), "it", int(flags.sum())
    else:
        row = int(flags.any(axis=1).argmax())
        k = int(flags[row].argmax())
        column, count = f"its column {labels[k]!r}", int(flags[:, k].sum())
    check.missing_values(argument, column, count, row, library.row_label(given, row), may_omit=may_omit)


def rows_of(arrays: Sequence[tuple[str, Any]], n: int, xp: Any) -> Any | None:
    """Flag the rows of which any array has a missing value, (n,); None where there are none."""
    flags = None
    for name, array in arrays:
        check.rows_to_omit(name, array.shape)
        if array.dtype.kind != "f" or array.ndim == 0 or len(array) != n:  # another length is an error later
            continue
        bad = xp.isnan(array)
        bad = bad.any(axis=1) if array.ndim == 2 else bad
        flags = bad if flags is None else flags | bad
    return None if flags is None or not bool(flags.any()) else flags


def same_points(X: Any, Y: Any, backend: ModuleType) -> Any | None:
    """Return data of which queries have the same values, NaN among them, in the form of the queries; else None."""
    x, y = (core_check.array(name, a, backend, missing=True) for name, a in (("X", X), ("Y", Y)))
    if x.shape != y.shape and not (x.size == y.size and {x.ndim, y.ndim} == {1, 2} and 1 in (x.shape + y.shape)[1:]):
        return None
    x = x.reshape(y.shape)
    same = (x == y) | ((x != x) & (y != y))
    return x.astype(np.promote_types(x.dtype, y.dtype), copy=False) if bool(same.all()) else None


def filled(result: Any, left_out: Any, backend: ModuleType) -> Any:
    """Bring a result of the rows that were kept to all rows: NaN where one was left out, -1 among integers."""
    missing = -1 if result.dtype.kind == "i" else np.nan
    out = backend.xp.full((len(left_out), *result.shape[1:]), missing, result.dtype)
    out[~left_out] = result
    return out
