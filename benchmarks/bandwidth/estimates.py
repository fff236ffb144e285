"""The methods that the studies compare, fitted to data at one bandwidth: the density, and draws from a majorant."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import cukde
from cukde.core import dispatch


class Draws(NamedTuple):
    """What points of an estimate are made of: the same for every method and bandwidth of a sample."""

    rows: Any  # (m,): whose kernels they are of
    normals: Any  # (m, d)
    exponentials: Any  # (m,)
    turns: Any  # (m,), uniform: which of a kernel's parts


class Fitted:
    """An estimate: a method at data and a bandwidth ``h``, (d,) on the host."""

    def __init__(self, method: Method, X: Any, h: Any) -> None:
        self._xp = dispatch.backend(X).xp
        self._method, self._X, self._h = method, X, h
        self._points = method.moved(X, h) if method.moved else X
        self._options = method.options(X, h) if method.options else {}

    def log_density(self, Y: Any) -> Any:
        """At the rows of Y, float64; NaN where it is negative."""
        return self._method.estimate(self._points, Y, self._h, log=True, **self._options).astype(self._xp.float64)

    def density(self, Y: Any) -> Any:
        """At the rows of Y, float64."""
        return self._method.estimate(self._points, Y, self._h, **self._options).astype(self._xp.float64)

    def draw(self, draws: Draws) -> Any:
        """Points of the majorant."""
        xp, d = self._xp, self._X.shape[1]
        steps = draws.normals
        if self._method.signed:
            # Of K s, s = |step|^2 / 2, which is Gamma(d/2 + 1), beside K, in shares d/2 and 1 + d/2.
            longer = xp.sqrt(1 + 2 * draws.exponentials / (steps * steps).sum(axis=1))
            steps = steps * xp.where(draws.turns * (1 + d) < d / 2, longer, 1.0)[:, None]
        if "local_factors" in self._options:
            steps = steps * self._options["local_factors"][draws.rows][:, None]
        return (self._points[draws.rows] + xp.asarray(self._h) * steps).astype(self._X.dtype)

    def majorant(self, Y: Any, density: Any) -> Any:
        """The density that :meth:`draw` draws from, at points where the estimate has ``density``.

        The estimate is at most 1 + d times as large, so that weights of points drawn from it are bounded.
        """
        if self._method.is_its_majorant:
            return density
        kde = cukde.kde(self._points, Y, self._h).astype(self._xp.float64)
        if not self._method.signed:
            return kde
        d = self._X.shape[1]  # the sum of the absolute terms over its integral
        return ((2 + d) * kde - density) / (1 + d)


class Method(NamedTuple):
    """An estimator as users call it."""

    name: str
    estimate: Callable[..., Any]
    rule: Callable[[Any], Any]  # the bandwidth were the data normal
    order: int  # the best bandwidth falls like n^(-1 / (d + 2 order))
    cross_validated: str | None  # its name for cross_validate
    moved: Callable[[Any, Any], Any] | None = None  # points whose KDE it is
    options: Callable[[Any, Any], dict[str, Any]] | None = None
    signed: bool = False
    is_its_majorant: bool = True

    def rate(self, d: int) -> float:
        return 1 / (d + 2 * self.order)


def _local_factors(X: Any, h: Any) -> dict[str, Any]:
    return {"local_factors": cukde.bandwidth.abramson(X, h).astype(X.dtype)}


def _twice(X: Any, h: Any) -> Any:
    return cukde.debias(X, h, steps=2)


def methods() -> dict[str, Method]:
    """All of them, by name."""
    bandwidth: Any = cukde.bandwidth
    found = [
        Method("kde", cukde.kde, bandwidth.silverman, 2, "kde"),
        Method("sd", cukde.kde, bandwidth.sd, 4, "sd", moved=cukde.debias),
        Method("sd2", cukde.kde, functools.partial(bandwidth.sd, steps=2), 4, None, moved=_twice),
        Method("laplace", cukde.laplace_kde, bandwidth.laplace, 4, "laplace", signed=True, is_its_majorant=False),
        Method(
            "positive",
            cukde.positive_kde,
            bandwidth.positive,
            4,
            "positive",
            options=lambda X, h: {"mass": cukde.positive_mass(X, h)},
            is_its_majorant=False,
        ),
        Method("abramson", cukde.kde, bandwidth.silverman, 2, None, options=_local_factors),
    ]
    return {method.name: method for method in found}
