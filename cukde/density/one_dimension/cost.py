"""What the density family costs in one dimension: a fast Gauss transform, or all pairs where they are few.

Sources: ``cukde/density/one_dimension/plan.py`` for the method, ``cukde/density/one_dimension/gpu/passes.py`` and ``cukde/density/one_dimension/cpu/passes.py`` for
the rule and the passes. Instructions of Numba's kernels are counted in what its compiler makes of them for sm_90.
"""

from __future__ import annotations

import dataclasses

from cukde.core.cost import elementwise, host, radix_sort
from cukde.core.cost.cost import Part, Unit
from cukde.core.cost.peaks import Peaks
from cukde.density.one_dimension import plan as one_dimension_plan
from cukde.density.pairs.cost import cpu as cost_cpu
from cukde.density.pairs.cost.engines import Pass

# Most pairs that are summed one by one: those of cukde/density/one_dimension/gpu/passes.py and of cukde/density/one_dimension/cpu/passes.py. In double
# precision a pair counts four times on a GPU.
FEW_PAIRS, FEW_PAIRS_CPU = 2**29, 2**20
_DOUBLE = 4
FEW_PAIRS_CDF = 0  # of the distribution function on a GPU, in any precision
_CDF = 16  # pairs of kernels that one of the distribution function counts as, on a CPU

# Of a pair of the distribution function on a CPU, difference, exponentials and a quotient of polynomials: as long as so
# many operations one at a time. Measured on a core of 4.1e9 a second: 20 ns.
_SCALAR_OF_CDF = 80
# On a GPU, array operations over tiles: passes over a number a pair, and the bytes that they read and write of it.
_CDF_OPERATIONS, _CDF_BYTES = 20, 320
_PAIRS_OF_TILE = 2**22

# Powers that the GPU's kernels are made for.
_ORDERS = (12, 18)

# Instructions of a pair beside those of its output: difference, two products, exponential, and for 4 queries of a
# thread a load and the loop.
_PAIR, _LOOP = 4, 4
_QUERIES, _QUERIES_OF_VALUES, _COLUMNS = 4, 2, 8

_SECTOR = 32  # bytes of memory that a read from a place of its own takes

# Instructions, and those of the float64 pipe: of a point's moments beside two a power; of a query beside a load with
# its place and a multiply-add a power, and of what it ends as, a logarithm and an exponential or a quotient.
_MOMENTS, _MOMENTS_F64 = 45, 6
_LOADED, _QUERY, _QUERY_F64, _END, _END_F64 = 10, 140, 12, 110, 40

# Seconds of a transform on the host that its work does not hide: the look where the data end, and three launches.
_TRANSFORM = host.COPY + 3 * host.NUMBA_LAUNCH

# Queries in boxes whose neighbours hold so much more that the bound does not hold are summed outward, one after another
# by their block. Of data from a normal distribution, by Silverman's rule and to 1e-6, such are at each end 4 of 2^22,
# 20 of 2^24 and 128 of 2^26, and to 1e-12 none of 2^24; queries that are the data in their order share a block.
_OUTLYING = {"float32": 1.2e-6, "tf32": 1.2e-6, "float64": 0.0}
_THREADS = 64
# Cycles of one: a search among the data, 24 reads one after the other, 700 each; three times a stretch of data, with
# three such reads, and sums over 6 levels, two exponentials each, 600 a level.
_OUTWARD = 24 * 700 + 3 * (3 * 700 + 6 * 600)

_PLACE_CPU = 40  # operations: counted, scattered, and a coordinate, with a division each time

# On a CPU a point's place in its box waits for the one before it, and fresh memory for its pages. Measured on two cores
# taken for 3e9 operations a second each: a million points at 100,000 queries, 20.7 ms a density and 29.9 ms a score.
_CPU_EFFICIENCY = 0.42


