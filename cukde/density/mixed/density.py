"""Densities of mixed columns: a problem of Gaussians in more columns, with constants of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any, NamedTuple, cast

import numpy as np

from cukde.core import check as core_check, dispatch
from cukde.core.frames import categories
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


class Columns(NamedTuple):
    """Data of mixed columns in their backend, with codes in place of labels."""

    backend: ModuleType
    x: Any
    kinds: Kinds
    words: Any  # of the kinds, as they were given: levels of a frame, or words

    @classmethod
    def of(cls, X: Any, kinds: Any, **others: Any) -> Columns | None:
        """Check the data and the kinds of their columns; None where all are numbers."""
        backend = dispatch.backend(X, **others)
        with backend.device_of(X):
            x, _ = density_check.data(X, backend)
            words = categories.words_of(kinds, x.shape[1])
            found, coded = check.of_array(words, x, backend)
            return None if found is None else cls(backend, coded, found, words)

    def coded(self, name: str, a: Any, chosen: Sequence[int]) -> Any:
        """Codes of points (m, k) in the chosen columns."""
        kinds, words = ([each[k] for k in chosen] for each in (self.kinds, self.words))
        return check.coded(name, a, tuple(kinds), words, self.backend)


def density(X: Any, Y: Any, h: Any, kinds: Any, options: dict[str, Any], *, log: bool) -> Any | None:
    """Return the density at the queries, or its logarithm; None where all columns are numbers."""
    weights = options.get("weights")
    columns = Columns.of(X, kinds, Y=Y, weights=weights)
    if columns is None:
        return None
    check.options(options)
    backend, x = columns.backend, columns.x
    with backend.device_of(x):
        y = None
        if not (Y is None or Y is X):
            y, _ = density_check.queries(Y, x.shape[1], backend)
            y = columns.coded("Y", y, range(x.shape[1]))
        mixed = Mixed(columns.kinds, check.of_data(h, x, columns.kinds, weights, **of_search(options)))
        return of_points(mixed, x, y, backend, options, log=log)


def of_search(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options of a search for the bandwidths, which takes no bounds and periods."""
    return {name: options[name] for name in ("bounds", "periods") if options.get(name) is not None}


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
    """Return the density of data with codes at queries (m, d) with codes, None: the data themselves; or its logarithm.

    With ``exact`` it is float64, whatever the dtype of the points is.
    """
    xp, given = backend.xp, {**options}
    if core_check.flag("check_finite", given.get("check_finite", True)):
        points = {"X": x} if y is None else {"X": x, "Y": y}
        core_check.finite({name: bool(xp.isfinite(a).all()) for name, a in points.items()})
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
    cells, which = mixed.cells(np.nan_to_num(backend.asnumpy(y)))
    if domain is None and len(cells) > FEW and len(cells) * LEAST_QUERIES > len(y):
        return None
    if numbers:
        part = None if domain is None else domain.of_columns(numbers)
        ends = {} if part is None else part.arguments
        problem, _ = prepare(x[:, numbers], y[:, numbers], mixed.h[numbers], **given, **ends)
    else:
        problem, _ = prepare(xp.zeros((len(x), 1)), xp.zeros((len(y), 1)), 1.0, **given)
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
            Y = xp.ascontiguousarray(queries[rows])
            one = problem._replace(Y=Y, query_shape=Y.shape, options=options, outside=outside)
            out[rows] = one._replace(dtype=np.dtype(np.float64)).density(log=True) + most
    return out


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
