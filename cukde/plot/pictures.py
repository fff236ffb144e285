"""The public pictures."""

from __future__ import annotations

import importlib
import importlib.util
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from cukde.core import check as core_check, dispatch
from cukde.core.over_dask import is_dask
from cukde.density import check as density_check
from cukde.density.domains.domain import domain_of
from cukde.kendall.api import kendall_matrix
from cukde.plot import check, numbers

if TYPE_CHECKING:
    from matplotlib.axes import Axes


_NAMES = {"kde": "KDE", "sd": "SD-KDE", "laplace": "Laplace-corrected KDE"}
_KINDS = 7  # of labelled rows: the number of colours
_ON_DIAGONAL = 256  # points of a curve in a pair plot


def density(
    X: Any,
    h: Any = None,
    *,
    ax: Axes | None = None,
    method: Literal["kde", "sd", "laplace"] = "kde",
    rug: bool = True,
    band: float | None = 0.95,
    resamples: int = 200,
    points: int = 512,
    limits: tuple[float, float] | None = None,
    label: str | None = None,
    seed: int = 0,
    weights: Any = None,
    bounds: Any = None,
    periods: Any = None,
) -> Axes:
    r"""Draw the density of one column: a curve, its bootstrap band, and a rug of the rows.

    Parameters
    ----------
    X : array_like, shape (n,) or (n, 1)
        Data of at least two rows; a data frame's column names the axis. If ``X`` is a GPU array, the call computes on
        the GPU. Of a Dask array or data frame a picture shows all rows of up to 100,000, else so many drawn at random.
    h : float or array_like, optional
        Bandwidth, as in :func:`cukde.kde`. Default the method's rule: :func:`cukde.bandwidth.silverman`, ``sd`` or
        ``laplace``.
    ax : matplotlib.axes.Axes, optional
        Where to draw; default a new figure. Several densities on the same axes differ in colours and dashes.
    method : {"kde", "sd", "laplace"}
        :func:`cukde.kde`, :func:`cukde.sd_kde` or :func:`cukde.laplace_kde`, whose negative values are drawn too.
    rug : bool
        Whether to mark the rows below the curve: all of up to 1,000, otherwise 1,000 at random, as the legend says.
    band : float or None
        Share of the resampled densities within the band at each point; None draws no band.
    resamples : int
        Number of resamples for the band, 2 to 100,000.
    points : int
        Number of evenly spaced points of the curve, 2 to 1,000,000.
    limits : (float, float), optional
        Ends of the curve. Default: 3 bandwidths beyond the data.
    label : str, optional
        Label of the curve in the legend. Default: the method and its bandwidth.
    seed : int
        Seed of the band and the rug: the same seed draws the same picture.
    weights : array_like, shape (n,), optional
        As in :func:`cukde.kde`. Rows of weight 0 are left out.
    bounds, periods : sequence of length d, optional
        As in :func:`cukde.kde`: the density on that domain, drawn no further than its bounds, and of a periodic column
        from 0 to the period.

    Returns
    -------
    matplotlib.axes.Axes
        The density is per unit of ``X``.

    Raises
    ------
    ImportError
        Without Matplotlib.
    TypeError, ValueError
        For more columns than one, fewer than two rows, arguments that :func:`cukde.kde` and the rule refuse, an ``ax``
        that is not plain Axes, and options out of their range.

    Notes
    -----
    The band is pointwise: at each point it holds the middle 95% of the densities of ``resamples`` samples of n rows,
    drawn from the rows with replacement, with the same bandwidth. It shows how much the estimate varies from sample to
    sample, but not its bias, which smooths peaks and fills valleys in all samples alike. With weights, n is the
    effective number of rows, :math:`1 / \sum w^2`, drawn in proportion to the weights.

    Weights are resampled instead of rows. The rows are collected in cells of a sixteenth of a bandwidth, each at the
    mean of its rows, which reproduces the density of the rows to 5e-4 of its largest value
    (``tests/plot/test_plot.py``). Multinomial counts of the cells are columns of one :func:`cukde.kernel_sum`; "sd" and
    "laplace" take one call for each resample.

    Cost: that of the curve, O(n + points) in one dimension; a sort for the cells, of which data without far outliers
    have some hundreds to thousands; and ``resamples`` densities of so many points.

    References
    ----------
    Efron, B. and Tibshirani, R. J. (1993). *An Introduction to the Bootstrap*. Chapman and Hall.

    Examples
    --------
    >>> import numpy as np, cukde
    >>> from matplotlib.figure import Figure
    >>> ax = Figure().subplots()
    >>> ax = cukde.plot.density(np.random.default_rng(0).normal(size=500), ax=ax)
    >>> ax.get_ylabel()
    'density (per unit of x)'
    """
    artists = _artists(ax)
    rug = core_check.flag("rug", rug)
    level = None if band is None else check.share("band", band)
    resamples = check.between("resamples", resamples, 2, 100_000)
    points = check.between("points", points, 2, 1_000_000)
    ends, label, seed = check.limits(limits), check.text("label", label), check.seed(seed)
    X, weights = numbers.in_memory(X, weights, seed)
    backend, x, w = numbers.checked(X, weights, method)
    check.columns(x.shape[1], 1, "density")
    with backend.device_of(x):
        estimate = numbers.estimate(backend, x, w, h, method, domain_of(bounds, periods, x.shape[1]))
        curve = numbers.curve(estimate, points, ends, level, resamples, seed)
        marked = backend.asnumpy(numbers.some(estimate, numbers.MOST_MARKS, seed)[0][:, 0]) if rug else None
    (name,) = _names(X, 1)

    ax = ax if ax is not None else artists.new_axes()
    artists.draw_curve(ax, curve, label or f"{_NAMES[method]}, h = {estimate.widths[0]:.3g}", level)
    if marked is not None:
        artists.draw_rug(ax, marked, _of_all("rows", len(marked), len(x)))
    artists.finish_curve(ax, name)
    return ax


