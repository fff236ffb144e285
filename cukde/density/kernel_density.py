"""Kernel density estimates by kernels beside the Gaussian; the estimator is their public way."""

from __future__ import annotations

from typing import Any, Literal

from cukde.core import check as core_check
from cukde.core.entry import returned
from cukde.core.entry.public_call import public_call
from cukde.core.over_dask import over_dask
from cukde.density import check as density_check
from cukde.density.arguments import prepare
from cukde.density.kernels import KERNELS


@public_call(returned.rows("Y", "density"))
@over_dask("cukde.density.dask.api")
def kernel_density(
    X: Any,
    Y: Any,
    h: Any,
    *,
    kernel: str,
    weights: Any = None,
    rtol: float | None = None,
    log: bool = False,
    check_finite: bool = True,
    nan_policy: Literal["raise", "omit"] = "raise",
) -> Any:
    r"""Kernel density estimate of the data ``X`` at the queries ``Y`` by a kernel beside the Gaussian.

    .. math:: \hat p(y) = \frac{1}{C_d h^d} \sum_j w_j K(|y - x_j| / h), \quad C_d = \int K(|z|) dz

    Parameters
    ----------
    X, Y, h, weights, log, check_finite, nan_policy
        As for :func:`cukde.kde`; with deviations or a covariance H, the distance is that of Mahalanobis,
        and :math:`h^d` is :math:`|H|^{1/2}`. ``h`` is the radius of the kernels of bounded support.
    kernel : {"tophat", "epanechnikov", "exponential", "linear", "cosine"}
        K(t) is 1, 1 - t^2, exp(-t), 1 - t, cos(pi t / 2); all but the exponential are 0 from t = 1 on.
    rtol : float, optional
        Relative tolerance, from 0 to 0.1: pairs of the exponential kernel may be left out of a query's sum that
        together add at most ``rtol`` times what is kept. 0 takes all of its pairs. Default None: 1e-5 in float32 and
        1e-13 in float64. Other kernels leave out nothing that is not 0, which satisfies any.

    Returns
    -------
    array, shape (m,)
        Density in units of 1/volume, of dtype ``result_type(X, Y)``, or its logarithm. Where no point lies within a
        bandwidth of a query, kernels of bounded support give 0, whose logarithm is -inf; the exponential's logarithm is
        finite for any query.

    Raises
    ------
    TypeError, ValueError
        As :func:`cukde.kde`, and for an unknown kernel.

    Examples
    --------
    >>> import numpy as np
    >>> from cukde.density.kernel_density import kernel_density
    >>> X = np.array([[0.0], [1.0]])
    >>> kernel_density(X, [[0.25], [3.0]], 0.5, kernel="epanechnikov")
    array([0.5625, 0.    ])

    Notes
    -----
    Cost: 3 d flops a pair in differences, beside them a square root for "exponential" and "linear", an exponential for
    the former; memory O((n + m) d). Pairs are left out as ``docs/estimator.md`` says, before which a GPU waits for the
    data. Sums have one order: every run gives the same bits.

    Worst relative error 1e-5 in float32, where the nearest point is within 80 bandwidths, and 1e-12 in float64
    (``tests/density/test_kernel_density.py``). Pairs near the edge of a kernel are taken in double, so that the edge
    falls where it does for those very numbers: a point at a distance of exactly ``h`` does not count. With a bandwidth
    that is not a scalar, all pairs are taken in double.

    References
    ----------
    - Silverman, B. W. (1986). *Density Estimation for Statistics and Data Analysis*, section 4.2.
    - Gray, A. G. and Moore, A. W. (2003). Nonparametric density estimation: toward computational tractability. *SIAM
      International Conference on Data Mining*, for boxes of data that bound what they add.
    """
    core_check.option("kernel", kernel, KERNELS)
    density_check.no_rule("h", h)  # a rule makes deviations of Gaussians, not the sizes of other kernels
    log = core_check.flag("log", log)
    problem, _ = prepare(X, Y, h, weights=weights, check_finite=check_finite, rtol=rtol)
    with problem.device:
        return problem.kernel_density(kernel, log=log)  # type: ignore[arg-type]  # checked above
