"""Argument checks of :mod:`cukde.plot`, made before anything is computed or drawn."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from types import ModuleType
from typing import Any

import numpy as np

from cukde.core import check as core_check
from cukde.density.compositions import check as compositions_check

# Limits of sizes: the product of two densities of such columns is within float64.
_LARGEST, _SMALLEST = 1e100, 1e-100
_LEVEL = 0.95  # of intervals, where none is given
_MOST_PANELS = 16  # columns of a pair plot
_MOST_MASSES = 8
_MOST_GROUPS = 7  # the number of colours


def in_memory(name: str, is_collection: bool) -> None:
    """Raise for a Dask collection."""
    if is_collection:
        raise TypeError(
            f"{name} must be a plain array; got a Dask collection: write {name}.compute(), or draw a sample of its rows"
        )


def columns(d: int, expected: int, function: str) -> None:
    """Raise for data with another number of columns than a picture shows."""
    if d != expected:
        others = {1: "contours(X) for two columns", 2: "density(X) for one column"}[expected]
        choose = (
            "put x and y side by side, as numpy.column_stack([x, y])"
            if d < expected
            else "choose columns, by x='name'" + ", y='name'" * (expected > 1)
        )
        raise ValueError(
            f"X must have {expected} column{'s' * (expected > 1)} for cukde.plot.{function}; got {d}: {choose}, "
            f"or write cukde.plot.{others}, cukde.plot.pairs(X) for more"
        )


def panels(d: int) -> None:
    """Raise for too few or too many columns for a pair plot."""
    if not 2 <= d <= _MOST_PANELS:
        raise ValueError(f"X must have 2 to {_MOST_PANELS} columns for cukde.plot.pairs; got {d}: write columns=[...]")


def rows(n: int, weighted: bool, *, in_groups: bool = False) -> None:
    """Raise for too few rows to draw, of all or in the largest group."""
    if n < 2:
        of = " in a group of hue" * in_groups
        raise ValueError(
            f"X must have at least 2 rows{' of positive weight' * weighted} without NaN{of} to draw; got {n}"
        )


def positive(name: str, lowest: float, highest: float, bad: int, n: int) -> None:
    """Raise for a column that a logarithmic axis cannot show."""
    if lowest <= 0:
        raise ValueError(f"X must be positive for log_scale; {bad:,} of {n:,} rows of {name!r} are not")
    if lowest < _SMALLEST or highest > _LARGEST:
        raise ValueError(
            f"X must be from {_SMALLEST:g} to {_LARGEST:g} to be drawn; that is not so of {name!r}: rescale it"
        )


def log_scale(value: Any, d: int) -> tuple[bool, ...]:
    """Return whether the axis of each column is logarithmic."""
    several = isinstance(value, Sequence | np.ndarray) and not isinstance(value, str)
    several = several and core_check.dimensions("log_scale", value) == 1
    out = [core_check.flag("log_scale", each) for each in (value if several else [value])]
    if several and len(out) != d:
        raise ValueError(f"log_scale must be True, False, or {d} of them, one for each column; got {value!r}")
    return tuple(out) if several else tuple(out) * d


def linear(log: tuple[bool, ...], in_domain: np.ndarray) -> None:
    """Raise for columns with bounds or a period on a logarithmic axis."""
    both = np.flatnonzero(np.asarray(log) & in_domain)
    if both.size:
        raise ValueError(
            f"log_scale must be False for columns with bounds or a period; column {both[0]} has both: densities are "
            "then those of log10, which has no such ends"
        )


def no_hue(hue: Any, is_collection: bool) -> None:
    """Raise for labels beside Dask collections, of which a sample is drawn."""
    if is_collection and hue is not None:
        raise TypeError("hue must be None beside Dask collections: draw a sample of the rows, in memory")


def extent(low: np.ndarray, high: np.ndarray, widths: np.ndarray) -> None:
    """Raise for columns that no axis can show: too large, or too far from 0 for their bandwidth."""
    size = np.maximum(abs(low), abs(high))
    if (size > _LARGEST).any() or (widths > _LARGEST).any() or (widths < _SMALLEST).any():
        raise ValueError(
            f"X must be at most {_LARGEST:g} in size to be drawn, with a bandwidth from {_SMALLEST:g} to "
            f"{_LARGEST:g}; rescale its columns"
        )
    if (widths < 1e-13 * size).any():
        raise ValueError("X must lie nearer to 0 for its bandwidth to be told on an axis; subtract an offset from it")


def interval(value: Any) -> float | None:
    """Return the level of intervals, None for none."""
    if isinstance(value, bool | np.bool_):
        return _LEVEL if value else None
    return share("interval", value)


def with_interval(method: str, *, in_domain: bool) -> None:
    """Raise for estimates that have no intervals."""
    if method != "kde":
        raise ValueError(f'interval must be False for method="{method}": its bandwidth is too wide for intervals')
    if in_domain:
        raise ValueError("interval must be False with bounds and periods, where density_interval has no variance")


def no_factors(factors: bool) -> None:
    """Raise for local factors of the bandwidth beside intervals."""
    if factors:
        raise ValueError("interval must be False for a bandwidth with local factors: give a number, or h='isj'")


def limits(value: Any, logarithmic: bool) -> tuple[float, float] | None:
    """Return the ends of an axis, of a logarithmic one as log10, or None."""
    if value is None:
        return None
    several = (
        isinstance(value, Sequence | np.ndarray)
        and not isinstance(value, str)
        and core_check.dimensions("limits", value) == 1
    )
    if not several or len(value) != 2:
        raise ValueError(f"limits must be a pair of numbers, or None for those of the data; got {value!r}")
    low, high = (_real("limits", each) for each in value)
    if not low < high:
        raise ValueError(f"limits must be a lower and then a higher number; got {value!r}")
    if logarithmic and low < _SMALLEST:
        raise ValueError(f"limits must be positive for log_scale; got {value!r}")
    if high - low < 1e-13 * max(abs(low), abs(high)) or max(abs(low), abs(high)) > _LARGEST:
        raise ValueError(f"limits must be further apart, and at most {_LARGEST:g} in size; got {value!r}")
    return (math.log10(low), math.log10(high)) if logarithmic else (low, high)


def between(name: str, value: Any, least: int, most: int) -> int:
    """Return an integer in a range."""
    try:
        out = operator.index(value)
    except TypeError:
        out = None
    if out is None or isinstance(value, bool):
        raise TypeError(f"{name} must be an integer from {least} to {most}; got {value!r}")
    if not least <= out <= most:
        raise ValueError(f"{name} must be from {least} to {most}; got {out}")
    return out


def share(name: str, value: Any) -> float:
    """Return a number strictly between 0 and 1."""
    if not 0 < (out := _real(name, value)) < 1:
        raise ValueError(f"{name} must lie between 0 and 1, as 0.95; got {value!r}")
    return out


def masses(value: Any) -> list[float]:
    """Return the shares of the rows that regions hold, the largest first."""
    several = isinstance(value, Sequence | np.ndarray) and core_check.dimensions("mass", value)
    out = sorted({share("mass", each) for each in (value if several else [value])}, reverse=True)
    if not 1 <= len(out) <= _MOST_MASSES:
        raise ValueError(f"mass must be 1 to {_MOST_MASSES} numbers between 0 and 1; got {len(out)}")
    return out


def text(name: str, value: Any) -> str | None:
    """Return text, or None."""
    if value is not None and not isinstance(value, str):
        raise TypeError(f"{name} must be text or None; got {value!r}")
    return value


def axes(name: str, value: Any, kind: type) -> None:
    """Raise for anything but plain two-dimensional Axes."""
    if not isinstance(value, kind):
        raise TypeError(
            f"{name} must be a Matplotlib Axes, such as figure, ax = matplotlib.pyplot.subplots() makes, or None to "
            f"make one; got {type(value).__name__}"
        )
    if (projection := getattr(value, "name", None)) != "rectilinear":
        raise ValueError(f"{name} must be plain two-dimensional Axes; got those of projection {projection!r}")


def grid_of_axes(value: Any, d: int, kind: type) -> np.ndarray:
    """Return the Axes of a pair plot, (d, d)."""
    out = np.asarray(value, dtype=object)
    if out.shape != (d, d):
        raise ValueError(
            f"ax must have shape ({d}, {d}), a row and a column of Axes for each column of X; got {out.shape}: write "
            f"figure, ax = matplotlib.pyplot.subplots({d}, {d})"
        )
    for each in out.flat:
        axes("ax", each, kind)
    return out


def column_names(value: Any, d: int) -> list[str]:
    """Return names for the columns of a pair plot."""
    if not isinstance(value, Sequence) or isinstance(value, str) or not all(isinstance(each, str) for each in value):
        raise TypeError(f"names must be a list of text, one for each column, or None; got {value!r}")
    if len(value) != d:
        raise ValueError(f"names must be {d}, one for each column that is drawn; got {len(value)}")
    return list(value)


def chosen(value: Any, labels: Sequence[Any] | None, d: int) -> list[int]:
    """Return the positions of columns given by name or by position, as :func:`cukde.marginal` takes them."""
    if isinstance(value, str):
        raise TypeError(f"columns must be a list of names or positions, or None for all; got {value!r}")
    return compositions_check.positions("columns", value, labels, d)


def log_densities(value: Any, backend: ModuleType) -> Any:
    """Return log densities as float64 of shape (n,); -inf and NaN are allowed, inf is not."""
    out = core_check.array("log_density", value, backend, missing=True)
    out = out[:, 0] if out.ndim == 2 and out.shape[1] == 1 else out
    if out.ndim != 1 or out.shape[0] == 0:
        instead = ": cukde.kde(X, X, h, log=True) has this shape" if out.ndim > 1 else ""
        raise ValueError(f"log_density must have shape (n,) with at least one row; got {out.shape}{instead}")
    out = out.astype(np.float64)
    infinite = int((out == np.inf).sum())
    if infinite:
        raise ValueError(f"log_density must be finite, -inf or NaN; {infinite} of {len(out)} are inf")
    return out


def drawable(lowest: float, highest: float) -> None:
    """Raise if no log density is finite, or if they are too large for an axis."""
    if not lowest <= highest:
        raise ValueError("log_density must be finite at one row at least; all are -inf or NaN")
    if max(abs(lowest), abs(highest)) > _LARGEST:
        raise ValueError(f"log_density must be at most {_LARGEST:g} in size to be drawn")


def threshold(value: Any, quantile: Any) -> tuple[float | None, float | None]:
    """Return the threshold, or the quantile that determines it; only one may be given."""
    if value is not None and quantile is not None:
        raise ValueError("threshold and quantile must not both be given: a threshold is a value, a quantile gives one")
    if value is None:
        return None, None if quantile is None else share("quantile", quantile)
    if abs(number := _real("threshold", value)) > _LARGEST:
        raise ValueError(f"threshold must be at most {_LARGEST:g} in size to be drawn; got {value!r}")
    return number, None


def column_of_labels(hue: Any, names: Sequence[Any] | None) -> None:
    """Raise for a name that is not of one column beside others."""
    if not names:
        raise TypeError(f"hue must be labels, one for each row, where X has no names of columns; got {hue!r}")
    if names.count(hue) != 1 or len(names) < 2:
        raise ValueError(f"hue must name a column of X beside those that are drawn: one of {list(names)}; got {hue!r}")


def row_labels(name: str, value: Any, n: int) -> tuple[list[Any], np.ndarray]:
    """Return the distinct labels of rows, and the index of each row's label, -1 for those that are missing.

    Labels are in order; those of categories are in the order of the categories.
    """
    try:
        out = np.asarray(value)
    except ValueError as error:
        raise ValueError(f"{name} must have shape ({n},), a label for each row: {error}") from None
    if out.dtype.kind == "f" and "int" in str(getattr(value, "dtype", getattr(value, "type", ""))).lower():
        # Integers with missing ones among them, which NumPy would round.
        out = np.array(value.to_pylist() if hasattr(value, "to_pylist") else list(value), dtype=object)
    if out.shape != (n,):
        raise ValueError(f"{name} must have shape ({n},), a label for each row; got {out.shape}")
    if out.dtype.kind == "O":
        missing = np.array([_missing(each) for each in out], bool)
    else:
        missing = out != out
    try:
        kinds, inverse = np.unique(out[~missing], return_inverse=True)
    except TypeError:
        raise TypeError(f"{name} must be numbers, booleans or text, all of one kind, to be told apart") from None
    if not 1 <= len(kinds) <= _MOST_GROUPS:
        raise ValueError(f"{name} must be 1 to {_MOST_GROUPS} different labels to be told apart; got {len(kinds)}")
    categories = list(getattr(getattr(value, "dtype", None), "categories", ()))
    order = sorted(range(len(kinds)), key=lambda k: categories.index(kinds[k]) if categories else k)
    which = np.full(n, -1)
    which[~missing] = np.argsort(order)[inverse]
    return [kinds[k] for k in order], which


def _missing(label: Any) -> bool:
    """Whether a label is None, NaN or another missing value, which does not equal itself."""
    differs = label != label
    return label is None or not isinstance(differs, bool | np.bool_) or bool(differs)


def _real(name: str, value: Any) -> float:
    """Return a finite number."""
    out = core_check.real(name, value)
    if not np.isfinite(out):
        raise ValueError(f"{name} must be finite; got {value!r}")
    return out
