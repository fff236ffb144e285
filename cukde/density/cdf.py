"""The distribution function of a kernel density estimate in one dimension, and its logarithm."""

from __future__ import annotations

from typing import Any, Unpack

import numpy as np

from cukde.core.cost.registry import declare
from cukde.core.entry import returned
from cukde.core.entry.public_call import public_call
from cukde.core.types import Array, ArrayLike, Bandwidth
from cukde.density import results
from cukde.density.arguments import problem_of
from cukde.density.cost import calls as cost_calls, formulas as cost_formulas
from cukde.density.keywords import InDomain, takes
from cukde.density.problem import Problem


@declare(cost_formulas.cdf, cost_calls.of_queries)
@public_call(returned.rows("Y", "cdf"))
@takes(InDomain)
def cdf(X: ArrayLike, Y: ArrayLike, h: Bandwidth, **options: Unpack[InDomain]) -> Array:
    r"""Distribution function of :func:`kde` in one dimension: the mass of the estimate below each query.

    .. math:: \hat F(y) = \sum_j w_j \Phi((y - x_j) / h), \quad
              \Phi(u) = \int_{-\infty}^u \frac{\exp(-t^2 / 2)}{\sqrt{2 \pi}} dt

    Its derivative is :func:`kde`.

    Parameters
    ----------
    X : array_like, shape (n,) or (n, 1)
        Data of one column. If it is a GPU array (CuPy, or anything with ``__cuda_array_interface__`` or DLPack), the
        call computes on the GPU. For the marginal distributions of several columns, call it for each.
    Y : array_like, shape (m,) or (m, 1)
        Queries, in the units of ``X``. No queries give an empty result.
    h : float, array_like or str
        Bandwidth: a positive standard deviation, also of shape (1,), a variance of shape (1, 1), or the name of a rule,
        as in :func:`kde`.
    precision : {"float32", "tf32", "ieee", "float64"}, optional
        How accurate the sum is; default: as the dtype. All arithmetic is in double precision, and ``"ieee"`` sums every
        pair.
    deterministic : bool
        Without effect: every run gives the same bits in any case.

    Returns
    -------
    array, shape (m,)
        From 0 to 1, if there is no period, of dtype ``result_type(X, Y)``: float16 rises to float32, integers to
        float64. NumPy in, NumPy out; CuPy in, CuPy out.

    Raises
    ------
    TypeError
        For complex, string or object data, for Dask collections, and for ``Y`` on the GPU with ``X`` on the CPU.
    ValueError
        For data of several columns, shapes that do not fit, no data, NaN or infinity, a bandwidth that is not positive,
        negative or all-zero weights, an unknown precision, bounds and periods that do not fit, and data outside their
        bounds.

    Examples
    --------
    >>> import numpy as np, cukde
    >>> cukde.cdf(np.array([0.0, 1.0]), np.array([-1.0, 0.5, 2.0]), 1.0).round(4)
    array([0.0907, 0.5   , 0.9093])

    Notes
    -----
    The error is at most 1e-6 in float32 and 1e-12 in float64, relative to the value itself, however small it is. In the
    left tail, farther than 12 bandwidths from the data, it is 8 eps times the exponent :math:`(y - x)^2 / (2 h^2)` of
    the nearest row. Measured errors are 7e-8, with the rounding of the result, and 2e-13
    (``tests/density/test_cdf.py``). Values of neighbouring queries may be out of order by as much. Far to the right the
    result rounds to 1; ``cdf(-X, -Y, h)`` is the mass above each query, with all its digits.

    Cost: O(n + m) operations by the fast Gauss transform of :func:`kde`, with an expansion of :math:`\Phi` and an error
    bound that is checked box by box. All n m pairs are summed, each with an exponential and a quotient, in these cases:
    on the CPU if there are at most 4,096 pairs, and at most 4,096 rows of data and queries together; if the bound needs
    too many boxes; with "ieee"; and while a CUDA graph is captured. That sum takes array operations with 320 bytes of
    memory traffic a pair, in tiles of about ten arrays of 32 MiB.

    With ``bounds`` or ``periods`` it is the integral of :func:`kde` with the same, by 2 to 14 times as many queries on
    the line, or by at most 11 waves where h is above 0.15 of the period or 0.3 of the width. Nearer than h to where the
    mass begins, its relative error is as many times larger as h is than the distance
    (``tests/density/test_compositions_in_domains.py``).

    There is no ``rtol``: data far below a query add all of their weight, so none are negligible. The transform keeps
    the weight of boxes beyond its reach as running sums; what it leaves out is part of the error above.

    References
    ----------
    - Nadaraya, E. A. (1964). Some new estimates for distribution functions. *Theory Probab. Appl.* 9.
    - Greengard, L. and Strain, J. (1991). The fast Gauss transform. *SIAM J. Sci. Stat. Comput.* 12.
    """
    return _distribution(X, Y, h, options, log=False)


