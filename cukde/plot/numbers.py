"""The numbers of pictures: curves, bands, grids and levels, computed where the data are; what comes back is small."""

from __future__ import annotations

import math
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from cukde.bandwidth import data, rules
from cukde.core import check as core_check, dispatch
from cukde.core.over_dask import is_dask
from cukde.density import check as density_check
from cukde.density.api import debias, kde, kernel_sum, laplace_kde, sd_kde
from cukde.density.compositions import columns as compositions_columns, regions as compositions_regions
from cukde.density.grids.api import evaluate_grid
from cukde.plot import check

RULES = {"kde": rules.silverman, "sd": rules.sd, "laplace": rules.laplace}
"""Reference rule of each method."""

_FUNCTIONS: dict[str, Any] = {"kde": kde, "sd": sd_kde, "laplace": laplace_kde}

MOST_MARKS = 1_000
"""Rows that are marked one by one; of more, so many are drawn at random."""

_REACH = 3  # bandwidths that a curve goes beyond the data
_CELLS = 16  # a bandwidth, of the resampled data
_ENTRIES = 2**23  # numbers of a block of resamples: 64 MiB

# What is drawn at random has a stream of its own, so that leaving one out changes none of the others.
_RESAMPLES, _MARKS, _LEVELS = range(3)


class Sample(NamedTuple):
    """Checked data, their estimate, and on which backend they are; rows of no weight are left out."""

    backend: ModuleType
    X: Any  # (n, d) float64
    weights: Any | None  # (n,) float64, all positive
    h: np.ndarray  # (), (d,) or (d, d)
    method: str
    low: np.ndarray  # (d,) the smallest of each column
    high: np.ndarray

    @property
    def widths(self) -> np.ndarray:
        """Deviations of the kernel, (d,)."""
        if self.h.ndim == 2:
            out: np.ndarray = np.sqrt(np.diag(self.h))
            return out
        return np.broadcast_to(self.h, self.low.shape)

    @property
    def effective(self) -> float:
        """Number of rows, or of those that weights leave."""
        if self.weights is None:
            return float(len(self.X))
        w = self.weights / self.weights.max()
        return float(w.sum()) ** 2 / float((w * w).sum())


def checked(X: Any, weights: Any, method: Any) -> tuple[ModuleType, Any, Any]:
    """Return the backend, data (n, d) float64 and weights, after a look at all of them."""
    core_check.option("method", method, check.METHODS)
    for name, a in (("X", X), ("weights", weights)):
        check.in_memory(name, is_dask(a))
    backend = dispatch.backend(X, weights=weights)
    with backend.device_of(X):
        xp = backend.xp
        x = xp.ascontiguousarray(density_check.data(X, backend)[0], dtype=xp.float64)
        w = None if weights is None else density_check.weights(weights, len(x), backend).astype(xp.float64)
        _, finite = backend.look(x, None, None, [] if w is None else [w])
        core_check.finite(dict(zip(("X", "weights"), finite, strict=False)))
        if w is not None:
            density_check.weight_range(float(w.min()), float(w.max()))
            x, w = x[w > 0], w[w > 0]
        check.rows(len(x), w is not None)
        return backend, x, w


def sample(backend: ModuleType, x: Any, w: Any, h: Any, method: str) -> Sample:
    """Pose an estimate of checked data; ``h`` None is the method's rule."""
    if h is None:
        h = RULES[method](x, weights=w)
    given = density_check.bandwidth(dispatch.to_host(h), x.shape[1])
    if given.ndim == 2:
        density_check.cholesky(given)
    low, high = -data.largest(-x, backend.xp), data.largest(x, backend.xp)
    out = Sample(backend, x, w, given, method, backend.asnumpy(low), backend.asnumpy(high))
    check.extent(out.low, out.high, out.widths)
    return out


