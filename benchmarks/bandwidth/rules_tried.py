"""The rules for a bandwidth that the studies compare: by reference to a normal, by cross-validation, by folds."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

import cukde
from benchmarks.bandwidth.estimates import Fitted, Method
from cukde.bandwidth import data, selection
from cukde.core import dispatch


class Rule(NamedTuple):
    """How a bandwidth, (d,) on the host, is chosen for data."""

    name: str
    choose: Callable[[Any], np.ndarray]


def rules(method: Method, d: int, most: int) -> Iterator[Rule]:
    """Those that a method has in d dimensions; those that take pairs of rows take ``most`` rows at most."""
    bandwidth: Any = cukde.bandwidth
    if method.name == "kde":
        yield Rule("scott", lambda X: _host(bandwidth.scott(X)))
        if d == 1:
            yield Rule("isj", lambda X: _host(bandwidth.isj(X)))
    yield Rule("reference", lambda X: _host(method.rule(X)))
    if method.cross_validated is not None:
        for objective in ("likelihood", "least_squares"):
            if not (method.signed and objective == "likelihood"):
                yield Rule(objective, _cross_validation(method, objective, d, most))
    if not method.signed and method.name not in selection.CANDIDATES:  # of those the selection tells it
        yield Rule("folds", lambda X: by_folds(method, X, most))


def by_folds(method: Method, X: Any, most: int) -> np.ndarray:
    """The bandwidth whose estimates of four fifths of the rows give the other fifth most likelihood."""

    def log_density(X: Any, Y: Any, h: np.ndarray, *, log: bool) -> Any:
        return Fitted(method, X, h).log_density(Y)

    def rule(X: Any, *, weights: None) -> Any:
        return method.rule(X)

    backend = dispatch.backend(X)
    folds = selection.Folds.of(data.rows(X, None, backend), most, 0, False, {}, backend)
    return folds.best(selection.Candidate(log_density, rule, method.order, ""))[0]


def _cross_validation(method: Method, objective: str, d: int, most: int) -> Callable[[Any], np.ndarray]:
    def choose(X: Any) -> np.ndarray:
        part = X[:most]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", cukde.BandwidthRangeWarning)
            found = cukde.bandwidth.cross_validate(part, method.cross_validated, objective=objective)  # type: ignore
        return _host(found.bandwidth) * (len(part) / len(X)) ** method.rate(d)

    return choose


def _host(h: Any) -> np.ndarray:
    return np.asarray(dispatch.backend(h).asnumpy(h), np.float64)
