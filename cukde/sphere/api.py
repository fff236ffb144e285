"""Densities on the sphere, their scores, and levels of their regions."""

from __future__ import annotations

from typing import Any, Unpack

from cukde.core import check as core_check, dispatch
from cukde.core.cost.registry import declare
from cukde.core.entry import returned
from cukde.core.entry.public_call import public_call
from cukde.core.types import Array, ArrayLike
from cukde.density.compositions import check as compositions_check, cost as compositions_cost
from cukde.density.compositions.regions import in_range, levels
from cukde.density.cost import calls as cost_calls
from cukde.density.keywords import LogOfRows, LogWeighted, OfRows, takes
from cukde.sphere import cost
from cukde.sphere.problem import problem_on_sphere
from cukde.sphere.rules import Width, width


@declare(cost.kde, cost_calls.of_queries, name="sphere.kde", observed=cost_calls.taken("sum"))
@public_call(returned.rows("Y", "density"))
@takes(LogOfRows)
def kde(X: ArrayLike, Y: ArrayLike, h: Width, **options: Unpack[LogOfRows]) -> Array:
    r"""Kernel density estimate on the unit sphere, by the von Mises-Fisher kernel.

    .. math:: \hat p(y) = C_d(\kappa) \sum_j w_j \exp(\kappa\, y \cdot x_j), \qquad \kappa = 1 / h^2,
        \quad C_d(\kappa) = \frac{\kappa^{d/2 - 1}}{(2\pi)^{d/2} I_{d/2 - 1}(\kappa)}

    Parameters
    ----------
    X : array_like, shape (n, d)
        Data: unit vectors, d at least 2. The circle is d = 2, the globe d = 3: see :func:`from_degrees`.
    Y : array_like, shape (m, d), or None
        Queries, unit vectors. None: the data themselves.
    h : float, str or CrossValidation
        Bandwidth in radians, 1e-8 to 1e8; for degrees ``numpy.radians(5)``. The kernel spreads over ``h`` in each
        direction if it is small; a large one gives the uniform density. Or "reference" or "cross_validate", the rules
        of this module, or a result of :func:`cross_validate`.

    Returns
    -------
    array or series, shape (m,)
        Density per unit of the sphere's area, of radius 1 (d = 2: per radian; d = 3: per steradian), or its logarithm;
        its integral over the sphere is exactly 1. dtype: ``result_type(X, Y)``, at least float32.

    Raises
    ------
    TypeError, ValueError
        As :func:`cukde.kde`; for rows that are not unit vectors, up to 1e-5, and for one column.

    Examples
    --------
    >>> import numpy as np, cukde
    >>> quakes = cukde.sphere.from_degrees([179.0, -179.5, -178.0], [-18.0, -17.0, -20.0])
    >>> p = cukde.sphere.kde(quakes, cukde.sphere.from_degrees([180.0, 0.0], [-18.0, 90.0]), np.radians(2))
    >>> p.round(3)
    array([93.125,  0.   ])

    Notes
    -----
    On unit vectors :math:`\exp(\kappa\, y \cdot x) = e^\kappa \exp(-|y - x|^2 / (2 h^2))`: the sum is that of
    :func:`cukde.kde` in :math:`R^d`, with its passes, its accuracy and its cost. Nothing is lost where
    :math:`y \cdot x` is nearly 1, in float32 either. The logarithm of the constant is accurate to 1e-13 for any
    ``h``, up to about 100 columns (``tests/sphere/test_density.py``). Norms may be off by rounding.

    Per square kilometre of the Earth, divide by 6371 squared. Dask arrays are refused.

    References
    ----------
    - Hall, P., Watson, G. S. and Cabrera, J. (1987). Kernel density estimation with spherical data. *Biometrika* 74.
    - Mardia, K. V. and Jupp, P. E. (2000). *Directional Statistics*. Wiley, section 12.5.
    """
    log = core_check.flag("log", options.pop("log", False))
    problem = problem_on_sphere(X, Y, width(h, X, options.get("weights")), options)
    with problem.device:
        return problem.density(log=log)


