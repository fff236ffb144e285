"""Second derivatives of a density: second moments of the data about queries, by sums of values."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Unpack

import numpy as np

from cukde.core import check as core_check
from cukde.core.cost.registry import declare
from cukde.core.entry import returned
from cukde.core.entry.public_call import public_call
from cukde.core.types import Array, ArrayLike, Bandwidth
from cukde.density import results
from cukde.density.arguments import problem_of
from cukde.density.cost import calls as cost_calls, formulas as cost_formulas
from cukde.density.keywords import OfCurvature, takes
from cukde.density.problem import Problem, squared_radius

# In bandwidths. Products of coordinates about a point so far away lose 1e-11 of a squared bandwidth in float64.
_REACH = 128.0


@declare(cost_formulas.hessian, cost_calls.of_queries, observed=cost_calls.taken("values"))
@public_call(returned.rows("Y", "hessian"))
@takes(OfCurvature)
def hessian(X: ArrayLike, Y: ArrayLike, h: Bandwidth, **options: Unpack[OfCurvature]) -> Array:
    r"""Second derivatives of the density :func:`cukde.kde` at queries, or of its logarithm.

    .. math:: \nabla^2 \hat p(y) = (2\pi h^2)^{-d/2} \sum_j w_j \phi_j(y)
        \left[\frac{(x_j - y)(x_j - y)^\top}{h^4} - \frac{I}{h^2}\right]

    A mode has a negative definite one; along a ridge its lowest eigenvalue belongs to the direction across.

    Parameters
    ----------
    X : array_like, shape (n, d) or (n,)
        Data, as for :func:`cukde.kde`.
    Y : array_like, shape (m, d) or (m,), or None
        Queries. None: the data themselves.
    h : float, array_like or str
        Bandwidth, in any form that :func:`cukde.kde` takes.
    log : bool
        Return the second derivatives of the log density: finite for any finite query, where they tend to
        :math:`-I / h^2`.

    Returns
    -------
    array, shape (m, d, d)
        Symmetric matrices, in units of the density (or of 1) over squared units of the columns, of dtype
        ``result_type(X, Y)``; (m, 1, 1) for one column. NumPy in, NumPy out; CuPy in, CuPy out.

    Raises
    ------
    TypeError, ValueError
        As :func:`cukde.kde`; for Dask collections and stacks.

    Examples
    --------
    >>> import numpy as np, cukde
    >>> cukde.hessian(np.zeros((1, 2)), np.array([[0.0, 2.0]]), 1.0, log=True)  # of a Gaussian
    array([[[-1.,  0.],
            [ 0., -1.]]])
    >>> cukde.hessian(np.array([0.0]), np.array([0.0, 1.0]), 1.0).round(4)[:, 0, 0]
    array([-0.3989,  0.    ])

    See Also
    --------
    score, modes

    Notes
    -----
    All sums are in double precision, whatever the dtype. The error, in units of :math:`1/h^2` (and of the density,
    without ``log``), is at most 1e-9 plus 1e-12 times the squared distance of the data that count, in bandwidths; in
    float32 results are rounded (``tests/density/test_hessian.py``).

    Moments are summed about points within 128 bandwidths of the data that count, not about the query. Data that reach
    farther take a pass of the score, which tells where those are, and a pass for each cell of 256 bandwidths with
    queries in it.

    With ``local_factors`` the result is that of the density with factors.

    Cost: n m exponentials in double precision, and :math:`(d + 1)(d + 2) n m` flops. Memory for :math:`n (d + 1)
    (d + 2) / 2` numbers; the derivatives of a periodic or a bounded density are not supported.

    References
    ----------
    - Wand, M. P. and Jones, M. C. (1995). *Kernel Smoothing*. Chapman and Hall, chapter 2.12.
    - Chacón, J. E. and Duong, T. (2018). *Multivariate Kernel Smoothing and Its Applications*. CRC Press, chapter 5.
    """
    log = core_check.flag("log", options.pop("log", False))
    problem = problem_of(X, Y, h, {**options, "precision": "float64"}, takes_factors=True)
    with problem.device:
        log_density, curvature = _curvature(problem, log=log)
        if not log:
            curvature = curvature * problem.xp.exp(log_density)[:, None, None]
        return results.cast(curvature, problem.dtype)


def _curvature(problem: Problem, *, log: bool) -> tuple[Any, Any]:
    """Log densities, and second derivatives over the density or of its logarithm, (m, d, d), float64."""
    xp, whitening = problem.xp, problem.whitening
    m, d = (problem.X if problem.Y is None else problem.Y).shape
    log_density, second = xp.empty(m), xp.empty((m, d, d))
    for rows, centre in _cells(problem):
        log_density[rows], second[rows] = _of_cell(problem, rows, centre, log=log)
    for _ in range(2):  # L^-T M L^-1, by rows and by columns
        second = (whitening.score(second, xp) / whitening.h).swapaxes(1, 2)
    return log_density, 0.5 * (second + second.swapaxes(1, 2))


def _cells(problem: Problem) -> Iterator[tuple[Any, Any]]:
    """Rows of the queries, and near which point, in whitened coordinates, the data lie that count for them."""
    xp = problem.xp
    centre = problem.whitening.image(problem.options.centre, xp)
    radius, Y = problem.options.squared_radius, problem.X if problem.Y is None else problem.Y
    if radius is None:  # of unchecked values
        radius = squared_radius(problem.backend, problem.X, problem.Y, problem.options.centre, problem.whitening)
    if radius <= _REACH**2 or not len(Y):
        yield slice(None), centre
        return
    sums = problem.sums("moments")
    X, Y = problem.whitened()
    means = problem.backend.asnumpy((X if Y is None else Y) + sums.moments / sums.total[:, None])
    width = 2 * _REACH * problem.whitening.h
    numbers = np.floor(means / width)
    numbers[np.isnan(numbers)] = np.inf
    cells, which = np.unique(numbers, axis=0, return_inverse=True)
    order = np.argsort(which.ravel(), kind="stable")
    for cell, rows in zip(cells, np.split(order, np.cumsum(np.bincount(which.ravel()))[:-1]), strict=True):
        yield xp.asarray(rows), xp.asarray((cell + 0.5) * width)


def _of_cell(problem: Problem, rows: Any, centre: Any, *, log: bool) -> tuple[Any, Any]:
    """Log densities at some queries, and second derivatives over the density or of its logarithm where h is 1.

    With local factors f terms of first derivatives have 1/f^2, and those of second ones 1/f^4.
    """
    xp, d, factors = problem.xp, problem.X.shape[1], problem.options.local_factors
    part = problem
    if not isinstance(rows, slice):
        part = problem._replace(Y=(problem.X if problem.Y is None else problem.Y)[rows])
    data, queries = part.whitened()
    X, Y = ((A - centre) / problem.whitening.h for A in (data, data if queries is None else queries))
    a, b = np.triu_indices(d)
    ones = xp.ones((len(X), 1))
    columns = [ones, X, X[:, a] * X[:, b]]
    if factors is not None:
        f = 1 / factors[:, None] ** 2
        columns = [ones, f, X * f, *(column * f * f for column in columns)]
    sums = part.sums("values", xp.concatenate(columns, axis=1))
    total, moments = sums.moments[:, :1], sums.moments
    log_density = sums.reference + xp.log(total[:, 0]) + problem.log_constant
    moments = moments / total
    of_one = moments[:, : d + 1]  # over the density: factors, and those times the data
    if factors is not None:
        of_one, moments = moments[:, 1 : d + 2], moments[:, d + 2 :]
    weight, mean = moments[:, :1], moments[:, 1 : d + 1] / moments[:, :1]
    upper = moments[:, d + 1 :] - weight * mean[:, a] * mean[:, b]
    second = xp.empty((len(Y), d, d))
    second[:, a, b] = second[:, b, a] = upper
    second -= of_one[:, :1, None] * xp.eye(d)
    if log and factors is None:  # squared distances to the query cancel
        return log_density, second
    step = mean - Y
    second += (weight * step)[:, :, None] * step[:, None, :]
    if log:
        score = of_one[:, 1:] - of_one[:, :1] * Y
        second -= score[:, :, None] * score[:, None, :]
    return log_density, second
