"""Columns of categories, of a frame or of rows of objects: their levels, and codes in place of labels."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np

from cukde.core import words
from cukde.core.frames.libraries import Found, library_of
from cukde.core.frames.numbers import Numbers, lacking

KINDS = ("number", "categorical", "ordered")
_NAMED = 12  # levels that a message lists
_MOST = 1_000  # levels of a column, each about a column of the sums


class Levels(NamedTuple):
    """The levels of a column of categories, in the order of their codes 0, 1, 2, ..."""

    values: tuple[Any, ...]
    ordered: bool
    is_category: bool = False  # of a frame's dtype that has the levels itself

    def codes(self, argument: str, values: Sequence[Any] | np.ndarray, column: str = "it") -> np.ndarray:
        """Return the codes of labels; -1 of missing ones."""
        positions = {value: code for code, value in enumerate(self.values)}
        objects = np.empty(len(values), object)
        objects[:] = list(values)
        found = np.array([positions.get(each, -2) if isinstance(each, Hashable) else -2 for each in objects], np.int64)
        found[lacking(objects)] = -1
        if (unknown := np.flatnonzero(found == -2)).size:
            row = int(unknown[0])
            raise ValueError(
                f"{argument} must have categories of X; {column} has {objects[row]!r} in row {row}, and in X "
                f"{listed(self.values)}"
            )
        return found


Kinds = tuple[Levels | None, ...]
"""Levels of each column; None of one of numbers."""


def listed(values: Sequence[Any]) -> str:
    """Levels in a message."""
    more = f" and {len(values) - _NAMED} more" if len(values) > _NAMED else ""
    return ", ".join(map(repr, values[:_NAMED])) + more


def words_of(kinds: Any, d: int) -> list[Any]:
    """Check the kinds of ``d`` columns, words or None for that of the dtype; a single one is for one column."""
    if isinstance(kinds, (str, Levels)):
        kinds = [kinds]
    if not isinstance(kinds, list | tuple) or len(kinds) != d:
        raise ValueError(
            f"kinds must be a mapping, or a sequence of {d}, one for each column of X: {_choices()} or None; got "
            f"{kinds!r}"
        )
    for each in kinds:
        if not (each is None or isinstance(each, Levels) or (isinstance(each, str) and each in KINDS)):
            raise ValueError(f"kinds must be {_choices()} or None; got {each!r}{words.meant(each, KINDS)}")
    return list(kinds)


def _choices() -> str:
    return ", ".join(map(repr, KINDS))


def levels(argument: str, values: Sequence[Any], kind: str, column: str) -> Levels:
    """Return the levels of values of which each is there once, and which may be sorted."""
    if len(values) > _MOST:
        raise ValueError(
            f"{argument} must have at most {_MOST:,} categories in a column; {column} has {len(values):,}: leave it "
            "out, or join rare ones"
        )
    try:
        ordered = sorted(values)
    except TypeError:  # of several types, whose order does not matter
        ordered = sorted(values, key=lambda each: (type(each).__name__, str(each)))
    if kind == "ordered" and any(isinstance(each, str) for each in values):
        raise ValueError(
            f"kinds must be 'categorical' for text, which has no order; {column} of {argument} has {listed(ordered)}: "
            "give its categories an order, by pandas.CategoricalDtype(levels, ordered=True) or an Enum of polars"
        )
    return Levels(tuple(ordered), kind == "ordered")


def _of_column(argument: str, found: Found, kind: str, column: str) -> Levels:
    """Levels of a column that a library has taken apart."""
    if found.ordered is None:
        return levels(argument, found.values, kind, column)
    if kind == "ordered" and not found.ordered:
        raise ValueError(
            f"kinds must be 'categorical' for categories that have no order; {column} of {argument} has "
            f"{listed(found.values)}: give them one, by cat.set_categories(..., ordered=True) of pandas or an Enum of "
            "polars"
        )
    return Levels(tuple(found.values), kind == "ordered", True)


def of_frame(X: Any, kinds: Any, argument: str = "X") -> Kinds | None:
    """Return the levels of the columns of a frame or a series, by their dtypes or by words; None where it has none.

    Booleans are categories beside such a column, and numbers else.
    """
    library = library_of(X)
    assert library is not None
    labels, columns = library.labels(X), library.columns(X)
    asked = [None] * len(columns) if kinds is None else words_of(kinds, len(columns))
    found = [library.kind(column) if each is None else each for column, each in zip(columns, asked, strict=True)]
    if not any(each in KINDS[1:] for each in found):
        return None
    out: list[Levels | None] = []
    for k, (column, kind) in enumerate(zip(columns, found, strict=True)):
        if kind in (None, "number"):
            out.append(None)
            continue
        parts = library.categories(column)
        name = "it" if labels is None else f"its column {labels[k]!r}"
        if parts is None:
            raise TypeError(
                f"{argument} must have numbers, text or categories; {name} has dtype {library.dtype(column)}"
            )
        out.append(_of_column(argument, parts, "categorical" if kind == "boolean" else str(kind), name))
    return tuple(out)


def coded_column(argument: str, library: Any, column: Any, of: Levels, name: str) -> Numbers:
    """Return the codes of a column of a frame."""
    parts = library.categories(column)
    if parts is None:
        raise TypeError(f"{argument} must have categories like X in {name}; got dtype {library.dtype(column)}")
    present = np.unique(parts.codes[parts.codes >= 0])
    table = np.full(len(parts.values) + 1, -1)  # the last is of missing values
    table[present] = of.codes(argument, [parts.values[k] for k in present], name)
    return _numbers(table[parts.codes])


def coded_rows(argument: str, rows: Any, kinds: Kinds) -> Any:
    """Return rows of labels and numbers, a sequence or an array of objects, with codes in place of labels."""
    table = np.asarray(rows, object)
    table = table[:, None] if table.ndim == 1 else table
    if table.ndim != 2 or table.shape[1] != len(kinds):
        raise ValueError(f"{argument} must have {len(kinds)} columns like X, a frame or rows; got shape {table.shape}")
    out = np.empty(table.shape)
    for k, of in enumerate(kinds):
        column = table[:, k]
        try:
            out[:, k] = _with_nan(column).astype(np.float64) if of is None else _coded(argument, of, column, k)
        except (TypeError, ValueError) as error:
            if of is not None:
                raise
            raise TypeError(f"{argument} must have numbers in column {k} like X: {error}") from None
    return out


def _coded(argument: str, of: Levels, column: np.ndarray, k: int) -> np.ndarray:
    codes = of.codes(argument, column, f"its column {k}").astype(np.float64)
    codes[codes < 0] = np.nan
    return codes


def _with_nan(column: np.ndarray) -> np.ndarray:
    return np.where(lacking(column), np.nan, column)


def _numbers(codes: np.ndarray) -> Numbers:
    """Codes beside floats of any precision, which they do not promote."""
    if (codes < 0).any():
        return Numbers(np.where(codes < 0, np.nan, codes).astype(np.float32))
    return Numbers(codes.astype(np.int16))


def labels_of_codes(of: Levels, codes: np.ndarray) -> np.ndarray:
    """Return labels in place of codes: numbers and booleans as such, all else as objects."""
    objects = np.empty(len(of.values), object)
    objects[:] = of.values
    plain = np.array(of.values)
    return (plain if plain.dtype.kind in "fiub" else objects)[codes.astype(np.int64)]
