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
from cukde.kendall.api import kendall_matrix
from cukde.plot import check, numbers

if TYPE_CHECKING:
    from matplotlib.axes import Axes


_NAMES = {"kde": "KDE", "sd": "SD-KDE", "laplace": "Laplace-corrected KDE"}
_KINDS = 7  # of labelled rows: as many as there are colours
_ON_DIAGONAL = 256  # points of a curve of a pair plot


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
) -> Axes:
    r"""Draw the density of one column: a curve, its bootstrap band, and a rug of the rows.

    Parameters
    ----------
    X : array_like, shape (n,) or (n, 1)
        Data, at least two rows; a column of a data frame names the axis. A GPU array computes on the GPU.
    h : float or array_like, optional
        Bandwidth, as in :func:`cukde.kde`. Default the method's rule: :func:`cukde.bandwidth.silverman`, ``sd`` or
        ``laplace``.
    ax : matplotlib.axes.Axes, optional
        Where to draw; default a new figure. Several densities on the same axes have colours and dashes of their own.
    method : {"kde", "sd", "laplace"}
        :func:`cukde.kde`, :func:`cukde.sd_kde` or :func:`cukde.laplace_kde`, whose negative values are drawn as such.
    rug : bool
        Mark the rows below the curve: all up to 1,000, of more 1,000 drawn at random, as the legend then says.
    band : float or None
        Share of the resampled densities that the band holds at each point; None draws no band.
    resamples : int
        That the band is made of, 2 to 100,000.
    points : int
        Of the curve, evenly spaced, 2 to 1,000,000.
    limits : (float, float), optional
        Ends of the curve. Default 3 bandwidths beyond the data.
    label : str, optional
        Of the curve in the legend. Default the method and its bandwidth.
    seed : int
        Of the band and the rug: the same seed draws the same picture.
    weights : array_like, shape (n,), optional
        As in :func:`cukde.kde`. Rows of weight 0 are left out.

    Returns
    -------
    matplotlib.axes.Axes
        The density is per unit of ``X``.

    Raises
    ------
    ImportError
        Without Matplotlib.
    TypeError, ValueError
        For more columns than one, fewer than two rows, what :func:`cukde.kde` and the rule refuse, an ``ax`` that is
        no plain Axes, options out of their range, and Dask collections.

    Notes
    -----
    The band is pointwise: at each point, the middle 95% of the densities of ``resamples`` samples of n rows drawn from
    the rows with replacement, with the same bandwidth. It shows how much the estimate varies from sample to sample and
    nothing of its bias, which smooths peaks and fills valleys alike in all of them. With weights, n rows are the
    effective ones, :math:`1 / \sum w^2`, drawn in proportion to the weights.

    Weights are resampled instead of rows: the rows are brought to cells of a sixteenth of a bandwidth, each at the mean
    of its rows, where they have the density of the rows to 5e-4 of its largest value (``tests/plot/test_plot.py``), and
    multinomial counts of the cells are columns of one :func:`cukde.kernel_sum`; "sd" and "laplace" take a call each.

    Cost: the curve's, O(n + points) in one dimension; a sort for the cells, of which data without far outliers have
    some hundreds to thousands, and ``resamples`` densities of so many points.

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
    artists = _artists()
    if ax is not None:
        check.axes("ax", ax, artists.Axes)
    rug = core_check.flag("rug", rug)
    level = None if band is None else check.share("band", band)
    resamples = check.between("resamples", resamples, 2, 100_000)
    points = check.between("points", points, 2, 1_000_000)
    ends, label, seed = check.limits(limits), check.text("label", label), check.seed(seed)
    backend, x, w = numbers.checked(X, weights, method)
    check.columns(x.shape[1], 1, "density")
    with backend.device_of(x):
        of = numbers.sample(backend, x, w, h, method)
        curve = numbers.curve(of, points, ends, level, resamples, seed)
        marked = backend.asnumpy(numbers.some(of, numbers.MOST_MARKS, seed)[0][:, 0]) if rug else None
    (name,) = _names(X, 1)

    ax = ax if ax is not None else artists.new_axes()
    artists.draw_curve(ax, curve, label or f"{_NAMES[method]}, h = {of.widths[0]:.3g}", level)
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
) -> Axes:
    """Draw the density of two columns as regions of highest density, each of which holds a share of the rows.

    Parameters
    ----------
    X : array_like, shape (n, 2)
        Data; the columns of a data frame name the axes.
    mass : float or sequence of float
        Shares of the rows that the regions hold, up to 8.
    outside : bool
        Dot rows that no region holds, at most 1,000 of those looked at.
    points : int
        Of the grid along each axis, 2 to 2,000.
    subsample : int
        Of so many rows the density is taken to find the levels; of more rows, so many are drawn at random.
    h, ax, method, seed, weights
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
    The region of a share is where the density is at least as high as at so much of the rows, by weight: the smallest
    region that holds them (Hyndman). The share held by a region of m rows looked at is off by a standard error of
    sqrt(mass (1 - mass) / m): 0.3% of the rows for 95% and 5,000. The grid lies about the largest region, and reaches 4
    bandwidths and a tenth of its size beyond the rows in it, so that outliers do not coarsen it.

    Cost: the density at ``subsample`` rows, by :func:`cukde.kde` to a tolerance of 1e-5, and on the grid, by
    :func:`cukde.evaluate_grid`; "laplace" takes n (points^2 + subsample) pairs instead, and "sd" n^2 besides. On a GPU
    all of it is in single precision. 100,000 rows take 0.15 s on two CPU cores.

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
    artists = _artists()
    if ax is not None:
        check.axes("ax", ax, artists.Axes)
    masses = check.masses(mass)
    outside = core_check.flag("outside", outside)
    points = check.between("points", points, 2, 2000)
    subsample = check.between("subsample", subsample, 2, 2**40)
    seed = check.seed(seed)
    backend, x, w = numbers.checked(X, weights, method)
    check.columns(x.shape[1], 2, "contours")
    with backend.device_of(x):
        of = numbers.sample(backend, x, w, h, method)
        found = numbers.regions(of, masses, points, subsample, seed)
    names = _names(X, 2)

    ax = ax if ax is not None else artists.new_axes()
    outside = outside and found.left_out > 0
    artists.draw_regions(ax, found, outside=outside)
    legend = None
    if outside:
        legend = _of_all("rows outside", len(found.outside), found.left_out)
        legend += "" if found.rows == len(x) else f", of {found.rows:,} drawn from {len(x):,}"
    artists.finish_regions(ax, found, names, masses, legend)
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
) -> np.ndarray:
    """Draw columns by pairs: each one's density on the diagonal, regions of highest density below, tau above.

    An axis reaches as far as the regions on it and the middle 99% of its column: outliers are left out of the picture.

    Parameters
    ----------
    X : array_like, shape (n, d)
        Data of 2 to 16 columns that are drawn; the names of a data frame are those of the axes.
    h : float or array_like, optional
        Bandwidth of the d columns drawn. The panels then are marginals of one estimate. Default the method's rule for
        each panel: for one column on the diagonal, for two below.
    columns : sequence, optional
        Which to draw and in which order, by name (of data frames) or by position. Default all.
    labels : sequence of str, optional
        Names for the columns drawn, in the place of the data frame's or x0, x1, ...
    axes : array_like of matplotlib.axes.Axes, shape (d, d), optional
        Where to draw; default a new figure, whose legend explains the regions.
    tau : bool
        Write Kendall's tau-b of all rows above the diagonal (:func:`cukde.kendall_matrix`); never with weights, which
        it does not take.
    points, subsample
        As in :func:`contours`; along the diagonal there are 256 points.
    method, mass, seed, weights
        As in :func:`contours`.

    Returns
    -------
    ndarray of matplotlib.axes.Axes, shape (d, d)

    Raises
    ------
    ImportError, TypeError, ValueError
        As :func:`density`, and for columns that are not there.

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
    X, names = _selected(X, columns)
    backend, x, w = numbers.checked(X, weights, method)
    d = x.shape[1]
    check.panels(d)
    names = names if labels is None else check.column_labels(labels, d)
    grid = None if axes is None else check.grid_of_axes(axes, d, artists.Axes)
    with backend.device_of(x):
        of = numbers.sample(backend, x, w, h, method)
        single = [numbers.marginal(of, [k], h is None) for k in range(d)]
        found = {
            (i, j): numbers.regions(numbers.marginal(of, [j, i], h is None), masses, points, subsample, seed)
            for i in range(d)
            for j in range(i)
        }
        ends = [
            numbers.view(each, [_ends(*pair, k, region) for pair, region in found.items() if k in pair])
            for k, each in enumerate(single)
        ]
        curves = [numbers.curve(each, _ON_DIAGONAL, end) for each, end in zip(single, ends, strict=True)]
        taus = backend.asnumpy(kendall_matrix(x)) if tau and w is None else None

    new = grid is None
    grid = artists.new_grid(d) if grid is None else grid
    for k, curve in enumerate(curves):
        artists.draw_diagonal(grid[k, k], curve)
    for (i, j), region in found.items():
        artists.draw_regions(grid[i, j], region)
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
        As ``cukde.kde(X, Y, h, log=True)`` or ``KernelDensity.score_samples`` gives them, at least one finite. A GPU
        array is counted on the GPU. Rows at -inf are below any threshold; the legend says how many.
    ax : matplotlib.axes.Axes, optional
        Where to draw; default a new figure.
    threshold : float, optional
        The log density below which a row is an anomaly.
    quantile : float, optional
        The threshold as a quantile of the log densities, between 0 and 1. Default 0.05 where no threshold is given.
    labels : array_like, shape (n,), optional
        What rows are known to be, as booleans, numbers or text, up to 7 kinds: a histogram for each.
    bins : int, optional
        Number of bins, 1 to 10,000. Default Freedman and Diaconis' rule, 10 to 200.
    log : bool
        Count on a logarithmic axis, on which few rows are seen beside many.

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
    artists = _artists()
    if ax is not None:
        check.axes("ax", ax, artists.Axes)
    log = core_check.flag("log", log)
    count = None if bins is None else check.between("bins", bins, 1, 10_000)
    at, q = check.threshold(threshold, quantile)
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
        if at is None:
            at = _lower_quantile(values, 0.05 if q is None else q, xp)
            at = low if at == -np.inf else at
        ends = numbers.bin_edges(finite, backend, low, high) if count is None else numbers.edges(low, high, count)
        edges = backend.asarray(ends)
        kinds = {_of_all("rows", len(finite), n): finite}
        if labels is not None:
            known, which = check.row_labels(dispatch.to_host(labels), n, _KINDS)
            each = [values[backend.asarray(which == k)] for k in range(len(known))]
            kinds = {f"{kind}: {len(v):,} rows": v[v > -np.inf] for kind, v in zip(known, each, strict=True)}
        counts = [backend.asnumpy(xp.histogram(v, edges)[0]) for v in kinds.values()]
        below = int((values < at).sum())

    ax = ax if ax is not None else artists.new_axes()
    for number, (label, heights) in enumerate(zip(kinds, counts, strict=True)):
        artists.draw_histogram(ax, heights, ends, label, number)
    lost = f", {n - len(finite):,} of them at -inf" if len(finite) < n else ""
    artists.finish_histogram(ax, at, f"threshold {at:.4g}: {below:,} of {n:,} rows below{lost}", log=log)
    return ax


def _ends(row: int, column: int, k: int, of: numbers.Regions) -> tuple[float, float]:
    """How far the largest region of a panel reaches along the axis of column ``k``, and a little beyond."""
    inside = of.density >= of.levels[0]
    axis, met = (of.x, inside.any(axis=0)) if k == column else (of.y, inside.any(axis=1))
    reached = axis[met] if met.any() else axis  # a coarse grid may miss it
    room = axis[1] - axis[0] + 0.05 * (reached[-1] - reached[0])
    return float(reached[0] - room), float(reached[-1] + room)


def _artists() -> ModuleType:
    """The module that draws, which loads Matplotlib."""
    if importlib.util.find_spec("matplotlib") is None:
        raise ImportError('cukde.plot needs Matplotlib: pip install "cukde[plot]"')
    return importlib.import_module("cukde.plot.artists")


def _lower_quantile(values: Any, q: float, xp: Any) -> float:
    """The least value that a share ``q`` of the rows lie below, to a row; -inf among them is a value like others."""
    ordered = xp.sort(values)
    return float(ordered[min(int(round(q * len(ordered), 9)), len(ordered) - 1)])


def _of_all(what: str, some: int, n: int) -> str:
    return f"{some:,} {what}" if some == n else f"{some:,} of {n:,} {what}, drawn at random"


def _names(X: Any, d: int) -> list[str]:
    """Names of columns: those of a data frame or its column, or else x, and x0, x1, ... of several."""
    given = getattr(X, "columns", None)
    if given is not None and len(given) == d:
        return [str(name) for name in given]
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
