"""Gradients of piecewise polynomials: their derivative, itself one, and powers of the points summed over each piece."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from cukde.gradients.operation import Arrays, Operation, Struct
from cukde.piecewise import check
from cukde.piecewise.polynomial import PiecewisePolynomial
from cukde.piecewise.pwpa import pwpa


def slope(p: PiecewisePolynomial, x: Any, nu: int = 0, extrapolate: Any = None) -> Any:
    """The derivative of what ``p(x, nu, extrapolate)`` returns, with respect to x."""
    beyond = check.extrapolate(p.extrapolate if extrapolate is None else extrapolate)
    values = p(x, nu + 1, False if beyond == "raise" else beyond)
    if beyond != "clamp":
        return values
    return _where_beyond(x, float(p.x.min()), float(p.x.max()), values, 0.0)  # constant there, as its derivatives are


class Curve(Operation):
    """The call of a :class:`cukde.PiecewisePolynomial`, the option ``p``."""

    operands = ("x",)

    @classmethod
    def struct(cls, arrays: Arrays, options: Mapping[str, Any]) -> Struct:
        x, p = arrays["x"], _polynomial(options["p"])
        return Struct(x.shape + p.c.shape[2:], x.dtype if x.dtype.kind == "f" else np.dtype(np.float64))

    def _prepare(self) -> None:
        _polynomial(self.options["p"])

    def _result(self, wanted: frozenset[str]) -> Any:
        given = dict(self.options)
        return given.pop("p")(self.arrays["x"], **given)

    def _gradients(self, g: Any, wanted: frozenset[str]) -> dict[str, Any]:
        x, given = self.arrays["x"], dict(self.options)
        along = slope(given.pop("p"), x, **given)
        return {"x": (g * along).sum(axis=tuple(range(x.ndim, g.ndim)))}


class Table(Operation):
    """:func:`cukde.pwpa`, with fixed knots."""

    operands = ("x", "coefficients")

    @classmethod
    def struct(cls, arrays: Arrays, options: Mapping[str, Any]) -> Struct:
        x = arrays["x"]
        pwpa(np.zeros(0), arrays["coefficients"], **options)
        return Struct(x.shape, x.dtype if x.dtype.kind == "f" else np.dtype(np.float64))

    def _result(self, wanted: frozenset[str]) -> Any:
        return pwpa(self.arrays["x"], self.arrays["coefficients"], **self.options)

    def _gradients(self, g: Any, wanted: frozenset[str]) -> dict[str, Any]:
        xp, options = self.xp, dict(self.options)
        x, a = self.arrays["x"], self.arrays["coefficients"]
        knots = check.on_host("knots", options.pop("knots")).astype(np.float64)
        layout, origin = options.pop("layout", "aos"), options.pop("origin", "global")
        beyond = options.pop("extrapolate", "clamp")
        columns = layout == "aos"
        a = (a if columns else a.T).astype(xp.float64)
        degree = a.shape[1] - 1
        found = {}
        if "x" in wanted:
            powers = xp.arange(degree, 0, -1.0) if degree else xp.zeros(1)
            at = (a[:, :degree] if degree else a) * powers
            values = pwpa(x, at, knots, origin=origin, extrapolate=False if beyond == "raise" else beyond)
            found["x"] = g * (_where_beyond(x, knots[0], knots[-1], values, 0.0) if beyond == "clamp" else values)
        if "coefficients" in wanted:
            found["coefficients"] = _powers_by_piece(x, g, knots, degree, origin, beyond, xp)
            if not columns:
                found["coefficients"] = found["coefficients"].T
        return found


def _powers_by_piece(x: Any, g: Any, knots: np.ndarray, degree: int, origin: str, beyond: Any, xp: Any) -> Any:
    """Sums of g u^j over the points u of each piece, (pieces, degree + 1), the highest power first."""
    u, weight, ends = x.astype(xp.float64).reshape(-1), g.astype(xp.float64).reshape(-1), xp.asarray(knots)
    low, high = float(knots[0]), float(knots[-1])
    if beyond == "clamp":
        u = xp.clip(u, low, high)
    elif beyond == "periodic":
        inside = (low <= u) & (u < high)
        u = xp.where(inside, u, low + xp.mod(u - low, high - low))
    piece = xp.clip(xp.searchsorted(ends, u, side="right") - 1, 0, len(knots) - 2)
    if origin == "local":
        u = u - ends[piece]
    if beyond is False:  # NaN there, whatever the coefficients are
        u = _where_beyond(x.reshape(-1), low, high, u, np.nan)
    powers = [weight]
    for _ in range(degree):
        powers.append(powers[-1] * u)
    return xp.stack([xp.bincount(piece, weights=one, minlength=len(knots) - 1) for one in powers[::-1]], axis=1)


def _where_beyond(x: Any, low: float, high: float, values: Any, beyond: float) -> Any:
    """Values, but for points beyond the knots."""
    outside = (x < low) | (x > high)
    values[outside] = beyond
    return values


def _polynomial(p: Any) -> PiecewisePolynomial:
    if not isinstance(p, PiecewisePolynomial):
        raise TypeError(f"p must be a cukde.PiecewisePolynomial; got a {type(p).__name__}")
    return p
