"""Argument checks of piecewise polynomials, made before anything is computed."""

from __future__ import annotations

import operator
from types import ModuleType
from typing import Any

import numpy as np

from cukde.core import check as core_check, dispatch
from cukde.core.cpu import arrays as host
from cukde.piecewise.pieces import Pieces


def extrapolate(value: Any) -> Any:
    """Return one of True, False, "periodic", "clamp" and "raise"."""
    if isinstance(value, str):
        if value in ("periodic", "clamp", "raise"):
            return value
    elif isinstance(value, bool | np.bool_ | int) and value in (0, 1):
        return bool(value)
    raise ValueError(f'extrapolate must be True, False, "periodic", "clamp" or "raise"; got {value!r}')


_ELSE = 'write extrapolate="clamp" for the values at the ends, True for the outer polynomials, or False for NaN'


def within(values: Any, x: Any, knots: Any, backend: ModuleType) -> None:
    """Raise if x, whose values are NaN beyond the increasing knots, lies beyond them; on a GPU this waits."""
    if values.size == 0:
        return
    least = values.min()  # NaN if any of them is
    if least == least:
        return
    low, high = float(knots[0]), float(knots[-1])
    flat = x.reshape(-1).astype(np.float64, copy=False)
    places = backend.xp.flatnonzero((flat < low) | (flat > high))
    if places.size:
        others = f", the first of {places.size} beyond" * (places.size > 1)
        raise ValueError(
            f"x must lie within the knots, from {low!r} to {high!r}; got {float(flat[int(places[0])])!r}{others}: "
            + _ELSE
        )


def limits_within(a: float, b: float, knots: np.ndarray) -> None:
    """Raise if limits of integration lie beyond the increasing knots."""
    if min(a, b) < knots[0] or max(a, b) > knots[-1]:
        raise ValueError(
            f"a and b must lie within the knots, from {float(knots[0])!r} to {float(knots[-1])!r}; got {a!r} and {b!r}"
            f": {_ELSE}"
        )


def order(nu: Any) -> int:
    """Return the order of a derivative."""
    try:
        return operator.index(nu)
    except TypeError:
        raise TypeError(f"nu must be an integer; got {nu!r}") from None


_HIGHEST_ORDER = 1000


def order_of_antiderivative(nu: int) -> None:
    """Raise for orders so high that the coefficients, of the size of 1 / nu!, vanish."""
    if nu > _HIGHEST_ORDER:
        raise ValueError(f"nu must be at most {_HIGHEST_ORDER} for an antiderivative; got {nu}")


def on_host(name: str, a: Any) -> np.ndarray:
    """Return real numbers on the host; those already there are not copied."""
    out: np.ndarray = core_check.array(name, dispatch.to_host(a), host)
    return out


def held(name: str, a: Any) -> np.ndarray:
    """Return a read-only copy of finite floating-point numbers on the host; integers become float64."""
    out = on_host(name, a)
    out = out.astype(out.dtype if out.dtype.kind == "f" else np.float64)
    finite(name, out)
    out.flags.writeable = False
    return out


def finite(name: str, a: np.ndarray) -> None:
    """Check that all entries are finite."""
    if not np.isfinite(a).all():
        raise ValueError(f"{name} must be finite; got {int((~np.isfinite(a)).sum())} NaN or infinite entries")


def knots(name: str, x: np.ndarray, *, decreasing: bool, equal_ends: bool = False) -> None:
    """Check that knots are at least two, and strictly in order, or but for the first and the last two."""
    if x.ndim != 1 or len(x) < 2:
        raise ValueError(f"{name} must have shape (pieces + 1,) with at least one piece; got {x.shape}")
    rises = (x[1:] > x[:-1]).astype(int) - (x[1:] < x[:-1])
    if equal_ends and x[0] != x[-1]:
        rises[[0, -1]] += (rises[[0, -1]] == 0) * (1 if x[-1] > x[0] else -1)
    direction = rises[0] if decreasing and rises[0] else 1
    wrong = np.flatnonzero(rises != direction)
    if wrong.size:
        way = "strictly increasing or strictly decreasing" if decreasing else "strictly increasing"
        i = wrong[0]
        raise ValueError(f"{name} must be {way}; got {x[i]:g} and then {x[i + 1]:g} at index {i + 1}")


def coefficients(c: np.ndarray, pieces: int) -> None:
    """Check coefficients of shape (k, pieces, ...)."""
    if c.ndim < 2 or c.shape[0] == 0 or c.shape[1] != pieces or c.size == 0:
        raise ValueError(
            f"c must have shape (coefficients, {pieces}, ...), a column for each of the {pieces} pieces between "
            f"{pieces + 1} knots; got {c.shape}"
        )


def raw_coefficients(coefficients: np.ndarray, pieces: int, layout: str) -> None:
    """Check coefficients of :func:`cukde.pwpa`."""
    axis, shape = (0, f"({pieces}, degree + 1)") if layout == "aos" else (1, f"(degree + 1, {pieces})")
    if coefficients.ndim != 2 or coefficients.shape[axis] != pieces or coefficients.size == 0:
        raise ValueError(
            f'coefficients must have shape {shape} for layout="{layout}" and {pieces + 1} knots; '
            f"got {coefficients.shape}"
        )


