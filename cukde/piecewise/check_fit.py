"""Argument checks of ``fit_piecewise``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from cukde.core import check as core_check

DTYPES = ("float16", "float32", "float64")


def dtype(value: Any) -> np.dtype:
    """Return the dtype of the evaluation."""
    try:
        out = np.dtype(value)
    except TypeError:
        out = None
    if out is None or out.name not in DTYPES:
        raise ValueError(f"dtype must be one of {', '.join(DTYPES)}; got {value!r}")
    return out


def domain(value: Any) -> tuple[float, float]:
    """Return the ends of an interval."""
    try:
        low, high = map(float, value)
    except (TypeError, ValueError):
        raise ValueError(f"domain must be two finite increasing numbers; got {value!r}") from None
    if not (np.isfinite(low) and np.isfinite(high) and low < high):
        raise ValueError(f"domain must be two finite increasing numbers; got {value!r}")
    return low, high


def knots(value: Any, ends: tuple[float, float]) -> np.ndarray:
    """Return an array of knots in float64."""
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
        return core_check.count("pieces", pieces), None
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


def sampled(func: Callable[[np.ndarray], Any]) -> Callable[[np.ndarray], np.ndarray]:
    """Return func for arrays of any shape, with checked results; func itself gets arrays of shape (n,)."""

    def values(x: np.ndarray) -> np.ndarray:
        flat = x.reshape(-1)
        with np.errstate(all="ignore"):  # values that are not finite raise below
            y = np.asarray(func(flat.copy()))
        if y.shape != flat.shape:
            raise ValueError(
                f"func must return one value for each x: called with shape {flat.shape}, it returned shape {y.shape}"
            )
        if y.dtype.kind not in "fiub":
            raise ValueError(f"func must return real numbers; got dtype {y.dtype}")
        y = y.astype(np.float64)
        finite = np.isfinite(y)
        if not finite.all():
            i = int(np.argmin(finite))
            raise ValueError(f"func must be finite on the domain; got {y[i]} at x = {float(flat[i])!r}")
        return y.reshape(x.shape)

    return values
