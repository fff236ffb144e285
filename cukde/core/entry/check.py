"""Errors of names, of missing values and of output arrays, raised before anything is computed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from cukde.core import check as core_check

NAN_POLICIES = ("raise", "omit")
_NAMED = 12  # names that a message lists


def same_names(argument: str, labels: Sequence[Any], reference: Sequence[Any], of: str) -> None:
    """Raise for names that are not those of the reference."""
    for owner, names in ((of, reference), (argument, labels)):
        no_name_twice(argument, names, owner)
    given, wanted = set(labels), set(reference)
    missing, extra = [name for name in reference if name not in given], [name for name in labels if name not in wanted]
    if missing or extra:
        parts = [f"{listed(missing)} missing"] if missing else []
        parts += [f"{listed(extra)} not in {of}"] if extra else []
        raise ValueError(
            f"{argument} must have the columns of {of}, in any order; {' and '.join(parts)}: choose or rename columns, "
            f"or take them by position, as an array"
        )


def no_name_twice(argument: str, names: Sequence[Any], owner: str) -> None:
    """Raise for names of which one is there several times, so that it does not say which column is meant."""
    if len(set(names)) < len(names):
        twice = next(name for k, name in enumerate(names) if name in names[:k])
        raise ValueError(
            f"{argument} must be in the order of the columns, as an array, where a name is there twice; "
            f"{owner} has several columns called {twice!r}: rename them"
        )


def one_number(argument: str) -> None:
    """Raise for a frame with one row and one column, which may be a deviation or a variance."""
    raise ValueError(
        f"{argument} must be a number for one column, the deviation; got a frame with one row and one column, which "
        "may be a deviation or a variance: write the number itself, of a variance its square root"
    )


def keys(argument: str, missing: Sequence[Any], unknown: Sequence[Any], columns: Sequence[Any], of: str = "X") -> None:
    """Raise for a mapping by names that lacks some, or has others."""
    if missing or unknown:
        parts = [f"none for {listed(missing)}"] if missing else []
        parts += [f"one for {listed(unknown)}, which {of} does not have"] if unknown else []
        raise ValueError(
            f"{argument} must have a value for each column of {of} by its name, which are {listed(columns)}; "
            f"got {' and '.join(parts)}"
        )


def listed(names: Iterable[Any], most: int = _NAMED) -> str:
    """Names in a message."""
    names = list(names)
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"{', '.join(map(repr, names[:most]))}{more}"


def missing_values(argument: str, column: str, count: int, row: int, label: Any, *, may_omit: bool) -> None:
    """Raise for a frame or a series with missing values."""
    labelled = "" if label is None or (isinstance(label, int | np.integer) and label == row) else f" (label {label!r})"
    omit = ', or write nan_policy="omit"' if may_omit else ""
    raise ValueError(
        f"{argument} must not have missing values; {column} has {count}, the first in row {row}{labelled}: "
        f"drop or fill those rows{omit}"
    )


def other_rows(argument: str, labels: Sequence[Any], of: str, reference: Sequence[Any]) -> ValueError:
    """Return the error for rows with other labels than the rows that they go with."""
    first = next((k for k, both in enumerate(zip(labels, reference, strict=True)) if both[0] != both[1]), 0)
    by_label = ""
    if len(set(labels)) == len(labels) and set(reference) <= set(labels):
        by_label = f"{argument}.loc[{of}.index] to take its rows by their labels, or "
    return ValueError(
        f"{argument} must have the index of {of}, in its order: write {by_label}{argument}.to_numpy() to take them by "
        f"their positions; from row {first} on {of} has {listed(reference[first:], 3)} and {argument} has "
        f"{listed(labels[first:], 3)}"
    )


def same_divisions(argument: str, divisions: Sequence[Any], of: str, reference: Sequence[Any]) -> None:
    """Raise for a frame or a series of Dask whose index is known to be divided otherwise than that of another."""
    if None not in (*divisions, *reference) and divisions != reference:
        raise ValueError(
            f"{argument} must have the index of {of}; {of} is divided at {listed(reference)} and {argument} at "
            f"{listed(divisions)}: make both of one frame, or write {argument}.values to take them by their positions"
        )


def nan_policy(value: Any) -> str:
    """Check what missing values do."""
    core_check.option("nan_policy", value, NAN_POLICIES)
    return str(value)


def rows_to_omit(argument: str, shape: tuple[int, ...]) -> None:
    """Raise for stacks, whose members would have different numbers of rows."""
    if len(shape) > 2:
        raise ValueError(f'nan_policy must be "raise" for stacks; got "omit" and {argument} of shape {shape}')


def eager(policy: str) -> None:
    """Raise for what Dask collections do not do."""
    if policy != "raise":
        raise ValueError(f'nan_policy must be "raise" beside Dask collections; got {policy!r}: write X.dropna()')


def no_gradient(argument: str, tracked: bool) -> None:
    """Raise for a tensor whose operations are recorded for automatic differentiation."""
    if tracked:
        write = f"write {argument}.detach(), or see cukde.torch for functions with gradients"
        raise TypeError(f"{argument} must not require a gradient, which would be lost: {write}")


def not_taken(argument: str, a: Any, error: Exception) -> TypeError:
    """Make the error of an array of another library that is none of real numbers in memory."""
    dtype, how = str(getattr(a, "dtype", None)), ""
    if getattr(a, "is_sparse", False) is True:
        how = f"; write {argument}.to_dense()"
    elif getattr(getattr(a, "device", None), "type", None) == "meta":
        how = "; a tensor on the device meta has no values"
    elif "float" in dtype:  # such as bfloat16, or on a device that is not read
        how = f"; write {argument}.cpu().float()" if hasattr(a, "cpu") else f"; write {argument}.astype('float32')"
    return TypeError(
        f"{argument} must hold real numbers in memory (float16, float32, float64, integers or booleans); "
        f"got {type(a).__module__}.{type(a).__name__} of dtype {dtype}: {error}{how}"
    )
