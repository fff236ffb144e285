"""Sums of Gaussian kernels over few pairs on the CPU, by NumPy alone.

A compiled loop, threads and a limit of BLAS cost more than all the work of such a call. Every sum is double precision.
Exponents come from differences, or where these are many from a product of points about the centre.
"""

from __future__ import annotations

import math

import numpy as np

from cukde.core import dispatch
from cukde.core.cpu import arrays
from cukde.density.options import Options
from cukde.density.pairs.cpu.weighted import nothing_of, weighted
from cukde.density.sums import Epilogue, Output, PartialSums, ready, to_density

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


def serves(pairs: int, columns: int) -> bool:
    """Whether so many pairs are few, with points, or values, of so many columns."""
    return 0 < pairs <= _MOST_PAIRS and pairs * (columns + 2) <= _MOST_PRODUCTS


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
    if options.log_weights is not None:
        Y = X if Y is None else Y
        X, values, options = weighted(X, values, options)
        if len(X) == 0:
            return nothing_of(output, len(Y), X.shape[1], values)
    pairs = _pairs(X, Y, h, options)
    if pairs is not None:
        return _summed(pairs, X.shape[1], output, options.log_weights, values)
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


class _Differences:
    """Exponents -|x - y|^2 / (2 h^2) of all pairs, by differences."""

    near = False

    def __init__(self, X: np.ndarray, Y: np.ndarray, h: float) -> None:
        data = np.array(X.T, np.float64, order="C")  # so that loops run over data
        self._differences = data[:, None, :] - Y.T[:, :, None]
        self.exponents = np.einsum("kij,kij->ij", self._differences, self._differences)
        self.exponents *= -0.5 / h**2

    def moments(self, reference: np.ndarray, terms: np.ndarray) -> PartialSums:
        return PartialSums(reference, np.add.reduce(terms, axis=1), np.einsum("ij,kij->ik", terms, self._differences))


class _Products:
    """The same as z_y . z_x - |z_x|^2 / 2 - |z_y|^2 / 2, with z the points about a centre in bandwidths."""

    def __init__(self, X: np.ndarray, Y: np.ndarray | None, h: float, centre: np.ndarray) -> None:
        self._h = h
        self._data, radius = _operand(X, h, centre)
        self._queries, radius_of_queries = (self._data.copy(), radius) if Y is None else _operand(Y, h, centre)
        self._queries[-1], self._queries[-2] = self._queries[-2], 1.0
        radius = max(radius, radius_of_queries)
        self.served = radius * math.sqrt(X.shape[1]) <= _PRODUCT_RADIUS
        self.near = radius <= _NEAR_RADIUS  # no exponent is below -600
        if self.served:
            self.exponents = self._queries.T @ self._data

    def moments(self, reference: np.ndarray, terms: np.ndarray) -> PartialSums:
        d = len(self._data) - 2
        sums = terms @ self._data.T
        total = sums[:, -1].copy()
        moments = sums[:, :d] - total[:, None] * self._queries[:d].T
        moments *= self._h
        return PartialSums(reference, total, moments)


def _operand(A: np.ndarray, h: float, centre: np.ndarray) -> tuple[np.ndarray, float]:
    """Points z, -|z|^2 / 2 and 1, (d + 2, rows); and the largest |z|^2."""
    d = A.shape[1]
    out = np.empty((d + 2, len(A)))
    z = out[:d]
    np.subtract(A.T, centre[:, None], z)
    z *= 1 / h
    squares = np.einsum("ki,ki->i", z, z)
    np.multiply(squares, -0.5, out[d])
    out[d + 1] = 1.0
    return out, float(np.maximum.reduce(squares, initial=0.0))


def _pairs(X: np.ndarray, Y: np.ndarray | None, h: float, options: Options) -> _Differences | _Products | None:
    """Exponents of all pairs; None where compiled loops are faster."""
    n, d = X.shape
    coordinates = n * (n if Y is None else len(Y)) * d
    if coordinates > _FEW_DIFFERENCES and options.precision != "ieee":
        products = _Products(X, Y, h, options.centre)
        if products.served:
            return products
    return _Differences(X, X if Y is None else Y, h) if coordinates <= _MOST_DIFFERENCES else None


def _summed(
    pairs: _Differences | _Products, d: int, output: Output, log_weights: np.ndarray | None, values: np.ndarray | None
) -> PartialSums:
    exponents = pairs.exponents
    factors = exponents + (1 + 0.5 * d) if output == "laplace" else None
    if log_weights is not None:
        exponents += log_weights
    if pairs.near and log_weights is None:  # exponentials are normal numbers
        reference = np.zeros(len(exponents))
    else:
        reference = np.maximum.reduce(exponents, axis=1)
        exponents -= reference[:, None]
    terms = np.exp(exponents, out=exponents)
    if output == "moments":
        return pairs.moments(reference, terms)
    if factors is not None:
        return PartialSums(reference, np.einsum("ij,ij->i", terms, factors))
    total = np.add.reduce(terms, axis=1)
    if values is None:
        return PartialSums(reference, total)
    with np.errstate(over="ignore", invalid="ignore"):  # near the end of their range the sum is infinite
        return PartialSums(reference, total, terms @ values.astype(np.float64, copy=False))