def marginal(of: Sample, columns: list[int], own_rule: bool) -> Sample:
    """Return the same of some columns, which ``own_rule`` gives a bandwidth of their own."""
    x = of.backend.xp.ascontiguousarray(of.X[:, columns])
    if own_rule:
        return sample(of.backend, x, of.weights, None, of.method)
    h = compositions_columns.marginal_bandwidth(of.h, columns)
    return of._replace(X=x, h=h, low=of.low[columns], high=of.high[columns])


def some(of: Sample, most: int, seed: int, stream: int = _MARKS) -> tuple[Any, Any | None]:
    """Return rows and their weights, at most so many: of more they are drawn at random, each as likely."""
    n = len(of.X)
    if n <= most:
        return of.X, of.weights
    taken = np.random.default_rng([seed, stream]).choice(n, most, replace=False, shuffle=False)
    at = of.backend.asarray(np.sort(taken))
    return of.X[at], None if of.weights is None else of.weights[at]


# --- one dimension ------------------------------------------------------------------------------------------


class Curve(NamedTuple):
    """A density along one axis, on the host."""

    x: np.ndarray
    density: np.ndarray
    band: tuple[np.ndarray, np.ndarray] | None  # lower and upper end


def curve(
    of: Sample,
    points: int,
    limits: tuple[float, float] | None = None,
    level: float | None = None,
    resamples: int = 0,
    seed: int = 0,
) -> Curve:
    """Return the density of one column, and with ``level`` a pointwise bootstrap band."""
    h = float(of.widths[0])
    low, high = limits or (float(of.low[0]) - _REACH * h, float(of.high[0]) + _REACH * h)
    x = np.linspace(low, high, points)
    function = _FUNCTIONS[of.method]
    with of.backend.device_of(of.X):
        at = of.backend.asarray(x)
        density = of.backend.asnumpy(function(of.X[:, 0], at, h, weights=of.weights, deterministic=True))
        ends = None if level is None else _band(of, at, h, level, resamples, seed)
    return Curve(x, density, ends)


