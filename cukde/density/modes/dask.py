"""Modes of Dask arrays: points in memory climb, and each pass is one over the blocks of data."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import dask
import numpy as np

from cukde.core import check as core_check, dispatch
from cukde.core.over_dask import dask_form, is_dask
from cukde.core.types import ArrayLike, Bandwidth
from cukde.density import check as density_check
from cukde.density.dask.api import density_and_score, kde, laplace_kde
from cukde.density.dask.arguments import arguments
from cukde.density.modes import check
from cukde.density.modes.coordinates import Coordinates
from cukde.density.modes.search import Modes, reported, searched


@dask_form()
def modes(
    X: ArrayLike,
    h: Bandwidth,
    *,
    seeds: ArrayLike | None = None,
    tolerance: float = 1e-6,
    max_iterations: int = 1000,
    merge_distance: float | None = None,
    precision: str | None = None,
    check_finite: bool = True,
    **options: Any,
) -> Modes:
    """Compute :func:`cukde.modes` of Dask arrays, at once.

    The result equals that of plain arrays, within the tolerance, at the same cost. Each pass reads all blocks, so keep
    them in memory by ``X.persist()``. ``seeds``, the points that climb, are in memory, and results are where they are.

    Examples
    --------
    >>> import dask.array as da, numpy as np
    >>> import cukde.dask
    >>> X = da.from_array(np.array([0.0, 0.2, 5.0]), chunks=2)
    >>> cukde.dask.modes(X, 1.0, seeds=np.array([0.0, 4.0])).points.round(3)
    array([0.1, 5. ])
    """
    check.seeds_in_memory(seeds, is_dask(seeds))
    search = check.search(tolerance, max_iterations, merge_distance)
    check_finite = core_check.flag("check_finite", check_finite)
    backend = dispatch.backend(seeds)
    with backend.device_of(seeds):
        options["check_finite"] = check_finite
        inputs = arguments(X, seeds, h, precision=precision, **options)
        forms, domain, d = inputs.forms, inputs.domain, inputs.forms.x.shape[1]
        points = check.seeds(seeds, d, backend, finite=check_finite)
        if domain is None:
            start = points.astype(np.float64)
            centre = backend.asnumpy(start.mean(axis=0))
        else:
            check.bandwidth_in_domain(forms.whitening.bandwidth)
            if check_finite:
                check.seeds_inside(int(domain.outside(points, backend.xp).any(axis=1).sum()), len(points))
            start, centre = domain.anchored(points, backend.xp), None
        coordinates = Coordinates.of(forms.whitening, centre, domain)
        field = _Field(backend, coordinates, X, h, forms.precision, options)
        maxima, lost = searched(field, coordinates.to(start, backend.xp), None, search)
        dtype = density_check.result_dtype(forms.x, points)
        return reported(maxima, lost, dtype, flat=inputs.X.ndim == 1, xp=backend.xp)


class _Field:
    """The density of blocks and its mean shift, by the score of queries in float64."""

    def __init__(
        self, backend: ModuleType, coordinates: Coordinates, X: Any, h: Any, precision: str, options: dict[str, Any]
    ) -> None:
        self.backend, self.coordinates, self.precision = backend, coordinates, precision
        self._data, self._options = (X, h), options

    @property
    def h(self) -> float:
        """The bandwidth."""
        return self.coordinates.h

    def shift(self, z: Any) -> tuple[Any, Any]:
        """Steps of points and log densities, in the precision that is asked for."""
        return self._shift(self.backend.asnumpy(z), self.precision)

    def exact_shift(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The same of points on the host, in float64, which may lie beyond ends of the domain."""
        shift, log_density = map(self.backend.asnumpy, self._shift(self.coordinates.home(z, np), "float64"))
        return shift * self.coordinates.sides(z), log_density

    def kernel_variance(self, z: np.ndarray) -> np.ndarray:
        """Variance of the data in bandwidths squared, weighted by the kernel of each of the points, columns summed."""
        Y, options = self._queries(z), self._options | {"precision": "float64"}
        density, corrected = (f(self._data[0], Y, self._data[1], **options) for f in (kde, laplace_kde))
        density, corrected = map(self.backend.asnumpy, dask.compute(density, corrected))
        shift = self.exact_shift(z)[0] / self.h
        with np.errstate(all="ignore"):  # of densities that underflow, which take Newton's method
            out: np.ndarray = 2 + z.shape[1] - 2 * corrected / density - (shift * shift).sum(axis=1)
        return out

    def _queries(self, z: np.ndarray) -> Any:
        return self.backend.asarray(self.coordinates.back(z))

    def _shift(self, z: np.ndarray, precision: str) -> tuple[Any, Any]:
        if not len(z):
            return self.backend.asarray(z), self.backend.asarray(np.empty(0))
        X, h = self._data
        both = density_and_score(X, self._queries(z), h, **(self._options | {"precision": precision}))
        log_density, score = map(self.backend.asarray, dask.compute(*both))
        return self.coordinates.step(score, self.backend.xp), log_density