def contours(
    X: Any,
    h: Any = None,
    *,
    ax: Axes | None = None,
    method: Literal["kde", "sd", "laplace"] = "kde",
    mass: Any = (0.5, 0.8, 0.95),
    outside: bool = True,
    points: int = 100,
    subsample: int = 5000,
    seed: int = 0,
    weights: Any = None,
    bounds: Any = None,
    periods: Any = None,
) -> Axes:
    """Draw the density of two columns as regions of highest density, each holding a share of the rows.

    Parameters
    ----------
    X : array_like, shape (n, 2)
        Data; the columns of a data frame name the axes.
    mass : float or sequence of float
        Shares of the rows that the regions hold, up to 8.
    outside : bool
        Whether to dot rows outside of all regions, at most 1,000 of those evaluated.
    points : int
        Points of the grid along each axis, 2 to 2,000.
    subsample : int
        Most rows at which the density is evaluated to find the levels; of more rows, a random sample.
    h, ax, method, seed, weights, bounds, periods
        As in :func:`density`; ``h`` may be two deviations or a covariance.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    ImportError, TypeError, ValueError
        As :func:`density`.

    Notes
    -----
    A region is where the density is at least a level, chosen such that it holds its share of the rows, by weight: the
    smallest such region (Hyndman). With m rows evaluated, the share has a standard error of sqrt(mass (1 - mass) / m):
    0.3% of the rows for 95% and 5,000 rows. The grid covers the largest region and extends 4 bandwidths and a tenth of
    its size beyond the rows in it, so that outliers do not coarsen it.

    Cost: the density at ``subsample`` rows, by :func:`cukde.kde` to a tolerance of 1e-5, and on the grid, by
    :func:`cukde.evaluate_grid`; "laplace" takes n (points^2 + subsample) pairs instead, and "sd" n^2 more. On a GPU all
    of it is in single precision. 100,000 rows take 0.15 s on two CPU cores.

    References
    ----------
    Hyndman, R. J. (1996). Computing and graphing highest density regions. *The American Statistician* 50, 120-126.

    Examples
    --------
    >>> import numpy as np, cukde
    >>> from matplotlib.figure import Figure
    >>> ax = Figure().subplots()
    >>> ax = cukde.plot.contours(np.random.default_rng(0).normal(size=(300, 2)), ax=ax, mass=0.9)
    >>> [text.get_text() for text in ax.get_legend().get_texts()]
    ['90% of the rows', '30 rows outside']
    """
    artists = _artists(ax)
    masses = check.masses(mass)
    outside = core_check.flag("outside", outside)
    points = check.between("points", points, 2, 2000)
    subsample = check.between("subsample", subsample, 2, 2**40)
    seed = check.seed(seed)
    X, weights = numbers.in_memory(X, weights, seed)
    backend, x, w = numbers.checked(X, weights, method)
    check.columns(x.shape[1], 2, "contours")
    with backend.device_of(x):
        estimate = numbers.estimate(backend, x, w, h, method, domain_of(bounds, periods, x.shape[1]))
        regions = numbers.regions(estimate, masses, points, subsample, seed)
    names = _names(X, 2)

    ax = ax if ax is not None else artists.new_axes()
    outside = outside and regions.left_out > 0
    artists.draw_regions(ax, regions, outside=outside)
    legend = None
    if outside:
        legend = _of_all("rows outside", len(regions.outside), regions.left_out)
        legend += "" if regions.rows == len(x) else f", of {regions.rows:,} drawn from {len(x):,}"
    artists.finish_regions(ax, regions, names, masses, legend)
    return ax


