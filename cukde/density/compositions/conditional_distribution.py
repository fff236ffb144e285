"""Distribution functions and quantiles of one column, given values of the others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Unpack

import numpy as np

from cukde.core import check as core_check, dispatch
from cukde.core.cost.registry import declare
from cukde.core.entry import returned
from cukde.core.entry.public_call import public_call
from cukde.core.types import Array, ArrayLike, Bandwidth
from cukde.density import results
from cukde.density.compositions import check, cost
from cukde.density.compositions.column_kernel import ColumnKernel, Mixtures
from cukde.density.compositions.conditional import at_one_value
from cukde.density.compositions.nodes import Nodes
from cukde.density.compositions.question import Question, chosen_others
from cukde.density.cost import calls as cost_calls
from cukde.density.inverse import inverse
from cukde.density.keywords import InDomain, takes
from cukde.density.problem import Problem

_TABLE = 2**24  # numbers of a table of given values and nodes: that of a block of values
_NUMBERS = 2**20  # of those that are summed at once, of which a few arrays are held
_NOISE = 1e-13  # of a distribution function in double precision, in which no level is told from another


@declare(cost.conditional_cdf, cost_calls.of_conditional)
@public_call(returned.rows("Y", "conditional_cdf"), chosen=chosen_others)
@takes(InDomain)
def conditional_cdf(
    X: ArrayLike, given: Mapping[Any, Any], Y: ArrayLike, h: Bandwidth, **options: Unpack[InDomain]
) -> Array:
    r"""Distribution function of one column, given values of all others: the integral of :func:`conditional`.

    .. math:: \hat F(y \mid g) = \sum_j W_j(g)\, \Phi((y - x_j) / h), \qquad W_j(g) \propto w_j K(g - x_{j,g})

    Parameters
    ----------
    X : array_like, shape (n, d)
        Data, as for :func:`conditional`, in memory.
    given : mapping
        From each column but one, by position or by name, to its value: a number, or an array of shape (m,), one for
        each query.
    Y : array_like, shape (m,) or (m, 1)
        Queries in the column that is left.
    h : float, array_like or str
        Bandwidth of all ``d`` columns of ``X``, in the forms of :func:`kde`; a covariance may correlate given columns
        with the other, but for columns with bounds or periods.

    Returns
    -------
    array, shape (m,)
        From 0 to 1, without a unit, of the dtype of :func:`conditional`. With a period in the column that is left it is
        the mass from 0, as of :func:`cdf`. NumPy in, NumPy out; CuPy in, CuPy out.

    Raises
    ------
    TypeError, ValueError
        As :func:`conditional`; for Dask collections, and where several columns are left.

    Examples
    --------
    >>> import numpy as np, cukde
    >>> X = np.array([[0.0, 5.0], [1.0, 7.0]])
    >>> cukde.conditional_cdf(X, {0: 0.5}, [5.0, 6.0, 9.0], 1.0).round(4)  # both rows are as near to 0.5
    array([0.2614, 0.5   , 0.9886])
    >>> cukde.conditional_cdf(X, {0: [0.0, 1.0]}, [5.0, 7.0], 1.0).round(4)
    array([0.3198, 0.6802])

    See Also
    --------
    conditional_quantile, conditional_sample, cdf

    Notes
    -----
    *One value for all queries*, without bounds and periods, is :func:`cdf` of the column with the shares of the rows as
    weights: O(n + m) operations, and its accuracy.

    *A value for each query.* The data are replaced by kernels at few nodes, 25 for each four bandwidths of the column's
    range and 16 in float32, whose weights one :func:`kernel_sum` of the given columns finds. Cost: that sum, n m
    exponentials (O(n + m) for one given column), and a normal distribution function for each query and node (of more
    than 1,024 those in reach). The error is absolute: 1e-12 in float64, 3e-5 in float32 on the CPU and 1e-4 on the GPU
    (``tests/density/test_conditional_distribution.py``). For a mass in a far tail use one value at a time.

    Far from all data in the given columns the nearest rows decide, as in :func:`conditional`.

    References
    ----------
    - Li, Q. and Racine, J. S. (2008). Nonparametric estimation of conditional CDF and quantile functions. *Journal of
      Business and Economic Statistics* 26, 423-434.
    """
    core_check.given("Y", Y)
    backend = dispatch.backend(X, Y=Y, weights=options.get("weights"), **check.values_by_name(given))
    with backend.device_of(X):
        asked = Question.of(backend, X, given, h, dict(options), Y, one="conditional_cdf")
        if asked.widths.domain is None and not asked.arrays:
            problem = at_one_value(asked)
            with problem.device:
                return problem.distribution(log=False)
        mixture = _Mixture.of(asked)
    with mixture.rest.device:
        y = backend.asarray(asked.y)[:, 0].astype(np.float64)
        return results.cast(mixture.distribution(y), asked.dtype)


@declare(cost.conditional_quantile, cost_calls.of_quantile)
@public_call(chosen=chosen_others)
@takes(InDomain, like="cukde.conditional_cdf")
def conditional_quantile(
    X: ArrayLike, given: Mapping[Any, Any], q: ArrayLike, h: Bandwidth, **options: Unpack[InDomain]
) -> Array:
    r"""Quantiles of one column, given values of all others: where :func:`conditional_cdf` is ``q``.

    Parameters
    ----------
    given : mapping
        From each column but one to its value: a number, or an array of shape (m,).
    q : float or array_like
        Levels between 0 and 1. Where values are arrays it is broadcast with them: a number is for all, shape (m,) has
        one for each, and shape (k, 1) asks for k levels at each.

    Returns
    -------
    number or array
        In units of the column that is left. Shape of ``q``; where values are arrays, that of ``q`` broadcast with (m,).
        dtype: as of :func:`conditional_cdf`.

    Raises
    ------
    TypeError, ValueError
        As :func:`conditional_cdf`; for levels that are not between 0 and 1, or whose shape does not fit.

    Warns
    -----
    ConvergenceWarning
        If levels have not been reached.

    Examples
    --------
    >>> import numpy as np, cukde
    >>> X = np.array([[0.0, 5.0], [1.0, 7.0]])
    >>> cukde.conditional_quantile(X, {0: 0.5}, [0.1, 0.5], 1.0).round(4)
    array([4.1505, 6.    ])
    >>> cukde.conditional_quantile(X, {0: np.array([0.0, 1.0])}, [[0.25], [0.75]], 1.0).round(4)
    array([[4.7325, 5.2451],
           [6.7549, 7.2675]])

    Notes
    -----
    Newton's method between bounds that hold for every mixture of the kernels, with bisection where it is slow; all
    queries at once. The weights of the nodes of :func:`conditional_cdf` are found once, so that further levels cost no
    sum over the data. The distribution function at the result is ``q`` to its own error (see there) and 1e-11 of ``q``.
    Where the conditional density f is low, between two groups of rows or in a tail, the quantile itself is uncertain by
    that error over f.
    """
    backend = dispatch.backend(X, weights=options.get("weights"), **check.values_by_name(given))
    levels = check.mass(dispatch.to_host(q), "q")
    with backend.device_of(X):
        asked = Question.of(backend, X, given, h, dict(options), one="conditional_quantile")
        shape = check.levels_shape(levels, len(asked.arrays[0]) if asked.arrays else None)
        mixture = _Mixture.of(asked)
        m = len(asked.arrays[0]) if asked.arrays else 1
        of = np.broadcast_to(np.arange(m), shape) if asked.arrays else np.zeros(shape, np.int64)
        flat, rows = (backend.asarray(np.broadcast_to(a, shape).reshape(-1).copy()) for a in (levels, of))
    with mixture.rest.device:
        return results.cast(mixture.quantiles(flat, rows), asked.dtype).reshape(shape)[()]


class _Mixture:
    """The conditional distributions at given values, each a mixture of kernels at the same nodes."""

    def __init__(self, asked: Question, rest: Problem, of_given: Problem) -> None:
        self.rest, self._asked, self._of_given = rest, asked, of_given
        self._at = asked.at()
        self._kernel = ColumnKernel.of(rest)
        # Without ends they are taken from the middle of the data, from which nodes round less.
        self._origin = rest.options.centre if rest.domain is None else 0.0
        x = asked.moved(rest.X - self._origin, asked.x[:, asked.given], -1.0)[:, 0]
        self._ends = x.min(), x.max()
        self._nodes = Nodes.of(x, self._kernel.h, of_given)

    @classmethod
    def of(cls, asked: Question) -> _Mixture:
        """Check what is left to check, and choose the nodes."""
        rest, of_given = asked.of_rest(), asked.of_given()
        with rest.device:
            return cls(asked, rest, of_given)

    def distribution(self, y: Any) -> Any:
        """The distribution functions at queries in the user's coordinates, (m,)."""
        xp, domain, rest = self.rest.xp, self.rest.domain, self.rest
        assert rest.Y is not None
        u, turns = rest.Y - self._origin, 0.0
        if domain is not None and domain.periodic.any():
            turns = xp.floor(y / float(domain.period[0]))
        u = self._asked.moved(u, self._at, -1.0)[:, 0]
        out = xp.empty(len(u))
        of_all = None if self._asked.arrays else self._mixtures(slice(0, 1))
        for rows in self._blocks(len(u), _TABLE):
            mixtures = self._mixtures(rows) if of_all is None else of_all
            for some in self._blocks(len(u[rows]), _NUMBERS):
                at = slice(rows.start + some.start, rows.start + some.stop)
                of = xp.arange(some.start, some.stop) if of_all is None else xp.zeros(some.stop - some.start, np.int64)
                out[at] = self._kernel.distribution(u[at], self._nodes.at, of, mixtures, rest.backend)[0]
        return xp.clip(out, 0.0, 1.0) + turns

    def quantiles(self, q: Any, of: Any) -> Any:
        """Quantiles of levels (m,), each of the distribution at the row ``of`` (m,) of the given values."""
        xp, domain = self.rest.xp, self.rest.domain
        out = xp.empty(len(q))
        for rows in self._blocks(len(self._at), _TABLE):
            wanted = xp.flatnonzero((of >= rows.start) & (of < rows.stop))
            mixtures = self._mixtures(rows)
            for some in self._blocks(len(wanted), _NUMBERS):
                at = wanted[some]
                out[at] = self._solved(q[at], of[at] - rows.start, mixtures)
        out = self._asked.moved(out[:, None], self._at[of], 1.0) + self._origin
        return (out if domain is None else domain.restored(out, xp))[:, 0]

    def _solved(self, q: Any, of: Any, mixtures: Mixtures) -> Any:
        kernel, xp, backend = self._kernel, self.rest.xp, self.rest.backend
        special = backend.special()
        nodes = self._nodes.at
        start = nodes[xp.clip((mixtures.below[of, 1:] < q[:, None]).sum(axis=1), 0, len(nodes) - 1)]
        if np.isfinite(kernel.period):
            low, high = xp.zeros(len(q)), xp.full(len(q), kernel.period)
        else:  # a kernel has at most twice the mass beyond a point that it has on the whole line
            low = xp.maximum(self._ends[0] + kernel.h * (special.ndtri(0.5 * q) - 1e-6), kernel.low)
            high = xp.minimum(self._ends[1] - kernel.h * (special.ndtri(0.5 * (1 - q)) - 1e-6), kernel.high)

        def at(rows: Any, y: Any) -> tuple[Any, Any]:
            return kernel.distribution(y, nodes, of[rows], mixtures, backend)

        return inverse(at, q, low, high, start, xp, within=_NOISE)

    def _mixtures(self, rows: slice) -> Mixtures:
        """Those at some rows of the given values."""
        Y = self._of_given.Y
        assert Y is not None
        at = self._of_given._replace(Y=Y[rows].copy(), outside=None)  # aligned, for a GPU
        return Mixtures.of(self._nodes.weights(at), self.rest.xp)

    def _blocks(self, m: int, numbers: int) -> list[slice]:
        """Rows of which a table with so many numbers is held at a time."""
        most = max(1, numbers // len(self._nodes.at))
        return [slice(start, min(start + most, m)) for start in range(0, m, most)]