def _band(of: Sample, at: Any, h: float, level: float, resamples: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Percentiles of densities whose rows are drawn anew, at each point of the axis.

    Instead of rows their weights are drawn: how often a cell's rows are taken is multinomial, and data in cells of a
    sixteenth of a bandwidth, each at the mean of its rows, have the density of the rows to 5e-4 of its largest value.
    """
    centres, shares = cells(of, h / _CELLS)
    rows = max(1, round(of.effective))
    rng = np.random.default_rng([seed, _RESAMPLES])
    step = max(1, _ENTRIES // len(shares))
    curves = []
    for start in range(0, resamples, step):
        counts = rng.multinomial(rows, shares, size=min(step, resamples - start))
        curves.append(of.backend.asnumpy(_densities(of, centres, counts / rows, at, h)))
    ends = np.percentile(np.concatenate(curves, axis=1), [50 * (1 - level), 50 * (1 + level)], axis=1)
    return ends[0], ends[1]


def _densities(of: Sample, centres: Any, weights: np.ndarray, at: Any, h: float) -> Any:
    """Densities of the same points by several sets of weights, a column each."""
    if of.method == "kde":
        return kernel_sum(centres, weights.T, at, h, deterministic=True) / (h * math.sqrt(2 * math.pi))
    each = [_FUNCTIONS[of.method](centres, at, h, weights=w, deterministic=True) for w in weights]
    return of.backend.xp.stack(each, axis=1)


def cells(of: Sample, width: float) -> tuple[Any, np.ndarray]:
    """Return the mean of the rows of each cell that has any, where the data are, and its share of them, on the host."""
    xp = of.backend.xp
    low = float(of.low[0])
    distance = of.X[:, 0] - low
    _, cell = xp.unique(xp.floor(distance / width), return_inverse=True)
    total = xp.bincount(cell, weights=of.weights).astype(xp.float64)
    moved = distance if of.weights is None else distance * of.weights
    centres = xp.bincount(cell, weights=moved) / total + low
    shares = of.backend.asnumpy(total)
    return centres, shares / shares.sum()


# --- two dimensions -----------------------------------------------------------------------------------------


class Regions(NamedTuple):
    """A density on a grid, and the regions of highest density that hold given shares of the rows; on the host."""

    x: np.ndarray
    y: np.ndarray
    density: np.ndarray  # (len(y), len(x))
    levels: np.ndarray  # a density each, of the largest share first: ascending
    outside: np.ndarray  # rows that no region holds, of those looked at; of many, some at random
    left_out: int  # that many there are
    rows: int  # that many were looked at


def regions(of: Sample, masses: list[float], points: int, most: int, seed: int) -> Regions:
    """Return the density of two columns on a grid about the largest region, and the levels of all."""
    with of.backend.device_of(of.X):
        rows, w = some(of, most, seed, _LEVELS)
        if of.method == "sd":  # moved once for both passes
            moved = debias(of.X, of.h, weights=of.weights, precision="float32", deterministic=True)
            of = of._replace(X=moved, method="kde")
        at_rows = _at(of, rows)
        levels = of.backend.asnumpy(compositions_regions.levels(at_rows, np.asarray(masses), w, of.backend))
        at_rows, rows = of.backend.asnumpy(at_rows), of.backend.asnumpy(rows)
        inside = at_rows >= levels[0]
        low, high = rows[inside].min(axis=0), rows[inside].max(axis=0)
        margin = 4 * of.widths + 0.1 * (high - low)
        x, y = (np.linspace(low[k] - margin[k], high[k] + margin[k], points) for k in range(2))
        density = of.backend.asnumpy(_on_grid(of, x, y))
    outside = rows[~inside]
    if len(outside) > MOST_MARKS:
        outside = outside[np.random.default_rng([seed, _MARKS]).choice(len(outside), MOST_MARKS, replace=False)]
    return Regions(x, y, density, levels, outside, int((~inside).sum()), len(rows))


def _at(of: Sample, Y: Any) -> Any:
    """Density at queries, to five digits."""
    options: dict[str, Any] = {"weights": of.weights, "precision": "float32", "deterministic": True}
    if of.method == "laplace":
        return laplace_kde(of.X, Y, of.h, **options)
    return kde(of.X, Y, of.h, rtol=1e-5, **options)


def _on_grid(of: Sample, x: np.ndarray, y: np.ndarray) -> Any:
    """Density, a row for each of ``y``."""
    if of.method == "laplace":
        grid = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)
        return _at(of, of.backend.asarray(grid)).reshape(len(y), len(x))
    return evaluate_grid(of.X, (x, y), of.h, weights=of.weights, precision="float32").T


def view(of: Sample, found: list[tuple[float, float]]) -> tuple[float, float]:
    """Ends of an axis of a pair plot: of the regions on it, and of the middle 99% of the rows."""
    low, high = of.backend.xp.percentile(of.X[:, 0], of.backend.asarray(np.array([0.5, 99.5])))
    ends = [(float(low), float(high)), *found]
    return min(end[0] for end in ends), max(end[1] for end in ends)


# --- log densities ------------------------------------------------------------------------------------------


def bin_edges(finite: Any, backend: ModuleType, low: float, high: float) -> np.ndarray:
    """Bins by Freedman and Diaconis, from 10 to 200."""
    first, third = (float(q) for q in backend.xp.percentile(finite, backend.asarray(np.array([25.0, 75.0]))))
    width = 2 * (third - first) / len(finite) ** (1 / 3)
    count = 10 if not width > 0 else math.ceil(min(200.0, max(10.0, (high - low) / width)))
    return edges(low, high, count)


def edges(low: float, high: float, count: int) -> np.ndarray:
    """Ends of bins; a single value stands in the middle of them."""
    if high - low < 1e-9 * max(abs(low), abs(high), 1e-9):
        room = 0.5 * max(1.0, 1e-6 * abs(low))
        low, high = low - room, high + room
    return np.linspace(low, high, count + 1)
