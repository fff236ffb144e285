"""Densities of a few queries in float64 by plain array operations, and errors against them; NumPy or CuPy arrays."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

NEAR = 80.0
"""Smallest exponent r^2/(2h^2) of a query up to which its relative error counts; beyond, the error of the logarithm."""

MOST_ROWS = 4096
"""Rows of the data that are debiased exactly for one set of queries."""

_LEAST_SHARE = 1e-9  # of the largest share that a row has in a query's sum, for it to be debiased exactly
_REACH = 1.5  # bandwidths by which these shares are found: rows move
_ELEMENTS = 2**27  # float64 numbers in memory at a time
_MOST, _MOST_LOG = 1e300, 690.0  # JSON has no infinite numbers


class Reference(NamedTuple):
    """Log densities of queries and the smallest exponent of each."""

    log_density: Any
    exponent: Any
    exact_share: float | None
    """Least share of a query's sum that rows hold which were debiased exactly; None where none were."""


def squares(X: Any, Y: Any) -> Any:
    """Squared distances of queries to data, by differences, shape (len(Y), len(X))."""
    of, y = np.zeros_like(X, dtype=np.float64, shape=(len(Y), len(X))), Y.astype(np.float64)
    for k in range(X.shape[1]):
        off = y[:, k : k + 1] - X[:, k].astype(np.float64)
        off *= off
        of += off
    return of


def kde(X: Any, Y: Any, h: float) -> Reference:
    """Density of the data."""
    exponents = squares(X, Y)
    exponents /= 2 * h * h
    return _reference(exponents, X.shape[1], h, None)


def sd_kde(X: Any, moved: Any, Y: Any, h: float, exactly: bool) -> Reference:
    """Density of the debiased data ``moved``.

    ``exactly`` debiases those rows of X anew that carry weight at the queries: in float64, at most 4,096, those of the
    largest shares in a sum. What the others hold stays as it is given.
    """
    moved, rows = moved.astype(np.float64), None  # a copy
    if exactly:
        rows = heaviest(X, Y, h)
        moved[rows] = debiased(X, rows, h)
    exponents = squares(moved, Y)
    exponents /= 2 * h * h
    return _reference(exponents, X.shape[1], h, rows)


def heaviest(X: Any, Y: Any, h: float) -> Any:
    """Rows of the data with the largest shares in the sums of 1.5 bandwidths, of those with at least 1e-9."""
    exponents = squares(X, Y)
    exponents /= 2 * (_REACH * h) ** 2
    shares = np.exp(exponents.min(axis=1)[:, None] - exponents)
    shares /= shares.sum(axis=1)[:, None]
    most = shares.max(axis=0)
    first = np.argsort(-most)[:MOST_ROWS]
    return first[most[first] >= _LEAST_SHARE]


def debiased(X: Any, rows: Any, h: float) -> Any:
    """Some rows of the data after debiasing, by products of centred points."""
    mean = X.mean(axis=0, dtype=np.float64)
    x = (X.astype(np.float64) - mean) / h
    halves = (x * x).sum(axis=1) / 2
    moved = np.empty_like(x, shape=(len(rows), x.shape[1]))
    step = max(1, _ELEMENTS // len(x))
    for start in range(0, len(rows), step):
        some = rows[start : start + step]
        phi = x[some] @ x.T
        phi -= halves
        phi -= halves[some][:, None]
        np.exp(phi, out=phi)
        moved[start : start + step] = (x[some] + phi @ x / phi.sum(axis=1)[:, None]) / 2
    return moved * h + mean


def _reference(exponents: Any, d: int, h: float, rows: Any) -> Reference:
    least = exponents.min(axis=1)
    phi = np.exp(least[:, None] - exponents)
    sums = phi.sum(axis=1)
    log_density = np.log(sums) - least - (math.log(exponents.shape[1]) + 0.5 * d * math.log(2 * math.pi * h * h))
    share = None if rows is None else float((phi[:, rows].sum(axis=1) / sums).min())
    return Reference(log_density, least, share)


class Errors(NamedTuple):
    """Worst errors over a set of queries; None where no query is of that kind."""

    relative: float | None
    """Of the density, where the smallest exponent is below 80."""
    of_log: float | None
    """Of its logarithm elsewhere, over 8 eps times that exponent."""


def errors(reference: Reference, log_density: Any, density: Any = None) -> Errors:
    """Worst errors of log densities, beside half a unit in their last place; and of densities where they are normal."""
    info = np.finfo(log_density.dtype)
    exact, exponent = reference.log_density, reference.exponent
    off = np.maximum(0, abs(log_density.astype(np.float64) - exact) - 0.5 * float(info.eps) * abs(exact))
    of_log = off / (8 * float(info.eps) * np.maximum(exponent, NEAR))
    near = exponent < NEAR
    relative = _worst(np.expm1(np.minimum(off, _MOST_LOG))[near])
    if density is not None:
        relative = max((x for x in (relative, density_error(reference, density)) if x is not None), default=None)
    return Errors(relative, _worst(of_log[~near]))


def density_error(reference: Reference, density: Any) -> float | None:
    """Worst relative error of densities, where the smallest exponent is below 80 and the density a normal number."""
    info, exact = np.finfo(density.dtype), reference.log_density
    counted = (reference.exponent < NEAR) & (exact > math.log(float(info.tiny)) + 1)
    counted &= exact < math.log(float(info.max)) - 1
    return _worst(abs(density.astype(np.float64)[counted] / np.exp(exact[counted]) - 1))


def _worst(off: Any) -> float | None:
    """The largest; that of what is not a number is as large as errors get."""
    return float(np.nan_to_num(off, nan=_MOST, posinf=_MOST).max()) if len(off) else None


def fields(name: str, found: Errors) -> dict[str, float | None]:
    """Errors of a set of queries for a row."""
    return {f"rel_err_{name}": found.relative, f"log_err_{name}": found.of_log}
