"""Sums of Gaussian kernels over few pairs on the CPU, by NumPy alone.

A compiled loop, threads and a limit of BLAS cost more than all the work of such a call. Every sum is double precision.
Exponents come from differences, or where these are many from a product of points about the centre.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from cukde.core import dispatch
from cukde.core.cpu import arrays
from cukde.density.options import LOG_ZERO, Options
from cukde.density.sums import Epilogue, Output, PartialSums, nothing, ready, to_density

# Up to so many pairs, threads are slower (two cores with AVX2).
_MOST_PAIRS = 2**15
# Multiply-adds of a product up to which BLAS takes it in the caller's thread: OpenBLAS's own limit.
_MOST_PRODUCTS = 2**18

# Differences take less time than the operands of a product do up to so many coordinates of pairs.
_FEW_DIFFERENCES = 2**11
# Coordinates up to which differences take less time than compiled loops, where there may be no product.
_MOST_DIFFERENCES = 2**15
# Scaled squared radius times sqrt(d) up to which exponents may come from a product, whose terms cancel. Worst density
# error measured at the limit: 3e-13.
_PRODUCT_RADIUS = 1000.0

# Scaled squared radius up to which no exponent is below -600: exponentials are normal numbers without a reference.
_NEAR_RADIUS = 300.0


class _Pairs(NamedTuple):
    """Exponents of all pairs without weights, and what their moments need."""

    exponents: np.ndarray  # (m, n)
    near: bool  # whether all are above -600
    differences: np.ndarray | None = None  # (d, m, n): of data and queries
    operands: tuple[np.ndarray, np.ndarray] | None = None  # (d + 2, m) and (d + 2, n): of queries and data


def serves(pairs: int, columns: int) -> bool:
    """Whether so many pairs are few, with points, or values, of so many columns."""
    return 0 < pairs <= _MOST_PAIRS and pairs * columns <= _MOST_PRODUCTS


def partial_sums(
    X: np.ndarray,
    Y: np.ndarray | None,
    h: float,
    output: Output,
    options: Options,
    *,
    values: np.ndarray | None = None,
    ratio: bool = False,
) -> PartialSums:
    """Return what :func:`cukde.density.pairs.cpu.passes.partial_sums` does, without local factors."""
    if options.log_weights is not None and not options.log_weights.min() > LOG_ZERO:
        # Rows without weight are dropped: no exponent is low enough for them beside a query far from the rest.
        Y = X if Y is None else Y
        counted = np.flatnonzero(options.log_weights > LOG_ZERO)
        X, options = X[counted], options._replace(log_weights=options.log_weights[counted])
        values = None if values is None else values[counted]
        if len(X) == 0:
            k = {"moments": X.shape[1], "values": 0 if values is None else values.shape[1]}.get(output)
            return nothing(len(Y), k, np)
    pairs = _pairs(X, Y, h, options)
    if pairs is not None:
        return _summed(pairs, X.shape[1], h, output, options, values)
    every = dispatch.passes("cukde.density.pairs", arrays)
    sums: PartialSums = every.partial_sums(X, Y, h, output, options, values=values, ratio=ratio)
    return sums


def density(
    X: np.ndarray, Y: np.ndarray | None, h: float, options: Options, epilogue: Epilogue, *, points: None = None
) -> np.ndarray:
    """See :func:`cukde.density.pairs.cpu.passes.density`."""
    return to_density(partial_sums(X, Y, h, "sum", options), *epilogue, np)


def debias(
    X: np.ndarray, Y: np.ndarray, h: float, score_h: float, options: Options
) -> tuple[np.ndarray, np.ndarray, None]:
    """See :func:`cukde.density.pairs.cpu.passes.debias`."""
    sums = partial_sums(X, None, score_h, "moments", options.at_ratio(h / score_h))
    return *ready(X, Y, sums, h, score_h), None


def _pairs(X: np.ndarray, Y: np.ndarray | None, h: float, options: Options) -> _Pairs | None:
    """Exponents of all pairs; None where compiled loops are faster."""
    n, d = X.shape
    coordinates = n * (n if Y is None else len(Y)) * d
    if coordinates > _FEW_DIFFERENCES and options.precision != "ieee":
        pairs = _by_products(X, Y, h, options.centre)
        if pairs is not None:
            return pairs
    return _by_differences(X, X if Y is None else Y, h) if coordinates <= _MOST_DIFFERENCES else None


def _by_differences(X: np.ndarray, Y: np.ndarray, h: float) -> _Pairs:
    data = np.array(X.T, np.float64, order="C")  # so that loops run over data
    differences = data[:, None, :] - Y.T[:, :, None]
    exponents = np.einsum("kij,kij->ij", differences, differences)
    exponents *= -0.5 / h**2
    return _Pairs(exponents, False, differences=differences)


def _by_products(X: np.ndarray, Y: np.ndarray | None, h: float, centre: np.ndarray) -> _Pairs | None:
    """Exponents z_y . z_x - |z_x|^2 / 2 - |z_y|^2 / 2; None where the terms are too large."""
    data, radius = _operand(X, h, centre)
    if Y is None:
        queries = data.copy()
    else:
        queries, radius_of_queries = _operand(Y, h, centre)
        radius = max(radius, radius_of_queries)
    if not radius * math.sqrt(X.shape[1]) <= _PRODUCT_RADIUS:
        return None
    queries[-1], queries[-2] = queries[-2], 1.0
    return _Pairs(queries.T @ data, radius <= _NEAR_RADIUS, operands=(queries, data))


def _operand(A: np.ndarray, h: float, centre: np.ndarray) -> tuple[np.ndarray, float]:
    """Points z about the centre in bandwidths, -|z|^2 / 2 and 1, (d + 2, rows); and the largest |z|^2."""
    d = A.shape[1]
    out = np.empty((d + 2, len(A)))
    z = out[:d]
    np.subtract(A.T, centre[:, None], z)
    z *= 1 / h
    squares = np.einsum("ki,ki->i", z, z)
    np.multiply(squares, -0.5, out[d])
    out[d + 1] = 1.0
    return out, float(np.maximum.reduce(squares, initial=0.0))


def _summed(
    pairs: _Pairs, d: int, h: float, output: Output, options: Options, values: np.ndarray | None
) -> PartialSums:
    exponents = pairs.exponents
    factors = exponents + (1 + 0.5 * d) if output == "laplace" else None
    if options.log_weights is not None:
        exponents += options.log_weights
    if pairs.near and options.log_weights is None:
        reference = np.zeros(len(exponents))
    else:
        reference = np.maximum.reduce(exponents, axis=1)
        exponents -= reference[:, None]
    terms = np.exp(exponents, out=exponents)
    if factors is not None:
        return PartialSums(reference, np.einsum("ij,ij->i", terms, factors))
    if output == "values":
        with np.errstate(over="ignore", invalid="ignore"):  # near the end of their range the sum is infinite
            moments = terms @ values.astype(np.float64, copy=False)
        return PartialSums(reference, np.add.reduce(terms, axis=1), moments)
    if output == "sum":
        return PartialSums(reference, np.add.reduce(terms, axis=1))
    if pairs.differences is not None:
        return PartialSums(reference, np.add.reduce(terms, axis=1), np.einsum("ij,kij->ik", terms, pairs.differences))
    queries, data = pairs.operands
    sums = terms @ data.T
    total = sums[:, -1].copy()
    moments = sums[:, :d] - total[:, None] * queries[:d].T
    moments *= h
    return PartialSums(reference, total, moments)
