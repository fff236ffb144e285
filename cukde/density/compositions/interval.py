"""Confidence intervals for a density, at each query or at all of them together."""

from __future__ import annotations

from typing import NamedTuple, Unpack

from cukde.core import check as core_check, random_state as core_random_state, reprs
from cukde.core.cost.registry import declare
from cukde.core.entry import returned
from cukde.core.entry.given import Given
from cukde.core.entry.public_call import public_call
from cukde.core.over_dask import over_dask
from cukde.core.public import public_in
from cukde.core.random_state import DEFAULT, RandomState
from cukde.core.types import Array, ArrayLike, Bandwidth
from cukde.density import check as density_check, results
from cukde.density.arguments import problem_of
from cukde.density.compositions import check, cost, jackknife, supremum
from cukde.density.compositions.jackknife import Estimated, LogDensity
from cukde.density.cost import calls as cost_calls
from cukde.density.keywords import OfInterval, before_dask, taken, takes
from cukde.density.options import LOG_ZERO
from cukde.density.problem import Problem, reweighted


@public_in("cukde")
@reprs.readable
class DensityInterval(NamedTuple):
    """The result of :func:`cukde.density_interval`.

    Attributes
    ----------
    low, high : array, shape (m,)
        Ends of the intervals, in units of the density, at least 0.
    estimate : array, shape (m,)
        The bias-corrected estimate that they are about; it may be negative.
    standard_error : array, shape (m,)
        Square root of the estimate's variance.
    quantile : float
        Half of the width of an interval, in standard errors: that of the normal distribution, or of the largest error.
    """

    low: Array
    high: Array
    estimate: Array
    standard_error: Array
    quantile: float


def _with_names(given: Given, found: DensityInterval) -> DensityInterval:
    """Each array has a number for each query."""
    named = {name: returned.as_rows(given, getattr(found, name), "Y", name) for name in found._fields[:-1]}
    return found._replace(**named)


