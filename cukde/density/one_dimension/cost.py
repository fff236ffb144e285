"""Costs of the density family in one dimension: a fast Gauss transform, or all pairs where they are few.

Sources in ``cukde/density/one_dimension/``: ``plan.py`` for the method, ``gpu/passes.py`` and ``cpu/passes.py`` for the
rule and the passes. Instructions of Numba's kernels are counted in what its compiler makes of them for sm_90.
"""

from __future__ import annotations

from cukde.core.cost import elementwise, host, radix_sort
from cukde.core.cost.cost import Part, Unit
from cukde.core.cost.peaks import Peaks
from cukde.density.one_dimension import plan as one_dimension_plan
from cukde.density.pairs.cost import cpu as cost_cpu
from cukde.density.pairs.cost.engines import Pass
from cukde.density.plan import cpu as plan_cpu, gpu as plan_gpu, rates as plan_rates

# Pairs of the distribution function on a GPU are array operations over tiles: passes over one number for each pair, and
# the bytes that they read and write.
_CDF_OPERATIONS, _CDF_BYTES = 20, 320
_PAIRS_OF_TILE = 2**22

# Orders of the expansions that the GPU's kernels are compiled for.
_ORDERS = (12, 18)

# Instructions for each pair beside those of its output: difference, two products, exponential; and for the 4 queries of
# a thread a load and the loop.
_PAIR, _LOOP = 4, 4
_QUERIES, _QUERIES_OF_VALUES, _COLUMNS = 4, 2, 8

_SECTOR = 32  # bytes of memory that a single read at random takes

# Instructions, and those of the float64 pipe. The moments of a point take these beside two for each power. A query
# takes a load with its place and a multiply-add for each power, these beside, and an epilogue: a logarithm and an
# exponential, or a quotient.
_MOMENTS, _MOMENTS_F64 = 45, 6
_LOADED, _QUERY, _QUERY_F64, _END, _END_F64 = 10, 140, 12, 110, 40

# Seconds of a transform on the host that its work does not hide: a look at where the data end, and three launches.
_TRANSFORM = host.COPY + 3 * host.NUMBA_LAUNCH

# Where the neighbours of a box hold so much more that the error bound fails, the queries of the box are summed directly
# in the near field, one after another by their block. For data from a normal distribution, by Silverman's rule and at
# 1e-6, these are 4 of 2^22 queries at each end, 20 of 2^24 and 128 of 2^26; at 1e-12 none of 2^24. Queries that are the
# data in their order share a block.
_OUTLYING = {"float32": 1.2e-6, "tf32": 1.2e-6, "float64": 0.0}
_THREADS = 64
# Cycles for each: a search among the data by 24 reads one after the other, 700 cycles each; and three stretches of
# data, each with three such reads and sums over 6 levels of two exponentials, 600 cycles a level.
_OUTWARD = 24 * 700 + 3 * (3 * 700 + 6 * 600)

_RATES_CPU = plan_rates.table("cpu")["line"]


def takes_pairs(task: Pass, backend: str) -> bool:
    """Whether a pass sums all pairs."""
    if not one_dimension_plan.serves(task.precision, task.rtol):
        return True
    if backend == "cpu":
        if plan_cpu.line_is_few(task.n, task.m):
            return plan_cpu.few_of_line_take_pairs(task.n, task.m, cdf=task.output == "cdf")
        return plan_cpu.line_takes_pairs(task.n, task.m, cdf=task.output == "cdf")
    return plan_gpu.line_takes_pairs(task.n, task.m, task.precision, cdf=task.output == "cdf")


def name_of(task: Pass) -> str:
    """Name of the pass on a CPU."""
    return "line few" if plan_cpu.line_is_few(task.n, task.m) else "pairs" if takes_pairs(task, "cpu") else "line"


def passed(task: Pass, on: Peaks, boxes: int, *, ordered: bool = False, in_order: bool = False) -> list[Part]:
    """Parts of a pass; ``boxes`` lie between the first point and the last.

    ``ordered``: the data are sorted before. ``in_order``: the queries are the data as they are sorted.
    """
    if on.backend == "cpu":
        if not takes_pairs(task, "cpu"):
            return _transform_on_cpu(task, boxes)
        if task.output == "cdf":
            return [cost_cpu.timed("pass", _RATES_CPU["cdf pair"] * task.pairs, bytes_=task.point_bytes)]
        return cost_cpu.passed(task, on)
    if task.output == "cdf" and takes_pairs(task, "gpu"):
        return [_cdf_pairs(task, on)]
    return _pairs(task) if takes_pairs(task, "gpu") else _transform(task, on, boxes, ordered, in_order)


