"""Quantiles of the largest error of an estimate over all queries, by the multiplier bootstrap."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from cukde.density.compositions.jackknife import WIDE, Estimated, at_width
from cukde.density.problem import Problem

_ROWS, _QUERIES, _ENTRIES = 4096, 2048, 2**23  # of matrices that are multiplied, at most


def quantile(problem: Problem, found: Estimated, level: float, draws: int, seed: int) -> float:
    r"""The quantile, at ``level``, of the largest error at a query in standard errors.

    An error is drawn as :math:`\sum_j g_j w_j (K_j - \hat p)` with independent normal :math:`g_j`: given the data, it
    has the variances and covariances of the terms. (Random signs would make it too small where few terms count.)

    Kernels are in units of N_b at its centre. With s for its exponential they are :math:`2^{1 + d/2} s^2 - s`, as
    b^2 = 2 a^2. Products of matrices of kernels and of g are faster than passes for as many columns of values.
    """
    wide, xp = at_width(problem, WIDE), problem.xp
    X, Y = wide.whitened()
    Y = X if Y is None else Y
    (n, d), log_weights = X.shape, problem.options.log_weights
    weights = xp.ones(n, np.float32) if log_weights is None else (n * xp.exp(log_weights)).astype(np.float32)
    unit = 2 ** (-d / 4) / n  # of those that the estimate has
    estimate, error = ((a / unit)[:, None] for a in (found.estimate / n, xp.sqrt(found.variance / found.of_terms)))
    most_rows, most_queries = (max(64, min(most, _ENTRIES // draws)) for most in (_ROWS, _QUERIES))
    largest = xp.zeros(draws)
    for first in range(0, len(Y), most_queries):
        some = slice(first, first + most_queries)
        total = xp.zeros((len(Y[some]), draws))
        for start in range(0, n, most_rows):
            rows = slice(start, start + most_rows)
            g = weights[rows, None] * _normal(len(X[rows]), draws, [seed, start], xp)  # the same for all queries
            s = _exponentials(X[rows], Y[some], wide.whitening.h, xp)
            total += ((2 ** (0.5 + d / 4) * s) ** 2 - s - estimate[some].astype(np.float32)) @ g
        errors = xp.where(error[some] > 0, abs(total) / error[some], 0.0)
        largest = xp.maximum(largest, errors.max(axis=0))
    return float(np.quantile(problem.backend.asnumpy(largest), level, method="higher"))


def _normal(n: int, draws: int, seed: list[int], xp: Any) -> Any:
    """Normal numbers, (n, draws) float32, of 16 random bits each: faster than NumPy's, the same on every backend."""
    bits = xp.asarray(np.frombuffer(np.random.default_rng(seed).bytes(2 * n * draws), np.uint16))
    return xp.asarray(_quantiles()).take(bits.astype(np.int32).reshape(n, draws))


@functools.cache
def _quantiles() -> np.ndarray:
    """Quantiles of the normal distribution in the middle of 2^16 equal shares."""
    from scipy.special import ndtri

    return ndtri((np.arange(2**16) + 0.5) / 2**16).astype(np.float32)


def _exponentials(X: Any, Y: Any, h: float, xp: Any) -> Any:
    """exp(-|y - x|^2 / (2 h^2)), (m, n) float32, by differences."""
    squares = xp.zeros((len(Y), len(X)), np.float32)
    for k in range(X.shape[1]):
        squares += (((Y[:, k, None] - X[None, :, k]) / h) ** 2).astype(np.float32)
    return xp.exp(-0.5 * squares)
