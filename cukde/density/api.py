"""The public functions of the density family: checks, a problem, and the backend's pass over it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, Literal, Unpack

import numpy as np

from cukde.core import check as core_check, dispatch
from cukde.core.cost.registry import declare
from cukde.core.entry import returned
from cukde.core.entry.given import Given, is_true
from cukde.core.entry.public_call import public_call
from cukde.core.frames.columns import labels_of
from cukde.core.over_dask import over_dask
from cukde.core.types import Array, ArrayLike, Bandwidth
from cukde.core.warnings import NegativeDensityWarning, of_user
from cukde.density import check, results, rules_by_name
from cukde.density.arguments import prepare, problem_of
from cukde.density.cost import calls as cost_calls, formulas as cost_formulas
from cukde.density.domains import boundary
from cukde.density.keywords import (
    Moving,
    OfKde,
    OfLinear,
    OfMass,
    OfMoved,
    OfMovedDensity,
    OfScore,
    OfValues,
    refuse,
    taken,
    takes,
)
from cukde.density.log_values import log_values
from cukde.density.problem import score_problem
from cukde.density.signed import with_signed
from cukde.density.stacks import api as stacks, check as stacks_check
from cukde.density.stacks.check import is_stack
from cukde.density.sums import Epilogue

_over_dask = over_dask("cukde.density.dask.api", before=stacks_check.in_memory)


def _problem_of(X: Any, Y: Any, h: Any, options: Any, **more: Any) -> Any:
    """The problem of a density, or those of a stack, X of three dimensions; arguments are those of ``prepare``."""
    return stacks.prepare(X, Y, h, **options, **more) if is_stack(X) else problem_of(X, Y, h, options, **more)


def _sums_with_names(given: Given, result: Any) -> Any:
    """Kernel sums have a column for each of the values."""
    name = "log_kernel_sum" if is_true(given.arguments.get("log", False)) else "kernel_sum"
    return returned.as_rows(given, result, "Y", name, labels_of(given.given["V"]))


@declare(cost_formulas.kde, cost_calls.of_density, observed=cost_calls.taken("sum"))
@public_call(returned.rows("Y", "density"))
@_over_dask
@takes(OfKde, described=True)
@with_signed
def kde(X: ArrayLike, Y: ArrayLike, h: Bandwidth, **options: Unpack[OfKde]) -> Array:
    r"""Gaussian kernel density estimate of data ``X`` at queries ``Y``.

    .. math:: \hat p(y) = (2\pi h^2)^{-d/2} \sum_j w_j \exp(-|y - x_j|^2 / (2 h^2))

    Parameters
    ----------
    X : array_like, shape (n, d) or (n,)
        Data, one point a row; shape (b, n, d) is a stack of b densities. Its type decides where the call computes:
        NumPy on the CPU; CuPy, ``__cuda_array_interface__`` or DLPack on a GPU; Dask lazily.
    Y : array_like, shape (m, d) or (m,), or None
        Queries, in the columns and units of ``X``. None: the data themselves.
    h : float, array_like, mapping or str
        Standard deviation in units of ``X``, one for all columns or one each; covariance (d, d); or a rule or a result
        of :mod:`cukde.bandwidth`, for data in memory: "scott", "silverman", "scott_covariance", "silverman_covariance",
        "sd", "laplace", "positive", "isj", "cross_validate" or "select", of which the last may bring local factors.

    Returns
    -------
    array or series, shape (m,)
        Density in 1/volume, or its logarithm; a series if ``Y`` is a frame. dtype: ``result_type(X, Y)``, at least
        float32.

    Raises
    ------
    TypeError, ValueError
        For arguments that do not fit, before any sum; values of Dask arrays are checked block by block.

    Examples
    --------
    >>> import cukde
    >>> cukde.kde([0.0, 1.0], [0.5, 2.0], 1.0).round(4)
    array([0.3521, 0.148 ])
    >>> cukde.kde([0.0, 1.0], [40.0], 1.0, log=True).round(2)
    array([-762.11])

    Notes
    -----
    Cost: up to n m exponentials, more with images or ``leave_one_out``. Within 12 bandwidths of the data the relative
    error is at most 1e-12 in float64 and 1e-5 in float32 (GPU: 3e-5). User guide: ``docs/densities.md``.
    """
    log = core_check.flag("log", options.pop("log", False))
    linear = check.boundary(options)
    if not is_stack(X) and (kinds := options.pop("kinds", None)) is not None:
        from cukde.density.mixed import density as mixed_density  # which few calls need

        of_mixed = mixed_density.density(X, Y, h, kinds, {**options}, log=log)
        if of_mixed is not None:
            return of_mixed
    problem = _problem_of(X, Y, h, options, may_be_unchecked=not linear, takes_factors=not linear)
    with problem.device:
        if linear and problem.domain is not None and problem.domain.bounded.any():
            return boundary.density(problem, log=log)
        return problem.density(log=log)


@declare(cost_formulas.score, cost_calls.of_queries, observed=cost_calls.taken("moments"))
@public_call(returned.rows("Y", "score"))
@_over_dask
@takes(OfScore)
def score(X: ArrayLike, Y: ArrayLike, h: Bandwidth, **options: Unpack[OfScore]) -> Array:
    r"""Gradient of the log density: :math:`s(y) = \nabla \log \hat p(y)`.

    .. math:: s(y) = \Big(\frac{\sum_j w_j \phi_j(y) x_j}{\sum_j w_j \phi_j(y)} - y\Big) / h^2

    Returns
    -------
    array or frame, shape of ``Y``
        In units of 1/length. It is finite also far from the data, where it points to the nearest of them. It is NaN
        outside the bounds; at a bound the component in that column is 0.

    Raises
    ------
    TypeError, ValueError
        As :func:`kde`.

    Examples
    --------
    >>> import numpy as np, cukde
    >>> cukde.score(np.array([0.0]), np.array([2.0]), 2.0)
    array([-0.5])

    Notes
    -----
    Cost: that of :func:`kde` and another 2 d n m flops. The error, in units of 1/h, is at most the density's relative
    error times r/h, where r is the largest distance of points that contribute; ``rtol`` is part of that error. A
    published formula of this score has a surplus factor 1/h, which is left out here.

    With ``local_factors`` :math:`\lambda_j` the score is the gradient of the logarithm of the density with factors:

    .. math:: s(y) = \sum_j K_j (x_j - y) / (\lambda_j^2 h^2) \Big/ \sum_j K_j,
        \qquad K_j = w_j \lambda_j^{-d} \exp(-|y - x_j|^2 / (2 \lambda_j^2 h^2)),

    It takes one pass. Its error, in units of 1/h, is the density's relative error times the mean of
    :math:`r_j / (\lambda_j^2 h)`.
    """
    problem = _problem_of(X, Y, h, options, may_be_unchecked=True, takes_factors=True)
    with problem.device:
        return problem.score()


@declare(cost_formulas.density_and_score, cost_calls.of_queries, observed=cost_calls.taken("moments"))
@public_call(returned.each_rows("Y", "log_density", "score"))
@_over_dask
@takes(OfScore)
def density_and_score(X: ArrayLike, Y: ArrayLike, h: Bandwidth, **options: Unpack[OfScore]) -> tuple[Array, Array]:
    """Log density and its gradient, in a single pass, which costs as much as :func:`score`.

    Returns
    -------
    log_density : array, shape (m,)
        In units of log(1/volume).
    gradient : array, shape of ``Y``
        In units of 1/length.

    Raises
    ------
    TypeError, ValueError
        As :func:`kde`.

    Examples
    --------
    >>> import numpy as np, cukde
    >>> log_p, s = cukde.density_and_score(np.array([0.0]), np.array([0.0, 1.0]), 1.0)
    >>> log_p.round(4), s
    (array([-0.9189, -1.4189]), array([ 0., -1.]))

    Notes
    -----
    Accuracy is that of :func:`kde` and :func:`score`.
    """
    problem = _problem_of(X, Y, h, options, may_be_unchecked=True, takes_factors=True)
    with problem.device:
        return problem.log_density_and_score()


@declare(cost_formulas.debias, cost_calls.of_debias, observed=cost_calls.taken("moments"))
@public_call(returned.rows("X", "debiased"))
@_over_dask
@takes(OfMoved, described=Moving.__annotations__)
def debias(
    X: ArrayLike,
    h: Bandwidth,
    **options: Unpack[OfMoved],
) -> Array:
    r"""Debias the data by their score: move each point by half a squared bandwidth along the score.

    .. math:: x_i + \frac{h^2}{2} s(x_i)

    The score :math:`s` is that of the data at the data (Y = X), with each point's own kernel; for a covariance H the
    step is H/2. With ``local_factors`` the step is half of another mean shift: see ``docs/sd_kde.md``.

    Parameters
    ----------
    X : array_like, shape (n, d) or (n,)
        Data.
    h : float, array_like or str
        Bandwidth of the density that the result is meant for; forms as in :func:`kde`.

    Returns
    -------
    array or frame, shape of ``X``
        The moved points. They stay within bounds, and from 0 to the period: a point that moves over an end is reflected
        or wrapped.

    Raises
    ------
    TypeError, ValueError
        As :func:`kde`, also for ``score_bandwidth``; for ``steps`` that is not an integer of at least 1; and for
        ``own_point=False`` with a stack, or with fewer than two rows that have a weight.

    Examples
    --------
    >>> import numpy as np, cukde
    >>> cukde.debias(np.array([-1.0, 1.0]), 1.0).round(4)
    array([-0.8808,  0.8808])

    Notes
    -----
    Cost: one pass of the score with Y = X, n^2 exponentials, and as many for each further step. Without the own point a
    step may take a second pass. The result is rounded to its dtype; :func:`sd_kde` keeps the moved points in float64,
    so an offset of the data costs no accuracy there.

    The error of a point, in bandwidths and apart from that rounding, is 1e-5 in float32 and 1e-12 in float64, times the
    mean distance of the data that count. On a GPU in float32 without weights, tensor cores use coordinates of 11 bits.
    There the error is half of 2^-12 times the distance of the farthest point from the mean, in bandwidths of the score.

    References
    ----------
    - Epstein, E. L., Dwaraknath, R. V., Sornwanee, T., Winnicki, J. and Liu, J. W. (2025). SD-KDE: Score-debiased
      kernel density estimation. *NeurIPS*.
    """
    problem, estimate, steps = _moving(X, X, h, options)
    with problem.device:
        return problem.moved_rows(estimate, steps)


def _moving(X: Any, Y: Any, h: Any, options: Any) -> tuple[Any, Any, int]:
    """The problem of points that are moved, that of the score that moves them, and the number of steps."""
    score_bandwidth, steps = taken(options, "score_bandwidth"), check.steps(taken(options, "steps"))
    own_point = core_check.flag("own_point", taken(options, "own_point"))
    check.one_step(h, steps, own_point=own_point)
    problem = _problem_of(X, Y, h, options, method="sd", steps=steps, may_be_unchecked=steps == 1 and own_point)
    if isinstance(problem, stacks.Stack):
        refuse({"own_point": own_point}, form="stacks")
        return problem, problem.of_score_bandwidth(score_bandwidth), steps
    of_score = _score_bandwidth(score_bandwidth, X, options)
    return problem, score_problem(problem, of_score, own_point=own_point), steps


def _score_bandwidth(h: Any, X: Any, options: Any) -> Any:
    """A bandwidth of the score, or what the rule of that name makes of the data."""
    of_rule = {name: options.get(name) for name in ("weights", "bounds", "periods")}
    return rules_by_name.bandwidth(h, X, name="score_bandwidth", **of_rule)


@public_call(lambda given, stages: stages)
@takes(OfMovedDensity)
def _stages_of_sd_kde(X: Any, Y: Any, h: Any, **options: Unpack[OfMovedDensity]) -> Mapping[str, Callable[[], Any]]:
    """The stages of SD-KDE, each a call ready to be timed: score, shift and density.

    The score is computed once for the shift, and the moved points for the density.
    """
    log = options.pop("log", False)
    of_sd = {name: taken(options, name) for name in Moving.__annotations__}
    score_bandwidth, steps, own_point = of_sd.values()
    given: dict[str, Any] = {name: value for name, value in options.items() if name in OfMass.__annotations__}
    ends = {name: given.get(name) for name in ("weights", "bounds", "periods")}
    h = rules_by_name.bandwidth(h, X, method="sd", steps=steps, **ends)
    score_h = h if score_bandwidth is None else _score_bandwidth(score_bandwidth, X, given)

    def gradient() -> Any:
        return score(X, X, score_h, **given)

    scores = gradient()
    backend = dispatch.backend(X)
    points = backend.asarray(X)
    width = np.asarray(h, np.float64)
    # Half of the squared deviations, or of the covariance.
    step = 0.5 * (width if width.ndim == 2 else width * width)
    if step.ndim == 2 and scores.ndim == 1:
        step = step[0]
    along = float(step) if step.ndim == 0 else backend.asarray(step)

    def shift() -> Any:
        return points + (scores @ along if step.ndim == 2 else scores * along)

    once = steps == 1 and own_point
    debiased = functools.partial(debias, X, h, **of_sd, **given)
    moved = debiased()
    first = {"score": gradient, "shift": shift} if once else {"debias": debiased}
    return {
        **first,
        "kde": lambda: kde(moved, moved if Y is None else Y, h, log=log, **given),
    }


@declare(
    cost_formulas.sd_kde,
    cost_calls.of_sd_kde,
    stages=_stages_of_sd_kde,
    observed=cost_calls.taken("moments", "sum"),
)
@public_call(returned.rows("Y", "density"))
@_over_dask
@takes(OfMovedDensity)
def sd_kde(X: ArrayLike, Y: ArrayLike, h: Bandwidth, **options: Unpack[OfMovedDensity]) -> Array:
    """Score-debiased density estimate: :func:`kde` of the data moved by :func:`debias`.

    The result is a density (not negative, with integral 1). Its bias is of order h^4, that of :func:`kde` of order h^2.

    Parameters
    ----------
    score_bandwidth, steps, own_point
        As in :func:`debias`.

    Returns
    -------
    array, shape (m,)
        Density in units of 1/volume (or its logarithm), as of :func:`kde`.

    Raises
    ------
    TypeError, ValueError
        As :func:`kde` and :func:`debias`.

    Examples
    --------
    >>> import numpy as np, cukde
    >>> cukde.sd_kde(np.array([-1.0, 1.0]), np.array([0.0]), 1.0).round(4)
    array([0.2707])

    Notes
    -----
    Cost: n^2 + n m exponentials, and n^2 for each step after the first. In float32 at d = 16 the density is accurate to
    3e-4. The score and the density each leave out pairs by ``rtol``, and the errors add up.

    With ``leave_one_out`` the density at a row leaves out the row's own moved kernel. The others have moved by the
    score of all data. With ``local_factors`` moved points keep their factors.

    ``docs/sd_kde.md`` says what further steps, ``own_point=False`` and factors gain, and ``docs/domains.md`` what
    ``bounds`` do.

    References
    ----------
    - Epstein et al. (2025), as in :func:`debias`; Epstein, E. L., Flash-SD-KDE: Accelerating SD-KDE with Tensor Cores.
    """
    log = core_check.flag("log", options.pop("log", False))
    problem, estimate, steps = _moving(X, Y, h, options)
    with problem.device:
        return problem.density_of_moved(estimate, log=log, steps=steps)


@declare(cost_formulas.laplace_kde, cost_calls.of_queries, observed=cost_calls.taken("laplace"))
@public_call(returned.rows("Y", "density"))
@_over_dask
@takes(OfLinear)
@with_signed
def laplace_kde(
    X: ArrayLike,
    Y: ArrayLike,
    h: Bandwidth,
    *,
    negative: Literal["keep", "clip"] = "keep",
    **options: Unpack[OfLinear],
) -> Array:
    r"""Laplace-corrected density estimate: a fourth-order kernel, in one pass and without a score.

    .. math:: \hat p(y) = (2\pi h^2)^{-d/2} \sum_j w_j \phi_j (1 + d/2 - |y - x_j|^2/(2 h^2))

    The kernel is :math:`K_h - (h^2/2) \Delta K_h`. It cancels the leading bias term of :func:`kde`, and is the
    linearisation of :func:`sd_kde`. The kernel is negative far from its point, so the estimate may be negative, too.

    Parameters
    ----------
    negative : {"keep", "clip"}
        "keep" returns negative values as they are; they still rank queries. "clip" sets them to 0, with a
        :class:`NegativeDensityWarning` of their number and their share of the absolute sum. On the GPU the warning
        waits for the result; for Dask arrays it comes with each block that is computed.

    Returns
    -------
    array, shape (m,)
        Density in units of 1/volume (or its logarithm), as of :func:`kde`.

    Raises
    ------
    TypeError, ValueError
        As :func:`kde`, and for an unknown ``negative``.

    Examples
    --------
    >>> import numpy as np, cukde
    >>> cukde.laplace_kde(np.array([0.0]), np.array([0.0, 3.0]), 1.0).round(4)
    array([ 0.5984, -0.0133])

    Notes
    -----
    Cost: that of :func:`kde`. Errors are those of :func:`kde`, relative to the sum of the absolute terms, since terms
    of opposite signs cancel.

    With ``local_factors`` each kernel is corrected with its own width, in the same form:
    :math:`K_j - (\lambda_j^2 h^2 / 2) \Delta K_j = K_j (1 + d/2 - |y - x_j|^2 / (2 \lambda_j^2 h^2))`, with the
    :math:`K_j` of :func:`score`. It cancels :math:`(h^2/2) \Delta (\lambda^2 f)`, the bias that ``docs/sd_kde.md``
    derives.

    References
    ----------
    - Epstein, E. L., Flash-SD-KDE, section 5; Jones, M. C. and Signorini, D. F. (1997). A comparison of higher-order
      bias kernel density estimators. *JASA* 92.
    """
    check.negative(negative)
    log = core_check.flag("log", options.pop("log", False))
    problem = _problem_of(X, Y, h, options, method="laplace", may_be_unchecked=negative != "clip")
    with problem.device:
        if negative != "clip":
            return problem.laplace_density(log=log)
        epilogue: Epilogue = problem.epilogue(log=log)
        density, report = results.laplace(problem.sums("laplace"), *epilogue, problem.xp, clip=True)
    if report is not None:
        of_user(report, NegativeDensityWarning)
    return density


@declare(cost_formulas.kernel_sum, cost_calls.of_values, observed=cost_calls.taken("values"))
@public_call(_sums_with_names)
@_over_dask
@takes(OfValues)
def kernel_sum(X: ArrayLike, V: ArrayLike, Y: ArrayLike, h: Bandwidth, **options: Unpack[OfValues]) -> Array:
    r"""Gaussian kernel sum of values, not normalised: :math:`\sum_j \exp(-|y_i - x_j|^2 / (2 h^2)) V_j`.

    Parameters
    ----------
    X : array_like, shape (n, d) or (n,)
        Points.
    V : array_like, shape (n,) or (n, k)
        Values of any sign, a row for each point.
    Y, h
        As in :func:`kde`. "omit" also leaves out rows with a missing value in ``V``.
    log : bool
        Return the logarithms of the absolute sums, finite for any finite query. A column of ``V`` must then have no
        numbers of both signs; one of zeros has sums of 0, and -inf.

    Returns
    -------
    array, shape (m,) or (m, k)
        In the units of ``V``, or logarithms, of dtype ``result_type(X, V, Y)``.

    Raises
    ------
    TypeError, ValueError
        As :func:`kde`, also for ``V``; for ``V`` with another number of rows than ``X``, for stacks, and for both signs
        in a column with ``log``.

    Examples
    --------
    >>> import numpy as np, cukde
    >>> cukde.kernel_sum(np.array([0.0, 1.0]), np.array([1.0, -1.0]), np.array([0.0]), 1.0).round(4)
    array([0.3935])
    >>> cukde.kernel_sum([0.0, 1.0], [1.0, 3.0], [100.0], 1.0, log=True).round(3)  # log(3) - 99**2 / 2
    array([-4899.401])

    Notes
    -----
    Cost: n m exponentials and 2 (d + k) n m flops; with ``log`` a density with weights for each column. If ``Y`` is
    ``X`` itself, in float32 on the GPU, half of the exponentials for up to 32 values, or in more than 64 dimensions.
    Errors are those of :func:`kde`, relative to the sum of the absolute terms; ``rtol`` holds for each column of ``V``
    by itself. ``docs/kernel_sums.md`` says which pairs are left out.
    """
    core_check.given("V", V)
    log = core_check.flag("log", options.pop("log", False))
    given: Mapping[str, Any] = options
    problem, v = prepare(X, Y, h, V=V, **given)
    with problem.device:
        columns = v[:, None] if v.ndim == 1 else v
        if log:
            weighted = results.cast(log_values(problem, columns), problem.dtype)
        else:
            weighted = results.values(problem.sums("values", columns), problem.dtype, problem.xp)
        return weighted[:, 0] if v.ndim == 1 else weighted
