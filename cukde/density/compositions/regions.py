"""Highest-density regions: the level above which a density holds a given probability."""

from __future__ import annotations

import math
from types import ModuleType
from typing import Any, Unpack

import numpy as np

from cukde.core import check as core_check, dispatch
from cukde.core.cost.registry import declare
from cukde.core.entry.public_call import public_call
from cukde.core.over_dask import over_dask
from cukde.core.types import Array, ArrayLike, Bandwidth
from cukde.density.compositions import check, cost
from cukde.density.cost import calls as cost_calls
from cukde.density.estimates import ESTIMATES, NOT_NEGATIVE, NotNegative
from cukde.density.keywords import LogInDomain, takes

# Rounding of cumulated shares, relative: so much less than a mass is the mass.
_EPS = float(np.finfo(np.float64).eps)


@declare(cost.hdr_threshold, cost_calls.of_threshold)
@public_call()
@over_dask("cukde.density.compositions.dask")
@takes(LogInDomain)
def hdr_threshold(
    X: ArrayLike,
    h: Bandwidth,
    mass: ArrayLike = 0.95,
    *,
    method: NotNegative = "kde",
    leave_one_out: bool = True,
    **options: Unpack[LogInDomain],
) -> Array:
    r"""Level of the highest-density region: a new point's density is at least this high with probability ``mass``.

    .. math:: t = \max \{ \hat p_{-i}(x_i) : \sum_j w_j [\hat p_{-j}(x_j) \ge \hat p_{-i}(x_i)] \ge \mathrm{mass} \}

    Here :math:`\hat p_{-i}` is the density without row i. The region :math:`\{y : \hat p(y) \ge t\}` is the smallest
    with that probability; it may have several pieces. New points outside, with ``kde(X, Y, h) < t``, are anomalies:
    they have the probability 1 - ``mass``.

    Parameters
    ----------
    X : array_like, shape (n, d) or (n,)
        Data, as for :func:`cukde.kde`. A Dask array or data frame, here or for ``weights``, makes the call lazy.
    h : float, array_like or str
        Bandwidth, in any form that :func:`cukde.kde` takes.
    mass : float or array_like
        Probabilities between 0 and 1. A GPU array is copied to the host.
    method : {"kde", "sd", "positive"}
        The estimate: :func:`cukde.kde`, :func:`cukde.sd_kde` or :func:`cukde.positive_kde`.
    log : bool
        Return the level of the log density.
    leave_one_out : bool
        Take the density at each row from the other rows, as for a new point. With False each row's own kernel counts.
        The level then holds for these rows only, and is far too high for new points where own kernels matter.

    Returns
    -------
    number or array, of the shape of ``mass``
        Levels in units of the density, or of its logarithm, and of its dtype. They are values of
        ``kde(X, X, h, log=log, leave_one_out=leave_one_out)``, and at least ``mass`` of the rows have this density or a
        higher one. NumPy in, NumPy out; CuPy in, CuPy out; Dask in, Dask out.

    Raises
    ------
    TypeError, ValueError
        As :func:`cukde.kde`; for a ``mass`` that is not between 0 and 1, an unknown method; for a level beyond the
        range of its dtype.

    Examples
    --------
    >>> import numpy as np, cukde
    >>> X = np.random.default_rng(0).normal(size=10_000)
    >>> t = cukde.hdr_threshold(X, cukde.bandwidth.silverman(X), mass=0.95)
    >>> t.round(3)  # the normal density is 0.058 at 1.96, and the estimate is smoother
    np.float64(0.06)

    Notes
    -----
    *Quantile.* The level is the (1 - ``mass``) quantile of the densities at the data (Y = X), without each row's own
    term. It is not interpolated: of n rows without weights it is the :math:`\lceil n\, \mathrm{mass} \rceil`-th largest
    density. Rows count by their weights; rows of weight 0 do not count.

    *Error.* The share of new points in a region has the standard deviation
    :math:`\sqrt{\mathrm{mass} (1 - \mathrm{mass}) / n}`; with weights the
    root of :math:`\sum_j w_j^2 ([\hat p(x_j) < t] - 1 + \mathrm{mass})^2`.
    With 3,000 rows of a normal distribution or a mixture, 4 to 6% of new points fall below the level of 0.95, in 1 to
    32 dimensions (``tests/density/test_regions.py``). With ``leave_one_out=False`` it is 13% in 4 dimensions and 93% in
    8, because most of the density at a row is then its own kernel.

    ``"sd"`` leaves out the row's own moved kernel; the other rows have moved by the score of all rows.

    ``"kde"`` is smoother than the density of the data. The region holds ``mass`` of new data, but less under the
    estimate *itself*, by :math:`-\frac{h^2}{2} \int_R \Delta p`. For 1,000 rows of a normal distribution and
    Silverman's rule this is 0.8%, as much as the standard deviation. The other methods have no such term of order
    :math:`h^2`.

    Cost: one density with Y = X, n^2 exponentials (O(n) in one dimension), as many again for rows whose own kernel
    dominates, and a sort; for "sd" also a pass of the score. Pairs are left out by the default ``rtol`` of
    :func:`cukde.kde`. In many dimensions densities underflow or overflow: use ``log=True``.

    References
    ----------
    - Hyndman, R. J. (1996). Computing and graphing highest density regions. *The American Statistician* 50, 120-126,
      section 3.2.
    """
    log, weights = core_check.flag("log", options.pop("log", False)), options.get("weights")
    core_check.option("method", method, NOT_NEGATIVE)
    shares = check.mass(dispatch.to_host(mass))
    density = ESTIMATES[method].density(X, X, h, log=log, leave_one_out=leave_one_out, **options)
    backend = dispatch.backend(X)
    with backend.device_of(density):
        found = levels(density, shares, None if weights is None else backend.asarray(weights), backend)
        return in_range(found, log)


def in_range(level: Any, log: bool) -> Any:
    """Return levels; a ValueError where one of a density is 0 or infinite, as then no density, or each, is below it."""
    if not log and not ((level > 0) & (level < math.inf)).all():
        raise ValueError(
            f"the density at the rows is beyond the range of {level.dtype}, so its level would be 0 or infinite: "
            "write log=True, for the level and for the densities that are compared with it"
        )
    return level


def levels(density: Any, shares: np.ndarray, weights: Any | None, backend: ModuleType) -> Any:
    """For each share the highest of the densities that so much of the rows, by weight, have or exceed."""
    if weights is not None:
        return _weighted(density, weights, shares, backend)
    n = len(density)
    count = np.ceil(n * shares * (1 - 4 * _EPS)).astype(np.int64)  # of 100 rows and 0.07, 7 and not 8
    return backend.xp.sort(density).take(backend.asarray(n - count.clip(1, n)))


def _weighted(density: Any, weights: Any, shares: np.ndarray, backend: ModuleType) -> Any:
    """The highest levels at which rows hold shares of the weight."""
    xp = backend.xp
    descending = xp.argsort(density)[::-1]
    w = weights.astype(xp.float64)
    held = xp.cumsum((w / w.max())[descending])  # the sum of huge weights must not overflow
    target_weights = held[-1] * xp.asarray(shares * (1 - len(w) * _EPS))
    return density[descending].take(xp.searchsorted(held, target_weights))
