"""Columns of categories, of a frame or of rows of objects: their levels, and codes in place of labels."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from cukde.core import words
from cukde.core.frames.libraries import library_of
from cukde.core.frames.numbers import lacking

KINDS = ("number", "categorical", "ordered")
_NAMED = 12  # levels that a message lists
_MOST = 1_000  # levels of a column, each about a column of sums


class Levels(NamedTuple):
    """The levels of a column of categories, in the order of their codes 0, 1, 2, ..."""

    values: tuple[Any, ...]
    ordered: bool
    is_category: bool = False  # of a frame's dtype that has the levels itself

    def codes(self, argument: str, labels: Sequence[Any] | np.ndarray, column: str) -> np.ndarray:
        """Return codes of labels, int16, or float32 with NaN where any is missing, which promote no other column."""
        positions = {value: code for code, value in enumerate(self.values)}
        out = np.fromiter(map(positions.get, labels, itertools.repeat(-1)), np.int16, len(labels))
        if not (others := np.flatnonzero(out < 0)).size:
            return out
        missing = lacking(_objects([labels[int(row)] for row in others]))
        if not missing.all():
            row = int(others[~missing][0])
            raise ValueError(
                f"{argument} must have categories of X; {column} has {labels[row]!r} in row {row}, and in X {self}"
            )
        return np.where(out < 0, np.nan, out).astype(np.float32)

    def labels(self, codes: np.ndarray) -> np.ndarray:
        """Return labels in place of codes: numbers and booleans as such, all else as objects."""
        plain = np.array(self.values)
        return (plain if plain.dtype.kind in "fiub" else _objects(self.values))[codes.astype(np.int64)]

    def __str__(self) -> str:
        more = f" and {len(self.values) - _NAMED} more" if len(self.values) > _NAMED else ""
        return ", ".join(map(repr, self.values[:_NAMED])) + more


Kinds = tuple[Levels | None, ...]
"""Levels of each column; None of one of numbers."""


def words_of(kinds: Any, d: int) -> list[Any]:
    """Check the kinds of ``d`` columns: words, levels, or None for that of the dtype."""
    choices = ", ".join(map(repr, KINDS))
    if not isinstance(kinds, list | tuple) or len(kinds) != d:
        raise ValueError(f"kinds must be a mapping or a sequence of {d}, of {choices} or None; got {kinds!r}")
    for each in kinds:
        if not (each is None or isinstance(each, Levels) or (isinstance(each, str) and each in KINDS)):
            raise ValueError(f"kinds must be {choices} or None; got {each!r}{words.meant(each, KINDS)}")
    return list(kinds)


def levels(argument: str, labels: Iterable[Any], kind: str, column: str) -> Levels:
    """Return the levels of labels, in their order."""
    found = _objects([*dict.fromkeys(labels)])
    values = found[~lacking(found)].tolist()
    _some(argument, values, column)
    if len(values) > _MOST:
        raise ValueError(
            f"{argument} must have at most {_MOST:,} categories in a column; {column} has {len(values):,}: leave it "
            "out, or join rare ones"
        )
    if kind == "ordered" and any(isinstance(each, str) for each in values):
        raise ValueError(
            f"kinds must be 'categorical' for text, which has no order, as {column} of {argument} has: give its "
            "categories one, by pandas.CategoricalDtype(levels, ordered=True) or an Enum of polars"
        )
    try:
        return Levels(tuple(sorted(values)), kind == "ordered")
    except TypeError:  # of several types, whose order does not matter
        return Levels(tuple(values), kind == "ordered")


def _some(argument: str, values: Sequence[Any], column: str) -> None:
    if not values:
        raise ValueError(f"{argument} must have categories; {column} has none but missing values: leave it out")


def of_frame(X: Any, kinds: Any, argument: str = "X") -> Kinds | None:
    """Return the levels of the columns of a frame or a series, by their dtypes or by words; None where it has none.

    Booleans are categories beside such a column, and numbers else.
    """
    library: Any = library_of(X)
    if kinds is None and library.whole(X) is not None:  # of numbers, of one dtype
        return None
    labels, columns = library.labels(X), library.columns(X)
    asked = [None] * len(columns) if kinds is None else words_of(kinds, len(columns))
    found = [library.kind(column) if each is None else each for column, each in zip(columns, asked, strict=True)]
    if not any(each in KINDS[1:] for each in found):
        return None
    if not len(X):
        raise ValueError(f"{argument} must have at least one row; got shape {X.shape}")
    out: list[Levels | None] = []
    for k, (column, kind) in enumerate(zip(columns, found, strict=True)):
        name = "it" if labels is None else f"its column {labels[k]!r}"
        own = None if kind in (None, "number") else library.levels(column)
        if kind in (None, "number"):
            out.append(None)
        elif own is None:
            out.append(levels(argument, library.objects(column), str(kind), name))
            if asked[k] is None:
                _no_numbers(argument, out[-1], name)
        elif kind == "ordered" and not own[1]:
            raise ValueError(
                f"kinds must be 'categorical' for categories without an order, as {name} of {argument} has"
            )
        else:
            _some(argument, own[0], name)
            out.append(Levels(tuple(own[0]), kind == "ordered", True))
    return tuple(out)


def _no_numbers(argument: str, found: Levels | None, column: str) -> None:
    """Raise for text of which each is a number: more likely a column that was read as text than one of categories."""
    values = found.values if found is not None else ()
    if not values or not all(isinstance(each, str) for each in values):
        return
    try:
        np.array(values).astype(np.float64)
    except ValueError:
        return
    raise TypeError(
        f"{argument} must have numbers as numbers; {column} has them as text, such as {values[0]!r}: convert it, or "
        "write kinds, where it is categorical"
    )


def coded_rows(argument: str, rows: Any, kinds: Sequence[Levels | None]) -> np.ndarray:
    """Return rows of labels and numbers, a sequence or an array of objects, with codes in place of labels."""
    table = np.asarray(rows, object)
    table = table[:, None] if table.ndim == 1 else table
    if table.ndim != 2 or table.shape[1] != len(kinds):
        raise ValueError(f"{argument} must have {len(kinds)} columns like X, a frame or rows; got shape {table.shape}")
    out = np.empty(table.shape)
    for k, (column, of) in enumerate(zip(table.T, kinds, strict=True)):
        try:
            values = np.where(lacking(column), np.nan, column).astype(np.float64) if of is None else column
        except (TypeError, ValueError) as error:
            raise TypeError(f"{argument} must have numbers in column {k} like X: {error}") from None
        out[:, k] = values if of is None else of.codes(argument, values, f"its column {k}")
    return out


def _objects(values: Sequence[Any]) -> np.ndarray:
    out = np.empty(len(values), object)
    out[:] = list(values)
    return out
