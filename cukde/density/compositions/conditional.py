"""Marginal and conditional densities of a kernel density estimate: of some columns, and of some given the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Unpack

import numpy as np

from cukde.core import check as core_check, dispatch
from cukde.core.cost.registry import declare
from cukde.core.entry import returned
from cukde.core.entry.public_call import public_call
from cukde.core.over_dask import over_dask
from cukde.core.types import Array, ArrayLike, Bandwidth, Columns
from cukde.density import check as density_check, rules_by_name
from cukde.density.arguments import prepare, problem_of
from cukde.density.compositions import check, columns as compositions_columns, cost, ratio
from cukde.density.compositions.columns import Widths
from cukde.density.compositions.question import Question, chosen_others
from cukde.density.cost import calls as cost_calls, formulas as cost_formulas
from cukde.density.keywords import LogInDomain, LogOfKinds, before_dask, takes
from cukde.density.problem import Problem, reweighted


def _of_columns(arguments: Mapping[str, Any], labels: Sequence[Any], d: int) -> list[int]:
    """Positions of the columns that queries of :func:`marginal` have."""
    return check.positions("columns", arguments.get("columns"), labels, d)


@declare(cost_formulas.kde, cost_calls.of_marginal, name="marginal")
@public_call(returned.rows("Y", "density"), chosen=_of_columns)
@over_dask("cukde.density.compositions.dask")
@takes(LogInDomain)
def marginal(X: ArrayLike, columns: Columns, Y: ArrayLike, h: Bandwidth, **options: Unpack[LogInDomain]) -> Array:
    r"""Density of some columns: the marginal of the density of all columns that :func:`cukde.kde` estimates.

    .. math:: \hat p(y) = \int \hat p(y, z)\, dz

    The marginal of a Gaussian is the Gaussian with that block of the covariance. So the result is the density of the
    chosen columns with that block of the bandwidth; no integral is computed.

    Parameters
    ----------
    X : array_like, shape (n, d) or (n,)
        Data, as for :func:`cukde.kde`; a data frame (pandas, polars, cuDF) gives its columns names.
    columns : int, str or sequence of them
        The columns: positions (negative ones count from the end), or names of a data frame's columns. Where a
        frame has columns called by integers (but 0, 1, 2, ... in this order), integers are names.
    Y : array_like, shape (m, k) or (m,)
        Queries in the chosen columns, in the order of ``columns``, or by their names; (m,) only for one column.
    h : float, array_like or str
        Bandwidth of all ``d`` columns of ``X``, in any form that :func:`cukde.kde` takes.

    Returns
    -------
    array, shape (m,)
        Density in units of 1/volume of the chosen columns, or its logarithm, of dtype ``result_type(X, Y)``. NumPy in,
        NumPy out; CuPy in, CuPy out; Dask in, Dask out.

    Raises
    ------
    TypeError, ValueError
        As :func:`cukde.kde`; for columns that ``X`` does not have, or that are named twice.

    Examples
    --------
    >>> import numpy as np, cukde
    >>> X = np.array([[0.0, 5.0], [1.0, 7.0]])
    >>> cukde.marginal(X, [0], [0.5], [1.0, 2.0]).round(4)  # the density of X[:, 0] with the bandwidth 1
    array([0.3521])

    Notes
    -----
    Accuracy and cost are those of :func:`cukde.kde` with k columns (``tests/density/test_conditional.py``), plus a copy
    of these columns. Pairs are left out by its default ``rtol``.

    References
    ----------
    - Wand, M. P. and Jones, M. C. (1995). *Kernel Smoothing*. Chapman and Hall, chapter 4.
    """
    log, weights = core_check.flag("log", options.pop("log", False)), options.get("weights")
    ends: dict[str, Any] = {"bounds": options.pop("bounds", None), "periods": options.pop("periods", None)}
    backend = dispatch.backend(X, Y=Y, weights=weights)
    with backend.device_of(X):
        x, _ = density_check.data(X, backend)
        d = x.shape[1]
        chosen = check.positions("columns", columns, compositions_columns.labels(X, d), d)
        y = check.queries(Y, len(chosen), "one for each of columns", backend)
        h, factors = rules_by_name.with_factors(h, x, weights, **ends)
        of_columns = Widths.of(h, **ends, d=d).of_columns(chosen)
        problem = problem_of(x[:, chosen], y, options=options, local_factors=factors, **of_columns)
    with problem.device:
        return problem.density(log=log)


@declare(cost.conditional, cost_calls.of_conditional)
@public_call(returned.rows("Y", "density"), chosen=chosen_others)
@over_dask("cukde.density.compositions.dask", before=before_dask)
@takes(LogOfKinds)
def conditional(
    X: ArrayLike, given: Mapping[Any, Any], Y: ArrayLike, h: Bandwidth, **options: Unpack[LogOfKinds]
) -> Array:
    r"""Conditional density of the other columns, given values of some: the joint density over its marginal.

    .. math:: \hat p(y \mid g) = \hat p(y, g) / \hat p(g)

    Both densities are estimated by :func:`cukde.kde` with the bandwidth ``h``. The quotient is a density in y: it is
    not negative, and integrates to 1.

    Parameters
    ----------
    X : array_like, shape (n, d)
        Data, as for :func:`cukde.kde`; a data frame (pandas, polars, cuDF) gives its columns names.
    given : mapping
        From a column, by position or by name, to its value: a number, or an array of shape (m,), one for each query.
        Columns are named as in :func:`marginal`; at least one is left. Of a column of categories it is a label.
    Y : array_like, shape (m, d - k) or (m,)
        Queries in the remaining columns, in the order of ``X``, or by their names; (m,) only for one column.
    h : float, array_like or str
        Bandwidth of all ``d`` columns of ``X``, in any form that :func:`cukde.kde` takes; a covariance may correlate
        given columns with others.

    Returns
    -------
    array, shape (m,)
        Density in units of 1/volume of the remaining columns, or its logarithm. The dtype is that of ``result_type(X,
        Y)`` with the arrays of ``given``; numbers in ``given`` do not count. NumPy in, NumPy out; CuPy in, CuPy out;
        Dask in, Dask out.

    Raises
    ------
    TypeError, ValueError
        As :func:`cukde.kde`; for columns that ``X`` does not have, that are named twice or that leave none; for values
        that are not finite, or of another shape.

    Examples
    --------
    >>> import numpy as np, cukde
    >>> X = np.array([[0.0, 5.0], [1.0, 7.0]])
    >>> cukde.conditional(X, {0: 0.5}, [6.0], 1.0).round(4)  # both rows are as near to 0.5
    array([0.242])
    >>> cukde.conditional(X, {0: [0.0, 1.0]}, [5.0, 7.0], 1.0).round(4)
    array([0.2687, 0.2687])

    Notes
    -----
    *One value for all queries.* The kernel at a point :math:`x_j` is the product of its marginal at g and a Gaussian in
    the remaining columns r. Its covariance is the Schur complement :math:`H_{rr} - H_{rg} H_{gg}^{-1} H_{gr}`, and its
    mean :math:`x_{j,r} + H_{rg} H_{gg}^{-1} (g - x_{j,g})`.

    If all values in ``given`` are numbers, the result is therefore one :func:`cukde.kde` of d - k columns. Its data are
    these means (the data themselves, if the bandwidth has no covariances), and its weights are proportional to the
    marginal kernel at g. Cost: n m exponentials in d - k dimensions, and O(n k). Errors are those of :func:`cukde.kde`,
    plus those of the weights: in double precision, 16 eps times the exponent of the rows nearest to g.

    *A value for each query.* With an array in ``given``, the joint density and the marginal are two passes at all
    queries, with d and with k columns, whose logarithms are subtracted in double precision. Cost: 2 n m exponentials.
    The error of the logarithm is the sum of both errors: 2e-5 in float32 on the CPU, 6e-5 on the GPU and 2e-12 in
    float64, if a point lies within 12 bandwidths of (y, g). Farther out it is 16 eps times the exponent; use
    ``precision="float64"`` there. (Both: ``tests/density/test_conditional.py``.)

    *Far from all data* the rows whose values are nearest to the given ones, in bandwidths, determine the result, since
    all others have a vanishing share of :math:`\hat p(g)`. It is finite, never NaN, and there is no warning. The
    logarithm of :func:`marginal` at g tells how near the data are.

    Each pass leaves out pairs by the default ``rtol`` of :func:`cukde.kde`; the errors above include this.

    Memory is O(n d + m d). With Dask arrays, bounds or periods the quotient is always computed.

    References
    ----------
    - Rosenblatt, M. (1969). Conditional probability density and regression estimators. *Multivariate Analysis II*,
      25-31.
    - Hyndman, R. J., Bashtannyk, D. M. and Grunwald, G. K. (1996). Estimating and visualizing conditional densities.
      *Journal of Computational and Graphical Statistics* 5, 315-336.
    """
    log = core_check.flag("log", options.pop("log", False))
    if (kinds := options.pop("kinds", None)) is not None:
        from cukde.density.compositions import mixed as compositions_mixed  # which few calls need

        of_mixed = compositions_mixed.conditional(X, given, Y, h, kinds, {**options}, log=log)
        if of_mixed is not None:
            return of_mixed
    backend = dispatch.backend(X, Y=Y, weights=options.get("weights"), **check.values_by_name(given))
    with backend.device_of(X):
        asked = Question.of(backend, X, given, h, dict(options), Y, takes_factors=True)
        if asked.widths.domain is None and not asked.arrays:
            problem = at_one_value(asked)
            with problem.device:
                return problem.density(log=log)
        return _at_each_value(asked, log=log)


def at_one_value(asked: Question) -> Problem:
    """The density of the other columns as a problem: each point has its share in the marginal at the given value."""
    x, y, values, backend = asked.x, asked.y, asked.values, asked.backend
    xp, factors, kernel = backend.xp, asked.options["local_factors"], asked.kernel
    problem, _ = prepare(x[:, asked.rest], y, kernel.h, **asked.options)
    with problem.device, np.errstate(over="ignore", invalid="ignore"):
        x_given = xp.ascontiguousarray(x[:, list(values)], dtype=xp.float64)
        apart = xp.asarray(list(values.values())) - x_given
        z = compositions_columns.in_bandwidths(apart, kernel.h_given, xp)
        exponents = 0.5 * (z * z).sum(axis=1)
        log_shares = -exponents
        if factors is not None:
            exponents /= factors * factors
            log_shares = -exponents - len(values) * xp.log(factors)
    with problem.device:
        if problem.options.squared_radius is not None:
            core_check.finite({"X": backend.look(x_given, None, None)[1][0]})
            check.distance(2 * float(exponents.max()))
        log_weights = reweighted(problem.options.log_weights, log_shares, xp)
        problem = problem._replace(options=problem.options._replace(log_weights=log_weights))
        if kernel.slope is None:
            return problem
        # Moved points stay in double precision, about the data: how far they move rounds with what they are.
        assert y is not None
        centre = problem.options.centre
        X = xp.ascontiguousarray(problem.X - centre + apart @ xp.asarray(kernel.slope.T))
        Y = xp.ascontiguousarray(y.astype(xp.float64) - centre)
        moved = problem.options._replace(centre=backend.mean(X))
        problem = problem._replace(X=X, Y=Y, options=moved)
        return problem if moved.squared_radius is None else problem.located()


def _at_each_value(asked: Question, *, log: bool) -> Any:
    """Divide the joint density by the marginal."""
    x, y, values, arrays, dtype = asked.x, asked.y, asked.values, asked.arrays, asked.dtype
    assert y is not None
    options = asked.options | {"precision": density_check.precision(asked.options.get("precision"), dtype)}
    # Numbers stay in double precision where there are no arrays: rounded, one might lie beyond its bound.
    of_queries = density_check.result_dtype(y, *arrays) if arrays else np.float64
    Y = asked.backend.xp.empty((len(y), x.shape[1]), of_queries)
    Y[:, asked.rest] = y
    for column, value in values.items():
        Y[:, column] = value
    at = Y[:, asked.given] if arrays else Y[:1, asked.given]
    joint, _ = prepare(x, Y, **asked.widths.of_columns(range(x.shape[1])), **options)
    of_given, _ = prepare(x[:, asked.given], at, **asked.widths.of_columns(asked.given), **options)
    return ratio.quotient(joint, of_given, log=log, dtype=dtype)
