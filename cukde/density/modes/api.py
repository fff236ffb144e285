"""Modes of a kernel density and the clusters of what climbs to them, by mean shift."""

from __future__ import annotations

from typing import Unpack

from cukde.core import check as core_check, dispatch
from cukde.core.cost.registry import declare
from cukde.core.entry import returned
from cukde.core.entry.given import Given
from cukde.core.entry.public_call import public_call
from cukde.core.over_dask import over_dask
from cukde.core.types import ArrayLike, Bandwidth
from cukde.density import check as density_check
from cukde.density.arguments import problem_of
from cukde.density.cost.calls import of_modes
from cukde.density.keywords import InDomain, takes
from cukde.density.modes import check
from cukde.density.modes.coordinates import Coordinates
from cukde.density.modes.cost import modes as cost
from cukde.density.modes.mean_shift import Field
from cukde.density.modes.search import Modes, reported, searched


def with_names(given: Given, found: Modes) -> Modes:
    """Modes are rows of their own, by whose numbers the rows of the seeds are labelled."""
    return found._replace(
        points=returned.as_new_rows(given, found.points, "seeds", "mode"),
        log_density=returned.as_new_rows(given, found.log_density, "seeds", "log_density"),
        labels=returned.as_rows(given, found.labels, "seeds", "mode"),
    )


@declare(cost, of_modes)
@public_call(with_names)
@over_dask("cukde.density.modes.dask")
@takes(InDomain)
def modes(
    X: ArrayLike,
    h: Bandwidth,
    *,
    seeds: ArrayLike | None = None,
    tolerance: float = 1e-6,
    max_iterations: int = 1000,
    merge_distance: float | None = None,
    **options: Unpack[InDomain],
) -> Modes:
    r"""Find the modes of the density :func:`cukde.kde`, and the mode that each point climbs to: mean shift clustering.

    .. math:: y \leftarrow y + h^2 \nabla \log \hat p(y) = \frac{\sum_j w_j \phi_j(y) x_j}{\sum_j w_j \phi_j(y)},

    Each row of ``X`` moves by this step until it stays where it is; if the bandwidth is a covariance H, it replaces
    h^2.

    Parameters
    ----------
    X : array_like, shape (n, d) or (n,)
        Data, as for :func:`cukde.kde`. Dask collections, here or for ``weights``, are computed at once, and need
        ``seeds`` in memory.
    h : float, array_like or str
        Bandwidth, in the forms of :func:`cukde.kde`. With the local factors of "select" or of a selection of
        "abramson", bandwidths below are those of the narrowest kernel.
    weights : array_like, shape (n,), optional
        Non-negative weights of the data. A row of weight 0 does not count in the density, and still gets a label.
    seeds : array_like, shape (m, d) or (m,), optional
        Points to start from; default ``X``. Modes that no seed climbs to are not found.
    tolerance : float
        Largest distance of a mode from its maximum, in bandwidths; 1e-9 or more.
    max_iterations : int
        Largest number of steps of a point; never more than 512 of mean shift and then 1,000 of Newton's method.
    merge_distance : float, optional
        Modes that are at most this far apart, in bandwidths, are merged into the highest. At least 1e-6; default 0.1.
    precision : {"float32", "tf32", "ieee", "float64"}, optional
        Arithmetic of the passes in which points climb, as for :func:`cukde.kde`. Modes are found in float64 in any
        case.
    deterministic, check_finite, nan_policy
        As for :func:`cukde.kde`. The label of a row that is left out is -1, and with ``check_finite=False`` also that
        of a seed with NaN or infinity.
    bounds, periods : sequence of length d or mapping, optional
        As for :func:`cukde.kde`; ``h`` is then a number or standard deviations. The modes are those of the density on
        that domain, including modes at a bound; in a periodic column they lie from 0 to its period.

    Returns
    -------
    Modes
        A named tuple of ``points``, (k, d) or (k,), the highest first; ``log_density``, (k,); ``labels``, (n,) or (m,),
        the number of the mode that each seed climbs to; and ``iterations``, the steps of the longest climb. Points are
        of dtype ``result_type(X, seeds)``; for frames, points are a frame and labels a series.

    Raises
    ------
    TypeError, ValueError
        As :func:`cukde.kde`; for Dask collections without seeds in memory, no seeds, seeds outside their bounds, a
        tolerance that is not positive or above the merge distance, and a covariance with bounds or periods.

    Warns
    -----
    ConvergenceWarning
        If seeds have not reached a maximum after ``max_iterations``. They are labelled by the points that they have
        reached, which are then among the modes.

    Examples
    --------
    >>> import numpy as np, cukde
    >>> found = cukde.modes(np.array([0.0, 0.2, 5.0]), 1.0)
    >>> found.points.round(3), found.labels
    (array([0.1, 5. ]), array([0, 0, 1]))

    Notes
    -----
    Labels are those of plain mean shift in float64, except for points at the border between two clusters. In float64
    modes are within 1e-6 bandwidths of the zero of the gradient; in float32 they are rounded.

    Cost: a pass takes n exponentials for each point that still climbs. All passes together amount to 4 to 19 over all
    rows in measured cases, and leave out pairs as :func:`cukde.kde` does. Memory is O((n + m) d), and 16 bytes a pass
    for each point that still climbs. ``docs/modes.md`` has the method.

    References
    ----------
    - Fukunaga, K. and Hostetler, L. D. (1975). The estimation of the gradient of a density function, with applications
      in pattern recognition. *IEEE Trans. Inf. Theory* 21.
    """
    search = check.search(tolerance, max_iterations, merge_distance)
    check_finite = core_check.flag("check_finite", options.get("check_finite", True))
    backend = dispatch.backend(X, seeds=seeds, weights=options.get("weights"))
    with backend.device_of(X):
        x, shape = density_check.data(X, backend)
        if seeds is not None:
            seeds = check.seeds(seeds, x.shape[1], backend, finite=check_finite)
        problem = problem_of(x, seeds, h, options, takes_factors=True)
        if problem.domain is not None:
            check.bandwidth_in_domain(problem.whitening.bandwidth)
            if check_finite and problem.outside is not None:  # of data they have been refused
                check.seeds_inside(int(problem.outside.sum()), len(problem.outside))
    with problem.device:
        centre = problem.backend.asnumpy(problem.options.centre)
        coordinates = Coordinates.of(problem.whitening, centre, problem.domain)
        field = Field(problem, coordinates)
        start = coordinates.to(problem.X if problem.Y is None else problem.Y, problem.xp)
        first = None
        if problem.Y is None and problem.options.local_factors is None:  # each pair of rows once, where their dtype may
            first = field.of_sums(problem._replace(outside=None).sums("moments", ratio=True))
        maxima, lost = searched(field, start, first, search)
        return reported(maxima, lost, problem.dtype, flat=len(shape) == 1, xp=problem.xp)
