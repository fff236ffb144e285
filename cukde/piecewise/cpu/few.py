"""Piecewise polynomials at few points, by NumPy alone: nothing is compiled, and Numba is not loaded."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np

from cukde.core import dtypes
from cukde.piecewise.pieces import Pieces

__all__ = ["Prepared", "evaluate", "prepare", "serves"]

# Products up to which this takes less time than a compiled loop and its call.
_MOST_PRODUCTS = 2**10

_LOG_2_HIGH = 355 / 512  # its nine bits times an exponent are exact
_LOG_2_LOW = -2.1219444005469058277e-4
# Outside these ranges the exponential is 0 or infinity.
_RANGE = {np.dtype(np.float32): (-105, 90), np.dtype(np.float64): (-747, 711)}


class Prepared(NamedTuple):
    """A polynomial in the dtype of the arithmetic."""

    coefficients: np.ndarray  # (k, m), or (k, m, r) of r > 1 values at a point
    inner: np.ndarray  # the knots between pieces
    starts: np.ndarray  # (m,)
    ends: tuple[Any, Any]
    local: bool
    reduction: str | None


def serves(pieces: Pieces, points: int) -> bool:
    """Whether so many points are few."""
    k, _, r = pieces.coefficients.shape
    return points * k * r <= _MOST_PRODUCTS


def prepare(pieces: Pieces, dtype: np.dtype) -> Prepared:
    """See :func:`cukde.piecewise.cpu.passes.prepare`."""
    number = dtypes.arithmetic(np.dtype(dtype))
    knots = np.ascontiguousarray(pieces.knots, number)
    c = np.ascontiguousarray(pieces.coefficients, number)
    c = c[:, :, 0] if c.shape[2] == 1 else c
    return Prepared(c, knots[1:-1], knots[:-1], (knots[0], knots[-1]), pieces.local, pieces.reduction)


def evaluate(
    prepared: Prepared,
    x: np.ndarray,
    extrapolate: bool | Literal["periodic", "clamp"],
    out: np.ndarray | None = None,
) -> np.ndarray:
    """See :func:`cukde.piecewise.cpu.passes.evaluate`."""
    points = x.astype(prepared.starts.dtype, copy=False)
    with np.errstate(all="ignore"):  # infinities, whose products may be NaN
        if prepared.reduction == "exp":
            values = _exp(prepared, points)
        elif prepared.reduction == "log":
            values = _log(prepared, points)
        else:
            values = _values(prepared, points, extrapolate)
        if out is None:
            return values.astype(x.dtype, copy=False)
        out[...] = values
        return out


def _values(prepared: Prepared, points: np.ndarray, extrapolate: bool | Literal["periodic", "clamp"]) -> np.ndarray:
    first, last = prepared.ends
    if extrapolate == "clamp":
        points = np.minimum(np.maximum(points, first), last)
    elif extrapolate == "periodic":
        points = first + (points - first) % (last - first)
    c, u = _located(prepared, points)
    values = _horner(c, u)
    total = float(np.add.reduce(values, axis=None))
    if total - total != 0:  # something is not finite: once for all, since a search for NaN takes longer
        _write_limits(c, u, values)
    if extrapolate is False:
        outside = ~((points >= first) & (points <= last))
        values[outside] = np.nan
    elif len(c) == 1:  # constants do not propagate NaN
        values[np.isnan(points)] = np.nan
    return values


def _located(prepared: Prepared, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Coefficients (k, N), or (k, N, r), of the pieces of points, and the numbers whose powers they multiply."""
    piece = prepared.inner.searchsorted(points, "right")
    u = points - prepared.starts[piece] if prepared.local else points
    c = prepared.coefficients.take(piece, axis=1)
    return c, u if c.ndim == 2 else u[:, None]


def _horner(c: np.ndarray, u: np.ndarray) -> np.ndarray:
    values = c[0]
    for row in c[1:]:
        values = values * u
        values += row
    return values


def _write_limits(c: np.ndarray, u: np.ndarray, values: np.ndarray) -> None:
    """Write limits at infinite u where Horner's rule gave NaN, by a product of a leading zero and infinity."""
    u = np.broadcast_to(u, values.shape)
    wrong = np.isnan(values) & np.isinf(u)
    if wrong.any():
        c, u = c[:, wrong], u[wrong]
        leading = (c[:-1] != 0).argmax(axis=0)
        leading[(c[:-1] == 0).all(axis=0)] = len(c) - 1
        falls = (u < 0) & ((len(c) - 1 - leading) % 2 == 1)
        limits = np.take_along_axis(c, leading[None], axis=0)[0]
        infinite = np.where(leading < len(c) - 1, np.where(falls, -np.inf, np.inf), 1)
        values[wrong] = limits * infinite


def _exp(prepared: Prepared, points: np.ndarray) -> np.ndarray:
    number = points.dtype.type
    lowest, highest = _RANGE[points.dtype]
    a = np.minimum(np.maximum(points, number(lowest)), number(highest))
    n = np.rint(a * number(1 / np.log(2)))
    values = _horner(*_located(prepared, (a - n * number(_LOG_2_HIGH)) - n * number(_LOG_2_LOW)))
    return np.ldexp(values, np.where(np.isnan(n), 0, n).astype(np.int32))


def _log(prepared: Prepared, points: np.ndarray) -> np.ndarray:
    number = points.dtype.type
    mantissa, n = np.frexp(points)
    low = mantissa < number(0.75)  # of [1/2, 1): the polynomial is for [3/4, 3/2)
    mantissa, n = np.where(low, 2 * mantissa, mantissa), n - low
    values = _horner(*_located(prepared, mantissa)) + n.astype(points.dtype) * number(np.log(2))
    values = np.where(points > 0, values, np.where(points == 0, number(-np.inf), number(np.nan)))
    return np.where(points == np.inf, points, values)
