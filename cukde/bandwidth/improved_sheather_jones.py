r"""The improved Sheather-Jones rule: the bandwidth that is a fixed point of its own plug-in estimate.

Let f_t be the density estimate of variance t = h^2, f_t^(s) its derivative, N the effective number of rows, and

    F_s(t) = ||f_t^(s)||^2 = 1/(2 pi) int w^(2s) |phi(w)|^2 exp(-w^2 t) dw,    phi(w) = sum_j w_j exp(i w x_j).

Botev, Grotowski and Kroese estimate the variance that is best for F_s from F_(s+1), itself at its best variance:

    t_s = [ (1 + 2^-(s + 1/2)) / 3 * 2 (2s - 1)!! / (sqrt(2 pi) N F_(s+1)(t_(s+1))) ]^(2 / (2s + 3)),    s = 6, ..., 2,

and the bandwidth from F_2: t = [2 sqrt(pi) N F_2(t_2)]^(-2/5). With t_7 = t that is an equation t = g(t). F_s falls
with t, so g rises: from below a root, t -> g(t) climbs to it and cannot pass it.

F_s is summed in frequencies, where all terms are positive. In distances, by a fast Gauss transform say, it is an
alternating sum with Hermite polynomials up to the 14th, each t has to pass over the data again, and rounding is
multiplied by the cancellation. Here phi is had once: data are binned linearly, transformed, and freed of what binning
does to a wave on average, sinc^2(w step / 2), which leaves at ``FINEST`` steps a bandwidth less than 1e-5 of it.

The line becomes a circle; its images count for nothing where ``REACH`` bandwidths of padding part them. No bandwidth
changes where a gap in the data longer than that is made shorter, down to it: so a range of any number of bandwidths,
with far outliers or clusters, has a grid of moderate size.

The search begins with a coarse grid and goes to finer ones until there is a root that the grid resolves. Near 0, where
every value is apart from every other, g(t)/t = 3.5 (N sum W^2)^-1.38 with W the weight of a value, ties together: below
1 where data are discrete. So what is sought is the least t at which g(t) - t falls through 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from cukde.bandwidth.data import Rows
from cukde.density.domains.domain import Domain

HIGHEST = 7
"""The derivative that g begins with, that of the authors' program."""

LEAST_ROWS = 2.5
"""Of fewer rows g(t) may be above t for all t: for the widest, where all rows are one value, g(t)/t = 3.5 N^-1.38."""

FINEST = 16
"""Steps of the grid that a bandwidth has at least."""

REACH = 15.0
"""Bandwidths beyond which a pair adds nothing: at REACH / sqrt(2) He_14(u) exp(-u^2/2) is 1e-15 of its value at 0."""

_CELLS = 2**17  # of the first grid, which is 1 + REACH times as long as the data
_MOST_CELLS = 2**24
_ZOOM = 4  # a grid's step over the next one's
_GAP = 4096  # steps that longer gaps in the data are closed to, and that pad a finer grid
_CELLS_OF_ROW = 0.25  # up to so many, gaps are left as they are: data need not be sorted
_BLOCK = 2**20  # rows that are binned at a time, which bounds memory
_DECAYED = 120.0  # exponent w^2 t at which w^14 exp(-w^2 t) is 1e-40 of its peak
_STEP = 0.01  # relative step of t within which a root is bracketed
_CLIMB = 0.5  # the same while g(t) < t
_ROOT = 1e-12  # relative width of what the root is known to lie in


class Spectrum:
    """Functionals F_s of data on a circle, and the estimates that follow from them."""

    def __init__(self, squares: np.ndarray, powers: np.ndarray, rows: float) -> None:
        """Take squared frequencies w^2 in ascending order, what each adds to F_0(0), and N."""
        self._squares, self._rows = squares, rows
        self._terms = {0: powers}  # by derivative
        for s in range(HIGHEST):
            self._terms[s + 1] = self._terms[s] * squares

    def functional(self, s: int, t: float) -> float:
        """Return the squared norm of derivative ``s`` of the estimate of variance ``t``."""
        held = int(np.searchsorted(self._squares, _DECAYED / t))
        return float(np.dot(self._terms[s][:held], np.exp(self._squares[:held] * -t)))

    def stages(self, t: float) -> list[float]:
        """Return t, t_6, ..., t_2 and g(t); infinite from where a functional vanishes."""
        variances = [t]
        for s in range(HIGHEST - 1, 0, -1):
            norm = self.functional(s + 1, variances[-1]) if variances[-1] < math.inf else 0.0
            variances.append(_best_variance(s, self._rows * norm) if norm > 0 else math.inf)
        return variances

    def excess(self, t: float) -> float:
        """Return log(g(t) / t)."""
        return math.log(self.stages(t)[-1] / t)


