"""What results come back as: arrays, or series and frames with the rows of an argument and the names of columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from cukde.core import dispatch
from cukde.core.entry import namespaces
from cukde.core.entry.given import Given, is_true
from cukde.core.frames.columns import labels_of
from cukde.core.frames.libraries import library_of, named as library_named

Returned = Callable[[Given, Any], Any]


def rows(argument: str, name: str) -> Returned:
    """A number, or a row, for each row of an argument: a series of this name, or a frame with the data's columns."""

    def returned(given: Given, result: Any) -> Any:
        of_logarithm = is_true(given.arguments.get("log", False))
        return as_rows(given, result, argument, f"log_{name}" if of_logarithm else name)

    return returned


def each_rows(argument: str, *names: str) -> Returned:
    """Several results of that kind."""

    def returned(given: Given, results: Any) -> Any:
        return tuple(as_rows(given, result, argument, name) for result, name in zip(results, names, strict=True))

    return returned


def as_rows(given: Given, result: Any, argument: str, name: str, columns: Sequence[Any] | None = None) -> Any:
    """Return a result that has a number, or a row, for each row of an argument, as that argument came.

    ``columns`` are the names of its columns, where they are not those of the data.
    """
    like = _rows_given(given, argument)
    return _made(given, given.of_all_rows(result, argument), like, like, name, columns)


def with_columns(given: Given, result: Any) -> Any:
    """Return a bandwidth with what the columns of the data are called, and with arrays of their library."""
    out = as_arrays(given, result)
    out.columns = given.labels
    return out


def as_new_rows(given: Given, result: Any, argument: str, name: str, columns: Sequence[Any] | None = None) -> Any:
    """Return a result whose rows are its own as a series or a frame where an argument is one, or else an array.

    ``columns`` are the names of its columns, where they are not those of the data.
    """
    return _made(given, result, _rows_given(given, argument), None, name, columns)


def as_matrices(given: Given, results: Any, A: Any, B: Any) -> Any:
    """Return matrices with a row for each column of A and a column for each of B as frames where either is one."""
    library = _library(given, A) or _library(given, B)
    if library is None:
        return as_arrays(given, results)

    def made(matrix: Any) -> Any:
        rows, columns = (labels_of(a) or range(size) for a, size in zip((A, B), matrix.shape, strict=True))
        return library.table(dispatch.to_host(matrix), columns, None, rows)

    return namespaces.each_array(results, made)


def as_arrays(given: Given, result: Any, like: Any = None) -> Any:
    """Bring the arrays of a result to the library of the queries, or of the data."""
    of_data = (given.given.get(name) for name in ("X", "x", "A"))
    if given.forced is None and (a := next(filter(namespaces.is_foreign, (like, *of_data)), None)) is not None:
        return namespaces.mapped(result, a)
    return result


def _made(given: Given, result: Any, like: Any, index: Any, name: str, columns: Sequence[Any] | None) -> Any:
    """Return a result as the library of ``like`` has it, with the rows of ``index``."""
    library = _library(given, like)
    if library is None or result.ndim not in (1, 2):
        return as_arrays(given, result, like)
    result = result if library.on_device else dispatch.to_host(result)
    index = index if library_of(index) is library else None
    if result.ndim == 1:
        return library.series(result, name, index)
    columns = columns or given.labels or labels_of(like)
    if columns is None or len(columns) != result.shape[1]:
        columns = [f"x{k}" for k in range(result.shape[1])]
    return library.table(result, columns, index)


def _library(given: Given, like: Any) -> Any:
    """The library of the frame or the series that a result comes back as; None for an array."""
    if given.forced in ("pandas", "polars"):
        return library_named(given.forced)
    return None if given.forced == "array" else library_of(like)


def _rows_given(given: Given, argument: str) -> Any:
    a = given.given.get(argument)
    return given.given.get("X") if a is None else a
