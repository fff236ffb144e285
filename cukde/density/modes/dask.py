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
from cukde.density.dask.api import density_and_score
from cukde.density.dask.arguments import arguments
from cukde.density.modes import check
from cukde.density.modes.coordinates import Coordinates
from cukde.density.modes.mean_shift import Climbed
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
        field = _Field(backend, coordinates, forms.precision, X=X, h=h, **options)
        maxima, lost = searched(field, coordinates.to(start, backend.xp), None, search)
        dtype = density_check.result_dtype(forms.x, points)
        return reported(maxima, lost, dtype, flat=inputs.X.ndim == 1, xp=backend.xp)


class _Field(Climbed):
    """The density of blocks, by the score of queries in float64."""

    def __init__(self, backend: ModuleType, coordinates: Coordinates, precision: str, **given: Any) -> None:
        super().__init__(backend, coordinates, coordinates.h, precision)
        self._given = given

    def _stepped(self, z: Any, *, exact: bool) -> tuple[Any, Any]:
        if not len(z):
            return z, self.backend.asarray(np.empty(0))
        Y = self.backend.asarray(self.coordinates.back(self.backend.asnumpy(z)))
        both = density_and_score(Y=Y, precision="float64" if exact else self.precision, **self._given)
        log_density, score = map(self.backend.asarray, dask.compute(*both))
        return self.coordinates.step(score, self.backend.xp), log_density