def pairs(
    X: Any,
    h: Any = None,
    *,
    columns: Any = None,
    labels: Any = None,
    axes: Any = None,
    method: Literal["kde", "sd", "laplace"] = "kde",
    mass: Any = (0.5, 0.8, 0.95),
    tau: bool = True,
    points: int = 64,
    subsample: int = 2000,
    seed: int = 0,
    weights: Any = None,
    bounds: Any = None,
    periods: Any = None,
) -> np.ndarray:
    """Draw columns in pairs: densities on the diagonal, regions of highest density below it, Kendall's tau above.

    An axis covers the regions on it and the middle 99% of its column; outliers are not in the picture.

    Parameters
    ----------
    X : array_like, shape (n, d)
        Data, of which 2 to 16 columns are drawn; a data frame's columns name the axes.
    h : float or array_like, optional
        Bandwidth of the d drawn columns, of which all panels are marginals. Default: the method's rule for each panel,
        with one column on the diagonal and two below it.
    columns : sequence, optional
        The columns to draw, in this order, by name (of data frames) or by position. Default: all.
    labels : sequence of str, optional
        Names of the drawn columns, in place of the data frame's or x0, x1, ...
    axes : array_like of matplotlib.axes.Axes, shape (d, d), optional
        Where to draw; default a new figure, whose legend explains the regions.
    tau : bool
        Whether to write Kendall's tau-b of all rows above the diagonal (:func:`cukde.kendall_matrix`); not with
        weights, which it does not take.
    points, subsample
        As in :func:`contours`; curves on the diagonal have 256 points.
    method, mass, seed, weights
        As in :func:`contours`.
    bounds, periods
        As in :func:`density`, of the drawn columns.

    Returns
    -------
    ndarray of matplotlib.axes.Axes, shape (d, d)

    Raises
    ------
    ImportError, TypeError, ValueError
        As :func:`density`, and for unknown columns.

    Notes
    -----
    Cost: d (d - 1) / 2 times that of :func:`contours`, and d curves. 100,000 rows of 5 columns take 1.2 s on two
    CPU cores.

    Examples
    --------
    >>> import numpy as np, cukde
    >>> from matplotlib.figure import Figure
    >>> X = np.random.default_rng(0).normal(size=(200, 3))
    >>> cukde.plot.pairs(X, columns=[0, 2], axes=Figure().subplots(2, 2)).shape
    (2, 2)
    """
    artists = _artists()
    masses = check.masses(mass)
    tau = core_check.flag("tau", tau)
    points = check.between("points", points, 2, 2000)
    subsample = check.between("subsample", subsample, 2, 2**40)
    seed = check.seed(seed)
    X, weights = numbers.in_memory(X, weights, seed)
    X, names = _selected(X, columns)
    backend, x, w = numbers.checked(X, weights, method)
    d = x.shape[1]
    check.panels(d)
    names = names if labels is None else check.column_labels(labels, d)
    grid = None if axes is None else check.grid_of_axes(axes, d, artists.Axes)
    with backend.device_of(x):
        estimate = numbers.estimate(backend, x, w, h, method, domain_of(bounds, periods, x.shape[1]))
        marginals = [numbers.marginal(estimate, [k], h is None) for k in range(d)]
        panels = {
            (i, j): numbers.regions(numbers.marginal(estimate, [j, i], h is None), masses, points, subsample, seed)
            for i in range(d)
            for j in range(i)
        }
        ends = [
            numbers.view(marginal, [_ends(*pair, k, regions) for pair, regions in panels.items() if k in pair])
            for k, marginal in enumerate(marginals)
        ]
        curves = [numbers.curve(marginal, _ON_DIAGONAL, end) for marginal, end in zip(marginals, ends, strict=True)]
        taus = backend.asnumpy(kendall_matrix(x)) if tau and w is None else None

    new = grid is None
    grid = artists.new_grid(d) if grid is None else grid
    for k, curve in enumerate(curves):
        artists.draw_diagonal(grid[k, k], curve)
    for (i, j), regions in panels.items():
        artists.draw_regions(grid[i, j], regions)
        if taus is not None:
            artists.write_tau(grid[j, i], float(taus[j, i]))
    artists.finish_pairs(grid, names, ends)
    if new:
        artists.legend_of_pairs(grid, masses)
    return grid


