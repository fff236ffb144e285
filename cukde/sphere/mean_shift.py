"""Modes of a density on the sphere, by mean shift along it."""

from __future__ import annotations

from typing import Any, Unpack

import numpy as np

from cukde.core import check as core_check, dispatch
from cukde.core.cost.registry import declare
from cukde.core.entry.public_call import public_call
from cukde.core.types import ArrayLike
from cukde.density import check as density_check
from cukde.density.cost.calls import of_modes
from cukde.density.keywords import OfClimb, takes
from cukde.density.modes import check as modes_check
from cukde.density.modes.api import with_names
from cukde.density.modes.coordinates import Coordinates
from cukde.density.modes.mean_shift import Climbed
from cukde.density.modes.newton import Maxima
from cukde.density.modes.search import Modes, reported, searched
from cukde.density.problem import Problem
from cukde.sphere import check, cost
from cukde.sphere.problem import problem_on_sphere
from cukde.sphere.rules import Width, width


@declare(cost.modes, of_modes, name="sphere.modes")
@public_call(with_names)
@takes(OfClimb)
def modes(
    X: ArrayLike,
    h: Width,
    *,
    seeds: ArrayLike | None = None,
    tolerance: float = 1e-6,
    max_iterations: int = 1000,
    merge_distance: float | None = None,
    **options: Unpack[OfClimb],
) -> Modes:
    r"""Find the modes of :func:`cukde.sphere.kde`, and the mode that each point climbs to.

    .. math:: y \leftarrow \frac{y + h^2 s(y)}{|y + h^2 s(y)|}

    with the score :math:`s` of :func:`cukde.sphere.score`: each row moves along the sphere towards the mean of its
    neighbours until it stays where it is.

    Parameters
    ----------
    X, h
        As in :func:`cukde.sphere.kde`.
    seeds : array_like, shape (m, d), optional
        Unit vectors to start from; default ``X``. Modes that no seed climbs to are not found.
    tolerance, max_iterations, merge_distance
        As in :func:`cukde.modes`, in bandwidths along the sphere.

    Returns
    -------
    Modes
        The named tuple of :func:`cukde.modes`; its ``points`` are unit vectors.

    Raises
    ------
    TypeError, ValueError
        As :func:`cukde.sphere.kde` and :func:`cukde.modes`.

    Warns
    -----
    ConvergenceWarning
        As :func:`cukde.modes`.

    Examples
    --------
    >>> import numpy as np, cukde
    >>> X = cukde.sphere.from_degrees([179.0, -179.0, 0.0], [0.0, 0.0, 89.0])
    >>> found = cukde.sphere.modes(X, np.radians(5))
    >>> lon, lat = cukde.sphere.to_degrees(found.points)
    >>> abs(lon).round(2), lat.round(2), found.labels
    (array([180.,   0.]), array([ 0., 89.]), array([0, 0, 1]))

    Notes
    -----
    A step never lowers the density. Cost, accuracy and method are those of :func:`cukde.modes`. A density without
    maxima, such as that of points all around an equator, gives some points of its ridge.
    """
    search = modes_check.search(tolerance, max_iterations, merge_distance)
    check_finite = core_check.flag("check_finite", options.get("check_finite", True))
    backend = dispatch.backend(X, seeds=seeds, weights=options.get("weights"))
    with backend.device_of(X):
        d = density_check.data(X, backend)[0].shape[1]
        if seeds is not None:
            seeds = modes_check.seeds(seeds, d, backend, finite=check_finite)
            if check_finite:
                check.unit_rows("seeds", seeds, backend)
        problem = problem_on_sphere(X, seeds, width(h, X, options.get("weights")), options)
    with problem.device:
        xp = problem.xp
        field = _Field(problem)
        start = (problem.X if problem.Y is None else problem.Y).astype(xp.float64, copy=False)
        maxima, lost = searched(field, field.coordinates.home(start, xp), None, search)
        return reported(maxima, lost, problem.dtype, flat=False, xp=xp)


class _OnSphere(Coordinates):
    """Unit vectors: points off the sphere are brought home along their radius."""

    def back(self, z: np.ndarray) -> np.ndarray:
        return z

    def home(self, z: Any, xp: Any) -> Any:
        return z / _norms(z, xp)

    def maxima_at_home(self, maxima: Maxima) -> Maxima:
        return maxima._replace(points=self.home(maxima.points, np))


class _Field(Climbed):
    """log p(z / |z|) - (|z| - 1)^2 / (2 h^2), whose maxima in space are those of the density on the sphere."""

    def __init__(self, problem: Problem) -> None:
        of = problem.whitening
        super().__init__(problem.backend, _OnSphere(of, None, None, None), float(of.h), problem.options.precision)
        self._problem = problem._replace(X=problem.X.astype(problem.xp.float64, copy=False))

    def exact_shift(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        shift, log_density = map(self.backend.asnumpy, self._stepped(self.backend.asarray(z), exact=True))
        return shift, log_density

    def _stepped(self, z: Any, *, exact: bool) -> tuple[Any, Any]:
        xp, problem = self.backend.xp, self._problem
        norms = _norms(z, xp)
        unit = z / norms
        options = problem.options._replace(precision="float64" if exact else self.precision)
        sums = problem._replace(Y=unit, options=options).sums("moments")
        with np.errstate(all="ignore"):  # of unchecked data
            shift = sums.moments / sums.total[:, None]
            along = shift - (shift * unit).sum(axis=1)[:, None] * unit
            log_density = sums.reference + xp.log(sums.total) + problem.log_constant
        off = norms - 1
        return along / norms - off * unit, log_density - 0.5 * (off[:, 0] / self.h) ** 2


def _norms(z: Any, xp: Any) -> Any:
    """Norms of rows, (m, 1)."""
    return xp.sqrt((z * z).sum(axis=1))[:, None]