def takes_pairs(of: Pass, backend: str) -> bool:
    """Whether a pass sums all pairs."""
    if of.precision not in one_dimension_plan.TOLERANCE:
        return True
    if backend == "cpu":
        return of.pairs * (_CDF if of.output == "cdf" else 1) <= FEW_PAIRS_CPU
    if of.output == "cdf":
        return of.pairs <= FEW_PAIRS_CDF
    return of.pairs * (_DOUBLE if of.precision == "float64" else 1) <= FEW_PAIRS


def passed(of: Pass, on: Peaks, boxes: int, *, ordered: bool = False, in_order: bool = False) -> list[Part]:
    """Parts of a pass; ``boxes`` are those between the first point and the last.

    ``ordered`` says that data are sorted before, ``in_order`` that the queries are the data as they are sorted.
    """
    if on.backend == "cpu":
        if not takes_pairs(of, "cpu"):
            return _transform_on_cpu(of, boxes)
        if of.output == "cdf":
            return [_pairs_of_cdf_on_cpu(of)]
        return cost_cpu.passed(of)
    if of.output == "cdf" and takes_pairs(of, "gpu"):
        return [_pairs_of_cdf(of, on)]
    return _pairs(of) if takes_pairs(of, "gpu") else _transform(of, on, boxes, ordered, in_order)


