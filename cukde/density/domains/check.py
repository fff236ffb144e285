"""The errors a user of bounds and periods can cause, raised before anything is summed where they can be."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from cukde.core import check as core_check, dispatch

# Images of a point up to which those of a kernel that is not a product of columns are summed one by one.
_MOST_IMAGES = 1_000_000


def bounds(values: Any, d: int) -> tuple[np.ndarray, np.ndarray]:
    """Lower and upper ends of each column, (d,) each, infinite where there is none."""
    low, high = np.full(d, -np.inf), np.full(d, np.inf)
    if (
        d == 1
        and (pair := _sequence(dispatch.to_host(values)))
        and len(pair) == 2
        and all(_sequence(end) is None for end in pair)
    ):
        values = [values]  # of a single column (low, high) will do
    for k, pair in enumerate(_entries("bounds", values, d, "None or (low, high)")):
        if pair is None:
            continue
        pair = _sequence(pair)
        if pair is None or len(pair) != 2:
            raise ValueError(
                f"bounds must hold None or a pair (low, high) for each column; got {values[k]!r} for column {k}: "
                "write (low, None) or (None, high) for one end"
            )
        low[k], high[k] = _end(pair[0], -np.inf, k), _end(pair[1], np.inf, k)
        if not low[k] < high[k]:
            raise ValueError(
                f"bounds must be (low, high) with low below high; got ({low[k]:g}, {high[k]:g}) for column {k}"
            )
    return low, high


_SHORTEST = 1e-300  # period, of whose waves the frequencies are numbers


def periods(values: Any, d: int) -> np.ndarray:
    """Period of each column, (d,), infinite where there is none."""
    out = np.full(d, np.inf)
    values = dispatch.to_host(values)
    if d == 1 and core_check.dimensions("periods", values) == 0:  # of a single column its period will do
        values = [values.item() if isinstance(values, np.ndarray) else values]
    for k, period in enumerate(_entries("periods", values, d, "None or a positive number")):
        if period is not None:
            out[k] = core_check.number(f"periods[{k}]", period, above=True)
            if out[k] < _SHORTEST:
                raise ValueError(f"periods[{k}] must be at least {_SHORTEST:g}; got {period!r}: rescale X")
    return out


def one_kind(low: np.ndarray, high: np.ndarray, period: np.ndarray) -> None:
    """Raise for columns that have bounds and a period."""
    both = np.flatnonzero((np.isfinite(low) | np.isfinite(high)) & np.isfinite(period))
    if both.size:
        raise ValueError(
            f"a column must have bounds or a period, not both; columns that have both: {_listed(both)}: "
            "write None for them in bounds or in periods"
        )


def bandwidth(h: np.ndarray, bounded: np.ndarray, name: str = "h", boundary: str = "reflect") -> None:
    """Raise for a covariance that links a bounded column with another: reflection would no longer keep the mass.

    A linear boundary links bounded columns with free ones, but not with each other.
    """
    if h.ndim < 2:
        return
    linked = (h != 0) & ~np.eye(len(h), dtype=bool)
    if boundary == "linear":
        pairs = np.flatnonzero((linked & bounded).any(axis=1) & bounded)
        if pairs.size:
            raise ValueError(
                f"{name} must not correlate bounded columns with each other; correlated columns with bounds: "
                f"{_listed(pairs)}: take their covariance to be 0"
            )
        return
    wrong = np.flatnonzero(linked.any(axis=1) & bounded)
    if wrong.size:
        raise ValueError(
            f"{name} must not correlate a bounded column with another: a kernel so tilted is not its own mirror image, "
            f"and its reflections would not integrate to 1; correlated columns with bounds: {_listed(wrong)}: "
            f"write a vector of {len(h)} deviations, numpy.sqrt(numpy.diag({name})), take those columns' "
            'covariances to be 0, or write boundary="linear", for kde'
        )


def inside(counts: np.ndarray, n: int, low: np.ndarray, high: np.ndarray, name: str = "X") -> None:
    """Raise where ``counts`` (d,) says that data lie outside the bounds of their column."""
    if counts.any():
        k = int(np.flatnonzero(counts)[0])
        raise ValueError(
            f"{name} must lie within its bounds; {int(counts[k])} of {n} rows have column {k} outside "
            f"[{low[k]:g}, {high[k]:g}]: drop those rows, or widen the bounds"
        )


def few_images(number: float) -> None:
    """Raise where a kernel that is not a product of columns reaches over too many images of a point."""
    if not number <= _MOST_IMAGES:
        raise ValueError(
            "h must be smaller beside the bounds and periods where it is a covariance or has local factors: "
            f"{number:.3g} images of a point count, more than {_MOST_IMAGES}; write a vector of deviations, no factors"
        )


def no_boxes(boxes: Any) -> None:
    """Raise for boxes of blocks beside a domain, whose images lie in none of them."""
    if boxes is not None:
        raise ValueError("boxes must be None beside bounds or periods: images of the data lie outside of them")


def _entries(name: str, values: Any, d: int, entry: str) -> Sequence[Any]:
    """The entries of an argument that has one for each column."""
    out = _sequence(dispatch.to_host(values))
    if out is None:
        advice = f": write list({name})" if isinstance(values, Iterator) else ""
        raise TypeError(
            f"{name} must be a sequence of {d} entries, {entry} for each column of X; got {values!r}{advice}"
        )
    if len(out) != d:
        raise ValueError(f"{name} must have {d} entries, {entry} for each column of X; got {len(out)}")
    return out


def _sequence(a: Any) -> Sequence[Any] | None:
    """A list, a tuple or an array as a sequence; None for all else."""
    if isinstance(a, np.ndarray) and a.ndim:
        return list(a)
    return a if isinstance(a, list | tuple) else None


def _end(value: Any, otherwise: float, k: int) -> float:
    """An end of a column; None or an infinity is an open one."""
    if value is None:
        return otherwise
    if isinstance(value, float | np.floating) and math.isinf(value) and float(value) == otherwise:
        return otherwise
    if isinstance(value, float | np.floating) and math.isnan(value):
        raise ValueError(f"a bound of column {k} must be a number, or None for an open end; got {value!r}")
    return core_check.number(f"a bound of column {k}", value, least=-math.inf)


def _listed(columns: np.ndarray) -> str:
    return ", ".join(map(str, columns))