@declare(cost.score, cost_calls.of_queries, name="sphere.score", observed=cost_calls.taken("moments"))
@public_call(returned.rows("Y", "score"))
@takes(OfRows)
def score(X: ArrayLike, Y: ArrayLike, h: Width, **options: Unpack[OfRows]) -> Array:
    r"""Gradient of the log density on the sphere: a tangent vector at each query.

    .. math:: s(y) = \kappa\, (m - (m \cdot y)\, y), \qquad
        m = \frac{\sum_j w_j e^{\kappa\, y \cdot x_j} x_j}{\sum_j w_j e^{\kappa\, y \cdot x_j}}

    Parameters
    ----------
    X, Y, h
        As in :func:`cukde.sphere.kde`.

    Returns
    -------
    array or frame, shape of ``Y``
        In units of 1/radian, orthogonal to the query: the density rises fastest in this direction.

    Raises
    ------
    TypeError, ValueError
        As :func:`cukde.sphere.kde`.

    Examples
    --------
    >>> import cukde
    >>> X = cukde.sphere.from_degrees([0.0], [0.0])
    >>> cukde.sphere.score(X, cukde.sphere.from_degrees([90.0], [0.0]), 0.5).round(6)
    array([[4., 0., 0.]])

    Notes
    -----
    Cost and accuracy are those of :func:`cukde.score`, of which this is the part along the sphere.
    """
    problem = problem_on_sphere(X, Y, width(h, X, options.get("weights")), options)
    with problem.device:
        return tangent(problem.score(), problem.X if problem.Y is None else problem.Y)


def tangent(gradient: Any, at: Any) -> Any:
    """The part of gradients that is orthogonal to unit vectors, of the dtype of the gradients."""
    exact = gradient.astype(float, copy=False)
    at = at.astype(float, copy=False)
    return (exact - (exact * at).sum(axis=1)[:, None] * at).astype(gradient.dtype, copy=False)


@declare(compositions_cost.hdr_threshold, cost_calls.of_threshold, name="sphere.hdr_threshold")
@public_call()
@takes(LogWeighted)
def hdr_threshold(
    X: ArrayLike, h: Width, mass: ArrayLike = 0.95, *, leave_one_out: bool = True, **options: Unpack[LogWeighted]
) -> Array:
    """Level of the highest-density region on the sphere: a new point's density is at least this high by ``mass``.

    Parameters
    ----------
    X, h
        As in :func:`cukde.sphere.kde`.
    mass : float or array_like
        Probabilities between 0 and 1.
    leave_one_out : bool
        As in :func:`cukde.hdr_threshold`.

    Returns
    -------
    number or array, of the shape of ``mass``
        Levels of :func:`cukde.sphere.kde`, or of its logarithm.

    Raises
    ------
    TypeError, ValueError
        As :func:`cukde.sphere.kde`, and for a ``mass`` that is not between 0 and 1.

    Examples
    --------
    >>> import numpy as np, cukde
    >>> X = cukde.sphere.from_degrees(np.arange(-180.0, 180.0), np.zeros(360))  # the equator
    >>> t = cukde.sphere.hdr_threshold(X, 0.1, 0.9)
    >>> bool(cukde.sphere.kde(X, cukde.sphere.from_degrees([7.5], [1.0]), 0.1)[0] > t)
    True

    Notes
    -----
    Meaning and error are those of :func:`cukde.hdr_threshold`; the cost is that of :func:`cukde.sphere.kde` with
    ``leave_one_out`` and a sort.
    """
    log, weights = core_check.flag("log", options.pop("log", False)), options.get("weights")
    shares = compositions_check.mass(dispatch.to_host(mass))
    at_rows: dict[str, Any] = {**options, "leave_one_out": leave_one_out}
    problem = problem_on_sphere(X, None, width(h, X, weights), at_rows)
    backend = problem.backend
    with problem.device:
        density = problem.density(log=log)
        found = levels(density, shares, None if weights is None else backend.asarray(weights), backend)
        return in_range(found, log)
