"""The estimator of columns of categories beside numbers: their codes in a fit and at queries, densities and samples."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np

from cukde.core import dispatch
from cukde.core.entry import missing, names, points as entry_points
from cukde.core.frames import categories, columns
from cukde.core.frames.categories import Kinds, Levels
from cukde.core.frames.columns import labels_of
from cukde.core.frames.libraries import known, library_of, named
from cukde.density import check as density_check, rows_by_weight
from cukde.density.domains.domain import Domain, arguments_of, domain_of
from cukde.density.mixed import check as mixed_check, density as mixed_density
from cukde.density.mixed.kernels import Mixed
from cukde.estimators import bandwidths

_ONLY = {"method": "kde", "kernel": "gaussian", "metric": "euclidean"}
_OBJECTS = "OUS"  # kinds of arrays that may hold labels


def coded(estimator: Any, X: Any, *, reset: bool) -> tuple[Any, bool]:
    """Return points as an array, and whether labels in it are codes; a fit finds the kinds of its columns.

    Levels of arrays of numbers are found in :func:`of_numbers`.
    """
    frame = X if library_of(X) is not None else known(X)
    if reset:
        estimator._kinds, estimator._library = None, None
    if frame is not None:
        if reset:
            labels = labels_of(X)
            d = len(labels) if labels is not None else 1
            estimator._kinds = categories.of_frame(frame, _asked(estimator, labels or names.of_series(X), d))
            library: Any = library_of(frame)
            estimator._library = library.library if labels is not None else None
        if estimator._kinds is not None:
            labels = labels_of(X)
            if labels is not None and len(labels) != len(estimator._kinds):
                return entry_points.taken("X", X), False  # whose errors say what is wrong
            array = columns.taken("X", frame, kinds=estimator._kinds)
            missing.refuse("X", frame, array, may_omit=False)
            return array, True
    elif estimator.kinds is not None and not dispatch.is_gpu_array(X) and not hasattr(X, "toarray"):
        rows = np.asarray(X) if isinstance(X, np.ndarray) else np.asarray(X, object)
        if rows.dtype.kind in _OBJECTS and rows.ndim == 2:
            if reset:
                estimator._kinds = _of_rows(rows, _asked(estimator, None, rows.shape[1]))
            if estimator._kinds is not None:
                return categories.coded_rows("X", rows, estimator._kinds), True
    return entry_points.taken("X", X), False


def _asked(estimator: Any, labels: names.Labels, d: int) -> Any:
    """Return the parameter, a mapping as a list in the order of the columns."""
    return names.by_column({"kinds": estimator.kinds}, labels, d).get("kinds", estimator.kinds)


def _of_rows(rows: np.ndarray, kinds: Any) -> Kinds | None:
    """Levels of the columns of an array of objects."""
    found: list[Levels | None] = []
    for k, word in enumerate(categories.words_of(kinds, rows.shape[1])):
        if word in (None, "number"):
            found.append(None)
        else:
            values = [*dict.fromkeys(rows[:, k].tolist())]
            found.append(categories.levels("X", values, str(word), f"its column {k}"))
    return tuple(found) if any(found) else None


def of_numbers(estimator: Any, a: Any, backend: ModuleType, *, reset: bool) -> Any:
    """Return an array of numbers with codes in place of those of levels."""
    if reset and estimator.kinds is not None and estimator._kinds is None:
        estimator._kinds, a = mixed_check.of_array(_asked(estimator, None, a.shape[1]), a, backend)
        return a
    if estimator._kinds is None:
        return a
    for k, of in enumerate(estimator._kinds):
        if of is not None and np.array(of.values).dtype.kind not in "fiub":
            raise TypeError(
                f"X must have the categories of fit in column {k}, {categories.listed(of.values)}; got an array of "
                "numbers: give a frame, or an array of objects"
            )
    return mixed_check.coded("X", a, estimator._kinds, ["categorical"] * a.shape[1], backend)


def taken(
    estimator: Any, a: Any, weights: Any | None, backend: ModuleType, to_function: tuple[Any, Any]
) -> tuple[Any, np.ndarray, Any | None, None, np.dtype, Domain | None]:
    """Return what a fit to points with codes has: see ``KernelDensity._taken``."""
    kinds, given = estimator._kinds, estimator._by_column(a.shape[1])
    for name, only in _ONLY.items():
        if given[name] != only:
            raise ValueError(f"{name} must be {only!r} where columns have categories; got {given[name]!r}")
    domain = domain_of(given["bounds"], given["periods"], a.shape[1])
    if domain is not None:
        domain.hold(a, backend)
    value = given["bandwidth"]
    if callable(value):
        rows, of_rows = to_function
        rule = bandwidths.rule(value)
        value = rule or (value(rows) if of_rows is None else value(rows, weights=of_rows))
    value = names.bandwidth("bandwidth", value, estimator._labels, a.shape[1])
    h = mixed_check.of_data(value, a, kinds, weights, "bandwidth", **arguments_of(domain))
    dtype = density_check.result_dtype(a)
    return backend.xp.array(a, dtype=dtype, order="C"), h, weights, None, dtype, domain


def log_density(estimator: Any, Y: Any, backend: ModuleType, *, leave_one_out: bool) -> Any:
    """Return log densities at points with codes."""
    dtype = estimator._result_dtype(Y)
    options = {"weights": estimator.sample_weight_, "precision": estimator._precision(dtype)}
    options |= {"rtol": estimator._tolerance, "leave_one_out": leave_one_out} | estimator._domain_arguments
    mixed, points = Mixed(estimator._kinds, estimator.bandwidth_), estimator.points_
    return mixed_density.of_points(mixed, points, None if leave_one_out else Y, backend, options, log=True)


def sampled(estimator: Any, count: int, rng: Any, backend: ModuleType) -> Any:
    """Draw rows of the data and move each by its kernel; return them as the data of the fit came."""
    u = rng.uniform(0, 1, size=count)
    rows = rows_by_weight.rows(len(estimator.points_), estimator.sample_weight_, u)
    chosen = backend.asnumpy(estimator.points_[backend.xp.asarray(rows)])
    points = Mixed(estimator._kinds, estimator.bandwidth_).moved(chosen, rng)
    if estimator._domain is not None:
        points = estimator._domain.brought_in(points, np)
    kinds, dtype = estimator._kinds, np.dtype(estimator._dtype)
    if estimator._library is not None:
        library, out = named(estimator._library), {}
        for label, column, of in zip(estimator._labels, points.T, kinds, strict=True):
            if of is None:
                out[label] = column.astype(dtype)
            elif of.is_category:
                out[label] = library.of_categories([*of.values], column.astype(np.int64), of.ordered)
            else:
                out[label] = categories.labels_of_codes(of, column)
        return library.frame(out)
    parts = [
        column if of is None else categories.labels_of_codes(of, column)
        for column, of in zip(points.T, kinds, strict=True)
    ]
    if any(part.dtype == object for part in parts):
        return np.stack([part.astype(object) for part in parts], axis=1)
    return backend.asarray(np.stack(parts, axis=1).astype(dtype))


def encoded(kinds: Kinds | None) -> Any:
    """Levels for a file; those of several types are refused, whose types it does not have."""
    for of in kinds or ():
        if of is not None and np.asarray(of.values).tolist() != [*of.values]:
            raise TypeError(
                f"save takes categories of one type; got {categories.listed(of.values)}: pickle the estimator"
            )
    return None if kinds is None else [None if of is None else [[*of.values], *of[1:]] for of in kinds]


def loaded(fitted: dict[str, Any]) -> None:
    """Check levels of a file and what belongs to them, and put them in."""
    kinds = fitted["_kinds"] = tuple(
        None if each is None else Levels(tuple(np.asarray(each[0]).tolist()), bool(each[1]), bool(each[2]))
        for each in fitted["_kinds"]
    )
    points = fitted["points_"]
    mixed_check.bandwidth(fitted["bandwidth_"], kinds, "bandwidth")
    for k, of in enumerate(kinds):
        codes = points[:, k]
        if of is not None and not ((codes >= 0) & (codes < len(of.values)) & (codes == np.floor(codes))).all():
            raise ValueError("points do not fit categories")


def refuse_lazy(kinds: Any) -> None:
    """Raise for kinds beside Dask collections."""
    if kinds is not None:
        raise ValueError("kinds must be None for Dask arrays: densities of categories take data in memory")
