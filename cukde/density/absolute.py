"""Log densities to an absolute tolerance beside the relative one, as scikit-learn's estimator is asked for them."""

from __future__ import annotations

from typing import Any

from cukde.density.arguments import prepare
from cukde.density.kernels import Kernel


def log_density(
    X: Any,
    Y: Any,
    h: Any,
    *,
    kernel: Kernel | None,
    laplace: bool = False,
    weights: Any = None,
    precision: str | None = None,
    rtol: float | None = None,
    atol: float,
) -> Any:
    """Logarithm of the density p of the data ``X`` at the queries ``Y``, within ``atol`` + ``rtol`` p beside rounding.

    Parameters
    ----------
    X, Y, h, weights, precision, rtol
        As for :func:`cukde.kde`, but for stacks and Dask arrays.
    kernel : {"tophat", "epanechnikov", "exponential", "linear", "cosine"}, optional
        None is the Gaussian.
    laplace : bool
        Correct the Gaussian as :func:`cukde.laplace_kde` does. Of its terms p is the sum of the absolute ones.
    atol : float
        At least 0, in units of the density. Pairs may be left out that add up to that, on a GPU by the exponential
        kernel alone. Near each query some are always taken, so that logarithms stay finite.

    Returns
    -------
    array, shape (m,)
    """
    problem, _ = prepare(X, Y, h, weights, precision, rtol=rtol)
    problem = problem.within(atol, kernel)
    with problem.device:
        if kernel is not None:
            return problem.kernel_density(kernel, log=True)
        return problem.laplace_density(log=True) if laplace else problem.density(log=True)
