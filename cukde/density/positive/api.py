"""The public functions of the positive estimate: its density, its score and its mass."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Unpack

import numpy as np

from cukde.core import check as core_check, random_state as core_random_state
from cukde.core.cost.registry import declare
from cukde.core.entry import returned
from cukde.core.entry.public_call import public_call
from cukde.core.over_dask import over_dask
from cukde.core.random_state import DEFAULT, RandomState
from cukde.core.types import Array, ArrayLike, Bandwidth
from cukde.density import correction, results
from cukde.density.arguments import problem_of
from cukde.density.cost import calls as cost_calls, formulas as cost_formulas
from cukde.density.keywords import OfDensity, OfMass, Weighted, before_dask, takes
from cukde.density.mass_sizes import SAMPLES
from cukde.density.plan import compositions as plan_compositions
from cukde.density.positive import check, mass as positive_masses, quadrature
from cukde.density.positive.mass import Mass
from cukde.density.problem import Problem

_over_dask = over_dask("cukde.density.dask.positive", before=before_dask)


@declare(cost_formulas.positive_kde, cost_calls.of_positive, observed=cost_calls.taken("laplace"))
@public_call(returned.rows("Y", "density"))
@_over_dask
@takes(OfDensity)
def positive_kde(
    X: ArrayLike, Y: ArrayLike, h: Bandwidth, *, mass: float | Mass | None = None, **options: Unpack[OfDensity]
) -> Array:
    r"""Positive density estimate whose bias is of fourth order, in one pass.

    .. math::

        \hat p_+(y) = \frac1M \hat p(y) \left(t + \sqrt{1 + t^2}\right), \qquad
        t = -\frac{h^2}{2} \frac{\Delta \hat p(y)}{\hat p(y)}

    Here :math:`\hat p` is :func:`kde`, and :math:`\hat p (1 + t)` is :func:`laplace_kde`. The factor in parentheses is
    close to 1 + t where t is small, but never negative. M is the integral that normalises the result.

    Parameters
    ----------
    X, Y, h
        As in :func:`kde`. :func:`cukde.bandwidth.positive` has the matching reference rule for ``h``.
    mass : float or Mass, optional
        M, at least 1, as :func:`positive_mass` returns it. Give it in later calls with the same data to save its cost;
        1 leaves the result unnormalised. Default: the result of ``positive_mass`` with its defaults, which checks the
        data whatever ``check_finite`` is.

    Returns
    -------
    array, shape (m,)
        Density in units of 1/volume: positive, except for underflow, and 0 outside the bounds. With ``log`` it is
        finite for any finite query.

    Raises
    ------
    TypeError, ValueError
        As :func:`kde`; for a mass that is not a number of at least 1; for stacks, whose members need a call each.

    Examples
    --------
    >>> import numpy as np, cukde
    >>> cukde.positive_kde(np.array([0.0]), np.array([0.0, 2.0]), 1.0).round(4)
    array([0.5542, 0.014 ])

    Notes
    -----
    *Bias.* The bias is of order :math:`h^4`, like that of :func:`sd_kde` and :func:`laplace_kde`:

    .. math:: \frac{h^4}{8} \left[\frac{(\Delta f)^2}{f} - \Delta^2 f - f \int \frac{(\Delta f)^2}{f}\right]

    for data of density f; ``docs/positive.md`` derives it, and simulations confirm the order.

    *Error.* The error relative to the density is about that of :func:`kde` times :math:`1 + d/2`
    (``tests/density/test_positive.py``). The error of M comes on top, as a factor that is the same for all queries.

    *Leave-one-out.* The sums leave out the row, but M does not.

    *Cost.* The pass of :func:`laplace_kde`, and for ``mass=None`` that of :func:`positive_mass`: 4,096 more queries, or
    in one dimension 10 for each bandwidth within 9 bandwidths of data.

    References
    ----------
    - Jones, M. C. and Foster, P. J. (1993). Generalized jackknifing and higher order kernels. *J. Nonparametr. Stat.*
      3, for :math:`\hat p \exp(t)`; Jones, M. C. and Signorini, D. F. (1997), as in :func:`laplace_kde`. The factor and
      its mass are this library's, see ``cukde/density/correction.py``.
    """
    log = core_check.flag("log", options.pop("log", False))
    given = None if mass is None else check.mass(mass)
    check.no_stack(X)
    problem = problem_of(X, Y, h, options, method="positive", may_be_unchecked=given is not None)
    with problem.device:
        return density(problem, default_mass(problem).value if given is None else given, log=log)


@declare(cost_formulas.positive_score, cost_calls.of_queries, observed=cost_calls.taken("moments", "laplace"))
@public_call(returned.rows("Y", "score"))
@_over_dask
@takes(Weighted)
def positive_score(X: ArrayLike, Y: ArrayLike, h: Bandwidth, **options: Unpack[Weighted]) -> Array:
    r"""Gradient of the logarithm of :func:`positive_kde`.

    The mass does not matter; bounds and periods are not supported.

    Returns
    -------
    array or frame, shape of ``Y``
        In units of 1/length; finite for any finite query.

    Raises
    ------
    TypeError, ValueError
        As :func:`positive_kde`.

    Examples
    --------
    >>> import numpy as np, cukde
    >>> cukde.positive_score(np.array([0.0]), np.array([2.0]), 1.0).round(4)
    array([-3.1094])

    Notes
    -----
    Cost: the passes of :func:`score` and :func:`laplace_kde`, and a pass of squared differences for the gradient of the
    Laplacian, 3 d n m flops for the exponents and as many for the moments. The error is about that of :func:`score`
    times :math:`1 + d/2` (``tests/density/test_positive.py``).
    """
    check.no_stack(X)
    problem = problem_of(X, Y, h, options, method="positive")
    with problem.device:
        return score(problem)


@declare(cost_formulas.positive_mass, cost_calls.of_mass, observed=cost_calls.taken("laplace"))
@public_call()
@_over_dask
@takes(OfMass)
def positive_mass(
    X: ArrayLike,
    h: Bandwidth,
    *,
    axes: Sequence[ArrayLike] | ArrayLike | None = None,
    samples: int = SAMPLES,
    random_state: RandomState = DEFAULT,
    **options: Unpack[OfMass],
) -> Mass:
    r"""Integral of the corrected estimate before it is normalised; :func:`positive_kde` divides by it.

    .. math:: M = \int \hat p \left(t + \sqrt{1 + t^2}\right) = 1 + \int \hat p \left(\sqrt{1 + t^2} - 1\right)

    Parameters
    ----------
    axes : sequence of d array_like, each of shape (g_k,), or mapping, optional
        Increasing coordinates along each axis, an odd number of at least 3. The integral is then taken over their
        product grid, in the forms of :func:`evaluate_grid`.
    samples : int
        Number of points that estimate the mass in more than one column, without ``axes``; at least 2.
    random_state : int, numpy.random.RandomState, numpy.random.Generator or None
        Random state of these points. The default gives the same mass on every call and every device, up to rounding.

    Returns
    -------
    Mass
        A named tuple of ``value``, the mass, and ``error``, an estimate of its error.

    Raises
    ------
    TypeError, ValueError
        As :func:`positive_kde`; for axes that do not fit, a number of samples below 2, and an unknown random state.

    Examples
    --------
    >>> import numpy as np, cukde
    >>> round(cukde.positive_mass(np.array([-1.0, 1.0]), 1.0).value, 6)
    1.074576

    Notes
    -----
    *One column.* The trapezoidal rule in double precision, with ten nodes a bandwidth within nine bandwidths of the
    data. The true error is below 1e-12, whatever the weights. ``error`` compares with every second node: below 1e-8
    (``tests/density/test_positive.py``).

    *Grids.* The same rule on the given nodes, with the same ``error``. Steps of half a bandwidth give errors of at most
    1e-7; the mass beyond the grid is missed.

    *Otherwise*, and with local factors, M is estimated from points drawn from the density :math:`\hat p` itself, and
    ``error`` is the standard error. The second form of M has less variance, because t integrates to 0; t itself, and
    what a row by itself would add, are control variates. With 4,096 points the relative error is 0.09% in 2 dimensions
    and 0.6% in 16, for 2,000 normal rows and the reference rule.

    *Cost.* The pass of :func:`laplace_kde` over these nodes or points.
    """
    check.no_stack(X)
    count = check.samples(samples)
    seed = core_random_state.integer(random_state)
    problem = problem_of(X, None, h, options, method="positive")
    nodes = None if axes is None else quadrature.of_grid(check.axes(axes, problem.X.shape[1]))
    with problem.device:
        if nodes is not None:
            return positive_masses.integrated(problem, nodes)
        return mass_of(problem, count, seed)


def mass_of(problem: Problem, count: int, seed: int) -> Mass:
    """The mass of a problem whose values are checked."""
    if plan_compositions.mass_is_integrated(problem.X.shape[1], local=problem.options.local_factors is not None):
        return positive_masses.integrated(problem, quadrature.of_line(positive_masses.of_all(problem)))
    return positive_masses.sampled(problem, count, np.random.default_rng(seed))


def default_mass(problem: Problem) -> Mass:
    """The mass by the defaults of :func:`positive_mass`."""
    return mass_of(problem, SAMPLES, int(DEFAULT))


def density(problem: Problem, mass: float, *, log: bool) -> Any:
    """The density at the queries of a problem, or its logarithm."""
    return problem.laplace_density(log=log, positive=True, log_mass=math.log(mass))


def score(problem: Problem) -> Any:
    """The gradient of the log density at the queries of a problem, in their own shape."""
    plain, corrected, curved = (problem.sums(output) for output in correction.OF_SCORE)
    gradient = correction.score(plain, corrected, curved, problem.whitening, problem.xp)
    return results.cast(gradient, problem.dtype).reshape(problem.query_shape)


def log_factor(problem: Problem) -> Any:
    """Logarithms of the factors at the queries of a problem, float64."""
    return correction.log_factor(correction.relative(problem.sums("laplace")), problem.xp)
