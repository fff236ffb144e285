"""Modes of a kernel density and the clusters of what climbs to them, by mean shift."""

from __future__ import annotations

from typing import Literal

from cukde.core import check as core_check, dispatch
from cukde.core.cost.registry import declare
from cukde.core.entry import returned
from cukde.core.entry.given import Given
from cukde.core.entry.public_call import public_call
from cukde.core.over_dask import over_dask
from cukde.core.types import ArrayLike, Bandwidth, Domain
from cukde.density import check as density_check
from cukde.density.arguments import prepare
from cukde.density.cost.calls import of_modes
from cukde.density.modes import check
from cukde.density.modes.coordinates import Coordinates
from cukde.density.modes.cost import modes as cost
from cukde.density.modes.mean_shift import Field
from cukde.density.modes.search import Modes, reported, searched


def _with_names(given: Given, found: Modes) -> Modes:
    """Modes are rows of their own, by whose numbers the rows of the seeds are labelled."""
    return found._replace(
        points=returned.as_new_rows(given, found.points, "seeds", "mode"),
        log_density=returned.as_new_rows(given, found.log_density, "seeds", "log_density"),
        labels=returned.as_rows(given, found.labels, "seeds", "mode"),
    )


@declare(cost, of_modes)
@public_call(_with_names)
@over_dask("cukde.density.modes.dask")
def modes(
    X: ArrayLike,
    h: Bandwidth,
    *,
    weights: ArrayLike | None = None,
    seeds: ArrayLike | None = None,
    tolerance: float = 1e-6,
    max_iterations: int = 1000,
    merge_distance: float | None = None,
    precision: str | None = None,
    deterministic: bool = False,
    check_finite: bool = True,
    bounds: Domain | None = None,
    periods: Domain | None = None,
    nan_policy: Literal["raise", "omit"] = "raise",
) -> Modes:
    r"""Find the modes of the density :func:`cukde.kde`, and the mode that each point climbs to: mean shift clustering.

    .. math:: y \leftarrow y + h^2 \nabla \log \hat p(y) = \frac{\sum_j w_j \phi_j(y) x_j}{\sum_j w_j \phi_j(y)},

    Each row of ``X`` moves by this step until it stays where it is; if the bandwidth is a covariance H, it replaces
    h^2.

    Parameters
    ----------
    X : array_like, shape (n, d) or (n,)
        Data, as for :func:`cukde.kde`. With Dask arrays and data frames, here or for ``weights``, each pass over the
        blocks is computed at once; they need ``seeds`` in memory.
    h : float, array_like or str
        Bandwidth, in the forms of :func:`kde`. "select", and a selection of "abramson", bring local factors, with which
        bandwidths below are those of the narrowest kernel.
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
        The saddle between two such modes lies below the lower one by about 5e-7 of its density, a difference that no
        sample can show.
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
        A named tuple of

        * ``points``, (k, d), or (k,) for X of shape (n,): the modes, highest density first. Where log densities agree
          to 8 decimals modes are in ascending order of their coordinates, the first column first.
        * ``log_density``, (k,): the logarithm of the density there.
        * ``labels``, (n,) or (m,) int64: the number of the mode that each seed climbs to.
        * ``iterations``, int: steps of the longest climb, mean shift and Newton's method together.

        Points and log densities are of dtype ``result_type(X, seeds)``. NumPy in, NumPy out; CuPy in, CuPy out. For a
        frame, ``points`` is a frame whose rows have the numbers of the modes, and ``labels`` a series with the index of
        the seeds.

    Raises
    ------
    TypeError
        As :func:`cukde.kde`, and for Dask collections without seeds in memory.
    ValueError
        As :func:`cukde.kde`; for no seeds, seeds outside their bounds, a tolerance or a merge distance that is not
        positive, a tolerance of more than the merge distance, and a covariance with bounds or periods.

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
    *Method.* A step of mean shift never lowers the density (``tests/density/test_modes.py``). It converges linearly,
    and slowly where a mode is flat, so points are released early. A point that comes within 1/64 of a bandwidth of a
    place where another point has been, which is higher by now, follows that point.

    A few points go ahead to maxima by Newton's method. Other points stop when they are on the hill of one of these
    maxima: within a bandwidth of it, and such that a Newton step with the curvature at the maximum ends within a
    quarter of the distance. Points that settle elsewhere are taken to their maximum by Newton's method.

    Newton's method runs in float64, takes only steps that do not lower the density, and gets second derivatives from
    differences of the gradient. A point is a mode if no curvature there is upward by more than 1e-4/h^2. A seed on a
    saddle, for example of a symmetric sample, is moved by 0.05 bandwidths in the direction of steepest ascent, to the
    side where the largest coordinate of that direction is positive.

    *Accuracy.* Labels are those of plain mean shift in float64, except for points at the border between two clusters.
    Of 8,000 rows of six overlapping groups, with 16 modes in 2 columns and 18 in 3, no label differs, in float32 or
    float64 on the CPU; nor does one of 2,000 rows in 1 to 4 columns (``benchmarks/density/bench_modes.py`` compares
    2,000 before it measures). In float64 modes are within 1e-7 bandwidths of the zero of the gradient
    (``tests/density/test_modes.py`` requires 1e-6); in float32 they are rounded.

    Points far from all others are modes of their own. Only a larger bandwidth, or the counts of the labels, tell real
    modes from noise. Equal points are one mode. On a plateau, where the gradient almost vanishes, points stop where it
    does.

    *Domains.* The density of a domain continues as a mirror image at a bound, and around a period. So no step leads
    over a bound, and points that pass the end of a period go on at its beginning. The density has no slope at a bound;
    a point there is a mode if the density curves downward. Modes within ``tolerance`` of a bound are reported on it.
    Distances between modes are measured around a period.

    *Comparison with scikit-learn.* ``sklearn.cluster.MeanShift`` has a flat kernel: it takes the mean of the points
    within its bandwidth, which corresponds to the density of an Epanechnikov kernel. A ball of radius b has the
    variance b^2/(d+2) in each column, so its bandwidth b compares with h = b/sqrt(d + 2) here. Its seeds stop where the
    points in their ball no longer change, and it merges modes that are closer than b, so it finds fewer modes. For well
    separated groups both give the same clusters (``tests/density/test_modes.py``).

    *Local factors.* Steps of the density with factors :math:`\lambda_j` have :math:`w_j \lambda_j^{-(d+2)}` in place of
    :math:`w_j`, and take two passes, of which neither takes a pair once for both of its points.

    *Cost.* Each pass takes n exponentials for each point that still climbs. The first pass (Y = X) takes each pair once
    on the GPU where :func:`cukde.debias` does. Together they amount to 6 passes over all rows for 10,000 rows of six
    groups in two columns with Silverman's bandwidth, to 4 in four columns, and to 17 to 19 with half of that bandwidth;
    plain mean shift takes a hundred to several hundred. In one column a pass is a fast transform. Passes leave out
    pairs by the default ``rtol`` of :func:`cukde.kde`, those of Newton's method by that of float64.

    A step of Newton's method evaluates d + 1 points in float64 for each of the few points that it moves. The host
    checks every four passes which points have settled, and waits for the device four times, once a pass on average;
    Newton's method waits once a step. Modes are merged on the host. Memory is O((n + m) d), and 16 bytes a pass for
    each point that still climbs.

    References
    ----------
    - Fukunaga, K. and Hostetler, L. D. (1975). The estimation of the gradient of a density function, with applications
      in pattern recognition. *IEEE Trans. Inf. Theory* 21.
    - Comaniciu, D. and Meer, P. (2002). Mean shift: a robust approach toward feature space analysis. *IEEE Trans. PAMI*
      24.
    - Comaniciu, D., Ramesh, V. and Meer, P. (2001). The variable bandwidth mean shift and data-driven scale selection.
      *ICCV*, for local factors.
    - Carreira-Perpinan, M. A. (2007). Gaussian mean-shift is an EM algorithm. *IEEE Trans. PAMI* 29.
    """
    search = check.search(tolerance, max_iterations, merge_distance)
    check_finite = core_check.flag("check_finite", check_finite)
    backend = dispatch.backend(X, seeds=seeds, weights=weights)
    with backend.device_of(X):
        x, shape = density_check.data(X, backend)
        if seeds is not None:
            seeds = check.seeds(seeds, x.shape[1], backend, finite=check_finite)
        options = precision, deterministic, check_finite, bounds, periods
        problem, _ = prepare(x, seeds, h, weights, *options, takes_factors=True)
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