def _spectrum(mass: np.ndarray, rows: float) -> Spectrum:
    """Transform the weights in the cells of a grid whose step is the unit."""
    waves = 2 * np.pi / len(mass) * np.arange(1, len(mass) // 2 + 1)
    waves = waves[: np.searchsorted(waves, math.sqrt(_DECAYED) / FINEST)]  # all that the least variance leaves
    phi = np.fft.rfft(mass)[1 : len(waves) + 1] / np.sinc(waves / (2 * np.pi)) ** 2
    return Spectrum(waves**2, 2 / len(mass) * (phi.real**2 + phi.imag**2), rows)


def _best_variance(s: int, norm: float) -> float:
    """Return t_s of N F_(s+1), or g of N F_2 where ``s`` is 1."""
    if s == 1:
        return float((2 * math.sqrt(math.pi) * norm) ** -0.4)
    odd = math.prod(range(1, 2 * s, 2))
    return float(((1 + 2 ** -(s + 0.5)) / 3 * 2 * odd / (math.sqrt(2 * math.pi) * norm)) ** (2 / (2 * s + 3)))


def solve(z: Any, w: Any, rows: float, xp: ModuleType, asnumpy: Callable[[Any], np.ndarray]) -> float | None:
    """Return the bandwidth of points of the line, or None where they have none.

    ``z`` are the points, (n,) float64, of size 1 and not all alike; ``w`` weights that sum to 1, or None; ``rows`` is
    the effective number of rows; ``xp`` is the module of the arrays, and ``asnumpy`` copies one to the host.
    """
    line = _Line(z, w, xp)
    reach = REACH * line.span
    step = (line.span + reach) / _CELLS
    most = line.span / step  # steps of the widest bandwidth that is sought
    while True:
        closed = line.span / step > max(_CELLS, _CELLS_OF_ROW * len(z))
        points, weights, length = line.with_gaps_closed(reach) if closed else (line.z, line.w, line.span)
        cells = 2 ** math.ceil(math.log2((length + reach) / step * (1 - 1e-9)))
        if cells > _MOST_CELLS or (closed and reach < line.least_gap):  # by itself, no value says more on finer grids
            return None
        spectrum = _spectrum(asnumpy(_binned(points, weights, step, cells, xp)), rows)
        t = _root(spectrum.excess, FINEST**2, most**2)  # in squared steps
        needed = 0.0 if t is None else REACH * math.sqrt(max(spectrum.stages(t))) * step
        if t is not None and needed <= reach:
            return math.sqrt(t) * step
        if t is not None:  # an estimate is wider than what parts the images
            reach = 1.01 * needed
        else:
            most = 1.05 * _ZOOM * FINEST  # wider ones were sought
            step /= _ZOOM
            reach = _GAP * step


class LineInDomain(NamedTuple):
    """Data of one column with bounds or a period, as points on the line or around a circle."""

    z: Any  # (n,) float64, of size 1
    w: Any  # weights that sum to 1, or None
    rows: float  # their effective number
    unit: float  # of size 1, in the user's units
    around: float  # length of the circle, in units; infinite for the line
    mirrored: int  # points of a row

    @classmethod
    def of(cls, data_rows: Rows, domain: Domain, w: Any, xp: ModuleType) -> LineInDomain:
        """Mirror the data at a wall: the density is then twice that of the mirrored data, of twice as many rows.

        The norm over the domain is half of that of twice the density, squared 2, so that N F_s stays what it is.
        Between two walls the images repeat after twice their distance, and lie around a circle.
        """
        v = domain.anchored(data_rows.points, xp)[:, 0]
        if w is not None:
            v, w = v[w > 0], w[w > 0]
        period, cell, mirrored = float(domain.period[0]), float(domain.cell[0]), 1
        around = period
        if domain.bounded[0]:
            v = xp.concatenate([v, -v])
            w = None if w is None else 0.5 * xp.concatenate([w, w])
            mirrored, around = 2, 2 * cell
        unit = around if math.isfinite(around) else float(abs(v).max()) or 1.0
        z = v / unit
        z = xp.mod(z, 1.0) if math.isfinite(around) else z
        return cls(z, w, mirrored * data_rows.effective, unit, around / unit, mirrored)

    def of_rows(self, n: float) -> LineInDomain:
        """Return the same for another number of rows, before any is mirrored."""
        return self._replace(rows=n * self.mirrored)

    def solve(self, xp: ModuleType, asnumpy: Callable[[Any], np.ndarray]) -> float | None:
        """Return the bandwidth in the user's units, or None where there is none."""
        if not float(self.z.max()) > float(self.z.min()):
            return None
        if math.isinf(self.around):
            h = solve(self.z, self.w, self.rows, xp, asnumpy)
        else:
            h = _solve_around(self.z, self.w, self.rows, xp, asnumpy)
        return None if h is None else h * self.unit


def _solve_around(z: Any, w: Any, rows: float, xp: ModuleType, asnumpy: Callable[[Any], np.ndarray]) -> float | None:
    """Return the bandwidth of points around a circle of length 1, from 0 to 1: all waves that there are are its own."""
    cells = _CELLS
    most = cells / 2  # steps of the widest bandwidth that is sought: so wide a kernel is even
    while cells <= _MOST_CELLS:
        spectrum = _spectrum(asnumpy(_binned(z, w, 1 / cells, cells, xp, around=True)), rows)
        t = _root(spectrum.excess, FINEST**2, most**2)
        if t is not None:
            return math.sqrt(t) / cells
        most = 1.05 * _ZOOM * FINEST  # wider ones were sought
        cells *= _ZOOM
    return None


class _Line:
    """Points of the line from 0 on; sorted once, and only if gaps are to be closed."""

    def __init__(self, z: Any, w: Any, xp: ModuleType) -> None:
        self.z, self.w, self._xp = z - z.min(), w, xp
        self.span = float(self.z.max())
        self.least_gap = 0.0  # between points that differ; known once gaps have been closed
        self._gaps: Any = None

    def with_gaps_closed(self, most: float) -> tuple[Any, Any, float]:
        """Return points, their weights and where they end, after gaps longer than ``most`` are that long."""
        xp = self._xp
        if self._gaps is None:
            order = xp.argsort(self.z)
            self._gaps = xp.diff(self.z[order])
            self.least_gap = float(xp.where(self._gaps > 0, self._gaps, math.inf).min())
            self.w = None if self.w is None else self.w[order]
        points = xp.zeros(len(self.z))
        points[1:] = xp.cumsum(xp.minimum(self._gaps, most))
        return points, self.w, float(points[-1])


def _binned(z: Any, w: Any, step: float, cells: int, xp: ModuleType, *, around: bool = False) -> Any:
    """Weight in each cell of a grid from 0 on; a point's is shared by its two neighbours, by its distance to them.

    ``around`` a circle the last cell and the first one are neighbours.
    """
    kept, shared = xp.zeros(cells), xp.zeros(cells)
    for start in range(0, len(z), _BLOCK):
        places = z[start : start + _BLOCK] / step
        left = places.astype(np.int64)
        if around:  # rounding may have taken a point to the end
            left = xp.minimum(left, cells - 1)
        places -= left
        if w is None:
            kept += xp.bincount(left, minlength=cells)
        else:
            weights = w[start : start + _BLOCK]
            kept += xp.bincount(left, weights, minlength=cells)
            places *= weights
        shared += xp.bincount(left, places, minlength=cells)
    kept -= shared
    kept[1:] += shared[:-1]
    if around:
        kept[0] += shared[-1]
    return kept / len(z) if w is None else kept


def _root(excess: Callable[[float], float], least: float, most: float) -> float | None:
    """Return the least t at which log(g(t) / t) falls through 0, once it was positive between ``least`` and ``most``.

    None where it is positive nowhere between them.
    """
    t, above = least, excess(least)
    while above <= 0:
        t *= 1 + _CLIMB
        if t > most:
            return None
        above = excess(t)
    while above < math.inf:
        # g rises, so that no root lies between t and g(t); where that is no step to speak of, a step is tried.
        last, t = t, t * max(math.exp(above), 1 + _STEP)
        above = excess(t)
        if above <= 0:
            return _between(excess, last, t)
    return None


def _between(excess: Callable[[float], float], low: float, high: float) -> float:
    """Return the root by false position, where the value at an end that stays counts half each time (Illinois)."""
    at_low, at_high = excess(low), excess(high)
    stayed = 0  # 1: the upper end did, -1: the lower end
    while high - low > _ROOT * low:
        t = low + (high - low) * at_low / (at_low - at_high)
        if not low < t < high:  # by rounding, or for an infinite value
            t = 0.5 * (low + high)
            if not low < t < high:
                break
        value = excess(t)
        if value == 0:
            return t
        if value > 0:
            low, at_low = t, value
            at_high *= 0.5 if stayed == 1 else 1.0
            stayed = 1
        else:
            high, at_high = t, value
            at_low *= 0.5 if stayed == -1 else 1.0
            stayed = -1
    return 0.5 * (low + high)