def anomalies(
    log_density: Any,
    *,
    ax: Axes | None = None,
    threshold: float | None = None,
    quantile: float | None = None,
    labels: Any = None,
    bins: int | None = None,
    log: bool = False,
) -> Axes:
    """Draw a histogram of log densities and the threshold below which rows are anomalies.

    Parameters
    ----------
    log_density : array_like, shape (n,)
        Results of ``cukde.kde(X, Y, h, log=True)`` or ``KernelDensity.score_samples``, at least one of them finite. A
        GPU array is counted on the GPU. Rows at -inf are below any threshold; the legend tells their number.
    ax : matplotlib.axes.Axes, optional
        Where to draw; default a new figure.
    threshold : float, optional
        The log density below which a row is an anomaly.
    quantile : float, optional
        The threshold as a quantile of the log densities, between 0 and 1. Default: 0.05 without a threshold.
    labels : array_like, shape (n,), optional
        Known kinds of the rows, as booleans, numbers or text, at most 7: each kind has its own histogram.
    bins : int, optional
        Number of bins, 1 to 10,000. Default: Freedman and Diaconis' rule, 10 to 200.
    log : bool
        Whether the axis of counts is logarithmic, which shows few rows beside many.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    ImportError
        Without Matplotlib.
    TypeError, ValueError
        For NaN, log densities that are all -inf, labels of another length, and options out of their range.

    Notes
    -----
    Cost: O(n), and a sort for the quantile.

    Examples
    --------
    >>> import numpy as np, cukde
    >>> from matplotlib.figure import Figure
    >>> X = np.random.default_rng(0).normal(size=1000)
    >>> log_p = cukde.kde(X, X, 0.3, log=True)
    >>> ax = cukde.plot.anomalies(log_p, quantile=0.02, ax=Figure().subplots())
    >>> ax.get_legend().get_texts()[-1].get_text()
    'threshold -3.731: 20 of 1,000 rows below'
    """
    artists = _artists(ax)
    log = core_check.flag("log", log)
    count = None if bins is None else check.between("bins", bins, 1, 10_000)
    cut, q = check.threshold(threshold, quantile)
    for name, a in (("log_density", log_density), ("labels", labels)):
        check.in_memory(name, is_dask(a))
    backend = dispatch.backend(log_density, first="log_density")
    with backend.device_of(log_density):
        xp = backend.xp
        values = check.log_densities(log_density, backend)
        n = len(values)
        finite = values[values > -np.inf]
        low, high = (float(finite.min()), float(finite.max())) if len(finite) else (np.inf, -np.inf)
        check.drawable(low, high)
        if cut is None:
            cut = _lower_quantile(values, 0.05 if q is None else q, xp)
            cut = low if cut == -np.inf else cut
        ends = numbers.bin_edges(finite, backend, low, high) if count is None else numbers.edges(low, high, count)
        edges = backend.asarray(ends)
        kinds = {_of_all("rows", len(finite), n): finite}
        if labels is not None:
            known, which = check.row_labels(dispatch.to_host(labels), n, _KINDS)
            each = [values[backend.asarray(which == k)] for k in range(len(known))]
            kinds = {f"{kind}: {len(v):,} rows": v[v > -np.inf] for kind, v in zip(known, each, strict=True)}
        counts = [backend.asnumpy(xp.histogram(v, edges)[0]) for v in kinds.values()]
        below = int((values < cut).sum())

    ax = ax if ax is not None else artists.new_axes()
    for number, (label, heights) in enumerate(zip(kinds, counts, strict=True)):
        artists.draw_histogram(ax, heights, ends, label, number)
    lost = f", {n - len(finite):,} of them at -inf" if len(finite) < n else ""
    artists.finish_histogram(ax, cut, f"threshold {cut:.4g}: {below:,} of {n:,} rows below{lost}", log=log)
    return ax