def _pairs(task: Pass) -> list[Part]:
    double = task.precision == "float64"
    columns = task.k + 1 if task.output == "values" else 1
    if task.output == "values":
        blocks = -(-columns // _COLUMNS)
        own = _COLUMNS + (_COLUMNS / 2 + _LOOP) / _QUERIES_OF_VALUES
    else:
        blocks = 1
        own = 1 + (task.output in ("moments", "laplace")) + task.weighted + _LOOP / _QUERIES
    work: dict[Unit, float] = {"instruction": blocks * task.pairs * (_PAIR + own)}
    if double:
        work |= {"float64": 2 * blocks * task.pairs * (3 + own), "exponential_f64": blocks * task.pairs}
    else:
        # Differences of points in float64 are converted, at the rate of exponentials and on their unit.
        wide = task.itemsize == 8
        work["exponential"] = (1 + wide) * blocks * task.pairs
        if wide:
            work["float64"] = 2 * blocks * task.pairs
    points = task.point_bytes + float(task.itemsize) * task.n * task.k
    results = 8.0 * task.m * (1 + max(columns, 2))
    return [
        Part("pass", points + results, work, reduction=task.pairs * blocks),
        Part("finish", 2 * results),
    ]


def _cdf_pairs(task: Pass, on: Peaks) -> Part:
    launches = _CDF_OPERATIONS * max(1, round(task.pairs / _PAIRS_OF_TILE))
    work: dict[Unit, float] = {"exponential_f64": 3 * task.pairs, "float64": 60 * task.pairs}
    numbers = _CDF_OPERATIONS * task.pairs
    return elementwise.passes("pass", on, numbers, _CDF_BYTES * task.pairs, launches=launches, work=work)


def _transform(task: Pass, on: Peaks, boxes: int, ordered: bool, in_order: bool) -> list[Part]:
    plan = _plan(task)
    order = next(o for o in _ORDERS if o >= plan.order)
    columns = task.k + 1
    two = task.output == "laplace"  # sums, of one column
    sums = columns + two
    item = float(task.itemsize)
    windows = 2 * plan.reach + 1
    slope = task.output == "moments"
    parts = [] if ordered else _sorted(task, on)
    if task.weighted or task.k:
        parts.append(_masses(task, on))
    moments = columns * float(task.n)
    served = columns * float(task.m)
    results = 8.0 * (sums + slope)
    powers = order * (1 + two)
    loaded = powers * (1 + slope) + _LOADED * powers
    return [
        *parts,
        Part("wait for the data's ends", cycles=_TRANSFORM * on.clock, launches=1),
        Part(
            "moments",
            item * task.n * columns + 8.0 * boxes * order * columns,
            {
                "float64": 2 * moments * (2 * order + _MOMENTS_F64),
                "instruction": moments * (2 * order + _MOMENTS),
                **({"exponential_f64": moments} if task.weighted else {}),
            },
            launches=2,
        ),
        Part(
            "translate",
            16.0 * boxes * order * sums,
            {"float64": 2.0 * sums * boxes * windows * order**2},
            8.0 * boxes * windows * order * sums,
            footprint=8.0 * boxes * order * sums,
            blocks=float(boxes * sums),
            resident=16,
        ),
        Part(
            "evaluate",
            (item + results) * task.m,
            {
                "float64": 2 * served * (powers * (1 + slope) + _QUERY_F64 + _END_F64),
                "instruction": served * (loaded + _QUERY + _END),
            },
        ),
        *_near_field(task, columns, in_order),
    ]


def _sorted(task: Pass, on: Peaks) -> list[Part]:
    """Sort the data, with their weights and values."""
    if not (task.weighted or task.k):
        return [radix_sort.keys("sort", task.n, task.itemsize)]
    gathers = 1 + task.weighted + task.k
    return [
        *radix_sort.positions("sort", on, task.n, task.itemsize),
        # The data lie in the cache where they fit; otherwise a gather takes a sector of memory for each number.
        Part(
            "gather",
            (8.0 + task.itemsize) * gathers * task.n,
            requested=(8.0 + task.itemsize + _SECTOR) * gathers * task.n,
            footprint=float(task.itemsize) * task.n,
            cycles=elementwise.cycles(on, gathers * float(task.n)),
            launches=gathers,
        ),
    ]


def _masses(task: Pass, on: Peaks) -> Part:
    """Sum the weights, and the weights times the sizes of values, by passes and a library's product."""
    made = 8.0 * (2 + task.weighted + (task.k > 0)) + task.k * (3.0 * task.itemsize + 16)
    work: dict[Unit, float] = {"exponential_f64": float(task.n)} if task.weighted else {}
    return elementwise.passes("masses", on, (1 + 2.0 * task.k) * task.n, made * task.n, launches=5, work=work)


def _near_field(task: Pass, columns: int, in_order: bool) -> list[Part]:
    """The longest chain of queries that no box serves: those of a block."""
    outlying = _OUTLYING[task.precision] * (task.n if task.itself else task.m)
    chain = min(_THREADS if in_order else 1, round(outlying))
    if chain == 0:
        return []
    return [Part("outlying queries", cycles=float(columns * chain * _OUTWARD), launches=0)]


def _transform_on_cpu(task: Pass, boxes: int) -> list[Part]:
    plan, rates = _plan(task), _RATES_CPU
    if name_of(task) == "line few":
        boxes = min(boxes, (task.n + task.m) // one_dimension_plan.POINTS_PER_BOX)
    columns = 1 + task.k
    expansions = columns + (task.output == "laplace")
    sums = expansions * plan.order * (1 + (task.output == "moments"))
    adds = expansions * min(boxes, task.m) * (2 * plan.reach + 1) * plan.order**2
    points = float(task.itemsize) * task.n
    add: float = rates["multiply-add"]
    return [
        cost_cpu.timed("boxes", rates["point"] * task.n, bytes_=3 * points + 16.0 * task.n),
        cost_cpu.timed("moments", rates["moment"] * columns * plan.order * task.n, bytes_=8.0 * task.n * columns),
        cost_cpu.timed("translate", add * adds, bytes_=16.0 * boxes * plan.order),
        cost_cpu.timed(
            "evaluate", (rates["query"] + add * sums) * task.m, bytes_=task.itemsize * task.m + task.result_bytes
        ),
    ]


def _plan(task: Pass) -> one_dimension_plan.Plan:
    return one_dimension_plan.plan(1.0, task.output, one_dimension_plan.TOLERANCE[task.precision])
