"""Whether the transform takes less time on a GPU than pairs, and over which grid."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from cukde.core.gpu import compile as core_compile
from cukde.density.kept import kept
from cukde.density.options import Options
from cukde.density.pairs import tolerance as pairs_tolerance
from cukde.density.plane import cost as plane_cost
from cukde.density.plane.gpu.cells import Extent, Grid, grid
from cukde.density.plane.plan import Plan
from cukde.density.sums import Output

# Milliseconds on an H200, fitted to runs of both ways in two dimensions (benchmarks/results/plane_choice_h200.txt): of
# the transform for any number of points, see ``plane/cost.py``; of a point; of a pair of a point outside of the grid.
# Those of pairs in three dimensions are of ``pairs/cost/skipping.py``.
_MS_OF_POINT = 1e-7
_MS_OF_FAR_PAIR = {"float32": 2e-9, "float64": 3e-9}
# Of all pairs, by products up to a scaled squared radius and beyond, where float32 has the centred pass; and where some
# are left out: in any case, of a point, of a pair that is not.
_MS_OF_PRODUCT_PAIR = {"float32": 2.8e-10, "float64": 1.5e-9}
_MS_OF_OTHER_PAIR = {"float32": 6e-10, "float64": 4e-9}
_PRODUCTS_UP_TO = 1700.0
_LEAST_MS_OF_NEAR, _MS_OF_NEAR_POINT = {"float32": 0.4, "float64": 1.2}, 3e-6
# By the number of columns, and of moments, each pair once.
_MS_OF_NEAR_PAIR = {
    2: {"float32": (4.1e-10, 2.35e-10), "float64": (1.6e-9, 1.6e-9)},
    3: {"float32": (5.3e-10, 2.35e-10), "float64": (2.1e-9, 2.1e-9)},
}
_OF_BLOCKS = 3.0  # times the pairs that can matter are taken: blocks hold others, and data are not spread evenly

_GAIN = 0.9  # of the time of pairs, at most: the rates are rough
_LEAST_MS = 2.2  # of all pairs: below it a look takes too much of what it may save

# Cells of a grid, of which there are some twenty numbers each, and numbers of an array of expansions, of which there
# are three at a time: so many are few, and so many more for a point.
_CELLS, _CELLS_OF_POINT = 2**22, 0.5
_NUMBERS, _NUMBERS_OF_POINT = 2**27, 32

# About the share of the cells of a grid with an expansion, of a normal distribution: 0.15 to 0.21, and 0.43 to 0.45.
_FILLED = {2: 0.45, 3: 0.2}

_TRIMMED = (0, 2, 5)  # points of a sample, beyond either end of a coordinate


def too_few(n: int, m: int, options: Options) -> bool:
    """Whether all pairs take so little time that nothing is worth a look."""
    return _all_pairs_ms(n, m, options) < _LEAST_MS


class Chosen(NamedTuple):
    """The cells of a transform."""

    grid: Grid
    of_all: bool  # whether they hold all data; otherwise few lie far from the others, and are taken as pairs


def chosen(X: Any, m: int, output: Output, options: Options, plan: Plan) -> Chosen | None:
    """Lay the cells of data for a transform that is faster than pairs; None where none is. Waits for the device."""
    if core_compile.is_rehearsal():
        return Chosen(Grid((0,) * plan.columns, (2,) * plan.columns), of_all=True)
    n, extent = len(X), kept(options.kept, "extent", X, None, lambda: Extent.of(X))
    if not np.isfinite(extent.whole).all():
        return None
    best, least = None, _GAIN * _pairs_ms(extent, n, m, output, options, plan)
    for trimmed in (*reversed(_TRIMMED), None):  # from the smallest grid on
        found = grid(extent.whole if trimmed is None else extent.trimmed(trimmed), plan)
        if found is None:
            break
        if found.number > _CELLS + _CELLS_OF_POINT * (n + m):
            break
        ms = _transform_ms(_FILLED[plan.columns] * found.number, n, m, plan)
        if ms >= least:
            break
        if trimmed is not None:
            far = extent.beyond(trimmed) * n * m
            ms += _MS_OF_FAR_PAIR[_arithmetic(options.precision)] * far
        if ms < least:
            best, least = Chosen(found, of_all=trimmed is None), ms
    return best


def too_many(cells: int, n: int, m: int, plan: Plan) -> bool:
    """Whether expansions of so many cells take more memory than they should."""
    return cells * plan.order**plan.columns > _NUMBERS + _NUMBERS_OF_POINT * (n + m)


def _transform_ms(cells: float, n: int, m: int, plan: Plan) -> float:
    """About what the transform takes with expansions about so many cells."""
    products = plane_cost.products(plan, cells) + plane_cost.adds(plan, n, m)
    return plane_cost.TRANSFORM_MS + _MS_OF_POINT * (n + m) + plane_cost.MS_OF_PRODUCT * products


def _pairs_ms(extent: Extent, n: int, m: int, output: Output, options: Options, plan: Plan) -> float:
    """About what pairs take: all of them on the tensor cores, or those that can matter of data spread evenly."""
    arithmetic = _arithmetic(options.precision)
    squared_reach = 2 * math.log(n / pairs_tolerance.tolerance_of(options))  # within which a pair counts, in bandwidths
    low, high = extent.trimmed(max(_TRIMMED))
    sides = np.maximum((high - low) / plan.bandwidth, math.sqrt(squared_reach))
    ball = math.pi * squared_reach if plan.columns == 2 else 4 / 3 * math.pi * squared_reach**1.5
    share = min(1.0, _OF_BLOCKS * ball / float(sides.prod()))
    near = _MS_OF_NEAR_PAIR[plan.columns][arithmetic][output == "moments"] * share * n * m
    near += _LEAST_MS_OF_NEAR[arithmetic] + _MS_OF_NEAR_POINT * (n + m)
    return min(near, _all_pairs_ms(n, m, options))


def _all_pairs_ms(n: int, m: int, options: Options) -> float:
    """About what all pairs take; by products where the radius is unknown: while a stream is captured."""
    by_products = options.squared_radius is None or options.squared_radius <= _PRODUCTS_UP_TO
    return (_MS_OF_PRODUCT_PAIR if by_products else _MS_OF_OTHER_PAIR)[_arithmetic(options.precision)] * n * m


def _arithmetic(precision: str) -> str:
    return "float64" if precision == "float64" else "float32"
