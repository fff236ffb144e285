"""The numbers of pictures: curves, bands, grids and levels, computed where the data are and returned to the host."""

from __future__ import annotations

import importlib
import itertools
import math
from collections.abc import Iterator
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from cukde.bandwidth import data as bandwidth_data
from cukde.core.over_dask import is_dask
from cukde.density import check as density_check, correction, rules_by_name
from cukde.density.api import debias, kernel_sum
from cukde.density.compositions import columns as compositions_columns, regions as compositions_regions
from cukde.density.compositions.interval import density_interval
from cukde.density.domains import check as domains_check
from cukde.density.domains.domain import Domain, arguments_of
from cukde.density.estimates import ESTIMATES, Estimate as Kind
from cukde.density.grids.api import evaluate_grid
from cukde.plot import check

MOST_MARKS = 1_000
"""Most rows that are marked one by one; of more, a random sample of this size is marked."""

_REACH = 3  # bandwidths by which a curve extends beyond the data
_CELLS = 16  # for each bandwidth, of the resampled data
_REACH_OF_IMAGES = 6  # bandwidths beyond which an image is nothing
_MOST_TURNS = 16  # around a period, or between two bounds and back, of which images are taken
_FAR = 15  # interquartile ranges of log densities beyond the quartiles that an axis shows
_FINER, _STEP, _GROWTH = 16, 0.125, 0.15  # of grids about kernels of several widths: steps over widths and distances
_FURTHEST = 1e4  # bandwidths beyond the rows at which the search for the end of a region stops
_ROUNDING = 1e-5  # relative error of the densities at rows
_ENTRIES = 2**23  # numbers in a block of resamples: 64 MiB

# Each use of random numbers has its own stream, so that leaving one out does not change the others.
_RESAMPLES, _MARKS, _LEVELS, _ROWS = range(4)


class NoBandwidthError(ValueError):
    """The rule has no bandwidth for data, or none that differs from 0 as they are rounded."""


class Estimate(NamedTuple):
    """A density estimate: checked data on their backend, without rows of weight 0, bandwidth and method."""

    backend: ModuleType
    X: Any  # (n, d) float64
    weights: Any | None  # (n,) float64, all positive
    h: np.ndarray  # (), (d,) or (d, d)
    method: str
    low: np.ndarray  # (d,) minima of the columns
    high: np.ndarray
    adjust: float  # the factor of the bandwidth, which ``h`` contains
    domain: Domain | None = None  # in which the data lie, those of periods from 0 on
    mass: float = 1.0  # of method "positive", where densities are divided by it
    factors: Any | None = None  # (n,) float64: of the bandwidth of each row, where a selection brings them

    @property
    def of(self) -> Kind:
        """What belongs to the method."""
        return ESTIMATES[self.method]

    @property
    def widths(self) -> np.ndarray:
        """Deviations of the kernel, (d,)."""
        if self.h.ndim == 2:
            out: np.ndarray = np.sqrt(np.diag(self.h))
            return out
        return np.broadcast_to(self.h, self.low.shape)

    @property
    def ends(self) -> dict[str, Any]:
        """Arguments of a density on the domain."""
        return arguments_of(self.domain)

    def within(self, k: int, low: float, high: float) -> tuple[float, float]:
        """Ends of an axis, no further than the bounds of column ``k``; of a period all of it."""
        if self.domain is None:
            return low, high
        if self.domain.periodic[k]:
            return 0.0, float(self.domain.period[k])
        return max(low, float(self.domain.low[k])), min(high, float(self.domain.high[k]))

    @property
    def repeats(self) -> bool:
        """Whether sums are asked for the same bits every time; a CPU has them, but for a first call's rounding."""
        return self.backend.xp is not np

    @property
    def effective(self) -> float:
        """Effective number of rows."""
        if self.weights is None:
            return float(len(self.X))
        w = self.weights / self.weights.max()
        return float(w.sum()) ** 2 / float((w * w).sum())


def in_memory(X: Any, weights: Any, seed: int) -> tuple[Any, Any]:
    """Return the data as they are, of Dask collections a sample of rows."""
    if not is_dask(X) and not is_dask(weights):
        return X, weights
    out: tuple[Any, Any] = importlib.import_module("cukde.plot.dask").sample(X, weights, seed, _ROWS)
    return out


