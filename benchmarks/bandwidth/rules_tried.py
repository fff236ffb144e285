"""The rules for a bandwidth that the studies compare: by reference to a normal, by cross-validation, by folds."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

import cukde
from benchmarks.bandwidth.estimates import Fitted, Method
from cukde.core import dispatch

STEP = 2 ** (1 / 3)  # of a grid of bandwidths: the best of it is within 12% of the best of all
_FIRST, _COUNT = 4, 20  # from 2.5 times a reference rule down to 1/32 of it
_PATIENCE = 3  # bandwidths that are no better, one after the other, before the search ends

FOLDS = 5


class Choice(NamedTuple):
    """A bandwidth, (d,) on the host, and what it was chosen by, the greater the better."""

    h: np.ndarray
    score: float = float("nan")


class Rule(NamedTuple):
    """How a bandwidth is chosen."""

    name: str
    choose: Callable[[Any], Choice]


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
    if not method.signed:
        yield Rule("folds", lambda X: by_folds(method, X, most))


def descending(reference: np.ndarray, better: Callable[[np.ndarray], bool]) -> None:
    """Ask whether a bandwidth is ``better`` than those before, from wide to narrow, until some in a row are not."""
    worse = 0
    for step in range(_COUNT):
        worse = 0 if better(reference * STEP ** (_FIRST - step)) else worse + 1
        if worse == _PATIENCE:
            return


def by_folds(method: Method, X: Any, most: int) -> Choice:
    """The bandwidth whose estimates of four fifths of the rows give the other fifth most likelihood."""
    part = X[:most]
    backend, (m, d) = dispatch.backend(X), part.shape
    place = backend.xp.arange(m) % FOLDS
    pairs = [(part[place != fold], part[place == fold]) for fold in range(FOLDS)]
    found = Choice(np.full(d, np.nan), -np.inf)

    def better(h: np.ndarray) -> bool:
        nonlocal found
        sums = [Fitted(method, fitted, h).log_density(held).sum() for fitted, held in pairs]
        score = float(sum(sums)) / m
        if score > found.score:
            found = Choice(h, score)
            return True
        return False

    descending(_host(method.rule(pairs[0][0])).h, better)
    return found._replace(h=found.h * (len(pairs[0][0]) / len(X)) ** method.rate(d))


def _cross_validation(method: Method, objective: str, d: int, most: int) -> Callable[[Any], Choice]:
    def choose(X: Any) -> Choice:
        part = X[:most]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", cukde.BandwidthRangeWarning)
            found = cukde.bandwidth.cross_validate(part, method.cross_validated, objective=objective)  # type: ignore
        return Choice(_host(found.bandwidth).h * (len(part) / len(X)) ** method.rate(d), float(found.score))

    return choose


def _host(h: Any) -> Choice:
    return Choice(np.asarray(dispatch.backend(h).asnumpy(h), np.float64))
