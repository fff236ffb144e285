"""Costs of functions that are made of densities: quotients of two, and levels of the density at the data."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from cukde.core.cost import elementwise, radix_sort
from cukde.core.cost.cost import Counted, Part, Unit
from cukde.core.cost.peaks import Peaks
from cukde.density import check as density_check
from cukde.density.cost import waiting
from cukde.density.cost.formulas import cdf, kde, kernel_sum, positive_kde, sd_kde
from cukde.density.cost.sizes import OF_QUERIES, OPTIONS, Sizes, sized
from cukde.density.grids.cost import evaluate_grid
from cukde.density.mass_sizes import SAMPLES
from cukde.density.plan import cpu as plan_cpu, gpu as plan_gpu

# NumPy's sort, and its order, take as long as so many operations one at a time for each number and each doubling of
# their count: 0.26 and 0.75 ns on a core of 4.1e9 a second, 4,096 to 1,048,576 numbers of float64.
_SORT, _ORDER = 1, 3

# Array operations for the columns of a density given values, a value for each query; and for the shares of the rows in
# the density at one, whose points the host then waits for.
_OF_COLUMNS, _OF_SHARES = 16, 40

# The distribution given values: bands of rows, the nodes of one, by how exact they are to be, and the nodes that a pass
# takes. The data decide how many bands there are: a normal distribution of 131,072 rows is 23 bandwidths wide, where a
# pair's exponent is 20 in the median.
_BANDS, _NODES, _NODES_F64, _OF_PASS = 6, 16, 25, 32
_NUMBERS = 2**20  # of rows and nodes that are summed at once
# Array operations: for a band's nodes and its values, for a pass's weights, for the distribution function at a point of
# each row; and for a step of Newton's method beside that, with numbers that the host waits for. Steps are five for most
# data, which decide it.
_OF_BAND, _OF_WEIGHTS, _OF_VALUES, _OF_STEP, _WAITS, _STEPS = 22, 10, 28, 110, 6, 5

# A sample: groups of rows, pairs that are taken one by one, and array operations and waits of a group.
_GROUPS, _PAIRS, _OF_GROUP, _WAITS_OF_GROUP = 64, 2**22, 50, 2

# Cells of the transform for the rows themselves, of 131,072 from a normal distribution by Silverman's rule.
_CELLS = {2: 1000, 3: 9000}

# Regions: steps along a side of the first grid, and how much finer the last is; vertices; and seconds of contours of
# the grids by a node. The data decide; these are for a normal distribution, whose pair's exponent is 20 in the median.
# A few rows have next to no neighbour, and take two more passes, with so many array operations.
_SIDE, _FINER, _VERTICES, _CONTOUR, _OF_FAR_ROWS = 148, (1, 2), 500, 3e-8, 60
_FACTORS, _OF_BLOCK = 2**22, 20  # numbers of a grid's factors at a time, and array operations of them


@sized(f"n m d given each dtype precision weighted {OPTIONS}")
def conditional(on: Peaks, sizes: Sizes, given: int = 1, each: bool = False) -> Counted:
    """Count a density of ``d`` columns of which some are ``given``, by a value for each query or one for all."""
    if not 1 <= given < sizes.d:
        raise ValueError(f"given must be at least 1 and less than d = {sizes.d}; got {given}")
    if each:
        both = _quotient(on, sizes.m, joint=kde(on, sizes), given=kde(on, sizes, d=given))
        numbers = float(sizes.n) * given + 2.0 * sizes.m * sizes.d
        columns = elementwise.awaited("columns", on, numbers, operations=_OF_COLUMNS)
        return dataclasses.replace(both, parts=(columns, *both.parts))
    of_rest = kde(on, sizes, d=sizes.d - given, weighted=True)
    return dataclasses.replace(
        of_rest, parts=(*waiting.calls("host", on, 1), _shares(on, sizes.n, given), *of_rest.parts)
    )


def _shares(on: Peaks, n: int, given: int) -> Part:
    """Differences in bandwidths, squared and summed; logarithms of weights, less the largest, normalised."""
    return elementwise.awaited("shares", on, 8.0 * n * given + 10.0 * n, operations=_OF_SHARES)


@sized(f"n m d given each dtype precision weighted {OPTIONS}")
def conditional_cdf(on: Peaks, sizes: Sizes, given: int = 1, each: bool = False) -> Counted:
    """Count a distribution function of one column, by the nodes of a range of 23 bandwidths, or a transform."""
    if not each:
        of_rest = cdf(on, sizes, d=1)
        return dataclasses.replace(of_rest, parts=(_shares(on, sizes.n, given), *of_rest.parts))
    sums = _weights_of_nodes(on, sizes, given)
    return dataclasses.replace(sums, parts=(*sums.parts, _at_nodes("values", on, sizes, 1, 0, 0)))


@sized(f"n m d given each dtype precision weighted {OPTIONS}")
def conditional_quantile(on: Peaks, sizes: Sizes, given: int = 1, each: bool = False) -> Counted:
    """Count quantiles, each by several steps on the nodes."""
    sums = _weights_of_nodes(on, sizes, given)
    return dataclasses.replace(sums, parts=(*sums.parts, _at_nodes("steps", on, sizes, _STEPS, _OF_STEP, _WAITS)))


def _nodes(sizes: Sizes) -> int:
    double = density_check.precision(sizes.precision, density_check.result_dtype(np.empty(0, sizes.dtype))) == "float64"
    return _BANDS * (_NODES_F64 if double else _NODES)


def _weights_of_nodes(on: Peaks, sizes: Sizes, given: int) -> Counted:
    """Count the weights of all nodes: each row has values for those of one pass, which takes the rows of some bands."""
    nodes = _nodes(sizes)
    passes = max(1, nodes // _OF_PASS)
    sums = kernel_sum(on, sizes, d=given, k=_OF_PASS)
    operations = _BANDS * _OF_BAND + passes * _OF_WEIGHTS
    table = elementwise.awaited("nodes", on, 8.0 * sizes.n * _OF_PASS, operations=operations, waits=2 * _BANDS)
    weights = elementwise.awaited("weights", on, 10.0 * sizes.m * nodes, operations=12)
    return dataclasses.replace(sums, parts=(*waiting.calls("host", on, 2 + passes), table, *sums.parts, weights))


def _at_nodes(name: str, on: Peaks, sizes: Sizes, steps: int, operations: int, waits: int) -> Part:
    """Sums over the nodes in steps, with so many operations and waits beside."""
    numbers = float(sizes.m) * _nodes(sizes)
    blocks = math.ceil(numbers / _NUMBERS)
    operations = steps * blocks * (operations + _OF_VALUES)
    return elementwise.awaited(name, on, 12.0 * steps * numbers, operations=operations, waits=steps * blocks * waits)


@sized(f"n m d given each dtype precision weighted {OPTIONS}")
def conditional_sample(on: Peaks, sizes: Sizes, given: int = 1, each: bool = False) -> Counted:
    """Count samples: a pass for each of 64 groups of rows, by which one is chosen, and its rows; of few pairs none."""
    n, m = sizes.n, sizes.m
    few = float(n) * m <= _PAIRS
    groups = 1 if few else _GROUPS
    numbers = (10.0 + 5 * given) * m * n / groups  # of all pairs of a query with the rows of its group
    rows = elementwise.awaited("rows", on, numbers, operations=groups * _OF_GROUP, waits=groups * _WAITS_OF_GROUP)
    whole = kde(on, sizes, d=given)
    if few:
        return dataclasses.replace(whole, parts=(rows,))
    survey = [part for part in whole.parts if part.name == "survey"]
    of_group = [
        part.times(groups) for part in kde(on, sizes, d=given, n=-(-n // groups)).parts if part.name != "survey"
    ]
    return dataclasses.replace(whole, parts=(*survey, *waiting.calls("host", on, groups), *of_group, rows))


@sized(f"n k m d dtype precision weighted {OPTIONS}")
def density_ratio(on: Peaks, sizes: Sizes, k: int) -> Counted:
    """Count the density of ``n`` points over that of ``k`` others, at ``m`` queries."""
    return _quotient(on, sizes.m, numerator=kde(on, sizes), denominator=kde(on, sizes, n=k))


@sized(f"n d method dtype precision weighted {OPTIONS}")
def hdr_threshold(on: Peaks, sizes: Sizes, method: str = "kde") -> Counted:
    """Count the density at the data by a method, and the order of its values."""
    density = functools.partial(kde, cells=_CELLS[sizes.d]) if _transforms(on, sizes) else kde
    methods: dict[str, Callable[[Peaks, Sizes], Counted]] = {"kde": density, "sd": sd_kde}
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


def _transforms(on: Peaks, sizes: Sizes) -> bool:
    """Whether so many rows at themselves are worth a transform, by a bandwidth of a usual width."""
    n, d, itemsize = sizes.n, sizes.d, np.dtype(sizes.dtype).itemsize
    if d not in _CELLS or sizes.precision == "ieee":
        return False
    if on.backend == "cpu":  # where cells of three columns take so long that pairs are mostly faster
        return d == 2 and plan_cpu.plane_may_pay(n, n) and plan_cpu.plane_pays(n, n, d, "sum", itemsize, 1.0)
    return not plan_gpu.plane_is_too_small(n, n, sizes.precision or str(np.dtype(sizes.dtype)), 0.0)


@sized(f"n d dtype precision weighted {OPTIONS}")
def regions(on: Peaks, sizes: Sizes) -> Counted:
    """Count the level, grids with contours on the host, and masses within them, by the transform in two dimensions."""
    level = hdr_threshold(on, sizes, d=2)
    grids = [_grid(on, sizes, _SIDE * finer + 1) for finer in _FINER]
    of_ring: dict[str, Any] = {"m": _VERTICES, "dtype": "float64", "precision": None}
    masses = [
        *conditional_cdf(on, sizes, d=2, given=1, each=True, **of_ring).parts,
        *kde(on, sizes, d=1, **of_ring).parts,
    ]
    nodes = sum((_SIDE * finer + 1) ** 2 for finer in _FINER)
    contours = Part("contours", cycles=_CONTOUR * nodes * on.clock, blocks=1.0, launches=0)
    named = [("grid", part) for parts in grids for part in parts] + [("mass", part) for part in masses]
    parts = [dataclasses.replace(part, name=f"{name}: {part.name}") for name, part in named]
    far = elementwise.awaited("far rows", on, 4.0 * sizes.n, operations=_OF_FAR_ROWS, waits=2)
    return dataclasses.replace(
        level, parts=(*level.parts, far, *waiting.calls("host", on, 5 + len(grids)), *parts, contours)
    )


def _grid(on: Peaks, sizes: Sizes, side: int) -> list[Part]:
    """Parts of a grid with so many nodes a side, in double precision: on a GPU by products, on a CPU by a transform."""
    of_grid: dict[str, Any] = {"d": 2, "m": side**2, "dtype": "float64", "precision": None}
    if on.backend == "cpu":
        return [*evaluate_grid(on, sizes, **of_grid).parts]
    blocks = math.ceil(2.0 * side * sizes.n / _FACTORS)
    begun = elementwise.awaited("blocks", on, 0, operations=blocks * _OF_BLOCK)
    return [*evaluate_grid(on, sizes, algorithm="exact", **of_grid).parts, begun]


@sized(f"{OF_QUERIES} draws")
def density_interval(on: Peaks, sizes: Sizes, draws: int = 0) -> Counted:
    """Count densities of four bandwidths, with weights two more; and ``draws`` of the largest error."""
    one = kde(on, sizes)
    parts = [part.times(6 if sizes.weighted else 4) for part in one.parts]
    parts.append(elementwise.doubles("interval", on, 80.0 * sizes.m, launches=50))
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
