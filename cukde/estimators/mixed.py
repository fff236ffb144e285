"""The estimator of columns of categories beside numbers: their codes in a fit and at queries, densities and samples."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np

from cukde.core.entry import names, points as entry_points
from cukde.core.frames import categories
from cukde.core.frames.columns import labels_of
from cukde.core.frames.libraries import known, library_of, named
from cukde.density import check as density_check, rows_by_weight
from cukde.density.domains.domain import Domain, arguments_of, domain_of
from cukde.density.mixed import check as mixed_check, density as mixed_density
from cukde.density.mixed.kernels import Mixed
from cukde.estimators import bandwidths

_ONLY = {"method": "kde", "kernel": "gaussian", "metric": "euclidean"}


def coded(estimator: Any, X: Any, *, reset: bool) -> Any:
    """Return points as an array, codes in place of labels of a frame; a fit finds the kinds of its columns."""
    labels = labels_of(X)
    if reset:
        frame = X if library_of(X) is not None else known(X)
        of_frame = None if frame is None else categories.of_frame(frame, _asked(estimator, X))
        estimator._kinds, estimator._library = of_frame, None
        if of_frame is not None and labels is not None:
            estimator._library = getattr(library_of(frame), "library", None)
    return entry_points.taken("X", X, kinds=estimator._kinds)


def _asked(estimator: Any, X: Any) -> Any:
    """Return the parameter, a mapping as a list in the order of the columns."""
    labels = labels_of(X)
    d = len(labels) if labels is not None else X.shape[1] if getattr(X, "ndim", 1) == 2 else 1
    return names.by_column({"kinds": estimator.kinds}, labels or names.of_series(X), d).get("kinds", estimator.kinds)


def of_numbers(estimator: Any, a: Any, given: Any, backend: ModuleType, *, reset: bool) -> Any:
    """Return an array with codes in place of the numbers of levels, where it was given as no frame."""
    if library_of(given) is not None or known(given) is not None or estimator.kinds is estimator._kinds is None:
        return a
    if reset:
        estimator._kinds, a = mixed_check.of_array(_asked(estimator, a), a, backend)
    elif estimator._kinds is not None:
        a = mixed_check.coded("X", a, estimator._kinds, [None] * a.shape[1], backend)
    return a


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
    h = mixed_check.found(value, a, kinds, weights, "bandwidth", **arguments_of(domain))
    h = mixed_check.bandwidth(h, kinds, "bandwidth")
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
    columns = [
        column.astype(estimator._dtype) if of is None else of.labels(column)
        for column, of in zip(points.T, estimator._kinds, strict=True)
    ]
    if estimator._library is None:
        return backend.asarray(np.stack(columns, axis=1).astype(estimator._dtype))
    library = named(estimator._library)
    for k, of in enumerate(estimator._kinds):
        if of is not None and of.is_category:
            columns[k] = library.of_categories(columns[k].tolist(), [*of.values], of.ordered)
    return library.frame(dict(zip(estimator._labels, columns, strict=True)))


def refuse_lazy(kinds: Any) -> None:
    """Raise for kinds beside Dask collections."""
    if kinds is not None:
        raise ValueError("kinds must be None for Dask arrays: densities of categories take data in memory")
