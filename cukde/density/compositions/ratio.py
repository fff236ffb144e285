"""Ratio of the densities of two samples."""

from __future__ import annotations

from typing import Any, NamedTuple, Unpack

import numpy as np

from cukde.core import check as core_check, dispatch
from cukde.core.cost.registry import declare
from cukde.core.entry import returned
from cukde.core.entry.public_call import public_call
from cukde.core.over_dask import over_dask
from cukde.core.types import Array, ArrayLike, Bandwidth
from cukde.density import check as density_check, results, rules_by_name
from cukde.density.arguments import prepare, problem_of
from cukde.density.compositions import check, cost
from cukde.density.cost import calls as cost_calls
from cukde.density.keywords import LogInDomain, takes
from cukde.density.problem import Problem


@declare(cost.density_ratio, cost_calls.of_ratio)
@public_call(returned.rows("Y", "density_ratio"))
@over_dask("cukde.density.compositions.dask")
@takes(LogInDomain)
def density_ratio(
    X: ArrayLike,
    Z: ArrayLike,
    Y: ArrayLike,
    h: Bandwidth,
    *,
    denominator_bandwidth: Bandwidth | None = None,
    denominator_weights: ArrayLike | None = None,
    **options: Unpack[LogInDomain],
) -> Array:
    r"""Density of the data ``X`` over the density of the data ``Z``, at the queries ``Y``.

    .. math:: r(y) = \hat p_X(y) / \hat p_Z(y)

    Where the ratio is above 1, queries are more likely among ``X`` than among ``Z``. It shows how two samples differ,
    gives the importance weights of one sample for the other, and classifies queries into two classes.

    Parameters
    ----------
    X : array_like, shape (n, d) or (n,)
        Data of the numerator, as for :func:`cukde.kde`.
    Z : array_like, shape (k, d) or (k,)
        Data of the denominator, with the same columns.
    Y : array_like, shape (m, d) or (m,)
        Queries, in the units of the data.
    h : float, array_like or str
        Bandwidth of both densities, in any form that :func:`cukde.kde` takes; a rule is applied to ``X``.
        The local factors that a selection may have are those of each sample with this bandwidth.
    denominator_bandwidth : float, array_like or str, optional
        Bandwidth of the denominator; default ``h``. A rule is applied to ``Z``.
    weights, denominator_weights : array_like, shapes (n,) and (k,), optional
        Non-negative weights of each sample, each normalised to sum to 1. Default 1/n and 1/k.
    log : bool
        Return the logarithm of the ratio: finite for any finite query.

    Returns
    -------
    array, shape (m,)
        The ratio, without a unit, or its logarithm, of dtype ``result_type(X, Z, Y)``. NumPy in, NumPy out; CuPy in,
        CuPy out; Dask in, Dask out. A ratio beyond the range of the dtype is infinite or 0, never NaN; use ``log=True``
        in this case.

    Raises
    ------
    TypeError, ValueError
        As :func:`cukde.kde`, of both samples.

    Examples
    --------
    >>> import numpy as np, cukde
    >>> cukde.density_ratio(np.array([0.0]), np.array([1.0]), np.array([0.0, 0.5, 100.0]), 1.0, log=True)
    array([  0.5,   0. , -99.5])

    Notes
    -----
    Cost: that of both densities, (n + k) m exponentials. Logarithms are subtracted in double precision. The error of
    the logarithm is the sum of both errors: 2e-5 in float32 on the CPU, 6e-5 on the GPU and 2e-12 in float64, if points
    of both samples lie within 12 bandwidths of the query (``tests/density/test_ratio.py``). Farther out it is 8 eps
    times each exponent. Both passes leave out pairs by the default ``rtol`` of :func:`cukde.kde`, each relative to its
    own density.

    Far from both samples the logarithm grows with the squared distance and only tells which sample has the nearest
    point; do not rely on it there. :func:`hdr_threshold` of either sample tells where data are. With equal bandwidths
    the leading biases of both densities cancel where their shapes agree. So a common ``h``, chosen for the smaller
    sample, is a better start than a rule for each.

    References
    ----------
    - Sugiyama, M., Suzuki, T. and Kanamori, T. (2012). *Density Ratio Estimation in Machine Learning*. Cambridge
      University Press, chapter 2.
    - Kelsall, J. E. and Diggle, P. J. (1995). Kernel estimation of relative risk. *Bernoulli* 1, 3-16, for the common
      bandwidth.
    """
    log = core_check.flag("log", options.pop("log", False))
    above, below, dtype = problems(X, Z, Y, h, denominator_bandwidth, denominator_weights, options)
    return quotient(above, below, log=log, dtype=dtype)


