"""Costs of functions that are made of densities: quotients of two, and levels of the density at the data."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable

import numpy as np

from cukde.core.cost import elementwise, radix_sort
from cukde.core.cost.cost import Counted, Part, Unit
from cukde.core.cost.peaks import Peaks
from cukde.density import check as density_check
from cukde.density.cost.formulas import cdf, kde, kernel_sum, positive_kde, sd_kde
from cukde.density.cost.sizes import OF_QUERIES, OPTIONS, Sizes, sized
from cukde.density.mass_sizes import SAMPLES

# NumPy's sort, and its order, take as long as so many operations one at a time for each number and each doubling of
# their count: 0.26 and 0.75 ns on a core of 4.1e9 a second, 4,096 to 1,048,576 numbers of float64.
_SORT, _ORDER = 1, 3

_GRID = 512**2
_NODES, _BANDS = 25, 10  # of a distribution function given values, in double precision


@sized(f"n m d given each dtype precision weighted {OPTIONS}")
def conditional(on: Peaks, sizes: Sizes, given: int = 1, each: bool = False) -> Counted:
    """Count a density of ``d`` columns of which some are ``given``, by a value for each query or one for all."""
    if not 1 <= given < sizes.d:
        raise ValueError(f"given must be at least 1 and less than d = {sizes.d}; got {given}")
    if each:
        return _quotient(on, sizes.m, joint=kde(on, sizes), given=kde(on, sizes, d=given))
    # Differences in bandwidths, squared and summed; logarithms of weights, less the largest, normalised.
    shares = elementwise.doubles("shares", on, 8.0 * sizes.n * given + 10.0 * sizes.n, launches=12)
    of_rest = kde(on, sizes, d=sizes.d - given, weighted=True)
    return dataclasses.replace(of_rest, parts=(shares, *of_rest.parts))


@sized(f"n m d given each dtype precision weighted {OPTIONS}")
def conditional_cdf(on: Peaks, sizes: Sizes, given: int = 1, each: bool = False) -> Counted:
    """Count a distribution function of one column, by the nodes of a range of 40 bandwidths, or a transform."""
    if not each:
        shares = elementwise.doubles("shares", on, 8.0 * sizes.n * given + 10.0 * sizes.n, launches=12)
        of_rest = cdf(on, sizes, d=1)
        return dataclasses.replace(of_rest, parts=(shares, *of_rest.parts))
    sums = kernel_sum(on, sizes, d=given, k=_NODES)
    nodes = elementwise.doubles("nodes", on, 8.0 * sizes.m * _BANDS * _NODES, launches=10)
    return dataclasses.replace(sums, parts=(*sums.parts, nodes))


@sized(f"n m d given each dtype precision weighted {OPTIONS}")
def conditional_quantile(on: Peaks, sizes: Sizes, given: int = 1, each: bool = False) -> Counted:
    """Count quantiles, each by six steps on the nodes."""
    sums = kernel_sum(on, sizes, d=given, k=_NODES)
    nodes = elementwise.doubles("nodes", on, 6 * 8.0 * sizes.m * _BANDS * _NODES, launches=60)
    return dataclasses.replace(sums, parts=(*sums.parts, nodes))


@sized(f"n m d given each dtype precision weighted {OPTIONS}")
def conditional_sample(on: Peaks, sizes: Sizes, given: int = 1, each: bool = False) -> Counted:
    """Count samples: a pass by which a group of rows is chosen, and the rows of one group in 64."""
    sums = kde(on, sizes, d=given)
    rows = elementwise.doubles("rows", on, (4.0 + given) * sizes.m * sizes.n / 64, launches=20)
    return dataclasses.replace(sums, parts=(*sums.parts, rows))


@sized(f"n k m d dtype precision weighted {OPTIONS}")
def density_ratio(on: Peaks, sizes: Sizes, k: int) -> Counted:
    """Count the density of ``n`` points over that of ``k`` others, at ``m`` queries."""
    return _quotient(on, sizes.m, numerator=kde(on, sizes), denominator=kde(on, sizes, n=k))


@sized(f"n d method dtype precision weighted {OPTIONS}")
def hdr_threshold(on: Peaks, sizes: Sizes, method: str = "kde") -> Counted:
    """Count the density at the data by a method, and the order of its values."""
    methods: dict[str, Callable[[Peaks, Sizes], Counted]] = {"kde": kde, "sd": sd_kde}
    methods["positive"] = functools.partial(positive_kde, samples=SAMPLES)
    estimate = methods[method](on, sizes.at_points(leave_one_out=True))
    n, weighted = sizes.n, sizes.weighted
    size = density_check.result_dtype(np.empty(0, sizes.dtype)).itemsize
    if on.backend == "cpu":
        work: dict[Unit, float] = {"scalar": (_ORDER if weighted else _SORT) * n * math.log2(max(n, 2))}
        ordered = [Part("sort", 2.0 * size * n, work, blocks=1.0, launches=0)]
    elif weighted:
        shares = elementwise.doubles("shares", on, 6.0 * n, launches=6)
        ordered = [*radix_sort.positions("sort", on, n, size), shares]
    else:
        ordered = [radix_sort.keys("sort", n, size)]
    return dataclasses.replace(estimate, parts=(*estimate.parts, *ordered))


@sized(f"n d dtype precision weighted {OPTIONS}")
def regions(on: Peaks, sizes: Sizes) -> Counted:
    """Count the level and a grid of 512 nodes along each axis, exactly; contours are not counted."""
    level = hdr_threshold(on, sizes, d=2)
    grid = kde(on, sizes, d=2, m=_GRID)
    parts = [dataclasses.replace(part, name=f"grid: {part.name}") for part in grid.parts]
    return dataclasses.replace(level, parts=(*level.parts, *parts))


@sized(f"{OF_QUERIES} draws")
def density_interval(on: Peaks, sizes: Sizes, draws: int = 0) -> Counted:
    """Count densities of four bandwidths, with weights two more; and ``draws`` of the largest error."""
    one = kde(on, sizes)
    parts = [part.times(6 if sizes.weighted else 4) for part in one.parts]
    parts.append(elementwise.doubles("interval", on, 30.0 * sizes.m, launches=20))
    if draws:
        sums = kernel_sum(on, sizes, k=draws, weighted=False)
        parts += [dataclasses.replace(part, name=f"draws: {part.name}").times(2) for part in sums.parts]
        parts.append(elementwise.doubles("draws", on, 3.0 * sizes.n * draws + 6.0 * sizes.m * draws, launches=20))
    return Counted(tuple(parts), one.source, one.pairs * (6 if sizes.weighted else 4))


def _quotient(on: Peaks, m: int, **densities: Counted) -> Counted:
    """Count densities, each by its name, and one divided by the other: four passes over logarithms."""
    parts = [
        dataclasses.replace(part, name=f"{name}: {part.name}")
        for name, density in densities.items()
        for part in density.parts
    ]
    both = densities.values()
    return Counted(
        (*parts, elementwise.doubles("quotient", on, 4.0 * m, launches=3)),
        next(iter(both)).source,
        sum(density.pairs for density in both),
        sum(density.textbook_flops or 0.0 for density in both),
        sum(density.textbook_bytes or 0.0 for density in both),
    )
