"""Mean log densities at the data without their bias, and their standard errors.

The mean log density at the data, each without its own kernel, has two biases. Both are negative.

*Few neighbours.* The logarithm of a random sum lies below that of its mean. A sum of kernels counts like k neighbours,
k = (sum K)^2 / sum K^2, of which the logarithm is log k - psi(k) too low in the mean, with the digamma function psi:
1/(2 k) where they are many, and 0.58 for one. That is added, row by row. sum K^2 is a sum of kernels h / sqrt(2) wide.

*Smoothing.* In powers of t = h^2 the mean over the density itself has no term in t, as the integral of the second
derivatives vanishes, so the bias is of order t^2. Of another density it is of order t. Bandwidths h, sqrt(2) h and 2 h
give two powers of t, which are eliminated (Richardson): the passes of one bandwidth are also sums of squares of the
next. A row with one neighbour has none of these orders, and takes the widest bandwidth: of k, by the share 1/k^2.

*What is left* is found from rows drawn from a density that is known (a smoothed bootstrap): the kernel estimate with
sqrt(2) times the bandwidth, shrunk to the covariance of the data. Its noise is part of the standard error.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from cukde.core import dispatch, reprs
from cukde.core.public import public_in
from cukde.core.types import Array
from cukde.core.warnings import ConvergenceWarning, of_user
from cukde.density import check as density_check, leave_one_out, results
from cukde.density.arguments import problem_of
from cukde.density.compositions.columns import marginal_bandwidth
from cukde.density.options import LOG_ZERO
from cukde.density.problem import Problem
from cukde.density.whitening import whitening_of

OF_ITSELF = (32 / 21, -12 / 21, 1 / 21)
"""Factors of the means at h, sqrt(2) h and 2 h without the powers 2 and 3 of h^2, for the mean over the density."""

OF_ANOTHER = (8 / 3, -2.0, 1 / 3)
"""The same without the powers 1 and 2, for the mean over another density."""

PLAIN = (1.0,)
"""No correction."""

# The least eigenvalue of correlations of columns that do not depend on each other. A bias of drawn rows that is large,
# and the most columns where it is right nevertheless.
_LEAST_CORRELATION, _LARGE_BIAS, _MOST_COLUMNS = 1e-10, 0.2, 5


@public_in("cukde")
@reprs.readable
class Information(NamedTuple):
    """The result of :func:`cukde.entropy`, :func:`cukde.mutual_information` and :func:`cukde.kl_divergence`.

    Attributes
    ----------
    value : float
        The estimate, in nats; divide it by log(2) for bits.
    standard_error : float
        Its standard deviation over samples. It knows nothing of what is left of the bias.
    terms : array, shape (n,)
        What each row contributes: the estimate is their mean, by the weights.
    """

    value: float
    standard_error: float
    terms: Array


class Terms(NamedTuple):
    """Log densities at rows, float64, or sums of them; variances over samples of the others; and of other data."""

    terms: Any
    variance: Any | None
    more: Any = 0.0

    def plus(self, sign: int, others: Terms) -> Terms:
        """More terms; the variance is that of the first."""
        variance = others.variance if self.variance is None else self.variance
        return self._replace(terms=self.terms + sign * others.terms, variance=variance)


def logs(problem: Problem, factors: tuple[float, ...]) -> Terms:
    """Log densities of a problem at its queries; several ``factors`` also correct them for few neighbours."""
    with problem.device:
        if factors == PLAIN:
            return Terms(_log_density(problem)[0], None)
        xp, alone = problem.xp, _alone(problem)
        squares, several, variance = _log_squares(problem, 0), 0.0, None
        for k, factor in enumerate(factors):
            log_density, log_sum = _log_density(_widened(problem, k))
            share = xp.minimum(xp.exp(squares - 2 * log_sum), 1.0)  # 1/k
            widest = log_density + _below(share, xp) - _below(alone, xp)
            several = several + factor * widest
            variance = share if variance is None else variance
            if k + 1 < len(factors):
                squares = log_sum if _equal(problem) else _log_squares(problem, k + 1)
        assert variance is not None
        return Terms(several + variance**2 * (widest - several), variance)


def information(problem: Problem, found: Terms, of_drawn: Terms | None) -> Information:
    """The mean of terms at the rows of a problem, less that of the errors at drawn rows, which adds its own noise."""
    xp = problem.xp
    with problem.device:
        terms, (value, squares), bias = found.terms, _mean(problem, found), xp.zeros(())
        if of_drawn is not None:
            bias, noise = _mean(problem, of_drawn)
            terms, value, squares = terms - bias, value - bias, squares + noise
        value, error, bias = dispatch.to_host(xp.stack([value, xp.sqrt(squares), bias])).tolist()
        if problem.X.shape[1] > _MOST_COLUMNS and abs(bias) > max(_LARGE_BIAS, 2 * error):
            of_user(
                f"rows are few for so many columns: a bias of {bias:.2g} was found and subtracted, of which a third "
                f"may be wrong, of divergences all; the standard error, {error:.2g}, does not show that",
                ConvergenceWarning,
            )
        return Information(value, error, results.cast(terms, problem.dtype))


def draws(problem: Problem, factors: tuple[float, ...], least: int) -> bool:
    """Whether rows are to be drawn: to correct ``least`` columns or more, in all of space and of one bandwidth."""
    whole = problem.domain is None and problem.options.local_factors is None
    return factors != PLAIN and whole and problem.X.shape[1] >= least


def _mean(problem: Problem, found: Terms) -> tuple[Any, Any]:
    """The mean of terms at the rows of a problem, and its variance.

    Terms differ from row to row by their own variance, too. A sum over pairs of rows has twice that: each row's term
    depends on the others, and theirs on it.
    """
    w = shares(problem)
    value = (w * found.terms).sum()
    squares = (w * w * (found.terms - value) ** 2).sum() + found.more
    if found.variance is not None:
        squares = squares + (w * w).sum() * (w * found.variance).sum()
    return value, squares


class Drawn(NamedTuple):
    """Rows drawn from the density of kernels about centres, and the problem whose data they stand for."""

    problem: Problem
    rows: Any
    centres: Any
    covariance: np.ndarray  # of the kernels

    @classmethod
    def of(cls, problem: Problem, origin: Any) -> Drawn:
        """Draw as many rows as there are data, from ``origin``; they are the same on every call and device."""
        xp, (n, d), w, h = problem.xp, problem.X.shape, shares(problem), problem.whitening.bandwidth
        mean = w @ problem.X.astype(np.float64)
        x = problem.X - mean
        S, p = dispatch.to_host((x.T * w) @ x), dispatch.to_host(w)
        effective = 1 / float(p @ p)
        if effective <= d or density_check.least_correlation(S) <= _LEAST_CORRELATION:
            raise ValueError(
                "bias_correction needs more rows than columns, which have variances within float64 and are no sums of "
                f"each other; got {effective:.6g} effective rows of {d} columns. Leave columns out, or pass "
                "bias_correction=False"
            )
        H = 2 * (h if h.ndim == 2 else np.diag(np.broadcast_to(h, d) ** 2))
        shrunk = np.linalg.cholesky(S) @ np.linalg.inv(np.linalg.cholesky(S + H))
        factor = shrunk @ np.linalg.cholesky(H)
        rng = np.random.default_rng(0)
        j, steps = rng.choice(n, n, p=p), rng.standard_normal((n, d)) @ factor.T
        centres = x @ xp.asarray(shrunk.T) + (mean - origin)
        return cls(problem, centres[xp.asarray(j)] + xp.asarray(steps), centres, factor @ factor.T)

    def problems(self, columns: list[int], at: Any | None = None) -> tuple[Problem, Problem]:
        """The estimate of the rows, and their density, at these or other rows."""
        old, options = self.problem, self.problem.options
        X, centres, Y = (
            None if a is None else a[:, columns].astype(old.X.dtype) for a in (self.rows, self.centres, at)
        )
        w, devices = None if options.log_weights is None else shares(old), old.devices or None
        passed = {
            "weights": w,
            "devices": devices,
            "precision": options.precision,
            "deterministic": options.deterministic,
        }
        h, H = (marginal_bandwidth(h, columns) for h in (old.whitening.bandwidth, self.covariance))
        known = problem_of(centres, X if Y is None else Y, H, passed)
        return problem_of(X, Y, h, passed, leave_one_out=at is None), known


def shares(problem: Problem) -> Any:
    """Weights of the data of a problem, which sum to 1, float64."""
    xp, log_w = problem.xp, problem.options.log_weights
    n = len(problem.X)
    return xp.full(n, 1.0 / n) if log_w is None else xp.exp(log_w)


def log_of_mean(log_w: Any, logs: Any, xp: Any) -> tuple[Any, Any]:
    """Logarithms of weights times numbers, both given by logarithms, divided by their sum; and that of the sum."""
    out = logs if log_w is None else log_w + logs
    most = out.max()
    log_sum = most + xp.log(xp.exp(out - most).sum())
    return xp.maximum(out - log_sum, LOG_ZERO), log_sum


def _equal(problem: Problem) -> bool:
    """Whether all rows count the same, so that squares of their kernels are narrower kernels of the same rows."""
    return problem.options.log_weights is None and problem.options.local_factors is None


def _alone(problem: Problem) -> Any:
    """1/k of all rows together: the least that there is."""
    w = shares(problem)
    return (w * w).sum()


def _below(share: Any, xp: Any) -> Any:
    """How far the mean logarithm of k neighbours lies below the logarithm of their mean, log k - psi(k), of 1/k <= 1.

    It is taken at k + 1, where the asymptotic series is right to 2e-5.
    """
    s = share / (1 + share)
    s2 = s * s
    return share - xp.log1p(share) + s * (0.5 + s / 12) - s2 * s2 * (1 / 120 - s2 / 252)


def _widened(problem: Problem, halves: int) -> Problem:
    """The same with the bandwidth times the square root of 2 to the power of ``halves``."""
    if halves == 0:
        return problem
    old = problem.whitening
    h = old.bandwidth * 2.0 ** (halves if old.bandwidth.ndim == 2 else 0.5 * halves)
    factors = problem.options.local_factors is not None
    whitening = whitening_of(h, problem.X.shape[1], factors=factors, single=old.single)
    out = problem._replace(whitening=whitening, points=None)
    return out if out.options.squared_radius is None else out.located()


def _log_density(problem: Problem) -> tuple[Any, Any]:
    """Log densities, and logarithms of the sums of weights times kernels, of which each is 1 at its point."""
    xp = problem.xp
    if not problem.leave_one_out:
        sums = problem.sums("sum")
        log_sum = sums.reference + xp.log(sums.total)
        return log_sum + problem.log_constant, log_sum
    sums = leave_one_out.sums_of_others(problem, "sum")
    log_sum = sums.reference + xp.log(sums.total)
    rest = leave_one_out.divided(sums, problem).reference - sums.reference
    return log_sum + rest + problem.log_constant, log_sum


def _log_squares(problem: Problem, halves: int) -> Any:
    """Logarithms of the sums of squared weights times squared kernels, of a problem widened by so many ``halves``."""
    xp, options, log_sum = problem.xp, problem.options, 0.0
    log_w, factors = options.log_weights, options.local_factors
    if log_w is not None:
        log_w = xp.maximum(2 * log_w, LOG_ZERO)
    if factors is not None:  # a kernel's height has one of these powers; the pass takes the other
        log_w = (0.0 if log_w is None else log_w) - problem.X.shape[1] * xp.log(factors)
    if log_w is not None:
        log_w, log_sum = log_of_mean(None, log_w, xp)
    narrow = _widened(problem._replace(options=options._replace(log_weights=log_w)), halves - 1)
    return _log_density(narrow)[1] + log_sum