class Problems(NamedTuple):
    """The densities of two samples at the same queries."""

    above: Problem
    below: Problem
    dtype: np.dtype  # of a result


def problems(
    X: Any, Z: Any, Y: Any, h: Any, denominator_bandwidth: Any, denominator_weights: Any, options: Any
) -> Problems:
    """Check the arguments of both densities; ``Y`` None stands for ``X``."""
    weights = options.get("weights")
    arrays: dict[str, Any] = {"Y": Y, "Z": Z, "weights": weights, "denominator_weights": denominator_weights}
    backend = dispatch.backend(X, **arrays)
    with backend.device_of(X):
        x, _ = density_check.data(X, backend)
        d = x.shape[1]
        z = check.denominator(Z, d, backend)
        y = x if Y is None else density_check.queries(Y, d, backend)[0]
        ends: dict[str, Any] = {"bounds": options.get("bounds"), "periods": options.get("periods")}
        h, factors = rules_by_name.with_factors(h, x, weights, **ends)
        of_denominator, own_factors = rules_by_name.with_factors(
            denominator_bandwidth, z, denominator_weights, name="denominator_bandwidth", **ends
        )
        width = check.denominator_bandwidth(h, of_denominator, d)
        if denominator_bandwidth is None and factors is not None:
            own_factors = rules_by_name.factors(z, width, denominator_weights, **ends)
        dtype = density_check.result_dtype(x, z, y)
        options = {**options, "precision": density_check.precision(options.get("precision"), dtype)}
        above = problem_of(x, None if Y is None else y, h, options, local_factors=factors)
        below = _denominator(z, y, width, denominator_weights, above, ends | {"local_factors": own_factors})
        return Problems(above, below, dtype)


def quotient(above: Problem, below: Problem, *, log: bool, dtype: np.dtype) -> Any:
    """The density of a problem over that of another, at queries of their own, or the logarithm of that."""
    with above.device:
        exact = np.dtype(np.float64)
        log_p, log_q = (each._replace(dtype=exact).density(log=True) for each in (above, below))
        return results.quotient(log_p, log_q, log=log, dtype=dtype, xp=above.xp)


def _denominator(z: Any, y: Any, h: Any, weights: Any, numerator: Problem, ends: dict[str, Any]) -> Problem:
    """The density of the denominator as a problem; errors call its data Z."""
    backend = dispatch.backend(z)
    w = None
    if weights is not None:
        w = density_check.weights(weights, len(z), backend, "denominator_weights", rows_of="Z")
    options = numerator.options
    domain = numerator.domain
    if domain is not None and options.squared_radius is not None:
        domain.hold(z, backend, "Z")
    problem, _ = prepare(z, y, h, w, options.precision, False, deterministic=options.deterministic, **ends)
    if options.squared_radius is None:  # unchecked
        return problem
    _, flags, ranges = backend.look(problem.X, None, None, [], [] if w is None else [w])
    core_check.finite(dict(zip(("Z", "denominator_weights"), flags, strict=False)))
    if w is not None:
        [(least, largest)] = ranges
        density_check.weight_range(least, largest, "denominator_weights")
    return problem.located("Z")
