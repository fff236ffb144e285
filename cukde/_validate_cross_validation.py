"""The errors a user of cross-validation can cause, raised before anything is summed where they can be."""

from __future__ import annotations

from typing import Any

import numpy as np

from cukde import _validate

METHODS = ("kde", "sd", "laplace")
OBJECTIVES = ("likelihood", "least_squares")

# Of the bandwidths of a column: one set of coordinates serves them all, whatever the precision.
_RATIO = 1e12


def options(method: Any, objective: Any, per_dimension: Any) -> None:
    """Check what is asked for."""
    _validate.option("method", method, METHODS)
    _validate.option("objective", objective, OBJECTIVES)
    _validate.flag("per_dimension", per_dimension)
    if method == "laplace" and objective == "likelihood":
        raise ValueError(
            'objective="likelihood" is not for method="laplace", whose densities can be negative and have no '
            'logarithm there; write objective="least_squares"'
        )


def bandwidths(given: Any, d: int) -> np.ndarray:
    """Return deviations, (B, d) float64, of (B,) numbers or (B, d) deviations on the host."""
    if isinstance(given, str):
        raise ValueError(f"bandwidths must be numbers; got {given!r}: write None for a grid about the reference rule")
    try:
        out = np.asarray(given)
    except ValueError as error:
        raise ValueError(f"bandwidths must be a rectangular array of numbers: {error}") from None
    if out.size == 0:
        raise ValueError(f"bandwidths must be at least one; got shape {out.shape}")
    if out.dtype.kind not in "fiu" or out.dtype.itemsize > 8:
        raise TypeError(f"bandwidths must be real numbers; got {given!r}")
    if out.ndim == 0:
        raise ValueError(f"bandwidths must be several, of shape (B,) or (B, {d}); got the number {given!r}: write [h]")
    if out.ndim > 2 or (out.ndim == 2 and out.shape[1] != d):
        raise ValueError(
            f"bandwidths must have shape (B,), each for every column, or (B, {d}), a deviation a column; "
            f"got shape {out.shape}"
        )
    out = out.astype(np.float64)
    if not np.isfinite(out).all():
        raise ValueError("bandwidths must be finite; they hold NaN or infinity")
    if not (out > 0).all():
        raise ValueError(f"bandwidths must be positive; the smallest is {out.min():g}")
    if (out.max(axis=0) / _RATIO >= out.min(axis=0)).any():
        raise ValueError(
            f"bandwidths must lie within a factor of {_RATIO:g}; they go from {out.min():g} to {out.max():g}"
        )
    return out if out.ndim == 2 else np.repeat(out[:, None], d, axis=1)


def within_reach(widths: np.ndarray, least: np.ndarray, *, single: bool) -> None:
    """Raise where squared distances in bandwidths would leave the range of the arithmetic.

    ``widths`` are the largest distances to a row, a column each, and ``least`` the smallest bandwidths.
    """
    limit = 1e18 if single else 1e150
    radius = float(np.linalg.norm(widths / limit / least))
    if not radius < 1:
        raise ValueError(
            f"X must span less than {limit:g} of the smallest bandwidths; it spans {radius:.3g} times as many: "
            "leave out bandwidths that are so small"
        )


def scores(found: np.ndarray) -> np.ndarray:
    """Raise where no bandwidth can be chosen, because densities leave the range of float64."""
    if np.isnan(found).any() or not np.isfinite(found.max()) or not found.any():
        raise ValueError(
            "X has densities beyond the range of float64 (2e-308 to 1.8e308, in units of 1/volume): rescale its "
            'columns to a spread of about 1, or write objective="likelihood"'
        )
    return found
