"""Regions of highest density of two columns, as polygons."""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Callable
from typing import Any, NamedTuple, Unpack

import numpy as np

from cukde.core import check as core_check, dispatch, extras
from cukde.core.cost.registry import declare
from cukde.core.entry.public_call import public_call
from cukde.core.types import ArrayLike, Bandwidth
from cukde.core.warnings import ConvergenceWarning, of_user
from cukde.density import check as density_check, rules_by_name
from cukde.density.compositions import check, cost, polygons
from cukde.density.compositions.columns import Widths
from cukde.density.compositions.conditional import marginal
from cukde.density.compositions.conditional_distribution import conditional_cdf
from cukde.density.compositions.polygons import Polygon, Region, Regions
from cukde.density.compositions.regions import hdr_threshold
from cukde.density.cost import calls as cost_calls
from cukde.density.domains.domain import Domain
from cukde.density.grids.api import evaluate_grid
from cukde.density.keywords import InDomain, takes

_COARSE = 4  # steps of a first grid in a bandwidth
_LEAST = 16  # steps along an axis, a multiple of 4, so that every second and every fourth node is a grid, too
_MOST = 2**24  # nodes of a grid


@declare(cost.regions, cost_calls.of_regions)
@public_call()
@takes(InDomain)
def regions(
    X: ArrayLike,
    h: Bandwidth,
    mass: ArrayLike = 0.95,
    *,
    accuracy: float = 1e-3,
    degrees: bool = False,
    **options: Unpack[InDomain],
) -> Region | Regions:
    r"""Regions of highest density of two columns, as polygons with holes, with their areas and masses.

    .. math:: \{y : \hat p(y) \ge t\}, \qquad t = \mathrm{hdr\_threshold}(X, h, \mathrm{mass})

    A region is the smallest that holds a new point with probability ``mass``: a home range, a posterior contour.

    Parameters
    ----------
    X : array_like, shape (n, 2)
        Data, as for :func:`kde`, in memory.
    h : float, array_like or str
        Bandwidth, in the forms of :func:`kde`.
    mass : float or array_like, shape (k,)
        Probabilities between 0 and 1.
    accuracy : float
        Largest error of an area, relative to it: the grid is refined until its estimate is below; at least 1e-6.
    degrees : bool
        Columns are longitudes and latitudes in degrees: areas are those on the sphere, in km^2. The density, its level
        and ``h`` stay in degrees; far from the equator project the data first, or the region is not the smallest. It
        ends at the poles.

    Returns
    -------
    Region, or Regions for an array of masses
        A named tuple of ``mass``; ``level``, the density at the edge; ``polygons``, each a list of rings of shape
        (k, 2), float64 on the host, whose last point is the first: the outer one counter-clockwise, then holes
        clockwise; ``areas`` and ``masses`` of the polygons, without their holes, the latter under the estimate; and
        ``area_error``. ``area`` is the sum of the areas. ``__geo_interface__`` is a GeoJSON feature, and
        ``to_geojson()`` its text. ``Regions`` is a tuple, and a collection of features.

    Raises
    ------
    TypeError, ValueError
        As :func:`hdr_threshold`; for data of other than two columns, latitudes beyond 90, and a grid that would be too
        large, since the data reach over too many bandwidths; and for areas beyond the range of float64.
    ImportError
        Without contourpy, which Matplotlib brings.

    Warns
    -----
    ConvergenceWarning
        If a grid of 2^24 nodes does not reach the ``accuracy``.

    Examples
    --------
    >>> import numpy as np, cukde
    >>> X = np.random.default_rng(0).normal(size=(2000, 2))
    >>> found = cukde.regions(X, cukde.bandwidth.silverman(X), 0.5)
    >>> len(found.polygons), round(found.area, 1)  # of the normal distribution 2 pi log 2 = 4.4
    (1, 4.5)
    >>> found.__geo_interface__["geometry"]["type"]
    'MultiPolygon'

    Notes
    -----
    The level is that of the density without each row's own kernel, so ``masses`` under the estimate itself add up to
    less, see :func:`hdr_threshold`. They are line integrals of :func:`conditional_cdf` times :func:`marginal` along the
    rings, to about ``accuracy``.

    Vertices are interpolated linearly on a grid of :func:`evaluate_grid` that holds the whole region, at first with
    four steps a bandwidth. ``area_error`` is the difference to the area by every second node, or a quarter of the one
    before if that is larger: about three times the error (``tests/density/test_outlines.py``). Cost:
    :func:`hdr_threshold`, the grids, and contourpy on the host.

    With bounds rings close along them. In a periodic column they run from 0 to the period: a region across its end has
    a polygon on each side, closed along the end.

    References
    ----------
    - Hyndman (1996), as in :func:`hdr_threshold`. Worton, B. J. (1989). Kernel methods for estimating the utilization
      distribution in home-range studies. *Ecology* 70, 164-168.
    """
    if importlib.util.find_spec("contourpy") is None:
        raise ImportError(f"cukde.regions needs contourpy, which Matplotlib brings: {extras.install('plot')}")
    degrees = core_check.flag("degrees", degrees)
    accuracy = core_check.number("accuracy", accuracy, 1e-6)
    shares = check.masses(dispatch.to_host(mass))
    weights = options.get("weights")
    ends: dict[str, Any] = {"bounds": options.get("bounds"), "periods": options.get("periods")}
    backend = dispatch.backend(X, weights=weights)
    with backend.device_of(X):
        x, _ = density_check.data(X, backend)
        check.two_columns(x.shape[1])
        width = rules_by_name.bandwidth(h, x, weights, **ends)
        widths = Widths.of(width, **ends, d=2)
        check.unlinked(widths.h, widths.domain)
        log_levels = dispatch.to_host(hdr_threshold(x, widths.h, shares, log=True, **options)).astype(np.float64)
        with np.errstate(over="ignore", under="ignore"):
            levels = np.exp(log_levels)
        check.level_of_region(float(levels.min()))
        x = x.astype(np.float64)
        low, high = (backend.asnumpy(f(axis=0)) for f in (x.min, x.max))
        if degrees:
            check.latitudes(float(low[1]), float(high[1]))
        window = _Window.of(low, high, widths, float(levels.min()), degrees=degrees)
        area = polygons.spherical_area if degrees else polygons.signed_area

        def density(axes: list[np.ndarray]) -> np.ndarray:
            return backend.asnumpy(evaluate_grid(x, axes, widths.h, **options))

        found = _found(window, levels.reshape(-1), density, area, accuracy)
        rings = [ring for outlines, _, _ in found for polygon in outlines for ring in polygon]
        masses = iter(_masses(x, rings, widths.h, options))
    out = []
    for share, level, (outlines, areas, error) in zip(shares.flat, levels.flat, found, strict=True):
        each = np.array([sum(next(masses) for _ in polygon) for polygon in outlines])
        out.append(Region(float(share), float(level), outlines, areas, each, error))
    return Regions(out) if shares.ndim else out[0]


