"""Sums of Gaussian kernels over few pairs on the CPU, by NumPy alone.

A compiled loop, threads and a limit of BLAS cost about as much as all the work of such a call, and a process that has
none loaded does without. Every sum is double precision, over blocks of queries that stay in cache. Exponents come from
differences, or where these are many from a product of points about the centre.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from cukde.core import dispatch
from cukde.core.cpu import arrays
from cukde.density.options import Options
from cukde.density.pairs.cpu.ends import ended
from cukde.density.pairs.cpu.weighted import leave_out, nothing_of, weighted
from cukde.density.plan import cpu as plan_cpu
from cukde.density.sums import Output, PartialSums, joined, laplace_constant

_COLUMNS = 32  # of values in a product, of which there may be more

# Scaled squared radius up to which no exponent is below -600: exponentials are normal numbers without a reference.
_NEAR_RADIUS = 300.0

# Where numbers underflow, an exponential takes five times as long: of more terms than these, beside one of 1, exponents
# below the second number are taken for it, and what is as small as the third for 0.
_FEW_TERMS, _NEGLIGIBLE, _NOTHING = 2**11, -700.0, 1e-303


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
        return _summed(pairs, X, output, options, values)
    every = dispatch.passes("cukde.density.pairs", arrays)
    sums: PartialSums = every.partial_sums(X, Y, h, output, options, values=values, ratio=ratio)
    return sums


density, debias = ended(partial_sums)
sums_without_own = partial_sums


def many(
    X: np.ndarray,
    Y: np.ndarray | None,
    h: float,
    output: Output,
    options: Options,
    *,
    values: np.ndarray | None = None,
    ratio: bool = False,
) -> PartialSums | None:
    """Return the same of many pairs, for which compiled loops are faster; None where compiling takes no longer."""
    n, d = X.shape
    m = n if Y is None else len(Y)
    columns = max(d, 0 if values is None else values.shape[1])
    softened = options.local_factors is not None
    served = not options.deterministic and (output == "sum" if softened else output != "cdf")
    if not served or not plan_cpu.answers_meanwhile(n, m, columns, local=softened):
        return None
    if options.log_weights is not None:
        Y = X if Y is None else Y
        X, values, options = weighted(X, values, options)
        if len(X) == 0:
            return nothing_of(output, m, d, values)
    pairs = None if softened or options.precision == "ieee" else _products(X, Y, h, options)
    return _summed(pairs or _Differences.of(X, Y, h, options.lost), X, output, options, values)


class Pairs(Protocol):
    """Exponents of pairs, and what comes of their terms."""

    @property
    def near(self) -> bool:
        """Whether no exponent is below -600."""

    def exponents(self) -> np.ndarray:
        """Natural exponents, (m, n) float64, which the caller may change."""

    def moments(self, reference: np.ndarray, terms: np.ndarray) -> PartialSums:
        """Sums of terms (m, n), and of terms times differences of data and queries."""


class _Differences:
    """Exponents -|x - y|^2 / (2 h^2) of all pairs, by differences."""

    near = False

    def __init__(self, data: np.ndarray, Y: np.ndarray, h: float, lost: tuple[np.ndarray, np.ndarray] | None) -> None:
        self._data, self._queries, self._h, self._lost = data, Y, h, lost
        self.m, self.of_query = len(Y), data.size  # numbers for each query

    @classmethod
    def of(cls, X: np.ndarray, Y: np.ndarray | None, h: float, lost: tuple[Any, Any] | None) -> _Differences:
        if lost is not None:
            lost = lost[0].T, lost[0] if lost[1] is None else lost[1]
        return cls(np.array(X.T, np.float64, order="C"), X if Y is None else Y, h, lost)  # so that loops run over data

    def at(self, rows: slice) -> _Differences:
        """The same for some queries."""
        lost = self._lost and (self._lost[0], self._lost[1][rows])
        return _Differences(self._data, self._queries[rows], self._h, lost)

    def exponents(self) -> np.ndarray:
        self._differences = self._data[:, None, :] - self._queries.T[:, :, None]
        if self._lost is not None:
            of_data, of_queries = self._lost
            self._differences += of_data[:, None, :] - of_queries.T[:, :, None]
        exponents: np.ndarray = np.einsum("kij,kij->ij", self._differences, self._differences)
        exponents *= -0.5 / self._h**2
        return exponents

    def moments(self, reference: np.ndarray, terms: np.ndarray) -> PartialSums:
        moments = np.einsum("ij,kij->ik", terms, self._differences, order="C")
        return PartialSums(reference, np.add.reduce(terms, axis=1), moments)


class _Products:
    """The same as -|z_x|^2 / 2 + z_y . z_x - |z_y|^2 / 2, with z the points about a centre in bandwidths."""

    def __init__(self, data: np.ndarray, queries: np.ndarray, h: float, near: bool) -> None:
        self._data, self._queries, self._h, self.near = data, queries, h, near
        self.m, self.of_query = queries.shape[1], data.shape[1]

    @classmethod
    def of(cls, X: np.ndarray, Y: np.ndarray | None, h: float, centre: np.ndarray) -> _Products | None:
        """None where points lie too far apart."""
        data, radius = _operand(X, h, centre)
        queries, radius_of_queries = (data.copy(), radius) if Y is None else _operand(Y, h, centre)
        queries[-1], queries[0] = queries[0], 1.0
        if not radius_of_queries <= radius:  # or NaN
            radius = radius_of_queries
        near = radius <= _NEAR_RADIUS  # no exponent is below -600
        return cls(data, queries, h, near) if plan_cpu.product_is_accurate(radius, X.shape[1]) else None

    def at(self, rows: slice) -> _Products:
        """The same for some queries."""
        return _Products(self._data, self._queries[:, rows], self._h, self.near)

    def exponents(self) -> np.ndarray:
        out: np.ndarray = self._queries.T @ self._data
        return out

    def moments(self, reference: np.ndarray, terms: np.ndarray) -> PartialSums:
        d = len(self._data) - 2
        sums = terms @ self._data.T
        total = sums[:, -1]
        moments = np.empty((len(sums), d))
        np.multiply(total[:, None], self._queries[1:-1].T, moments)
        np.subtract(sums[:, 1:-1], moments, moments)
        moments *= self._h
        return PartialSums(reference, total, moments)


def _operand(A: np.ndarray, h: float, centre: np.ndarray) -> tuple[np.ndarray, float]:
    """-|z|^2 / 2, points z and 1, (d + 2, rows), in which order products round least; and the largest |z|^2."""
    out = np.empty((A.shape[1] + 2, len(A)))
    z = out[1:-1]
    np.subtract(A.T, centre[:, None], z)
    z *= 1 / h
    squares = np.einsum("ki,ki->i", z, z)
    np.multiply(squares, -0.5, out[0])
    out[-1] = 1.0
    return out, float(np.maximum.reduce(squares, initial=0.0))


def _pairs(X: np.ndarray, Y: np.ndarray | None, h: float, options: Options) -> _Differences | _Products | None:
    """Exponents of all pairs; None where compiled loops are faster."""
    n, d = X.shape
    m = n if Y is None else len(Y)
    if plan_cpu.few_may_multiply(n, m, d) and options.precision != "ieee":
        products = _products(X, Y, h, options)
        if products is not None:
            return products
    return None if plan_cpu.few_may_pass_on(n, m, d) else _Differences.of(X, Y, h, options.lost)


def _products(X: np.ndarray, Y: np.ndarray | None, h: float, options: Options) -> _Products | None:
    return _Products.of(X, Y, h, arrays.mean(X) if options.centre is None else options.centre)


def _summed(
    pairs: _Differences | _Products, X: np.ndarray, output: Output, options: Options, values: np.ndarray | None
) -> PartialSums:
    if values is not None and options.precision in ("float32", "tf32"):
        values = values.astype(np.float32, copy=False)
    n, d = X.shape
    if values is None and n * d * pairs.m <= plan_cpu.PAIRS_OF_BLOCK:
        return summed_block(pairs, d, output, options, values)
    columns = max(d + 2, 0 if values is None else min(values.shape[1], _COLUMNS))
    step = min(plan_cpu.PAIRS_OF_BLOCK // pairs.of_query, plan_cpu.PRODUCTS_OF_BLOCK // (n * columns)) or 1
    if pairs.m <= step:
        return summed_block(pairs, d, output, options, values)
    blocks = []
    for rows in (slice(i, i + step) for i in range(0, pairs.m, step)):
        own = options.own if options.own is None else options.own[rows]
        blocks.append(summed_block(pairs.at(rows), d, output, options._replace(own=own), values))
    return joined(blocks, np)


def summed_block(pairs: Pairs, d: int, output: Output, options: Options, values: np.ndarray | None) -> PartialSums:
    """Sums of queries whose pairs stay in cache."""
    exponents, log_weights = pairs.exponents(), options.log_weights
    if options.local_factors is not None:
        exponents /= options.local_factors * options.local_factors
    constant = laplace_constant(output, d)
    factors = None if constant is None else exponents + constant
    if log_weights is not None:
        exponents += log_weights
    leave_out(exponents, options.own, -np.finfo(np.float64).max)
    clipped = False
    if pairs.near and log_weights is None:  # exponentials are normal numbers
        reference = np.zeros(len(exponents))
    else:
        reference = np.maximum.reduce(exponents, axis=1)
        exponents -= reference[:, None]
        clipped = exponents.size > _FEW_TERMS and values is None  # which may be large
    if clipped:
        np.maximum(exponents, _NEGLIGIBLE, out=exponents)
    terms = np.exp(exponents, out=exponents)
    if clipped:
        terms -= _NOTHING
        np.maximum(terms, 0.0, out=terms)
    if output == "moments":
        return pairs.moments(reference, terms)
    if factors is not None:
        total = np.einsum("ij->i", terms)  # in half of the time
        if output == "laplace":
            return PartialSums(reference, total, np.einsum("ij,ij->i", terms, factors)[:, None])
        return pairs.moments(reference, np.multiply(terms, factors, out=factors))._replace(total=total)
    total = np.add.reduce(terms, axis=1)
    if values is None:
        return PartialSums(reference, total)
    return PartialSums(reference, total, _weighed(terms, values.astype(np.float64, copy=False)))


def _weighed(terms: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return the product of both, by columns that BLAS takes in the caller's thread."""
    width = max(1, plan_cpu.PRODUCTS_OF_BLOCK // terms.size)
    if values.shape[1] <= width:
        return terms @ values
    out = np.empty((len(terms), values.shape[1]))
    for start in range(0, values.shape[1], width):
        np.matmul(terms, values[:, start : start + width], out=out[:, start : start + width])
    return out