def estimate(
    backend: ModuleType, x: Any, w: Any, h: Any, method: str, adjust: float = 1.0, domain: Domain | None = None
) -> Estimate:
    """Return an estimate of checked data; ``h`` None is the method's rule. ``adjust`` multiplies the bandwidth."""
    if domain is not None:
        domain.hold(x, backend)
        x = domain.restored(domain.anchored(x, backend.xp), backend.xp)
    ends = arguments_of(domain)
    by_rule = h is None or isinstance(h, str)
    try:
        h = ESTIMATES[method].rule if h is None else h
        h, factors = rules_by_name.with_factors(h, x, w, method, **ends)
    except ValueError as error:
        raise NoBandwidthError(str(error)) from error
    h = density_check.bandwidth(h, x.shape[1])
    h = h * (adjust * adjust if h.ndim == 2 else adjust)
    if h.ndim == 2:
        density_check.cholesky(h)
    if domain is not None:
        domains_check.bandwidth(h, domain.bounded)
    low, high = -bandwidth_data.largest(-x, backend.xp), bandwidth_data.largest(x, backend.xp)
    low, high = backend.asnumpy(low), backend.asnumpy(high)
    out = Estimate(backend, x, w, h, method, low, high, adjust, domain, factors=factors)
    try:
        check.extent(out.low, out.high, out.widths)
    except ValueError as error:
        raise (NoBandwidthError(str(error)) if by_rule else error) from None
    return out


def marginal(data: Estimate, columns: list[int], own_rule: bool) -> Estimate:
    """Return the estimate of some columns; with ``own_rule`` the bandwidth is the rule's for these columns."""
    x = data.backend.xp.ascontiguousarray(data.X[:, columns])
    domain = None if data.domain is None else data.domain.of_columns(columns)
    if own_rule:
        return estimate(data.backend, x, data.weights, None, data.method, data.adjust, domain)
    h = compositions_columns.marginal_bandwidth(data.h, columns)
    return data._replace(X=x, h=h, low=data.low[columns], high=data.high[columns], domain=domain)


def some(data: Estimate, most: int, seed: int, stream: int = _MARKS) -> tuple[Any, Any | None]:
    """Return the rows and their weights, or of more than ``most`` a uniform random sample of this size."""
    rows = _chosen(data, most, seed, stream)
    return data.X[rows], None if data.weights is None else data.weights[rows]


def _chosen(data: Estimate, most: int, seed: int, stream: int) -> Any:
    """Which rows those are."""
    n = len(data.X)
    if n <= most:
        return slice(None)
    taken = np.random.default_rng([seed, stream]).choice(n, most, replace=False, shuffle=False)
    return data.backend.asarray(np.sort(taken))


# --- one dimension ------------------------------------------------------------------------------------------


class Curve(NamedTuple):
    """A density along one axis, on the host."""

    x: np.ndarray
    density: np.ndarray
    band: tuple[np.ndarray, np.ndarray] | None  # lower and upper end


def curve(
    data: Estimate,
    points: int,
    limits: tuple[float, float] | None = None,
    level: float | None = None,
    resamples: int = 0,
    seed: int = 0,
) -> Curve:
    """Return the density of one column, and with ``level`` a pointwise bootstrap band; of no resamples, intervals."""
    h = float(data.widths[0])
    low, high = float(data.low[0]) - _REACH * h, float(data.high[0]) + _REACH * h
    if data.factors is not None:
        reach = _REACH * h * data.factors
        low, high = float((data.X[:, 0] - reach).min()), float((data.X[:, 0] + reach).max())
    low, high = limits or data.within(0, low, high)
    x = np.linspace(low, high, points)
    with data.backend.device_of(data.X):
        queries = data.backend.asarray(x)
        options = {"weights": data.weights, "local_factors": data.factors, "deterministic": data.repeats} | data.ends
        density = data.backend.asnumpy(data.of.density(data.X[:, 0], queries, h, **options))
        ends = None
        if level is not None:
            ends = _band(data, queries, h, level, resamples, seed) if resamples else _intervals(data, queries, h, level)
    return Curve(x, density, ends)