class _Window(NamedTuple):
    """A rectangle that holds a region, and the steps of a first grid along its sides."""

    low: np.ndarray
    high: np.ndarray
    steps: np.ndarray

    @classmethod
    def of(cls, low: np.ndarray, high: np.ndarray, widths: Widths, level: float, *, degrees: bool) -> _Window:
        """Around the data as far as a kernel with all of the mass reaches the level."""
        h = widths.h
        deviations = np.sqrt(np.diag(h)) if h.ndim == 2 else np.broadcast_to(h, (2,)).astype(np.float64)
        log_det = np.linalg.slogdet(h)[1] if h.ndim == 2 else 2 * np.log(deviations).sum()
        log_peak = -math.log(2 * math.pi) - 0.5 * log_det + math.log(4)  # at bounds there are up to four kernels
        reach = math.sqrt(max(2 * (log_peak - math.log(level)), 1.0))
        low, high = low - reach * deviations, high + reach * deviations
        if widths.domain is not None:
            low, high = _within(widths.domain, low, high)
        if degrees:  # it ends at the poles
            low[1], high[1] = max(low[1], -90.0), min(high[1], 90.0)
        steps = np.maximum(_LEAST, 4 * np.ceil((high - low) * (_COARSE / 4) / deviations))
        check.grid(steps, _MOST)
        return cls(low, high, steps.astype(np.int64))

    def axes(self, finer: int) -> list[np.ndarray]:
        """Coordinates of the nodes of a grid that is finer by a factor."""
        return [np.linspace(low, high, n * finer + 1) for low, high, n in zip(*self, strict=True)]


def _within(domain: Domain, low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The part of a rectangle that lies in a domain; of periodic columns the whole period."""
    low, high = np.maximum(low, domain.low), np.minimum(high, domain.high)
    return np.where(domain.periodic, 0.0, low), np.where(domain.periodic, domain.period, high)


def _found(
    window: _Window,
    levels: np.ndarray,
    density: Callable[[list[np.ndarray]], np.ndarray],
    area: Callable[[np.ndarray], float],
    accuracy: float,
) -> list[tuple[list[Polygon], np.ndarray, float]]:
    """Polygons of each level, their areas, and the error of the sum, by grids that become finer."""

    def areas(outlines: list[Polygon]) -> np.ndarray:
        out = np.array([sum(map(area, polygon)) for polygon in outlines])
        check.areas(float(out.sum()))
        return out

    finer = 1
    while True:
        axes = window.axes(finer)
        p = density(axes).astype(np.float64)
        found, worst = [], 0.0
        for level in levels:
            outlines = polygons.outlined(axes, p, level)
            of_each = areas(outlines)
            second, fourth = (
                areas(polygons.outlined([g[::k] for g in axes], p[::k, ::k], level)).sum() for k in (2, 4)
            )
            error = float(max(abs(of_each.sum() - second), abs(second - fourth) / 4))  # either may be small by chance
            worst = max(worst, error / of_each.sum() if len(of_each) else math.inf)
            found.append((outlines, of_each, error))
        if worst <= accuracy:
            return found
        if 4 * p.size > _MOST:
            of_user(f"areas are accurate to {worst:.1g} of them only, on a grid of {p.size} nodes", ConvergenceWarning)
            return found
        finer *= 2


def _masses(x: Any, rings: list[np.ndarray], h: np.ndarray, options: InDomain) -> list[float]:
    """Mass of the estimate within each ring, negative of those that turn clockwise.

    By Green's theorem it is the integral along the ring of the mass to the left on each height.
    """
    if not rings:
        return []
    backend = dispatch.backend(x)
    points = backend.asarray(np.concatenate(rings))
    left = conditional_cdf(x, {1: points[:, 1]}, points[:, 0], h, **options)
    height = marginal(x, [1], points[:, 1], h, **options)
    heights = backend.asnumpy(left * height)
    out, start = [], 0
    for ring in rings:
        of_ring = heights[start : start + len(ring)]
        out.append(float((0.5 * (of_ring[1:] + of_ring[:-1]) * np.diff(ring[:, 1])).sum()))
        start += len(ring)
    return out
