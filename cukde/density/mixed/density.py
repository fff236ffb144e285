"""Densities of mixed columns: a problem of Gaussians in more columns, with constants of its own."""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType
from typing import Any, cast

import numpy as np

from cukde.core import check as core_check, dispatch
from cukde.core.frames.categories import Kinds
from cukde.density import check as density_check, leave_one_out, results
from cukde.density.arguments import prepare
from cukde.density.domains.domain import Domain, domain_of
from cukde.density.mixed import check
from cukde.density.mixed.kernels import Mixed
from cukde.density.problem import Problem
from cukde.density.whitening import Whitening

FEW, LEAST_QUERIES = 8, 16
"""Cells of queries that are taken one by one: so many, or so few that each has as many queries in the mean."""


def data(X: Any, kinds: Any, **others: Any) -> tuple[ModuleType, Any, Kinds] | None:
    """Check data and the kinds of their columns; return the backend, the data with codes, and their levels.

    None where all columns are numbers.
    """
    backend = dispatch.backend(X, **others)
    with backend.device_of(X):
        x, _ = density_check.data(X, backend)
        found, x = check.of_array(kinds, x, backend)
        return None if found is None else (backend, x, found)


def density(X: Any, Y: Any, h: Any, kinds: Any, options: Mapping[str, Any], *, log: bool, exact: bool = False) -> Any:
    """Return the density at the queries, or its logarithm; None where all columns are numbers.

    With ``exact`` it is float64, whatever the dtype of the points is.
    """
    weights = options.get("weights")
    found = data(X, kinds, Y=Y, weights=weights)
    if found is None:
        return None
    check.options(options)
    backend, x, levels = found
    with backend.device_of(x):
        y = None
        if not (Y is None or Y is X):
            y = check.coded("Y", density_check.queries(Y, x.shape[1], backend)[0], levels, kinds, backend)
        if core_check.flag("check_finite", options.get("check_finite", True)):
            points = {"X": x} if y is None else {"X": x, "Y": y}
            core_check.finite({name: bool(backend.xp.isfinite(a).all()) for name, a in points.items()})
        ends = {name: options[name] for name in ("bounds", "periods") if options.get(name) is not None}
        mixed = Mixed(levels, check.bandwidth(check.found(h, x, levels, weights, **ends), levels))
        return of_points(mixed, x, y, backend, options, log=log, exact=exact)


def of_points(
    mixed: Mixed,
    x: Any,
    y: Any | None,
    backend: ModuleType,
    options: Mapping[str, Any],
    *,
    log: bool,
    exact: bool = False,
) -> Any:
    """Return the density of checked data with codes, or its logarithm, at queries (m, d); None: the data themselves."""
    xp, given = backend.xp, {**options}
    dtype = density_check.result_dtype(*(a for a in (x, y) if a is not None))
    given["precision"] = density_check.precision(given.get("precision"), dtype)
    domain = domain_of(given.pop("bounds", None), given.pop("periods", None), x.shape[1])
    if domain is not None:
        check.domain(domain, mixed.kinds, leave_one_out=bool(given.get("leave_one_out")))
    out = None
    if not given.get("leave_one_out", False):
        out = _by_cells(mixed, x, y, backend, given, domain)
    if out is None:
        out = _by_distances(mixed, x, y, backend, given)
    out = out if log else xp.exp(out)
    return results.cast(out, np.dtype(np.float64) if exact else dtype)


def _by_cells(
    mixed: Mixed, x: Any, y: Any | None, backend: ModuleType, given: Mapping[str, Any], domain: Domain | None
) -> Any | None:
    """Log densities: at the queries of each cell that of the numbers, weighted by the kernels of the levels."""
    xp, numbers = backend.xp, mixed.numbers
    y = x if y is None else y
    cells, which = mixed.cells(backend.asnumpy(y))
    if domain is None and len(cells) > FEW and len(cells) * LEAST_QUERIES > len(y):
        return None
    if numbers:
        part = None if domain is None else domain.of_columns(numbers)
        ends = {} if part is None else part.arguments
        problem, _ = prepare(x[:, numbers], y[:, numbers], mixed.h[numbers], **given, **ends)
    else:
        problem, _ = prepare(xp.zeros((len(x), 1)), xp.zeros((1, 1)), 1.0, **given)
        problem = problem._replace(whitening=_of_constant(1, 0.0))
    log_w = problem.options.log_weights
    log_w = xp.full(len(x), -np.log(len(x))) if log_w is None else log_w
    out, queries = xp.empty(len(y)), cast(Any, problem.Y)
    with problem.device:
        for i, cell in enumerate(cells):
            rows = xp.asarray(np.flatnonzero(which == i))
            of_cell = log_w + mixed.log_kernel(x, cell, xp)
            most = float(of_cell.max())
            options = problem.options._replace(log_weights=of_cell - most)
            outside = None if problem.outside is None else problem.outside[rows]
            Y = xp.ascontiguousarray(queries[rows]) if numbers else queries
            one = problem._replace(Y=Y, query_shape=Y.shape, options=options, outside=outside)
            out[rows] = one._replace(dtype=np.dtype(np.float64)).density(log=True) + most
    at_levels = y[:, mixed.levels]
    return out + (at_levels - at_levels).sum(axis=1)  # NaN of codes that are


def _by_distances(mixed: Mixed, x: Any, y: Any | None, backend: ModuleType, given: Mapping[str, Any]) -> Any:
    """Log densities by Gaussians in more columns, in which kernels of levels are distances."""
    xp = backend.xp
    with np.errstate(over="ignore", invalid="ignore"):
        origin = backend.asnumpy(backend.mean(x)).astype(np.float64)
    X = mixed.apply(x, origin, xp)
    Y = None if y is None else mixed.apply(y, origin, xp)
    problem, _ = prepare(X, Y, 1.0, **given)
    problem = problem._replace(whitening=_of_constant(X.shape[1], mixed.log_norm))
    with problem.device:
        missing: Any = 0.0
        if (log_sums := mixed.log_sums(x, xp)) is not None:
            problem, missing = _divided(problem, log_sums)
        return problem.density(log=True) + missing


def _of_constant(d: int, log_norm: float) -> Whitening:
    """The whitening of points that are in bandwidths, of a kernel with a constant of its own."""
    out = Whitening(np.asarray(1.0), d)
    out.log_norm = log_norm
    return out


def _divided(problem: Problem, log_sums: Any) -> tuple[Problem, Any]:
    """Divide each kernel by what it sums to; return what log densities then lack.

    Without own terms sums are divided by the weight that is left, which is that of the weights as they were given.
    """
    xp, log_w = problem.xp, problem.options.log_weights
    if log_w is None:
        log_w = xp.full(len(problem.X), -np.log(len(problem.X)))
    each = log_w - log_sums
    missing: Any = 0.0
    if problem.leave_one_out:
        missing = leave_one_out.log_rest(each, xp) - leave_one_out.log_rest(log_w, xp)
    return problem._replace(options=problem.options._replace(log_weights=each)), missing
