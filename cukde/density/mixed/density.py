"""Densities of mixed columns: a problem of Gaussians in more columns, with constants of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any, NamedTuple

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


class Posed(NamedTuple):
    """A problem of Gaussians, and what its log densities lack, (m,) or None."""

    problem: Problem
    missing: Any | None

    def density(self, *, log: bool) -> Any:
        """Return the density at the queries, or its logarithm."""
        problem = self.problem
        with problem.device:
            if self.missing is None:
                return problem.density(log=log)
            out = problem._replace(dtype=np.dtype(np.float64)).density(log=True) + self.missing
            return results.cast(out if log else problem.xp.exp(out), problem.dtype)


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
        return posed(mixed, x, y, backend, options).density(log=log)


def of_search(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options of a search for the bandwidths, which takes no bounds and periods."""
    return {name: options[name] for name in ("bounds", "periods") if options.get(name) is not None}


def posed(mixed: Mixed, x: Any, y: Any | None, backend: ModuleType, options: Mapping[str, Any]) -> Posed:
    """Pose the density of data with codes, at queries (m, d) with codes; None: the data themselves."""
    xp = backend.xp
    given = {**options}
    d, check_finite = x.shape[1], core_check.flag("check_finite", given.get("check_finite", True))
    if check_finite:
        points = {"X": x} if y is None else {"X": x, "Y": y}
        core_check.finite({name: bool(xp.isfinite(a).all()) for name, a in points.items()})
    dtype = density_check.result_dtype(*(a for a in (x, y) if a is not None))
    given["precision"] = density_check.precision(given.get("precision"), dtype)
    domain = domain_of(given.pop("bounds", None), given.pop("periods", None), d)
    if domain is not None:
        domain_check(domain, mixed)
        if check_finite:
            domain.hold(x, backend)
    with np.errstate(over="ignore", invalid="ignore"):
        origin = backend.asnumpy(backend.mean(x)).astype(np.float64)
    X = mixed.apply(x, origin, xp)
    Y = None if y is None else mixed.apply(y, origin, xp)
    given |= {} if domain is None else _scaled(domain, mixed, origin, dtype)
    problem, _ = prepare(X, Y, 1.0, **given)
    whitening = Whitening(np.asarray(1.0), X.shape[1], single=problem.whitening.single)
    whitening.log_norm = mixed.log_norm
    problem, missing = problem._replace(whitening=whitening, dtype=dtype), None
    with problem.device:
        if (log_sums := mixed.log_sums(x, xp)) is not None:
            problem, missing = _divided(problem, log_sums)
    return Posed(problem, missing)


def _divided(problem: Problem, log_sums: Any) -> tuple[Problem, Any | None]:
    """Divide each kernel by what it sums to.

    Without own terms sums are divided by the weight that is left, which is that of the weights as they were given.
    """
    xp, log_w = problem.xp, problem.options.log_weights
    if log_w is None:
        log_w = xp.full(len(problem.X), -np.log(len(problem.X)))
    each = log_w - log_sums
    missing = None
    if problem.leave_one_out:
        missing = leave_one_out.log_rest(each, xp) - leave_one_out.log_rest(log_w, xp)
    return problem._replace(options=problem.options._replace(log_weights=each)), missing


def domain_check(domain: Domain, mixed: Mixed) -> None:
    """Raise for bounds or periods of columns of categories."""
    for k, of in enumerate(mixed.kinds):
        for name, flags in (("bounds", domain.bounded), ("periods", domain.periodic)):
            if of is not None and flags[k]:
                raise ValueError(f"{name} must be None for columns of categories; got some for column {k}")


def _scaled(domain: Domain, mixed: Mixed, origin: np.ndarray, dtype: np.dtype) -> dict[str, Any]:
    """The domain of the columns of the Gaussian, its ends as the dtype of the points rounds them."""
    bounds: list[Any] = []
    periods: list[Any] = []
    for k, (of, where) in enumerate(zip(mixed.kinds, mixed.places, strict=True)):
        if of is not None:
            bounds += [None] * where.shape[1]
            periods += [None] * where.shape[1]
            continue
        ends = (float(end[k : k + 1].astype(dtype)[0]) for end in (domain.low, domain.high))
        low, high = ((end - float(origin[k])) / float(mixed.h[k]) for end in ends)
        bounds.append((low if np.isfinite(low) else None, high if np.isfinite(high) else None))
        periods.append(float(domain.period[k] / mixed.h[k]) if np.isfinite(domain.period[k]) else None)
    return {"bounds": bounds, "periods": periods}
