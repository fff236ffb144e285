"""Columns by their names: in the order of the data's, and values for them from mappings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from cukde.core.entry import check
from cukde.core.frames.columns import taken
from cukde.core.frames.libraries import library_of

Labels = tuple[Any, ...] | None


def named(labels: Labels) -> bool:
    """Whether columns have names; 0, 1, 2, ... are the positions that pandas gives columns without any."""
    return labels is not None and labels != tuple(range(len(labels)))


def order(argument: str, labels: Labels, reference: Labels, of: str = "X") -> list[int] | None:
    """Return the positions of columns in the order of a reference; None where they stay as they are.

    Columns of which either side has no names are taken by position; else an error says which are missing or extra.
    """
    if labels is None or reference is None or labels == reference:
        return None
    if not (named(labels) and named(reference)) and set(labels) != set(reference):
        return None
    check.same_names(argument, labels, reference, of)
    position = {label: k for k, label in enumerate(labels)}
    return [position[label] for label in reference]


def by_name(argument: str, values: Mapping[Any, Any], labels: Labels, d: int, *, optional: bool) -> list[Any]:
    """Return the values of a mapping in the order of the columns; absent ones are None if they are ``optional``.

    Columns without names are called by their positions.
    """
    columns = range(d) if labels is None else labels
    missing = [] if optional else [each for each in columns if each not in values]
    check.keys(argument, missing, [key for key in values if key not in columns], columns)
    return [values.get(each) for each in columns]


def bandwidth(argument: str, h: Any, labels: Labels, d: int) -> Any:
    """Return a bandwidth that was given by names in the order of the data's columns; any other as it is.

    Names are those of a mapping, of the rows of a series of pandas, or of the columns and rows of a covariance.
    """
    if isinstance(h, Mapping):
        return by_name(argument, h, labels, d, optional=False)
    library = library_of(h)
    if library is None:
        return h
    out, columns, rows = taken(argument, h), library.labels(h), _rows(h)
    if columns is not None and len(out) != len(columns):
        return out  # no covariance, which is said later
    if columns is None:
        down = order(argument, rows, labels)
        return out if down is None else out[down]
    along = down = order(argument, columns, labels)
    if named(rows):  # else rows of a covariance are in the order of its columns
        down = order(argument, rows, labels if named(labels) else columns)
    out = out if along is None else out[:, along]
    return out if down is None else out[down]


def _rows(a: Any) -> Labels:
    """Labels of the rows of a frame or a series of few."""
    index = getattr(a, "index", None)
    return None if index is None or callable(index) else tuple(np.asarray(index).tolist())


def sequence(values: Any, labels: Labels, d: int) -> Sequence[Any]:
    """Return coordinates along the axes of a grid that were given by names in the order of the data's columns."""
    if isinstance(values, Mapping):
        return by_name("axes", values, labels, d, optional=False)
    library = library_of(values)
    columns = None if library is None else library.labels(values)
    if library is None or columns is None:
        return values
    array, along = taken("axes", values), order("axes", columns, labels)
    return list(array.T if along is None else array.T[along])
