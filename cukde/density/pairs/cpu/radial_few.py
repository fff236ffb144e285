"""Densities by kernels beside the Gaussian over few pairs on the CPU, by NumPy alone, all in double precision."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from cukde.density.kernels import COSINE_SERIES, Kernel
from cukde.density.options import Options
from cukde.density.pairs.cpu.weighted import leave_out, weighted
from cukde.density.plan import cpu as plan_cpu
from cukde.density.sums import PartialSums, joined, to_density

_PAIRS_OF_BLOCK = 2**15  # whose arrays stay in cache


def kernel_density(
    X: np.ndarray,
    Y: np.ndarray | None,
    h: float,
    kernel: Kernel,
    *,
    log_constant: float,
    log: bool,
    dtype: np.dtype,
    options: Options,
) -> np.ndarray:
    """Return what :func:`cukde.density.pairs.cpu.radial.kernel_density` does."""
    Y = X if Y is None else Y
    X, _, options = weighted(X, None, options)
    unit = 2.0 ** -max(0, math.frexp(h)[1] - 1)  # squares of far points stay numbers; no bit of a coordinate changes
    data, queries = X.T.astype(np.float64, order="C") * unit, Y.astype(np.float64) * unit
    step = max(1, _PAIRS_OF_BLOCK // max(1, len(X)))
    blocks = []
    for rows in (slice(i, i + step) for i in range(0, len(Y), step)):
        q = _squares(data, queries[rows], (h * unit) ** 2)
        leave_out(q, options.own if options.own is None else options.own[rows], np.inf)
        blocks.append(_sums(q, kernel, options.log_weights))
    out: np.ndarray = to_density(joined(blocks, np), log_constant, log, dtype, np)
    return out


def _squares(data: np.ndarray, queries: np.ndarray, squared_h: float) -> np.ndarray:
    """Squared distances in bandwidths, from differences, column by column; a division tells on which side of 1."""
    out = np.zeros((len(queries), data.shape[1]))
    for column, coordinate in zip(data, queries.T, strict=True):
        difference = column - coordinate[:, None]
        difference *= difference
        out += difference
    out /= squared_h
    return out


def _sums(q: np.ndarray, kernel: Kernel, log_weights: np.ndarray | None) -> PartialSums:
    if kernel == "exponential":
        exponents = np.negative(np.sqrt(q, out=q), out=q)
        if log_weights is not None:
            exponents += log_weights
        reference = np.maximum.reduce(exponents, axis=1, initial=-np.finfo(np.float64).max)
        return PartialSums(reference, np.exp(exponents - reference[:, None]).sum(axis=1))
    values = np.zeros_like(q)
    inside = q < 1
    values[inside] = _values(q[inside], kernel)
    total = values.sum(axis=1) if log_weights is None else values @ np.exp(log_weights)
    return PartialSums(np.zeros_like(total), total)


def _values(q: np.ndarray, kernel: Kernel) -> np.ndarray:
    """Kernels of bounded support at squared distances below 1, each accurate beside itself near the edge."""
    if kernel == "tophat":
        return np.ones_like(q)
    out: np.ndarray = 1 - q
    if kernel == "linear":
        out /= 1 + np.sqrt(q)
    elif kernel == "cosine":
        out *= np.polynomial.polynomial.polyval(q, COSINE_SERIES)
    return out


def many(X: np.ndarray, Y: np.ndarray | None, *given: Any, options: Options, **others: Any) -> np.ndarray | None:
    """Return the same of many pairs, for which compiled loops are faster; None where compiling takes no longer."""
    is_short = plan_cpu.answers_radial_meanwhile(len(X), len(X if Y is None else Y), X.shape[1])
    if options.deterministic or not is_short:
        return None
    return kernel_density(X, Y, *given, options=options, **others)