def _ends(row: int, column: int, k: int, regions: numbers.Regions) -> tuple[float, float]:
    """Return the extent of the largest region of a panel along the axis of column ``k``, with a margin."""
    inside = regions.density >= regions.levels[0]
    axis, reached = (regions.x, inside.any(axis=0)) if k == column else (regions.y, inside.any(axis=1))
    extent = axis[reached] if reached.any() else axis  # a coarse grid may miss the region
    margin = axis[1] - axis[0] + 0.05 * (extent[-1] - extent[0])
    return float(extent[0] - margin), float(extent[-1] + margin)


def _artists(ax: Any = None) -> ModuleType:
    """Return the module that draws, which loads Matplotlib, after a check of the user's axes."""
    if importlib.util.find_spec("matplotlib") is None:
        raise ImportError('cukde.plot needs Matplotlib: pip install "cukde[plot]"')
    artists = importlib.import_module("cukde.plot.artists")
    if ax is not None:
        check.axes("ax", ax, artists.Axes)
    return artists


def _lower_quantile(values: Any, q: float, xp: Any) -> float:
    """Return the lower quantile, to a row; -inf is an ordinary value."""
    ordered = xp.sort(values)
    return float(ordered[min(int(round(q * len(ordered), 9)), len(ordered) - 1)])


def _of_all(what: str, some: int, n: int) -> str:
    return f"{some:,} {what}" if some == n else f"{some:,} of {n:,} {what}, drawn at random"


def _names(X: Any, d: int) -> list[str]:
    """Return names of columns: those of a data frame or its column, or else x, and x0, x1, ... for several."""
    columns = getattr(X, "columns", None)
    if columns is not None and len(columns) == d:
        return [str(name) for name in columns]
    name = getattr(X, "name", None)
    if d == 1:
        return [name if isinstance(name, str) and name else "x"]
    return [f"x{k}" for k in range(d)]


def _selected(X: Any, columns: Any) -> tuple[Any, list[str]]:
    """Return the columns to draw, and their names."""
    frame = hasattr(X, "columns")
    check.in_memory("X", is_dask(X))
    if not frame:
        backend = dispatch.backend(X)
        X = density_check.data(X, backend)[0]
    names = list(X.columns) if frame else None
    if columns is not None:
        chosen = check.chosen(columns, names, X.shape[1])
        if names is not None:
            X, names = X[[names[k] for k in chosen]], [names[k] for k in chosen]
        else:
            return X[:, chosen], [f"x{k}" for k in chosen]
    return X, _names(X, X.shape[1])
