"""The errors a user can cause who chooses columns, raised before anything is computed."""

from __future__ import annotations

import contextlib
import math
import operator
from collections.abc import Hashable, Mapping, Sequence
from types import ModuleType
from typing import Any

import numpy as np

from cukde.core import check as core_check
from cukde.density import check as density_check
from cukde.density.domains.domain import Domain

_NAMED = 12  # columns that a message lists
_LEAST_OTHERS = 1e-10  # of a sum of squares that is 1 less rounding
_FEWEST_DRAWS, _MOST_DRAWS = 100, 100_000
_SQUARED_RANGE = 1e300  # of squared distances, as of all points in double precision


def positions(argument: str, columns: Any, labels: Sequence[Any] | None, d: int) -> list[int]:
    """Return where columns are that are given by position, negative ones from the end, or by name.

    ``labels`` are those of a data frame. An integer is a name where some of them are integers, else a position.
    """
    chosen = [_position(argument, column, labels, d) for column in _several(argument, columns, labels)]
    if not chosen:
        raise ValueError(f"{argument} must name at least one column; X has {_listed(labels, d)}")
    if len(set(chosen)) < len(chosen):
        twice = next(column for column in chosen if chosen.count(column) > 1)
        raise ValueError(f"{argument} must name each column once; got column {label(twice, labels)} twice")
    return chosen


def label(column: int, labels: Sequence[Any] | None) -> str:
    """What a message calls a column."""
    return str(column) if labels is None else repr(labels[column])


def left(rest: Sequence[int], labels: Sequence[Any] | None) -> str:
    """What a message calls the columns that are not given."""
    more = f" and {len(rest) - _NAMED} more" if len(rest) > _NAMED else ""
    return f"those of X that are not given: {', '.join(label(each, labels) for each in rest[:_NAMED])}{more}"


def queries(Y: Any, columns: int, which: str, backend: ModuleType) -> Any:
    """Check queries in some columns of the data; return them with shape (m, columns)."""
    return density_check.queries(Y, columns, backend, which=f", {which}")[0]


def bandwidth(h: Any, d: int, name: str = "h") -> np.ndarray:
    """Check a bandwidth on the host whose blocks are going to be used: a covariance is positive definite as a whole."""
    out = density_check.bandwidth(h, d, name)
    if out.ndim == 2:
        density_check.cholesky(out, name)
    return out


def conditions(given: Any, labels: Sequence[Any] | None, d: int) -> dict[int, Any]:
    """Return the values by the positions of their columns; at least one column is left."""
    if not isinstance(given, Mapping):
        raise TypeError(f"given must be a mapping from columns to values, such as {{0: 1.5}}; got {given!r}")
    if not given:
        raise ValueError("given must name at least one column; write cukde.kde(X, Y, h) for the density given nothing")
    chosen = positions("given", list(given), labels, d)
    if len(chosen) == d:
        raise ValueError(f"given must leave at least one column of X for Y; got all {d}: {_listed(labels, d)}")
    return dict(zip(chosen, given.values(), strict=True))


def condition(
    column: int,
    value: Any,
    labels: Sequence[Any] | None,
    m: int | None,
    backend: ModuleType,
    of: str = "each row of Y",
) -> Any:
    """Return a float, or an array of one number for each query; ``m`` None: of one dimension."""
    name = condition_name(column, labels)
    out = core_check.array(name, value, backend)
    if out.ndim == 0:
        if not math.isfinite(number := float(out)):
            raise ValueError(f"{name} must be finite; got {number}")
        return number
    if out.shape != ((m,) if m is not None or out.ndim != 1 else out.shape):
        size = "m" if m is None else m
        raise ValueError(
            f"{name} must be a number, or an array of shape ({size},), one for {of}; got shape {out.shape}"
        )
    return out


def condition_name(column: int, labels: Sequence[Any] | None) -> str:
    """What a message calls the value of a column."""
    return f"given[{label(column, labels)}]"


def values_by_name(given: Any) -> dict[str, Any]:
    """Given values by what a message calls them; nothing of what is no mapping, which is refused later."""
    return {f"given[{key!r}]": value for key, value in given.items()} if isinstance(given, Mapping) else {}