def representable(pieces: Pieces, dtype: np.dtype) -> None:
    """Check that rounding to the dtype of the arithmetic leaves finite numbers and at least one piece."""
    if pieces.knots.size < 2 or not np.isfinite(pieces.knots).all():
        raise ValueError(f"the knots are too large or too close together for {dtype} x; write x.astype('float64')")
    if not np.isfinite(pieces.coefficients).all():
        raise ValueError(f"the coefficients are beyond the range of {dtype}; write x.astype('float64')")


def output(out: Any, x: Any, backend: ModuleType, **inputs: Any) -> None:
    """Check an output array for the values at x, which must not overlap x or the other inputs."""
    xp = backend.xp
    if not isinstance(out, xp.ndarray) or isinstance(out, np.ma.MaskedArray):
        kind = "NumPy" if xp is np else "CuPy"
        raise TypeError(f"out must be a {kind} array like x; got {type(out).__name__}")
    if out.shape != x.shape or out.dtype != x.dtype:
        raise ValueError(f"out must have shape {x.shape} and dtype {x.dtype} like x; got {out.shape}, {out.dtype}")
    if isinstance(out, np.ndarray) and not out.flags.writeable:
        raise ValueError("out must be writeable; got a read-only array")
    for name, a in {"x": x, **inputs}.items():
        # The cheap test first: shares_memory of CuPy sorts all addresses.
        if isinstance(a, xp.ndarray) and xp.may_share_memory(out, a) and xp.shares_memory(out, a):
            raise ValueError(f"out must not overlap {name}")


def bound(name: str, value: Any) -> float:
    """Return a limit of integration."""
    try:
        return float(value)
    except (TypeError, ValueError):
        raise TypeError(f"{name} must be a number; got {value!r}") from None


# --- fit_piecewise ---------------------------------------------------------------------------------------------

_DTYPES = ("float16", "float32", "float64")


def dtype(value: Any) -> np.dtype:
    """Return the dtype of the evaluation."""
    try:
        out = np.dtype(value)
    except TypeError:
        out = None
    if out is None or out.name not in _DTYPES:
        raise ValueError(f"dtype must be one of {', '.join(_DTYPES)}; got {value!r}")
    return out


def domain(value: Any) -> tuple[float, float]:
    """Return the ends of an interval."""
    core_check.unmasked("domain", value)
    try:
        low, high = map(float, value)
    except (TypeError, ValueError):
        low = high = np.nan
    if not (np.isfinite(low) and np.isfinite(high) and low < high):
        raise ValueError(f"domain must be two finite increasing numbers; got {value!r}")
    return low, high


def knots_of_fit(value: Any, ends: tuple[float, float]) -> np.ndarray:
    """Return an array of knots in float64."""
    core_check.unmasked("knots", value)
    try:
        array = np.asarray(value)
        out = array.astype(np.float64) if array.dtype.kind in "fiu" else None
    except (TypeError, ValueError):
        out = None
    if out is None or out.ndim != 1 or len(out) < 2:
        raise ValueError(f"knots must be 'uniform', 'adaptive' or an array of at least two numbers; got {value!r}")
    if not (np.diff(out) > 0).all():
        i = int(np.argmin(np.diff(out) > 0))
        raise ValueError(f"knots must increase strictly; got {out[i]} before {out[i + 1]} at index {i}")
    if (out[0], out[-1]) != ends:
        raise ValueError(f"knots must begin and end with the domain {ends}; got {out[0]} to {out[-1]}")
    return out


def size(pieces: Any, tol: Any, of_knots: int | None) -> tuple[int, float | None]:
    """Return the number of pieces, or 1 if a tolerance chooses it, and the tolerance.

    ``of_knots`` is the number of pieces between the user's knots, if there are any.
    """
    if of_knots is not None:
        if tol is not None:
            raise ValueError("tol chooses the number of pieces, and so does an array of knots: give one of them")
        if pieces is not None and core_check.count("pieces", pieces) != of_knots:
            raise ValueError(f"pieces must be left out or {of_knots} like the knots say; got {pieces}")
        return of_knots, None
    if (pieces is None) == (tol is None):
        raise ValueError(f"exactly one of pieces and tol must be given; got pieces={pieces!r} and tol={tol!r}")
    if tol is None:
        return core_check.count("pieces", pieces, most=core_check.MOST), None
    try:
        out = float(tol)
    except (TypeError, ValueError):
        raise TypeError(f"tol must be a number; got {tol!r}") from None
    if not 0 < out < np.inf:
        raise ValueError(f"tol must be positive and finite; got {tol!r}")
    return 1, out


def distinct(rounded: np.ndarray, name: str) -> None:
    """Check that knots stay distinct after rounding to a dtype."""
    if not (np.diff(rounded) > 0).all():
        i = int(np.argmin(np.diff(rounded) > 0))
        raise ValueError(
            f"{len(rounded) - 1} pieces are too many for {name}: two knots round to {rounded[i]!r}; take fewer pieces"
        )
