r"""Which grid a density is transformed on: its step, the order of the splines, and how far off the result is at most.

Points are spread over the cells of a regular grid by the B-spline of order p, whose transform is sinc^p(u) at u waves
a cell, transformed, multiplied by the kernel's transform over sinc^p, and transformed back. What is wrong then is what
the grid takes for slower waves: the wave u of a point comes with all u + m, each (u / (u + m))^p times too much. In the
coordinates of an axis along which the kernel has the deviation of q cells that is the p-th derivative of the kernel,

    |e_m(y)| <= (1 / (2 pi q m))^p sum_j w_j |He_p(t_j)| K(y - x_j),    |He_p(t)| <= C_p exp(t^2 / 4),

which is sqrt(2) C_p times a density by a kernel so much wider, no larger than the largest density. :func:`bound` sums
that up over m, for waves up to sqrt(p) times those of the kernel. Waves beyond a grid's own are less than
exp(-(pi q)^2 / 2).

Along an axis whose coordinates are not cells of the grid, the result is interpolated by the same splines, with the same
error once more.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from cukde.density.plan.compositions import Costs

ORDERS = (4, 5, 6, 7, 8, 10)
"""Of the splines: points are spread over so many cells along each axis."""

_FINER_AT_MOST = 1.5  # times the cells that are needed, for a grid that has the given coordinates among its own
_ALIGNED = 1e-3  # part of the error that coordinates may be from equally spaced ones, in bandwidths
_CELLS, _CELLS_OF_RESULT = 2**25, 16  # at most: so many, or so many for each number of the result


class Axis(NamedTuple):
    """A regular grid along one axis, and where on it the given coordinates are.

    A point's cell is found from its difference to the least coordinate, which is exact to rounding however far from
    zero both lie.
    """

    low: float  # the least coordinate,
    before: int  # and its cell
    step: float
    cells: int
    first: float  # points from here to ``last``, in cells, count
    last: float
    places: np.ndarray | None  # (g,) of the coordinates, in cells, that are to be interpolated between
    chosen: slice  # or the cells that have them, of an axis that was reversed
    reversed: bool


class Plan(NamedTuple):
    """How a density is transformed."""

    axes: tuple[Axis, ...]
    order: int
    error: float  # at most, relative to the largest density
    left_out: float  # of a kernel's peak: largest value of it at the grid, of a point that does not count

    @property
    def cells(self) -> tuple[int, ...]:
        """Cells of the grid along each axis."""
        return tuple(axis.cells for axis in self.axes)


def plan(
    axes: Sequence[np.ndarray], covariance: np.ndarray, n: int, error: float, costs: Costs
) -> tuple[Plan, float] | None:
    """Return the quickest plan that is accurate to ``error`` and its nanoseconds; None where grids would be too large.

    ``axes`` are the coordinates, float64, none empty.
    """
    d = len(axes)
    narrow = 1 / np.sqrt(np.diag(np.linalg.inv(covariance)))
    wide = np.sqrt(np.diag(covariance))
    reach = math.sqrt(2 * math.log(100 / error))
    result = math.prod(map(len, axes))
    most = max(_CELLS, _CELLS_OF_RESULT * result)
    best: tuple[Plan, float] | None = None
    for order in ORDERS:
        planned = [_axis(g, float(narrow[k]), reach * float(wide[k]), order, error / d) for k, g in enumerate(axes)]
        cells = math.prod(axis.cells for axis in planned if axis is not None)
        if None in planned or cells > most:
            continue
        grid_axes = tuple(axis for axis in planned if axis is not None)
        interpolated = sum(axis.places is not None for axis in grid_axes) * order * result
        # As cukde/density/grids/spread.py has them, for one block.
        launches = 3.5 * d * order**2 + 15 * order ** (d - 1)
        time = costs.of_call + costs.of_launch * launches
        time += n * (costs.of_point + costs.of_cell_of_point * order**d)
        time += costs.of_cell * cells + costs.of_interpolated * interpolated
        if best is None or time < best[1]:
            found_error = sum(
                (1 if axis.places is None else 2) * bound(order, float(narrow[k]) / axis.step)
                for k, axis in enumerate(grid_axes)
            )
            best = Plan(grid_axes, order, found_error, math.exp(-(reach**2) / 2)), time
    return best


def bound(order: int, q: float) -> float:
    """Bound of the error along an axis with ``q`` steps a bandwidth."""
    of_waves = 10 * math.exp(-((math.pi * q) ** 2) / 2)
    return _of_spline(order) / (2 * math.pi * q - math.sqrt(order)) ** order + of_waves


def steps(order: int, error: float) -> float:
    """Steps that a bandwidth must have for an error along an axis; a tenth is left to waves beyond the grid's."""
    of_waves = math.sqrt(2 * math.log(100 / error)) / math.pi
    return max(of_waves, (math.sqrt(order) + (_of_spline(order) / (0.9 * error)) ** (1 / order)) / (2 * math.pi))


@functools.cache
def _of_spline(order: int) -> float:
    """Sum over m of 2 sqrt(2) C_p / m^p."""
    from numpy.polynomial.hermite_e import hermeval  # which import cukde need not wait for

    zeta = 1 + 2.0**-order + 2 * 3.0**-order  # more than the sum
    t = np.linspace(0, 2 * math.sqrt(order) + 4, 2000)
    largest = np.abs(hermeval(t, [0] * order + [1]) * np.exp(-(t**2) / 4)).max()
    return float(2 * math.sqrt(2) * zeta * 1.001 * largest)


def _axis(g: np.ndarray, h: float, reach: float, order: int, error: float) -> Axis | None:
    """Lay a grid along coordinates; None where it has more cells than any grid may have."""
    low, high = float(g.min()), float(g.max())
    span = high - low
    step = h / steps(order, error)
    if not (span + 2 * reach) / step < 2.0**31:  # infinite, too
        return None
    spacing = span / (len(g) - 1) if len(g) > 1 else 0.0
    finer = math.ceil(spacing / step * (1 - 1e-12))
    aligned = spacing > 0 and spacing / finer * _FINER_AT_MOST >= step and _equally_spaced(g, _ALIGNED * error * h)
    if aligned:
        step = spacing / finer
        last_cell = finer * (len(g) - 1)
    else:
        step = h / steps(order, error / 2)
        last_cell = math.ceil(span / step)
    half = -(-order // 2)
    margin = math.ceil(reach / step)
    before = margin + half
    cells = _fast_length(last_cell + 2 * before + 1)
    chosen = slice(before, before + last_cell + 1, finer) if aligned else slice(0)
    places = None if aligned else (g - low) / step + before
    return Axis(low, before, step, cells, half, half + 2.0 * margin + last_cell, places, chosen, bool(g[0] > g[-1]))


def _equally_spaced(g: np.ndarray, allowed: float) -> bool:
    regular = (g[-1] - g[0]) / (len(g) - 1) * np.arange(len(g))
    return bool(np.abs(g - g[0] - regular).max() <= allowed)


def _fast_length(least: int) -> int:
    """Smallest even product of powers of 2, 3 and 5 that is no less."""
    from scipy.fft import next_fast_len

    return 2 * int(next_fast_len(-(-least // 2), real=True))