def _pairs(of: Pass) -> list[Part]:
    double = of.precision == "float64"
    columns = of.k + 1 if of.output == "values" else 1
    if of.output == "values":
        blocks = -(-columns // _COLUMNS)
        own = _COLUMNS + (_COLUMNS / 2 + _LOOP) / _QUERIES_OF_VALUES
    else:
        blocks = 1
        own = 1 + (of.output in ("moments", "laplace")) + of.weighted + _LOOP / _QUERIES
    work: dict[Unit, float] = {"instruction": blocks * of.pairs * (_PAIR + own)}
    if double:
        work |= {"float64": 2 * blocks * of.pairs * (3 + own), "exponential_f64": blocks * of.pairs}
    else:
        # Differences of points in float64 are converted, at the rate of exponentials and on their unit.
        wide = of.itemsize == 8
        work["exponential"] = (1 + wide) * blocks * of.pairs
        if wide:
            work["float64"] = 2 * blocks * of.pairs
    points = float(of.itemsize) * (of.n + (0 if of.itself else of.m)) + float(of.itemsize) * of.n * of.k
    results = 8.0 * of.m * (1 + max(columns, 2))
    return [
        Part("pass", points + results, work, reduction=of.pairs * blocks),
        Part("finish", 2 * results),
    ]


def _pairs_of_cdf(of: Pass, on: Peaks) -> Part:
    launches = _CDF_OPERATIONS * max(1, round(of.pairs / _PAIRS_OF_TILE))
    work: dict[Unit, float] = {"exponential_f64": 3 * of.pairs, "float64": 60 * of.pairs}
    numbers = _CDF_OPERATIONS * of.pairs
    return elementwise.passes("pass", on, numbers, _CDF_BYTES * of.pairs, launches=launches, work=work)


def _pairs_of_cdf_on_cpu(of: Pass) -> Part:
    points = float(of.itemsize) * (of.n + (0 if of.itself else of.m))
    return Part("pass", points + 16.0 * of.m, {"scalar": _SCALAR_OF_CDF * of.pairs})


def _transform(of: Pass, on: Peaks, boxes: int, ordered: bool, in_order: bool) -> list[Part]:
    plan = _plan(of)
    order = next(o for o in _ORDERS if o >= plan.order)
    columns = of.k + 1
    item = float(of.itemsize)
    windows = 2 * plan.reach + 1
    slope = of.output == "moments"
    pipe: Unit = "float64"
    parts = [] if ordered else _sorted(of, on)
    if of.weighted or of.k:
        parts.append(_masses(of, on))
    moments = columns * float(of.n)
    served = columns * float(of.m)
    results = 8.0 * (1 + slope + of.k)
    loaded = order * (1 + slope) + _LOADED * order
    return [
        *parts,
        Part("wait for the data's ends", cycles=_TRANSFORM * on.clock, launches=1),
        Part(
            "moments",
            item * of.n * columns + 8.0 * boxes * order * columns,
            {
                pipe: 2 * moments * (2 * order + _MOMENTS_F64),
                "instruction": moments * (2 * order + _MOMENTS),
                **({"exponential_f64": moments} if of.weighted else {}),
            },
            launches=2,
        ),
        Part(
            "translate",
            16.0 * boxes * order * columns,
            {pipe: 2.0 * columns * boxes * windows * order**2},
            8.0 * boxes * windows * order * columns,
            footprint=8.0 * boxes * order * columns,
            blocks=float(boxes * columns),
            resident=16,
        ),
        Part(
            "evaluate",
            (item + results) * of.m,
            {
                pipe: 2 * served * (order * (1 + slope) + _QUERY_F64 + _END_F64),
                "instruction": served * (loaded + _QUERY + _END),
            },
        ),
        *_outward(of, columns, in_order),
    ]


def _sorted(of: Pass, on: Peaks) -> list[Part]:
    """Data in ascending order, with what belongs to them."""
    if not (of.weighted or of.k):
        return [radix_sort.keys("sort", of.n, of.itemsize)]
    gathers = 1 + of.weighted + of.k
    return [
        *radix_sort.positions("sort", on, of.n, of.itemsize),
        # The data lie in the cache where they fit; otherwise a gather takes a sector of memory a number.
        Part(
            "gather",
            (8.0 + of.itemsize) * gathers * of.n,
            requested=(8.0 + of.itemsize + _SECTOR) * gathers * of.n,
            footprint=float(of.itemsize) * of.n,
            cycles=elementwise.cycles(on, gathers * float(of.n)),
            launches=gathers,
        ),
    ]


def _masses(of: Pass, on: Peaks) -> Part:
    """Sums of the weights, and of those times the sizes of values, by passes and a library's product."""
    made = 8.0 * (2 + of.weighted + (of.k > 0)) + of.k * (3.0 * of.itemsize + 16)
    work: dict[Unit, float] = {"exponential_f64": float(of.n)} if of.weighted else {}
    return elementwise.passes("masses", on, (1 + 2.0 * of.k) * of.n, made * of.n, launches=5, work=work)


def _outward(of: Pass, columns: int, in_order: bool) -> list[Part]:
    """The longest chain of queries that no box serves, those of a block."""
    outlying = _OUTLYING[of.precision] * (of.n if of.itself else of.m)
    chain = min(_THREADS if in_order else 1, round(outlying))
    if chain == 0:
        return []
    return [Part("outlying queries", cycles=float(columns * chain * _OUTWARD), launches=0)]


def _transform_on_cpu(of: Pass, boxes: int) -> list[Part]:
    plan = _plan(of)
    columns = of.k + 1
    slope = of.output == "moments"
    windows = 2 * plan.reach + 1
    points = float(of.itemsize) * of.n
    parts = (
        Part("boxes", 3 * points + 16.0 * of.n, {"scalar": float(_PLACE_CPU * of.n)}),
        Part("moments", 8.0 * of.n * columns, {"float64": 2.0 * columns * plan.order * of.n}),
        Part("translate", 16.0 * boxes * plan.order, {"float64": 2.0 * columns * boxes * windows * plan.order**2}),
        Part(
            "evaluate",
            (of.itemsize + 8.0 * (1 + slope + of.k)) * of.m,
            {"scalar": float(columns * of.m) * (2 * plan.order * (1 + slope) + _PLACE_CPU)},
        ),
    )
    return [dataclasses.replace(part, efficiency=_CPU_EFFICIENCY) for part in parts]


def _plan(of: Pass) -> one_dimension_plan.Plan:
    return one_dimension_plan.plan(1.0, of.output, one_dimension_plan.TOLERANCE[of.precision])