def as_drawn(curve: Curve, log: bool, share: float) -> Curve:
    """Return a curve times the share of its group; that of log10 data, per decade, at places in units of the data."""
    band = None if curve.band is None else (curve.band[0] * share, curve.band[1] * share)
    return Curve(10.0**curve.x if log else curve.x, curve.density * share, band)


def _intervals(data: Estimate, queries: Any, h: float, level: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the ends of the intervals of the density at each point of the axis."""
    check.no_factors(data.factors is not None)
    options: dict[str, Any] = {"weights": data.weights, "deterministic": data.repeats}
    found = density_interval(data.X[:, 0], queries, h, level, **options)
    return data.backend.asnumpy(found.low), data.backend.asnumpy(found.high)


def _band(
    data: Estimate, queries: Any, h: float, level: float, resamples: int, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return percentiles of the densities of bootstrap resamples at each point of the axis.

    Instead of rows, multinomial counts of cells are drawn. Cells of a sixteenth of a bandwidth, each at the mean of its
    rows, reproduce the density of the rows to 5e-4 of its largest value. Local factors are those of the data. Rows of
    different weights in a cell are taken for as many of one weight as have the same sum and sum of squares.
    """
    centres, shares, squares, factors = cells(data, h / _CELLS)
    weight, rows = squares / shares, shares * shares / squares
    rng = np.random.default_rng([seed, _RESAMPLES])
    step = max(1, _ENTRIES // len(shares))
    curves = []
    for start in range(0, resamples, step):
        counts = rng.multinomial(max(1, round(rows.sum())), rows / rows.sum(), size=min(step, resamples - start))
        drawn = counts * weight
        drawn /= drawn.sum(axis=1, keepdims=True)
        curves.append(data.backend.asnumpy(_densities(data, centres, drawn, queries, h, factors)))
    ends = np.percentile(np.concatenate(curves, axis=1), [50 * (1 - level), 50 * (1 + level)], axis=1)
    return ends[0], ends[1]


def _densities(data: Estimate, centres: Any, weights: np.ndarray, queries: Any, h: float, factors: Any | None) -> Any:
    """Return the densities of the same points with several sets of weights, one in each column."""
    if data.method == "kde" and data.domain is None and factors is None:
        return kernel_sum(centres, weights.T, queries, h, deterministic=data.repeats) / (h * math.sqrt(2 * math.pi))
    options = {"local_factors": factors, "deterministic": data.repeats} | data.ends
    each = [data.of.density(centres, queries, h, weights=w, **options) for w in weights]
    return data.backend.xp.stack(each, axis=1)


def cells(data: Estimate, width: float) -> tuple[Any, np.ndarray, np.ndarray, Any | None]:
    """Return the mean of the rows of each non-empty cell, on the data's device, and sums of their weights, on the host.

    The second sums are of squares of weights. With local factors cells are as much narrower as the narrowest kernel;
    the last is the mean factor of a cell's rows.
    """
    xp = data.backend.xp
    low = float(data.low[0])
    distance = data.X[:, 0] - low
    if data.factors is not None:
        width *= float(data.factors.min())
    _, cell = xp.unique(xp.floor(distance / width), return_inverse=True)
    w = data.weights
    total = xp.bincount(cell, weights=w).astype(xp.float64)
    squares = total if w is None else xp.bincount(cell, weights=w * w)

    def mean(values: Any) -> Any:
        return xp.bincount(cell, weights=values if w is None else values * w) / total

    shares = data.backend.asnumpy(total)
    size = shares.sum()
    squares = data.backend.asnumpy(squares) / size**2
    return mean(distance) + low, shares / size, squares, None if data.factors is None else mean(data.factors)


# --- two dimensions -----------------------------------------------------------------------------------------


class Regions(NamedTuple):
    """A density on a grid, and the regions of highest density that hold given shares of the rows, on the host."""

    x: np.ndarray
    y: np.ndarray
    density: np.ndarray  # (len(y), len(x))
    levels: np.ndarray  # the lowest density of each region, ascending: the largest share first
    outside: np.ndarray  # rows outside of all regions, or a random sample of them
    left_out: int  # the number of rows outside
    rows: int  # the number of rows that were evaluated
    fewer: bool  # whether the largest region has a smaller share than asked for


def regions(data: Estimate, masses: list[float], points: int, most: int, seed: int) -> Regions:
    """Return the density of two columns on a grid around the largest region, and the levels of all regions.

    Levels are of densities without a row's own kernel, as those of :func:`cukde.hdr_threshold`. What is drawn has all
    kernels, so the grid is around all rows whose density with their own kernel is above the lowest level.
    """
    with data.backend.device_of(data.X):
        chosen = _chosen(data, most, seed, _LEVELS)
        rows, w, f = (None if a is None else a[chosen] for a in (data.X, data.weights, data.factors))
        if data.of.moves:  # once for both passes
            options: dict[str, Any] = {"weights": data.weights, "precision": "float32", "deterministic": data.repeats}
            options |= data.ends
            debiased = debias(data.X, data.h, **options)
            data = data._replace(X=debiased, method=data.of.of_centres.method)
        if data.of.mass is not None:
            mass = data.of.mass(data.X, data.h, weights=data.weights, precision="float32", **data.ends)
            data = data._replace(mass=mass.value)
        of_others, at_rows = _at_rows(data, rows, data.X[chosen], w, f)
        levels = data.backend.asnumpy(compositions_regions.levels(of_others, np.asarray(masses), w, data.backend))
        of_others, at_rows, rows = (data.backend.asnumpy(each) for each in (of_others, at_rows, rows))
        outside = rows[of_others < levels[0]]
        # Lower levels are rounding, of rows that have no other near; a level of 0 or less would bound no region.
        lowest = _ROUNDING * at_rows[at_rows > 0].min()
        levels, floored = np.maximum(levels, lowest), bool(levels[0] < lowest)
        inside = at_rows >= min(levels[0], at_rows.max())  # which may be less by rounding, of a huge bandwidth
        fewer = floored and np.average(inside, weights=None if w is None else data.backend.asnumpy(w)) < max(masses)
        held, f = rows[inside], np.ones(1) if f is None else data.backend.asnumpy(f)[inside]
        reach = 4.0  # bandwidths beyond the rows; more where many kernels sum up beside few
        while True:
            x, y = axes = (_axis(data, 0, held[:, 0], reach * f, points), _axis(data, 1, held[:, 1], reach * f, points))
            density = data.backend.asnumpy(_on_grid(data, x, y))
            if reach > _FURTHEST or not _cut(data, axes, density, float(levels[0])):
                break
            reach *= 2
    left_out = len(outside)
    if left_out > MOST_MARKS:
        outside = outside[np.random.default_rng([seed, _MARKS]).choice(left_out, MOST_MARKS, replace=False)]
    return Regions(x, y, density, levels, outside, left_out, len(rows), bool(fewer))


def _axis(data: Estimate, k: int, held: np.ndarray, reach: np.ndarray, points: int) -> np.ndarray:
    """Return places of the grid along the axis of column ``k``: evenly about the rows, but none in wide gaps.

    ``reach`` is that of each row, or of all, in bandwidths. Where rows differ, steps grow with the distance from narrow
    kernels.
    """
    width = reach * float(data.widths[k])
    order = np.argsort(held - width)
    low, high = (held - width)[order], np.maximum.accumulate((held + width)[order])
    gaps = np.flatnonzero(low[1:] > high[:-1])
    low, high = low[np.append(0, gaps + 1)], high[np.append(gaps, -1)]
    margin = 0.1 * float((high - low - 2 * width.min()).sum())
    low[0], high[-1] = data.within(k, low[0] - margin, high[-1] + margin)
    if data.domain is not None and data.domain.periodic[k]:
        low, high = low[:1], high[-1:]
    end = np.cumsum(high - low)
    start = end - (high - low)
    pieces = np.stack([start, end], axis=1).ravel(), np.stack([low, high], axis=1).ravel()
    if len(width) == 1:
        return np.interp(np.linspace(0, end[-1], points), *pieces)
    even = np.linspace(0, end[-1], _FINER * points)
    places = np.interp(even, *pieces)
    steps = np.append(0.0, np.cumsum(1 / _least_width(places, held, _STEP * width)[1:]))
    return np.interp(np.linspace(0, steps[-1], points), steps, places)


def _least_width(at: np.ndarray, held: np.ndarray, width: np.ndarray) -> np.ndarray:
    """Return the least of the widths of all rows, each increased by a part of the distance to its row, at places."""
    order = np.argsort(held)
    x, w = held[order], width[order]
    below = np.append(np.inf, np.minimum.accumulate(w - _GROWTH * x))
    above = np.append(np.minimum.accumulate((w + _GROWTH * x)[::-1])[::-1], np.inf)
    place = np.searchsorted(x, at)
    return np.minimum(below[place] + _GROWTH * at, above[place] - _GROWTH * at)


def _cut(data: Estimate, axes: tuple[np.ndarray, np.ndarray], density: np.ndarray, level: float) -> bool:
    """Whether an edge of the grid, other than an end of the domain, cuts the region above a level."""
    for k, places in enumerate(axes):
        highest = density.max(axis=k)
        for end in (0, -1):
            low, high = data.within(k, -np.inf, np.inf)
            if highest[end] >= level and low < places[end] < high:
                return True
    return False


def _at(data: Estimate, Y: Any) -> Any:
    """Return the density at queries, to five digits."""
    options: dict[str, Any] = {"weights": data.weights, "precision": "float32"} | data.ends
    options["deterministic"] = data.repeats
    if data.method == "kde":
        options |= {"rtol": 1e-5, "local_factors": data.factors}
    if data.of.mass is not None:
        options["mass"] = data.mass
    return data.of.density(data.X, Y, data.h, **options)


def _at_rows(data: Estimate, rows: Any, points: Any, w: Any | None, f: Any | None = None) -> tuple[Any, Any]:
    """Return the density at rows without the kernels at ``points``, which are theirs, and with them, to five digits.

    A picture's levels do not ask for more digits of rows whose own kernel is nearly all.
    """
    xp, d = data.backend.xp, rows.shape[1]
    if data.method == "positive":
        both = (_at_rows(data._replace(method=method), rows, points, w) for method in ("kde", "laplace"))
        out = []
        for p, corrected in zip(*both, strict=True):
            t = xp.where(p > 0, corrected / xp.where(p > 0, p, 1.0) - 1, 0.0)
            out.append(p * (1 + t + correction.excess(t, xp)) / data.mass)
        return out[0], out[1]
    covariance = data.h if data.h.ndim == 2 else np.diag(data.widths**2)
    root = np.linalg.cholesky(covariance)
    whitening = data.backend.asarray(np.linalg.inv(root)).T
    if data.domain is not None:
        rows_here, points = (data.domain.anchored(a, xp) for a in (rows, points))
    else:
        rows_here = rows
    kernel: Any = 0.0
    for image in _images(points, data):
        z = (rows_here - image) @ whitening
        exponents = 0.5 * (z * z).sum(axis=1) / (1.0 if f is None else f * f)
        factors = 1 + 0.5 * d - exponents if data.method == "laplace" else 1.0
        kernel = kernel + xp.exp(-exponents) * factors
    kernel /= (2 * math.pi) ** (d / 2) * np.diag(root).prod() * (1.0 if f is None else f**d)
    share = 1 / len(data.X) if data.weights is None else w / data.weights.sum()
    at_rows = _at(data, rows)
    rest = 1 - share
    if w is not None:  # whose largest may have no other beside it, but for rounding
        rest = xp.maximum(rest, np.finfo(np.float64).eps)
    of_others = (at_rows - share * kernel) / rest
    return (of_others if data.method == "laplace" else xp.maximum(of_others, 0)), at_rows


def _images(points: Any, data: Estimate) -> Iterator[Any]:
    """Yield points from the origin of their domain, mirrored at its ends and moved by periods, as far as it matters.

    Where bandwidths are so wide that it does not end there, an own kernel is next to nothing beside the density.
    """
    domain, xp = data.domain, data.backend.xp
    if domain is None:
        yield points
        return
    columns = []
    for k, width in enumerate(data.widths):
        mirrored, cell = bool(domain.bounded[k]), float(domain.cell[k])
        around = 2 * cell if mirrored else cell
        most = min(math.ceil(_REACH_OF_IMAGES * float(width) / around), _MOST_TURNS) if math.isfinite(around) else 0
        turns = [turn * around for turn in range(-most, most + 1)] if most else [0.0]
        columns.append([sign * points[:, k] + turn for sign in ((1, -1) if mirrored else (1,)) for turn in turns])
    for image in itertools.product(*columns):
        yield xp.stack(image, axis=1)


def _on_grid(data: Estimate, x: np.ndarray, y: np.ndarray) -> Any:
    """Return the density on a grid, with a row for each of ``y``."""
    if data.method != "kde" or data.factors is not None:
        grid = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)
        return _at(data, data.backend.asarray(grid)).reshape(len(y), len(x))
    return evaluate_grid(data.X, (x, y), data.h, weights=data.weights, precision="float32", **data.ends).T


def regions_in_units(of: Regions, log: tuple[bool, ...]) -> Regions:
    """Return regions with places in units of the data, of log10 data where ``log`` says so."""
    x, y = (10.0**axis if scaled else axis for axis, scaled in zip((of.x, of.y), log, strict=True))
    outside = np.where(log, 10.0 ** np.where(log, of.outside, 0.0), of.outside)
    return of._replace(x=x, y=y, outside=outside)


def view(columns: list[Estimate], regions: list[tuple[float, float]]) -> tuple[float, float]:
    """Return the ends of an axis of a pair plot, which holds its regions and the middle 99% of the rows of groups."""
    ends = list(regions)
    for data in columns:
        low, high = data.backend.xp.percentile(data.X[:, 0], data.backend.asarray(np.array([0.5, 99.5])))
        ends.append((float(low), float(high)))
    return min(end[0] for end in ends), max(end[1] for end in ends)


# --- log densities ------------------------------------------------------------------------------------------


def rows_of(n: int) -> str:
    """Return the words for so many rows."""
    return f"{n:,} row{'s' * (n != 1)}"


class Histogram(NamedTuple):
    """Counts of rows of one kind, on the host, and what is said of those beyond the edges."""

    counts: np.ndarray
    edges: np.ndarray
    below: str | None
    above: str | None


def histograms(kinds: list[Any], ends: tuple[float, float], count: int | None, backend: ModuleType) -> list[Histogram]:
    """Return the histogram of each kind, of ``count`` bins or as many as Freedman and Diaconis' rule has, 10 to 200."""
    xp = backend.xp
    inside = xp.concatenate([v[(v >= ends[0]) & (v <= ends[1])] for v in kinds])
    if count is None:
        first, third = (float(q) for q in xp.percentile(inside, backend.asarray(np.array([25.0, 75.0]))))
        width = 2 * (third - first) / len(inside) ** (1 / 3)
        count = 10 if not width > 0 else math.ceil(min(200.0, max(10.0, (ends[1] - ends[0]) / width)))
    low, high = ends
    if high - low < 1e-9 * max(abs(low), abs(high), 1e-9):  # a single value is in the middle of the bins
        room = 0.5 * max(1.0, 1e-6 * abs(low))
        low, high = low - room, high + room
    edges = np.linspace(low, high, count + 1)
    out = []
    for v in kinds:
        lower, upper = v[v < low], v[v > high]
        below = f"{rows_of(len(lower))} below {low:.4g}, down to {float(lower.min()):.4g}" if len(lower) else None
        above = f"{rows_of(len(upper))} above {high:.4g}, up to {float(upper.max()):.4g}" if len(upper) else None
        out.append(Histogram(backend.asnumpy(xp.histogram(v, backend.asarray(edges))[0]), edges, below, above))
    return out


def axis_of_most(finite: Any, threshold: float, chosen: bool, backend: ModuleType) -> tuple[float, float]:
    """Return the ends of an axis on which most log densities are visible, and a threshold that was ``chosen``.

    Below a threshold, or the third quartile if this is lower, the axis is three times as long as above it. It ends at
    most 15 interquartile ranges beyond the quartiles. A whole axis of at most 2.5 times that length is not cut.
    """
    whole = float(finite.min()), float(finite.max())
    first, third = (float(q) for q in backend.xp.percentile(finite, backend.asarray(np.array([25.0, 75.0]))))
    far = _FAR * (third - first) if third > first else np.inf
    low, high = max(whole[0], first - far), min(whole[1], third + far)
    low = max(low, 4 * min(threshold, third) - 3 * high)
    if chosen:
        room = 0.05 * (high - low)
        low, high = max(whole[0], min(low, threshold - room)), min(whole[1], max(high, threshold + room))
    return (low, high) if low < high and whole[1] - whole[0] > 2.5 * (high - low) else whole
