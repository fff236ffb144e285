"""An estimate of fourth order whose square is a sum of Gaussians, its own variance, and intervals by both.

The kernel is K = 2 N_a - N_b of the Gaussians of bandwidths a = 2^(-1/4) h and b = 2^(1/4) h: the generalised jackknife
of Schucany and Sommers (1977). As a b = h^2, its leading bias, -(h^4 / 8) of the iterated Laplacian, is that of the
Laplace-corrected kernel N_h - (h^2 / 2) Laplacian N_h, to which such kernels tend as b / a tends to 1. A product of
Gaussians is a Gaussian: N_a N_b = N(0; a^2 + b^2) N_c with c = a b / (a^2 + b^2)^(1/2). So the mean of K^2 takes
densities of other bandwidths only, where the square of the Laplace-corrected kernel takes fourth moments.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from cukde.density.problem import Problem
from cukde.density.whitening import whitening_of

NARROW, WIDE = 2**-0.25, 2**0.25
"""Bandwidths a and b, as factors of h."""

# Terms of the square: a factor, the variance of N(0; .) in units of h^2, and a bandwidth in units of h.
_SQUARE = ((4.0, 2**0.5, 2**-0.75), (-4.0, 4.5**0.5, (2**0.5 / 3) ** 0.5), (1.0, 8**0.5, NARROW))

_LEAST = 1e-300

LogDensity = Callable[[float], Any]
"""The logarithm of the density at the queries, (m,) float64, of a bandwidth of h times a factor."""


class Estimated(NamedTuple):
    """The estimate at the queries, (m,), and its variance, in units of the kernel of bandwidth h at its centre.

    Squares of densities may leave the range of float64, where those of the ratio do not.
    """

    estimate: Any
    variance: Any
    second_moment: Any  # the variance without the square of the mean
    slope: Any  # what the variance grows by for each unit of density
    of_terms: Any  # the variance is so many times the sum of the squares of all terms less their mean


def wider(h: np.ndarray, factor: float) -> np.ndarray:
    """A checked bandwidth times a factor: a covariance times its square."""
    return h * (factor**2 if h.ndim == 2 else factor)


def at_width(problem: Problem, factor: float) -> Problem:
    """The same problem, of results in float64, with a bandwidth that is ``factor`` times as wide."""
    of = problem.whitening
    whitening = whitening_of(wider(of.bandwidth, factor), problem.X.shape[1], single=of.single)
    options = problem.options.at_ratio(1 / factor)
    return problem._replace(whitening=whitening, options=options, dtype=np.dtype(np.float64))


def estimated(
    log_density: LogDensity,
    of_squares: LogDensity | None,
    share: Any,
    log_norm: float,
    d: int,
    xp: Any,
    rows: float | None,
) -> Estimated:
    """The estimate with its variance.

    For weights w_j that sum to 1, the variance is that of a sum of independent terms, sum_j w_j^2 (K_j - estimate)^2,
    over 1 - sum_j w_j^2; without weights that is (mean of K^2 - estimate^2) / (n - 1).

    Parameters
    ----------
    log_density, of_squares : callable
        Of the data by their weights, and by the squares of their weights; None: they are equal.
    share : float
        Sum of the squared weights, 1/n without weights.
    log_norm : float
        Logarithm of N(0; h^2), the kernel of bandwidth h at its centre, in ``d`` dimensions.
    rows : float, optional
        Number of independent rows that the data are worth; default 1 / share.
    """

    def in_units(of: LogDensity) -> LogDensity:  # each bandwidth once
        return functools.cache(lambda factor: xp.exp(of(factor) - log_norm))

    density = in_units(log_density)
    squared = density if of_squares is None else in_units(of_squares)
    constants = [factor * variance ** (-0.5 * d) for factor, variance, _ in _SQUARE]
    estimate = 2 * density(NARROW) - density(WIDE)
    square = sum(constant * squared(width) for constant, (_, _, width) in zip(constants, _SQUARE, strict=True))
    mean = estimate if of_squares is None else 2 * squared(NARROW) - squared(WIDE)
    variance = xp.maximum(square + estimate * (estimate - 2 * mean), 0.0)
    scale = (share if rows is None else 1 / rows) / (1 - share)
    return Estimated(estimate, scale * variance, scale * square, scale * math.fsum(constants), scale / share)


def result(found: Estimated, quantile: float, log_norm: float, xp: Any) -> tuple[Any, Any, Any, Any]:
    """Ends of the intervals, the estimate and its standard error, in units of the density."""
    half = math.exp(min(0.5 * log_norm, 700.0))  # the whole may be out of range where results are not
    arrays = *interval(found, quantile, xp), found.estimate, xp.sqrt(found.variance)
    with np.errstate(over="ignore"):
        low, high, estimate, error = (array * half * half for array in arrays)
    return low, high, estimate, error


def interval(found: Estimated, quantile: float, xp: Any) -> tuple[Any, Any]:
    """Densities f at a distance from the estimate of at most ``quantile`` standard errors, if f is the density.

    The squared standard error at f is the variance and the slope times f - estimate: to first order a sum of kernels
    varies by the number of its terms, in proportion to the density. So the ends are those of a quadratic equation, as
    of Wilson's interval for a share. Densities are at least 0.

    The variance is itself of the rows that count, and too small where these are few and all but out of reach: it is
    increased towards slope times estimate, as of a density that is constant, by a share of 1 / (1 + their number)^2.
    """
    shift, slope = 0.5 * quantile**2 * found.slope, found.slope + _LEAST
    lack = xp.maximum(found.slope * found.estimate - found.second_moment, 0.0)
    variance = found.variance + lack / (1 + found.second_moment / slope / slope) ** 2
    middle, half = found.estimate + shift, xp.sqrt(quantile**2 * variance + shift**2)
    return xp.maximum(middle - half, 0.0), xp.maximum(middle + half, 0.0)