def given_inside(
    values: Mapping[int, Any], domain: Domain | None, labels: Sequence[Any] | None, backend: ModuleType
) -> None:
    """Raise for values outside the bounds of their columns, where there is no density to be given."""
    for column, value in values.items():
        part = None if domain is None else domain.of_columns([column])
        if part is not None and bool(part.outside(backend.asarray(value).reshape(-1, 1), backend.xp).any()):
            raise ValueError(
                f"{condition_name(column, labels)} must lie within the bounds of its column, "
                f"[{part.low[0]:g}, {part.high[0]:g}]"
            )


def distance(squared: float) -> None:
    """Raise where a given point is so far from the data that squared distances in bandwidths leave double precision."""
    if not squared < _SQUARED_RANGE:
        raise ValueError(
            f"given must lie within {_SQUARED_RANGE**0.5:g} bandwidths of the data; rescale the data or enlarge h"
        )


def _several(argument: str, columns: Any, labels: Sequence[Any] | None) -> list[Any]:
    """Return the columns as a list, of a single one too, whose name may be a tuple."""
    is_name = isinstance(columns, tuple) and labels is not None and columns in labels
    if isinstance(columns, str) or is_name or _index(columns) is not None:
        return [columns]
    if hasattr(columns, "__getitem__") and not isinstance(columns, Mapping | set | frozenset):
        with contextlib.suppress(TypeError):
            return list(columns)
    raise TypeError(f"{argument} must be a column or a sequence of columns, by position or name; got {columns!r}")


def _position(argument: str, column: Any, labels: Sequence[Any] | None, d: int) -> int:
    index = _index(column)
    if index is None or (labels is not None and any(_index(each) is not None for each in labels)):
        return _position_of_name(argument, column, labels, d)
    if not -d <= index < d:
        raise ValueError(f"{argument} must hold columns of X, which has {_listed(labels, d)}; got {index}")
    return index % d


def _position_of_name(argument: str, column: Any, labels: Sequence[Any] | None, d: int) -> int:
    if isinstance(column, bool | np.bool_) or not isinstance(column, str if labels is None else Hashable):
        raise TypeError(f"{argument} must hold positions (integers) or names (text) of columns; got {column!r}")
    column = str(column) if isinstance(column, str) else column
    if labels is None:
        raise ValueError(
            f"{argument} must choose columns by position where X has no names; X has {_listed(None, d)}; got {column!r}"
        )
    found = [k for k, each in enumerate(labels) if hash(each) == hash(column) and each == column]
    if len(found) != 1:
        raise ValueError(
            f"{argument} must name columns of X, which has {'several' if found else 'none'} called {column!r}; it has "
            f"{_listed(labels, d)}"
        )
    return found[0]


def _index(column: Any) -> int | None:
    """Return an integer; None of anything else, booleans too, and of arrays of several."""
    if isinstance(column, bool | np.bool_) or getattr(column, "ndim", None):
        return None
    try:
        return operator.index(column)
    except TypeError:
        return None


def _listed(labels: Sequence[Any] | None, d: int) -> str:
    """The columns that there are."""
    if labels is None:
        return "column 0" if d == 1 else f"columns 0 to {d - 1}"
    more = f" and {d - _NAMED} more" if d > _NAMED else ""
    return f"the columns {', '.join(map(repr, labels[:_NAMED]))}{more}"


def denominator(Z: Any, d: int, backend: ModuleType) -> Any:
    """Check the data of the denominator; return them with shape (k, d)."""
    out, shape = density_check.data(Z, backend, "Z")
    if out.shape[1] != d:
        raise ValueError(f"Z must have {d} columns like X; got shape {shape}")
    return out


def denominator_bandwidth(h: Any, h_denominator: Any, d: int) -> Any:
    """Return the bandwidth of the denominator on the host, by default that of the numerator."""
    return h if h_denominator is None else bandwidth(h_denominator, d, "denominator_bandwidth")


def mass(values: Any, name: str = "mass") -> np.ndarray:
    """Return probabilities between 0 and 1, float64, of a number or an array of any shape on the host."""
    out = density_check.rectangular(name, values)
    if out.dtype.kind not in "fiu" or out.dtype.itemsize > 8:
        raise TypeError(f"{name} must be a number between 0 and 1, or an array of them; got {values!r}")
    out = out.astype(np.float64)
    inside = (out > 0) & (out < 1)
    if not inside.all():
        raise ValueError(f"{name} must lie between 0 and 1; got {out[~inside].flat[0]:g}")
    return out


def one_left(rest: Sequence[int], labels: Sequence[Any] | None, d: int, function: str) -> None:
    """Raise where several columns are left: a distribution function is of one."""
    if len(rest) > 1:
        raise ValueError(
            f"given must leave one column of X for {function}; of {_listed(labels, d)} {len(rest)} are left: give all "
            "but one, or leave columns out of X"
        )


