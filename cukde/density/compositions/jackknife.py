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

_LARGEST_LOG, _LEAST = 700.0, 1e-300  # of constants in float64

Density = Callable[[float], Any]
"""The density at the queries, (m,) float64, of a bandwidth of h times a factor."""


class Estimated(NamedTuple):
    """The estimate at the queries, (m,), and its variance."""

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


def corrected(density: Density) -> Any:
    """The estimate: the density of kernels 2 N_a - N_b."""
    return 2 * density(NARROW) - density(WIDE)


def estimated(
    density: Density, of_squares: Density | None, share: Any, log_norm: float, d: int, xp: Any, rows: float | None
) -> Estimated:
    """The estimate with its variance.

    For weights w_j that sum to 1, the variance is that of a sum of independent terms, sum_j w_j^2 (K_j - estimate)^2,
    over 1 - sum_j w_j^2; without weights that is (mean of K^2 - estimate^2) / (n - 1).

    Parameters
    ----------
    density, of_squares : callable
        The density of the data by their weights, and by the squares of their weights; None: they are equal.
    share : float
        Sum of the squared weights, 1/n without weights.
    log_norm : float
        Logarithm of N(0; h^2), the kernel of bandwidth h at its centre, in ``d`` dimensions.
    rows : float, optional
        Number of independent rows that the data are worth; default 1 / share.
    """
    density = functools.cache(density)  # each bandwidth once
    squared = density if of_squares is None else functools.cache(of_squares)
    constants = [
        factor * math.exp(min(log_norm - 0.5 * d * math.log(variance), _LARGEST_LOG)) for factor, variance, _ in _SQUARE
    ]
    estimate = corrected(density)
    square = sum(constant * squared(width) for constant, (_, _, width) in zip(constants, _SQUARE, strict=True))
    mean = estimate if of_squares is None else corrected(squared)
    variance = xp.maximum(square + estimate * (estimate - 2 * mean), 0.0)
    scale = (share if rows is None else 1 / rows) / (1 - share)
    return Estimated(estimate, scale * variance, scale * square, scale * math.fsum(constants), scale / share)


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
