"""Columns by their names: in the order of the data's, and values for them from mappings; rows by theirs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Any

import numpy as np

from cukde.core import check as core_check
from cukde.core.entry import check, namespaces
from cukde.core.frames.columns import taken
from cukde.core.frames.libraries import library_of
from cukde.core.over_dask import is_dask, meta

Labels = tuple[Any, ...] | None

_BANDWIDTHS = ("h", "score_bandwidth", "denominator_bandwidth", "bandwidth")
_DOMAINS = ("bounds", "periods")


class Labelled:
    """A result with a number for each column of the data, :attr:`bandwidth`, which keeps what those are called."""

    columns: Labels = None
    """Names of the columns that the result is of; None without any."""

    def in_order(self: Any, along: list[int], columns: Labels) -> Any:
        """Return the result with its bandwidth in another order of the columns."""
        bandwidth = self.bandwidth[along]
        bandwidth = bandwidth if bandwidth.ndim == 1 else bandwidth[:, along]  # a covariance
        out = self._replace(bandwidth=bandwidth, bandwidths=self.bandwidths[:, along])
        out.columns = columns
        return out


def named(labels: Labels) -> bool:
    """Whether columns have names; 0, 1, 2, ... are the positions that pandas gives columns without any."""
    return labels is not None and labels != tuple(range(len(labels)))


def order(argument: str, labels: Labels, reference: Labels, of: str = "X", *, among: Labels = None) -> list[int] | None:
    """Return the positions of columns in the order of a reference; None where they stay as they are.

    Columns of which either side has no names are taken by position; else an error says which are missing or extra. The
    reference may be some columns ``among`` others, which all have names or none.
    """
    if labels is None or reference is None or labels == reference:
        return None
    if not (named(labels) and named(among or reference)) and set(labels) != set(reference):
        return None
    check.same_names(argument, labels, reference, of)
    position = {label: k for k, label in enumerate(labels)}
    return [position[label] for label in reference]


def by_name(
    argument: str, values: Mapping[Any, Any], labels: Labels, d: int, *, optional: bool, of: str = "X"
) -> list[Any]:
    """Return the values of a mapping in the order of the columns; absent ones are None if they are ``optional``.

    Columns without names are called by their positions, and so may a single one with a name.
    """
    columns = range(d) if labels is None or (d == 1 and list(values) == [0]) else labels
    check.no_name_twice(argument, columns, of)
    missing = [] if optional else [each for each in columns if each not in values]
    check.keys(argument, missing, [key for key in values if key not in columns], columns, of)
    return [values.get(each) for each in columns]


def of_series(a: Any) -> Labels:
    """Return the name of a series as that of its column; None of what has none."""
    a = meta(a)
    library = library_of(a)
    name = None if library is None or library.labels(a) is not None else library.name(a)
    return None if name is None or name == "" else (name,)


def of_rows(a: Any, *, series: bool = False) -> Labels:
    """Return the names of the rows of a frame of few, with ``series`` of one too; else None."""
    library = library_of(a)
    return None if library is None or (library.labels(a) is None and not series) else library.rows(a)


def same_rows(argument: str, a: Any, of: str, reference: Any) -> None:
    """Raise for a frame or a series whose rows have other labels than those they go with, if both have some."""
    if is_dask(a) and is_dask(reference):
        own, other = (getattr(each, "divisions", None) for each in (a, reference))
        if isinstance(own, tuple) and isinstance(other, tuple):
            check.same_divisions(argument, own, of, other)
    library = library_of(a)
    if library is not None and library is library_of(reference) and not library.same_rows(a, reference):
        raise check.other_rows(argument, library.rows(a) or (), of, library.rows(reference) or ())


def by_column(arguments: Mapping[str, Any], labels: Labels, d: int, of: str = "X") -> dict[str, Any]:
    """Return those of the arguments that have something for each column, in the order of the columns.

    ``labels`` are the names of the ``d`` columns, ``of`` is what has them.
    """
    out: dict[str, Any] = {}
    for name, value in arguments.items():
        if name in _BANDWIDTHS:
            out[name] = bandwidth(name, value, labels, d, of)
        elif name in _DOMAINS:
            out[name] = _of_domain(name, value, labels, d, of)
        elif name == "kinds" and isinstance(value, Mapping):
            out[name] = by_name(name, value, labels, d, optional=True, of=of)
        elif name == "axes" and value is not None:
            out[name] = _sequence(value, labels, d)
    return out


def bandwidth(argument: str, h: Any, labels: Labels, d: int, of: str = "X") -> Any:
    """Return a bandwidth that was given by names in the order of the data's columns; any other as it is.

    Names are those of a mapping, of the rows of a series of pandas, of the columns of a frame with one row, or of the
    columns and rows of a covariance. Arrays of other libraries are taken as arrays.
    """
    if isinstance(h, Mapping):
        return by_name(argument, h, labels, d, optional=False, of=of)
    if isinstance(h, Labelled):
        along = order(argument, h.columns, labels, of)
        return h if along is None else h.in_order(along, labels)
    library = library_of(h)
    if library is None:
        return _in_memory(argument, h)
    out, columns, rows = taken(argument, h), library.labels(h), library.rows(h)
    if columns is None:
        down = order(argument, rows, labels, of)
        return out if down is None else out[down]
    if len(out) == 1 and rows != columns:
        if d == 1:
            check.one_number(argument)
        along = order(argument, columns, labels, of)
        return out[0] if along is None else out[0, along]
    if len(out) != len(columns):
        return out  # no covariance, which is said later
    along, down = order(argument, columns, labels, of), None
    matched = labels is not None and set(columns) == set(labels)
    if rows is not None and (named(rows) or set(rows) == set(columns)):
        down = order(argument, rows, labels if matched or not named(columns) else columns, of)
        along = along if named(columns) or set(columns) == set(rows) else down
    else:  # rows of a covariance are in the order of its columns
        down = along
    out = out if along is None else out[:, along]
    return out if down is None else out[down]


def _of_domain(argument: str, values: Any, labels: Labels, d: int, of: str) -> Any:
    """Return bounds or periods that were given by names as a list in the order of the columns; any other as it is.

    Names are those of a mapping, of the rows of a series or a frame of pandas, or of the columns of a frame.
    """
    library = None if isinstance(values, Mapping) else library_of(values)
    if library is not None:
        columns, rows = library.labels(values), library.rows(values)
        each = [np.asarray(column, dtype=object) for column in library.columns(values)]
        if columns is None:
            columns, each = rows, list(each[0])
        elif labels is None or not set(columns) <= set(labels):  # a row for each column of the data
            columns, each = rows, list(np.stack(each, axis=1)) if each else []
        elif argument == "periods":
            each = [column.item() if column.size == 1 else column for column in each]
        each = [_none_of_missing(entry) for entry in each]
        if columns is None or labels is None or not (named(columns) or set(columns) <= set(labels)):
            return each
        check.no_name_twice(argument, columns, argument)
        values = dict(zip(columns, each, strict=True))
    if isinstance(values, Mapping):
        return by_name(argument, values, labels, d, optional=True, of=of)
    # Of what has no order, or is read once, the check of domains says what is expected.
    return values if isinstance(values, Set | Iterator) else _in_memory(argument, values)


def _in_memory(argument: str, a: Any) -> Any:
    """Return an array of another library as one of NumPy or CuPy; raise for what has to be read first."""
    if namespaces.is_foreign(a):
        return namespaces.taken(argument, a)
    core_check.in_memory(argument, a)
    return a


def _none_of_missing(entry: Any) -> Any:
    """Return an entry of a frame or a series with None for what is missing, of pairs too."""
    if isinstance(entry, list | tuple | np.ndarray) and np.ndim(entry) == 1:
        return [_none_of_missing(each) for each in entry]
    same = entry == entry  # of pandas.NA neither
    return entry if isinstance(same, bool | np.bool_) and same else None


def _sequence(values: Any, labels: Labels, d: int) -> Sequence[Any]:
    """Return coordinates along the axes of a grid that were given by names in the order of the data's columns."""
    if isinstance(values, Mapping):
        return by_name("axes", values, labels, d, optional=False)
    library = library_of(values)
    columns = None if library is None else library.labels(values)
    if library is None or columns is None:
        return values
    array, along = taken("axes", values), order("axes", columns, labels)
    return list(array.T if along is None else array.T[along])
