"""The public pictures."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Iterable, Mapping, Sequence
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from cukde.core import check as core_check, dispatch, extras
from cukde.core.entry import names as entry_names
from cukde.core.over_dask import is_dask
from cukde.core.quiet import quiet
from cukde.core.types import ArrayLike, Bandwidth, Columns
from cukde.density.domains.domain import Domain as Ends, domain_of
from cukde.kendall.api import kendall_matrix
from cukde.plot import check, groups, numbers
from cukde.plot.keywords import TABLE, OfPicture, filled, takes
from cukde.plot.options import first_tries

if TYPE_CHECKING:
    from matplotlib.axes import Axes


_ON_DIAGONAL = 256  # points of a curve in a pair plot


@first_tries
@quiet
@takes(OfPicture, described=TABLE)
def density(
    X: ArrayLike,
    h: Bandwidth | None = None,
    *,
    ax: Axes | None = None,
    rug: bool = True,
    band: float | None = 0.95,
    interval: bool | float = False,
    resamples: int = 200,
    points: int = 512,
    limits: tuple[float, float] | None = None,
    label: str | None = None,
    common_norm: bool = True,
    **options: Unpack[OfPicture],
) -> Axes:
    """Draw the density of one column: a curve, its bootstrap band, and marks of the rows (a rug).

    Parameters
    ----------
    X : array_like, shape (n,) or (n, 1)
        Data of at least two rows; the name of a data frame's column labels the axis. Rows with NaN in ``X``,
        ``weights`` or ``hue`` are left out, and the legend has their number; so are rows of weight 0. Of Dask
        collections at most 100,000 rows are shown.
    h : float, array_like or str, optional
        Bandwidth or name of a rule, as in :func:`cukde.kde`. Default: the method's rule,
        :func:`cukde.bandwidth.silverman`, ``sd``, ``laplace`` or ``positive``.
    ax : matplotlib.axes.Axes, optional
        Where to draw; default: a new figure. Several densities on the same axes have different colours and dashes.
    rug : bool
        Whether to mark rows below the curve: all, or 1,000 at random if there are more.
    band : float or None
        Share of the resampled densities that lie within the band at each point; None draws no band.
    interval : bool or float
        Level of :func:`cukde.density_interval`, for "kde" only, to draw in place of the band, True for 0.95.
    resamples, points : int
        Numbers of resamples for the band, 2 to 100,000, and of evenly spaced points of the curve, 2 to 1,000,000.
    limits : (float, float), optional
        Ends of the curve. Default: 3 bandwidths beyond the data, within bounds; with a period from 0 to it.
    label : str, optional
        Label of the curve in the legend. Default: the method and its bandwidth.
    common_norm : bool
        Whether the area under a group's curve is its share of the rows, by weight; otherwise it is 1.

    Returns
    -------
    matplotlib.axes.Axes
        The density is per unit of ``X``, or per decade on a logarithmic axis; its label says which.

    Raises
    ------
    ImportError, TypeError, ValueError
        Without Matplotlib. For several columns, fewer than two rows (in every group), what :func:`cukde.kde`, the rule
        and intervals refuse, data or a domain that ``log_scale`` does not allow, ``ax`` that is not plain Axes of that
        scale, options out of their range, ``random_state`` with ``seed``, and ``hue`` with Dask collections.

    Examples
    --------
    >>> import numpy as np, cukde
    >>> from matplotlib.figure import Figure
    >>> ax = Figure().subplots()
    >>> ax = cukde.plot.density(np.random.default_rng(0).normal(size=500), ax=ax)
    >>> ax.get_ylabel()
    'density (per unit of x)'

    Notes
    -----
    The band is pointwise: at each point it holds the middle 95% of the densities of ``resamples`` samples of n rows,
    with the same bandwidth. It does not show the bias. The densities of resamples are right to 5e-4 of the largest
    value.

    Cost: that of the curve, O(n + points); a sort; and ``resamples`` densities of some hundreds to thousands of cells.
    ``docs/plots.md`` has the method and pictures.

    References
    ----------
    - Efron, B. and Tibshirani, R. J. (1993). *An Introduction to the Bootstrap*. Chapman and Hall.
    """
    artists = _artists(ax)
    rug = core_check.flag("rug", rug)
    level, own_level = None if band is None else check.share("band", band), check.interval(interval)
    resamples = check.between("resamples", resamples, 2, 100_000)
    points = check.between("points", points, 2, 1_000_000)
    label, of = check.text("label", label), filled(options)
    common_norm = core_check.flag("common_norm", common_norm)
    if own_level is not None:
        check.with_interval(of.method, in_domain=of.bounds is not None or of.periods is not None)
        level, resamples = own_level, 0
    log_scale = core_check.flag("log_scale", of.log_scale)
    ends = check.limits(limits, log_scale)
    rows = _rows(X, of)
    check.columns(rows.columns, 1, "density")
    if ax is not None:
        artists.check_scales(ax, rows.log)
    colours = {} if of.color is None else _colours(artists, of.color, rows)
    curves, marked = [], []
    with rows.backend.device_of(rows.groups[0].X):
        rows, estimates = _estimates(rows, h, of)
        for group, estimate in zip(rows.groups, estimates, strict=True):
            curve = numbers.curve(estimate, points, ends, level, resamples, of.seed)
            curves.append(numbers.as_drawn(curve, log_scale, group.share if common_norm else 1.0))
            if rug:
                marks = rows.backend.asnumpy(numbers.some(estimate, numbers.MOST_MARKS, of.seed)[0][:, 0])
                marked.append(10.0**marks if log_scale else marks)

    ax = artists.scaled(ax, rows.log)
    for k, (group, estimate, curve) in enumerate(zip(rows.groups, estimates, curves, strict=True)):
        said = _of_curve(group, label, estimate, log_scale)
        artists.draw_curve(ax, curve, said, level, colours.get(group.number), intervals=not resamples)
        if rug:
            artists.draw_rug(ax, marked[k], _of_rug(rows, [len(marks) for marks in marked], k))
    artists.finish_curve(ax, rows.names[0], rows.title, rows.notes, log=log_scale)
    return ax


@first_tries
@quiet
@takes(OfPicture, like="cukde.plot.density")
def contours(
    X: ArrayLike,
    h: Bandwidth | None = None,
    *,
    ax: Axes | None = None,
    mass: ArrayLike = (0.5, 0.8, 0.95),
    outside: bool = True,
    points: int = 100,
    subsample: int = 5000,
    **options: Unpack[OfPicture],
) -> Axes:
    """Draw the density of two columns as regions of highest density, each with a given share of the rows.

    Parameters
    ----------
    X : array_like, shape (n, 2)
        Data; the names of a data frame's columns label the axes.
    mass : float or sequence of float
        Shares of the rows that the regions hold, up to 8.
    outside : bool
        Whether to draw rows outside of all regions as dots, at most 1,000 of those evaluated.
    points : int
        Points of the grid along each axis, 2 to 2,000.
    subsample : int
        Largest number of rows at which the density is evaluated to find the levels; if there are more, a random sample
        is used.
    h, ax
        As in :func:`density`; ``h`` may be two standard deviations or a covariance.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    ImportError, TypeError, ValueError
        As :func:`density`.

    Examples
    --------
    >>> import numpy as np, cukde
    >>> from matplotlib.figure import Figure
    >>> ax = Figure().subplots()
    >>> ax = cukde.plot.contours(np.random.default_rng(0).normal(size=(300, 2)), ax=ax, mass=0.9)
    >>> [text.get_text() for text in ax.get_legend().get_texts()]
    ['90% of the rows', '30 rows outside']

    Notes
    -----
    Regions are shades of the colour, and those of a group hold shares of its own rows. On logarithmic axes they are the
    smallest regions as drawn.

    In a region the density is at least a level, which is chosen such that the region holds its share of the rows, by
    weight. It is the smallest such region (Hyndman). With m rows evaluated, the share has a standard error of sqrt(mass
    (1 - mass) / m): 0.3% of the rows for 95% and 5,000 rows.

    Levels, and the rows outside, are by densities without a row's own kernel, as for a new row
    (:func:`cukde.hdr_threshold`). What is drawn has all kernels: where they are much of the density, a row outside has
    an island of its own. A level is at least 1e-5 of the lowest density at a row.

    The grid covers the largest region: 4 bandwidths and a tenth of its size beyond the rows in it, or more until the
    region ends within it. It leaves out wide gaps between rows, so outliers do not make it coarser.

    Cost: the density at ``subsample`` rows, by :func:`cukde.kde` with a tolerance of 1e-5, and on the grid, by
    :func:`cukde.evaluate_grid`; "laplace" and "positive" take n (points^2 + subsample) pairs instead, and "sd" n^2
    more. On a GPU everything is in single precision. 100,000 rows take 0.13 s on two CPU cores.

    References
    ----------
    - Hyndman, R. J. (1996). Computing and graphing highest density regions. *The American Statistician* 50, 120-126.
    """
    artists = _artists(ax)
    masses = check.masses(mass)
    outside = core_check.flag("outside", outside)
    points = check.between("points", points, 2, 2000)
    subsample = check.between("subsample", subsample, 2, 2**40)
    of = filled(options)
    rows = _rows(X, of)
    check.columns(rows.columns, 2, "contours")
    if ax is not None:
        artists.check_scales(ax, rows.log)
    colours = _colours(artists, of.color, rows)
    with rows.backend.device_of(rows.groups[0].X):
        rows, estimates = _estimates(rows, h, of)
        found = [numbers.regions(estimate, masses, points, subsample, of.seed) for estimate in estimates]

    ax = artists.scaled(ax, rows.log)
    left_out = sum(each.left_out for each in found)
    outside = outside and left_out > 0
    for group, each in zip(rows.groups, found, strict=True):
        number = None if of.hue is None else group.number
        drawn = numbers.regions_in_units(each, rows.log)
        artists.draw_regions(ax, drawn, colours[group.number], outside=outside, number=number)
    legend = None
    if outside:
        legend = _of_all("rows outside", sum(len(each.outside) for each in found), left_out)
        evaluated = sum(each.rows for each in found)
        legend += "" if evaluated == rows.drawn else f", of {evaluated:,} drawn from {rows.drawn:,}"
    notes = rows.notes + _of_fewer(found)
    shown = [colours[group.number] for group in rows.groups]
    artists.finish_regions(ax, rows.names, masses, _group_names(rows), shown, rows.title, legend, notes)
    return ax


@first_tries
@quiet
@takes(OfPicture, like="cukde.plot.density")
def pairs(
    X: ArrayLike,
    h: Bandwidth | None = None,
    *,
    columns: Columns | None = None,
    names: Sequence[str] | None = None,
    ax: np.ndarray | Sequence[Sequence[Axes]] | None = None,
    mass: ArrayLike = (0.5, 0.8, 0.95),
    tau: bool = True,
    points: int = 64,
    subsample: int = 2000,
    **options: Unpack[OfPicture],
) -> np.ndarray:
    """Draw all pairs of columns: densities on the diagonal, regions of highest density below it, Kendall's tau above.

    An axis covers the regions on it and the middle 99% of its column; outliers beyond are not drawn.

    Parameters
    ----------
    X : array_like, shape (n, d)
        Data, of which 2 to 16 columns are drawn; the names of a data frame's columns label the axes.
    h : float, array_like or str, optional
        Bandwidth of the d drawn columns, or name of a rule for them; all panels are marginals of this density. Default:
        the method's rule for the columns of each panel, one on the diagonal and two below it.
    columns : sequence, optional
        The columns to draw, in this order, by name (of data frames) or by position. Default: all.
    names : sequence of str, optional
        Names of the drawn columns, instead of those of the data frame or x0, x1, ...
    ax : array_like of matplotlib.axes.Axes, shape (d, d), optional
        Where to draw; default: a new figure. Its legend explains the regions and the groups, and has the number of rows
        with NaN in a drawn column, which are left out; of given axes the first panel has that number as a title.
    tau : bool
        Whether to write Kendall's tau-b (:func:`cukde.kendall_matrix`) of all rows, or of each group, above the
        diagonal; not with weights, which it does not take.
    mass, points, subsample
        As in :func:`contours`; curves on the diagonal have 256 points.
    hue
        As in :func:`density`; a column that it names is drawn only if ``columns`` has it. The areas of the curves on
        the diagonal are the groups' shares.

    Returns
    -------
    ndarray of matplotlib.axes.Axes, shape (d, d)

    Raises
    ------
    ImportError, TypeError, ValueError
        As :func:`density`, and for unknown columns.

    Examples
    --------
    >>> import numpy as np, cukde
    >>> from matplotlib.figure import Figure
    >>> X = np.random.default_rng(0).normal(size=(200, 3))
    >>> cukde.plot.pairs(X, columns=[0, 2], ax=Figure().subplots(2, 2)).shape
    (2, 2)

    Notes
    -----
    Cost: d (d - 1) / 2 times that of :func:`contours`, and d curves. 100,000 rows of 5 columns take 0.74 s on two
    CPU cores.
    """
    artists = _artists()
    masses = check.masses(mass)
    tau = core_check.flag("tau", tau)
    points = check.between("points", points, 2, 2000)
    subsample = check.between("subsample", subsample, 2, 2**40)
    of = filled(options)
    rows = _rows(X, of, columns)
    d = rows.columns
    check.panels(d)
    names = rows.names if names is None else check.column_names(names, d)
    grid = None if ax is None else check.grid_of_axes(ax, d, artists.Axes)
    for (row, column), each in np.ndenumerate([] if grid is None else grid):
        if column <= row:
            artists.check_scales(each, [rows.log[column], rows.log[row]][: 1 + (column < row)])
    colours = _colours(artists, of.color, rows)
    panels: list[dict[tuple[int, int], numbers.Regions]] = []
    marginals: list[list[numbers.Estimate]] = []
    taus = []
    with rows.backend.device_of(rows.groups[0].X):
        rows, estimates = _estimates(rows, h, of)
        for group, estimate in zip(rows.groups, estimates, strict=True):
            marginals.append([numbers.marginal(estimate, [k], h is None) for k in range(d)])
            panels.append(
                {
                    (i, j): numbers.regions(
                        numbers.marginal(estimate, [j, i], h is None), masses, points, subsample, of.seed
                    )
                    for i in range(d)
                    for j in range(i)
                }
            )
            if tau and group.weights is None:
                taus.append(rows.backend.asnumpy(kendall_matrix(group.X)))
        ends = [
            numbers.view(
                [each[k] for each in marginals],
                [_ends(*pair, k, regions) for each in panels for pair, regions in each.items() if k in pair],
            )
            for k in range(d)
        ]
        curves = [
            [
                numbers.as_drawn(numbers.curve(marginal, _ON_DIAGONAL, end), log, group.share)
                for marginal, end, log in zip(each, ends, rows.log, strict=True)
            ]
            for group, each in zip(rows.groups, marginals, strict=True)
        ]

    notes = rows.notes + _of_fewer(regions for of_pairs in panels for regions in of_pairs.values())
    new = grid is None
    grid = artists.new_grid(d) if grid is None else grid
    for (row, column), each in np.ndenumerate(grid):
        if column <= row:
            artists.set_scales(each, [rows.log[column], rows.log[row] and column < row])
    shown = [colours[group.number] for group in rows.groups]
    for group, colour, of_columns, of_pairs in zip(rows.groups, shown, curves, panels, strict=True):
        for k, curve in enumerate(of_columns):
            artists.draw_diagonal(grid[k, k], curve, colour, group.number)
        for (i, j), regions in of_pairs.items():
            drawn = numbers.regions_in_units(regions, (rows.log[j], rows.log[i]))
            artists.draw_regions(grid[i, j], drawn, colour, number=None if of.hue is None else group.number)
    if taus:
        for i, j in panels[0]:
            artists.write_tau(grid[j, i], [float(each[j, i]) for each in taus], shown)
    limits = [tuple(10.0**value if log else value for value in end) for end, log in zip(ends, rows.log, strict=True)]
    artists.finish_pairs(grid, names, limits, rows.log)
    if new:
        artists.legend_of_pairs(grid, masses, _group_names(rows), shown, rows.title, notes)
    else:
        artists.note_on_pairs(grid, notes)
    return grid


@first_tries
@quiet
def anomalies(
    log_density: ArrayLike,
    *,
    ax: Axes | None = None,
    threshold: float | None = None,
    quantile: float | None = None,
    color: str | Sequence[Any] | Mapping[Any, Any] | None = None,
    hue: ArrayLike | None = None,
    bins: int | None = None,
    log_counts: bool = False,
) -> Axes:
    """Draw a histogram of log densities and the threshold below which rows are anomalies.

    Parameters
    ----------
    log_density : array_like, shape (n,)
        Results of ``cukde.kde(X, Y, h, log=True)`` or ``KernelDensity.score_samples``, at least one of them finite. A
        GPU array is counted on the GPU. Rows with -inf are below any threshold. Rows with NaN, here or in ``hue``, are
        left out. The legend has the numbers of both.
    ax : matplotlib.axes.Axes, optional
        Where to draw; default a new figure.
    threshold : float, optional
        The log density below which a row is an anomaly.
    quantile : float, optional
        The threshold as a quantile of the log densities, between 0 and 1. Default: 0.05, if there is no threshold.
    color
        As in :func:`density`.
    hue : array_like, shape (n,), optional
        Known kinds of the rows, as booleans, numbers or text, at most 7. Each kind has its own histogram.
    bins : int, optional
        Number of bins, 1 to 10,000. Default: Freedman and Diaconis' rule, 10 to 200.
    log_counts : bool
        Whether the axis of counts is logarithmic, so that small counts are visible beside large ones.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    ImportError
        Without Matplotlib.
    TypeError, ValueError
        For infinity, log densities that are all -inf or NaN, labels of another length, and options out of their range.

    Examples
    --------
    >>> import numpy as np, cukde
    >>> from matplotlib.figure import Figure
    >>> X = np.random.default_rng(0).normal(size=1000)
    >>> log_p = cukde.kde(X, X, 0.3, log=True)
    >>> ax = cukde.plot.anomalies(log_p, quantile=0.02, ax=Figure().subplots())
    >>> ax.get_legend().get_texts()[-1].get_text()
    'threshold -3.731: 20 of 1,000 rows below'

    Notes
    -----
    Counts are exact. An axis that a few far log densities would make long ends before them: below the threshold it is
    at most three times as long as above, and it ends at most 15 interquartile ranges beyond the quartiles. Arrows at
    its ends, explained in the legend, stand for the rows beyond. A ``threshold`` is always visible; a quantile may be
    beyond the axis.

    Cost: O(n), and a sort for the quantile.
    """
    artists = _artists(ax)
    log_counts = core_check.flag("log_counts", log_counts)
    count = None if bins is None else check.between("bins", bins, 1, 10_000)
    cut, q = check.threshold(threshold, quantile)
    _, hue, title = groups.taken(log_density, hue, "log_density")
    backend = dispatch.backend(log_density, first="log_density")
    with backend.device_of(log_density):
        xp = backend.xp
        values = check.log_densities(log_density, backend)
        all_rows = len(values)
        known, which = ([], np.zeros(all_rows)) if hue is None else check.row_labels("hue", hue, all_rows)
        kept = ~xp.isnan(values) & backend.asarray(which >= 0)
        values, which = values[kept], which[backend.asnumpy(kept)]
        n = len(values)
        finite = values[values > -np.inf]
        low, high = (float(finite.min()), float(finite.max())) if len(finite) else (np.inf, -np.inf)
        check.drawable(low, high)
        labels = [None] if hue is None else [groups.shown_label(kind) for kind in known]
        colours = artists.colours(color, labels, range(len(labels)))
        chosen = cut is not None
        if cut is None:
            cut = _lower_quantile(values, 0.05 if q is None else q, xp)
            cut = low if cut == -np.inf else cut
        kinds = {_of_all("rows", len(finite), n): finite}
        if hue is not None:
            each = [values[backend.asarray(which == k)] for k in range(len(known))]
            kinds = {f"{kind}: {len(v):,} rows": v[v > -np.inf] for kind, v in zip(labels, each, strict=True)}
        ends = numbers.axis_of_most(finite, cut, chosen, backend)
        drawn = numbers.histograms(list(kinds.values()), ends, count, backend)
        below = int((values < cut).sum())

    ax = ax if ax is not None else artists.new_axes()
    for number, (label, colour, histogram) in enumerate(zip(kinds, colours, drawn, strict=True)):
        artists.draw_histogram(ax, histogram, label, colour, number)
    lost = f", {n - len(finite):,} of them at -inf" if len(finite) < n else ""
    where = "" if chosen or ends[0] <= cut <= ends[1] else " beyond the axis"
    said = f"threshold {cut:.4g}{where}: {below:,} of {n:,} rows below{lost}"
    cut = cut if chosen else min(max(cut, ends[0]), ends[1])
    artists.finish_histogram(ax, cut, said, title, groups.without_nan(all_rows - n), log=log_counts)
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
        raise ImportError(f"cukde.plot needs Matplotlib: {extras.install('plot')}")
    artists = importlib.import_module("cukde.plot.artists")
    if ax is not None:
        check.axes("ax", ax, artists.Axes)
    return artists


def _lower_quantile(values: Any, q: float, xp: Any) -> float:
    """Return the lower quantile, to a row; -inf is an ordinary value."""
    ordered = xp.sort(values)
    return float(ordered[min(int(round(q * len(ordered), 9)), len(ordered) - 1)])


def _of_all(what: str, some: int, n: int) -> str:
    what = what.replace("rows", "row") if n == 1 else what
    return f"{some:,} {what}" if some == n else f"{some:,} of {n:,} {what}, drawn at random"


def _of_fewer(found: Iterable[numbers.Regions]) -> list[str]:
    """Return what the legend says if so few rows have a positive corrected density that no region has its share."""
    return ["a largest region is all of positive density, and has fewer rows"] * any(each.fewer for each in found)


def _colours(artists: ModuleType, color: Any, rows: groups.Rows) -> dict[int, Any]:
    """Return the colour of each group, by its number."""
    places = [group.number for group in rows.groups]
    return dict(zip(places, artists.colours(color, [group.label for group in rows.groups], places), strict=True))


def _group_names(rows: groups.Rows) -> list[str]:
    return [group.label for group in rows.groups if group.label is not None]


def _of_curve(group: groups.Group, label: str | None, estimate: numbers.Estimate, log: bool) -> str:
    """Return the label of a curve in a legend."""
    of = f"h = {estimate.widths[0]:.3g}{' decades' * log}{', local factors' * (estimate.factors is not None)}"
    if group.label is None:
        return label or f"{estimate.of.title}, {of}"
    return f"{f'{label}, ' if label else ''}{group.label}: {len(group.X):,} rows, {of}"


def _of_rug(rows: groups.Rows, marked: list[int], k: int) -> str:
    """Return the label of the rug of a group; of several groups one says what is marked of those with many rows."""
    if rows.groups[k].label is None:
        return _of_all("rows", marked[k], rows.drawn)
    thinned = [i for i, group in enumerate(rows.groups) if marked[i] < len(group.X)]
    return f"at most {numbers.MOST_MARKS:,} rows of a group, drawn at random" if thinned[:1] == [k] else "_nolegend_"


def _rows(X: Any, of: SimpleNamespace, columns: Any = None) -> groups.Rows:
    """Check data and return the rows to draw in groups; of Dask collections a sample is drawn with the seed."""
    check.no_hue(of.hue, is_dask(X) or is_dask(of.weights))
    X, weights = numbers.in_memory(X, of.weights, of.seed)
    return groups.rows(*groups.chosen(X, of.hue, columns), weights, of.log_scale)


def _domain(rows: groups.Rows, of: SimpleNamespace) -> Ends | None:
    """Return the domain of the drawn columns, whose values may be given by name."""
    given = {"bounds": of.bounds, "periods": of.periods}
    ends = entry_names.by_column(given, rows.called, rows.columns, "the picture")
    domain = domain_of(ends["bounds"], ends["periods"], rows.columns)
    if domain is not None:
        check.linear(rows.log, domain.bounded | domain.periodic)
    return domain


def _estimates(rows: groups.Rows, h: Any, of: SimpleNamespace) -> tuple[groups.Rows, list[numbers.Estimate]]:
    """Return the rows, without groups for which the rule has no bandwidth, and the estimate of each group."""
    domain, factor = _domain(rows, of), core_check.number("bw_adjust", of.bw_adjust, above=True)
    h = entry_names.bandwidth("h", h, rows.called, rows.columns, "the picture")
    out: list[numbers.Estimate] = []
    failed: dict[int, str] = {}
    for group in rows.groups:
        try:
            out.append(numbers.estimate(rows.backend, group.X, group.weights, h, of.method, factor, domain))
        except numbers.NoBandwidthError as error:
            if group.label is None:
                raise error.__cause__ or error from None
            if len(failed) + 1 == len(rows.groups):
                raise ValueError(f"{error} (in every group of hue)") from None
            failed[group.number] = "no bandwidth, "
        except ValueError as error:
            if group.label is None:
                raise
            raise ValueError(f"{error} (in group {group.label!r} of hue)") from None
    return rows.without(failed), out