@declare(cost_formulas.log_cdf, cost_calls.of_queries)
@public_call(returned.rows("Y", "log_cdf"))
@takes(InDomain, like="cukde.cdf")
def log_cdf(X: ArrayLike, Y: ArrayLike, h: Bandwidth, **options: Unpack[InDomain]) -> Array:
    r"""Logarithm of :func:`cdf`, accurate in both tails.

    If :math:`\hat F(y)` is at least 1/2, the result is :math:`\log(1 - \hat S(y))`, where
    :math:`\hat S(y) = \sum_j w_j \Phi((x_j - y) / h)`, the mass above the query, is a sum of its own.

    Returns
    -------
    array, shape (m,)
        At most 0, and finite for any finite query within the range of the dtype. To the right it rises to -0.0 where
        :math:`\hat S` is below the smallest number of the dtype. With bounds it is -inf at the lower end and below.
        With a period it is the logarithm of :func:`cdf`, which queries below 0 do not have.

    Raises
    ------
    TypeError, ValueError
        As :func:`cdf`; for queries below 0 with a period.

    Examples
    --------
    >>> import numpy as np, cukde
    >>> cukde.log_cdf(np.array([0.0, 1.0]), np.array([-100.0, 0.5, 20.0]), 1.0)
    array([-5.00621736e+03, -6.93147181e-01, -4.26361199e-81])

    Notes
    -----
    The error, apart from the rounding of the result, is at most 1e-6 in float32 and 1e-12 in float64. It is absolute
    below log 1/2, which means relative to the distribution function. Above, the error is relative to the logarithm and
    at most twice as large (``tests/density/test_cdf.py``). For the mass above a query use ``log_cdf(-X, -Y, h)``.

    Cost: twice that of :func:`cdf`.
    """
    return _distribution(X, Y, h, options, log=True)


def _distribution(X: Any, Y: Any, h: Any, options: Any, *, log: bool) -> Any:
    problem = problem_of(X, Y, h, options, one_column=True)
    with problem.device:
        if problem.domain is None or not problem.domain.periodic.any():
            return problem.distribution(log=log)
        y = problem.backend.asarray(Y).reshape(-1).astype(problem.xp.float64)
        return _over_periods(problem, y / float(problem.domain.period[0]), log=log)


def _over_periods(problem: Problem, y: Any, *, log: bool) -> Any:
    """Add the whole periods below each query, which is in units of them."""
    xp = problem.xp
    turns = xp.floor(y)
    if log and problem.options.squared_radius is not None and bool((turns < 0).any()):
        raise ValueError("Y must not lie below 0 where there is a period: the mass from 0 is negative there; use cdf")
    exact = problem._replace(dtype=np.dtype(np.float64))
    out = exact.distribution(log=False) + turns
    if log:
        out = xp.where(turns == 0, exact.distribution(log=True), xp.log(out))
    return results.cast(out, problem.dtype)