@declare(cost.density_interval, cost_calls.of_interval)
@public_call(_with_names)
@over_dask("cukde.density.compositions.interval_dask", before=before_dask)
@takes(OfInterval)
def density_interval(
    X: ArrayLike,
    Y: ArrayLike,
    h: Bandwidth,
    level: float = 0.95,
    *,
    simultaneous: bool = False,
    draws: int = 1000,
    random_state: RandomState = DEFAULT,
    **options: Unpack[OfInterval],
) -> DensityInterval:
    r"""Confidence intervals for the density of the data ``X`` at queries ``Y``, with the bias of the kernel corrected.

    An interval about :func:`cukde.kde` covers too seldom, since with a good bandwidth its bias is as large as its
    standard error. Here the estimate has the leading bias removed, and its variance is that of the corrected estimate.

    Parameters
    ----------
    X, Y
        As in :func:`cukde.kde`. Rows of ``X`` are independent draws, or ``n_eff`` says what they are worth.
    h : float, array_like or str
        Bandwidth, in the forms of :func:`cukde.kde`, that is best for :func:`cukde.kde`: in one dimension "isj", in
        several ``cross_validate(X, objective="least_squares")``.
    level : float
        Share of samples whose interval holds the density, between 0 and 1.
    simultaneous : bool
        Whether that share of samples has all densities at ``Y`` within their intervals, which are wider.
    draws : int
        Number of draws of the largest error, for ``simultaneous``, 100 to 100,000.
    random_state : int, numpy.random.Generator, numpy.random.RandomState or None
        Of these draws.
    n_eff : float, optional
        Number of independent rows that those of ``X`` are worth: of a chain the least ``bandwidth.effective_size`` of
        its columns and their squared deviations. Default: 1 / sum w^2 of the weights, n without.

    Returns
    -------
    DensityInterval
        A named tuple of arrays (m,), series for frames, of dtype ``result_type(X, Y)``: ``low`` and ``high``, in
        1/volume and at least 0; ``estimate``, which may be negative; and ``standard_error``. ``quantile``, a float, is
        the number of standard errors: 1.96 for 0.95, and more for simultaneous intervals.

    Raises
    ------
    TypeError, ValueError
        As :func:`cukde.kde`; for fewer than two rows with a weight, and options out of their range.

    Examples
    --------
    >>> import numpy as np, cukde
    >>> X = np.random.default_rng(0).normal(size=2000)
    >>> found = cukde.density_interval(X, [0.0, 2.0], "isj")  # the densities are 0.3989 and 0.0540
    >>> found.low.round(3), found.high.round(3)
    (array([0.352, 0.038]), array([0.419, 0.065]))

    Notes
    -----
    *Estimate.* The kernel is :math:`2 N_a - N_b`, of Gaussians with the bandwidths :math:`a = 2^{-1/4} h` and
    :math:`b = 2^{1/4} h`. Its bias is of order h^4, that of :func:`cukde.laplace_kde` in the first term.

    *Interval.* Its ends f satisfy :math:`(\hat p - f)^2 = z^2 (v + u (f - \hat p))`, with the estimate's own variance
    v, weights squared, and :math:`u = \int K^2 / n_\mathrm{eff}`, by which v grows with the density. Where few rows
    count, they do not undercover as :math:`\hat p \pm z \sqrt v` does; where none do, the interval is [0, z^2 u].

    Sums have the accuracy of :func:`cukde.kde`. No interval holds a peak that is narrower than the bandwidth.
    ``docs/intervals.md`` has the measured coverage, and says what simultaneous intervals are.

    Cost: four passes of :func:`cukde.kde`, six with weights. ``simultaneous`` takes as many exponentials as
    one of them, and 2 n m ``draws`` flops.

    References
    ----------
    - Calonico, S., Cattaneo, M. D. and Farrell, M. H. (2018). On the effect of bias estimation on coverage accuracy in
      nonparametric inference. *JASA* 113, 767-779.
    - Chernozhukov, V., Chetverikov, D. and Kato, K. (2014). Anti-concentration and honest, adaptive confidence bands.
      *Annals of Statistics* 42, 1787-1818.
    """
    level = check.level(level)
    simultaneous, draws = core_check.flag("simultaneous", simultaneous), check.draws(draws)
    seed, n_eff = core_random_state.integer(random_state), taken(options, "n_eff")
    problem = problem_of(X, Y, h, options)
    rows = density_check.effective_rows(n_eff, len(problem.X))
    with problem.device:
        found = _estimated(problem, rows)
        quantile = normal_quantile(level)
        if simultaneous and len(found.estimate):
            quantile = max(quantile, supremum.quantile(problem, found, level, draws, seed))
        arrays = jackknife.result(found, quantile, problem.whitening.log_norm, problem.xp)
        low, high, estimate, error = (results.cast(a, problem.dtype) for a in arrays)
        return DensityInterval(low, high, estimate, error, quantile)


def _estimated(problem: Problem, rows: float | None) -> Estimated:
    """The estimate with its variance, for as many independent rows."""
    n, d = problem.X.shape
    log_w, share, of_squares = problem.options.log_weights, 1 / n, None
    if log_w is not None:
        n, share = int((log_w > LOG_ZERO).sum()), float(problem.xp.exp(2 * log_w).sum())
        squares = problem.options._replace(log_weights=reweighted(log_w, log_w, problem.xp))
        of_squares = _log_densities(problem._replace(options=squares))
    density_check.rows_to_leave_out(n, "density_interval")
    check.several_rows(share)
    log_norm = problem.whitening.log_norm
    return jackknife.estimated(_log_densities(problem), of_squares, share, log_norm, d, problem.xp, rows)


def _log_densities(problem: Problem) -> LogDensity:
    """The log density of a bandwidth as many times as wide."""
    return lambda factor: jackknife.at_width(problem, factor).density(log=True)


def normal_quantile(level: float) -> float:
    """Half of the width of the middle of the normal distribution that has this share."""
    import statistics  # which takes 2 ms to import

    return abs(statistics.NormalDist().inv_cdf(0.5 * (1 - level)))