def unlinked(h: np.ndarray, domain: Domain | None) -> None:
    """Raise for a covariance that links a periodic column: images of a point then have conditional means of their own.

    Of bounded columns it is refused anyway.
    """
    if domain is None or h.ndim < 2:
        return
    linked = ((h != 0) & ~np.eye(len(h), dtype=bool)).any(axis=1) & domain.periodic
    if linked.any():
        raise ValueError(
            f"h must not correlate a periodic column with another for conditional distributions; correlated columns "
            f"with periods: {', '.join(map(str, np.flatnonzero(linked)))}: write numpy.sqrt(numpy.diag(h))"
        )


def levels_shape(levels: np.ndarray, m: int | None) -> tuple[int, ...]:
    """Shape of quantiles of these levels, at ``m`` given values or, None, at one."""
    if m is None:
        return levels.shape
    if levels.ndim and levels.shape[-1] not in (1, m):
        raise ValueError(
            f"q must be a number, or have shape ({m},) or (k, 1), to be broadcast with the {m} given values; got shape "
            f"{levels.shape}"
        )
    return np.broadcast_shapes(levels.shape, (m,))


def size(value: Any) -> int:
    """Return a number of rows to draw, 1 or more."""
    return core_check.count("size", value, most=core_check.MOST)


def masses(values: Any) -> np.ndarray:
    """Return probabilities of regions, at least one in a row."""
    out = mass(values)
    if out.ndim > 1 or not out.size:
        raise ValueError(f"mass must be a number, or an array of one dimension with some; got shape {out.shape}")
    return out


def two_columns(d: int) -> None:
    """Raise for data that have no polygons."""
    if d != 2:
        raise ValueError(
            f"X must have two columns for regions; got {d}: choose two, or write cukde.hdr_threshold(X, h)"
        )


def latitudes(low: float, high: float) -> None:
    """Raise for a second column that holds no latitudes in degrees."""
    if not -90 <= low <= high <= 90:
        raise ValueError(
            f"with degrees=True the second column of X must hold latitudes from -90 to 90; got {low:g} to {high:g}: "
            "longitudes come first"
        )


def grid(steps: np.ndarray, most: int) -> None:
    """Raise for a first grid that is too large."""
    if not float(np.prod(steps + 1.0)) <= most:
        sizes = " x ".join(f"{each:.3g}" for each in steps)
        raise ValueError(
            f"X must reach over fewer bandwidths for regions: the grid would have {sizes} nodes; leave out rows far "
            "from all others, or enlarge h"
        )


def level_of_region(least: float) -> None:
    """Raise where rows lie too far apart for a density without their own kernels."""
    if not 0 < least < math.inf:
        raise ValueError(
            f"h must be larger for regions of these masses: the density at some rows, without their own kernels, is "
            f"{least:g}, and no region has this level; enlarge h, or take smaller masses or other units"
        )


def areas(total: float) -> None:
    """Raise for regions whose area float64 cannot hold."""
    if not math.isfinite(total):
        raise ValueError("X must have regions whose area is less than 1.8e308; rescale its columns and h")


def level(value: Any) -> float:
    """Return the level of an interval, between 0 and 1."""
    out = core_check.real("level", value)
    if not 0 < out < 1:
        raise ValueError(f"level must lie between 0 and 1, as 0.95; got {value!r}")
    return out


def several_rows(share: float) -> None:
    """Raise where a single row has all of the weight that counts; ``share`` is the sum of the squared shares."""
    if not 1 - share > _LEAST_OTHERS:
        raise ValueError(
            f"weights must let two rows or more count for density_interval; all but {1 - share:.1g} of the sum of "
            "their squares is of one row"
        )


def draws(value: Any) -> int:
    """Return a number of draws of the largest error, enough for a quantile."""
    out = core_check.count("draws", value)
    if not _FEWEST_DRAWS <= out <= _MOST_DRAWS:
        raise ValueError(f"draws must be from {_FEWEST_DRAWS} to {_MOST_DRAWS:,}; got {out}")
    return out


def not_simultaneous(simultaneous: Any) -> None:
    """Raise for simultaneous intervals of Dask arrays, whose draws are of data in memory."""
    if core_check.flag("simultaneous", simultaneous):
        raise ValueError(
            "simultaneous must be False for Dask arrays: its draws take data in memory, such as X.compute()"
        )
