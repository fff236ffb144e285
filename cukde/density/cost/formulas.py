"""Costs of the density family: passes over all pairs of data and queries, and what comes before and after them.

They hold for data close enough to their mean for products of tensor cores, and for a bandwidth that is one number:
others change the points before anything else.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from cukde.core import check as core_check
from cukde.core.cost import elementwise, host
from cukde.core.cost.cost import Counted, Part, Unit
from cukde.core.cost.peaks import Peaks
from cukde.core.plan import consulted
from cukde.density import check as density_check
from cukde.density.cost import waiting
from cukde.density.cost.flash import (
    flash_bytes,
    flash_density_flops,
    flash_flops,
    flash_pass_bytes,
    flash_score_flops,
)
from cukde.density.cost.sizes import FOUND, OF_DATA, OF_QUERIES, OPTIONS, Sizes, sized
from cukde.density.mass_sizes import NODES, REACH, SAMPLES
from cukde.density.one_dimension import cost as one_dimension_cost
from cukde.density.pairs.cost import centred, cpu as cost_cpu, cuda_cores, engines, skipping, skipping_cpu, tensor, wide
from cukde.density.pairs.cost.engines import Pass
from cukde.density.plan import cpu as plan_cpu, gpu as plan_gpu
from cukde.density.plane import cost as plane_cost, plan as plane_plan
from cukde.density.sums import Output

_SOURCE = (
    "counted from the loops of kernels_cu/ and cukde/density/, an exponential and the products of its exponent a pair; "
    "textbook: Flash-SD-KDE, section 3.1 and appendix A"
)

# Launches for the pre-pass reductions, and for the weights with their logarithms.
_SURVEY_LAUNCHES, _WEIGHT_LAUNCHES = 3, 3

# Array operations of a Hessian before its pass: scaled points, their products, and these side by side.
_OF_PRODUCTS = 12

# Array operations after the sums of a distribution function; of its logarithm, those with signs changed among them.
_AFTER_CDF, _AFTER_LOG_CDF = 6, 16

# Queries of a block of the kernels that end a pass, and blocks that a multiprocessor holds of them, each for as long as
# one of CuPy's kernels: 2^21 queries of one column take 0.5 ms on an H200, 2^24 take 5.4.
_QUERIES_OF_END, _RESIDENT_OF_END = 4, 8

# Entries that a block adds up for the mean, and its cycles: Nsight Compute on an H200, 9 us.
_ENTRIES_OF_PART, _MEAN = 2**16, 17_000

# NumPy takes as long as so many operations one at a time to begin a row, in the five passes with one number for each
# row or column beside the data; and to choose and compare an entry, in two. Measured on a core of 4.1e9 a second with
# 2^17 entries in rows of 2 to 64: 40 ns a row and 1.2 ns an entry.
_SCALAR_OF_ROW, _SCALAR_OF_ENTRY = 165, 5

# A mass: array operations on its points, their sums and what the mean is taken of, and waits for numbers; and NumPy's
# operations one at a time for a coordinate that it draws, 45 ns.
_OF_MASS, _WAITS_OF_MASS, _SCALAR_OF_DRAWN = 40, 4, 185

# Numbers that a reference rule asks a GPU for, one after another: what the look found, the sum of the weights but the
# largest, that of their squares, and the ranges.
_WAITS = 4


@sized(f"{OF_QUERIES} {FOUND} cells local leave_one_out")
def kde(on: Peaks, sizes: Sizes) -> Counted:
    """Count a density of ``n`` points of ``d`` dimensions at ``m`` queries; ``local``: each point has its own factor.

    ``leave_one_out``: the queries are the data, and each leaves out its own row.

    In two dimensions and more a call without ``share`` is counted as one of all pairs, whatever its ``rtol``.
    """
    task = _pass("sum", sizes)
    return _estimate(task, on, _passed(task, on, sizes.boxes))


@sized(f"{OF_QUERIES} {FOUND} cells local")
def score(on: Peaks, sizes: Sizes) -> Counted:
    """Count the gradients of the log density."""
    task = _pass("moments", sizes, ratio=True)
    after = _end("scale", on, sizes.m, 2 * sizes.d * sizes.m, 6 * sizes.d * sizes.m)
    return _estimate(task, on, [*_passed(task, on, sizes.boxes), after])


@sized(f"{OF_QUERIES} {FOUND} cells local")
def density_and_score(on: Peaks, sizes: Sizes) -> Counted:
    """Count log densities with their gradients."""
    task = _pass("moments", sizes)
    after = _end("scale", on, sizes.m, (2 * sizes.d + 3) * sizes.m, (6 * sizes.d + 8) * sizes.m, launches=2)
    return _estimate(task, on, [*_passed(task, on, sizes.boxes), after])


@sized(f"{OF_QUERIES} {FOUND} local")
def laplace_kde(on: Peaks, sizes: Sizes) -> Counted:
    """Count a Laplace-corrected density: a factor, by one multiply-add, beside each exponential."""
    task = _pass("laplace", sizes)
    parts = _passed(task, on, sizes.boxes)
    # In float16 the pass ends in the density.
    if on.backend == "cpu" or sizes.d == 1 or task.local or _engine(task, on) != "f16":
        parts.append(_laplace_end(on, sizes))
    return _estimate(task, on, parts, flops=2 * task.pairs)


@sized(f"{OF_QUERIES} {FOUND} samples")
def positive_kde(on: Peaks, sizes: Sizes, samples: int = 0) -> Counted:
    """Count a positive density: a pass as of a Laplace-corrected one, and one at ``samples`` points for the mass."""
    task = _pass("laplace", sizes)
    parts = [*_passed(task, on, sizes.boxes), _laplace_end(on, sizes), *_mass(task, on, samples, sizes.boxes)]
    return _estimate(task, on, parts, flops=2 * task.pairs)


@sized(f"{OF_QUERIES} {FOUND}")
def positive_score(on: Peaks, sizes: Sizes) -> Counted:
    """Count its score: moments, sums with the correction, and moments of that by differences, with all pairs."""
    of_score, of_density = sizes.of_two()
    first, second = _pass("moments", of_score), _pass("laplace", of_density)
    curved = dataclasses.replace(first, share=None, ran=None, looked=True)
    third = (cost_cpu.passed if on.backend == "cpu" else cuda_cores.by_difference)(curved, on)
    after = elementwise.doubles("scale", on, 12 * sizes.d * sizes.m, launches=16)
    stages = ("score", _passed(first, on, sizes.boxes)), ("correction", _passed(second, on, sizes.boxes))
    parts = [part for name, parts in (*stages, ("gradient", third)) for part in _named(name, parts)]
    return _estimate(first, on, [*parts, after], flops=2 * first.pairs)


@sized(f"{OF_DATA} {FOUND} samples")
def positive_mass(on: Peaks, sizes: Sizes, samples: int = SAMPLES) -> Counted:
    """Count the mass that normalises a positive density: a pass at ``samples`` points."""
    task = dataclasses.replace(_pass("laplace", dataclasses.replace(sizes, m=0)), looked=True)
    return _estimate(task, on, _mass(task, on, samples, sizes.boxes))


@sized(f"n m d k log dtype precision at_data {OPTIONS} {FOUND}")
def kernel_sum(on: Peaks, sizes: Sizes, k: int = 1, log: bool = False) -> Counted:
    """Count sums of ``k`` values; on a GPU a pass that leaves out pairs takes its share of them for each column.

    Each logarithm is one of a density with weights.
    """
    if log:
        task = _pass("sum", dataclasses.replace(sizes, weighted=True))
        parts = [part for column in range(k) for part in _named(f"column {column}", _passed(task, on, sizes.boxes))]
        return _estimate(task, on, parts, flops=2 * k * task.pairs)
    task = _pass("values", sizes, k=k)
    parts = [*_passed(task, on, sizes.boxes), elementwise.doubles("scale", on, 4 * k * sizes.m, launches=3)]
    return _estimate(task, on, parts, flops=2 * k * task.pairs, traffic=4 * k * (sizes.n + sizes.m))


@sized(f"{OF_QUERIES} {FOUND} local")
def hessian(on: Peaks, sizes: Sizes) -> Counted:
    """Count second derivatives, of sums of products of coordinates in double precision."""
    sizes = dataclasses.replace(sizes, precision="float64")
    k = (sizes.d + 1) * (sizes.d + 2) // 2 + (sizes.local and sizes.d + 2)
    task = _pass("values", sizes, k=k)
    ends = elementwise.doubles("second derivatives", on, (k + 8.0 * sizes.d**2) * sizes.m + k * sizes.n, launches=20)
    # The host learns how far points reach before it makes products of coordinates.
    called = waiting.calls("call", on, copies=1, operations=_OF_PRODUCTS)
    parts = [*called, *_passed(task, on, sizes.boxes), ends]
    return _estimate(task, on, parts, flops=2 * k * task.pairs, traffic=8 * k * (sizes.n + sizes.m))


@sized(OF_QUERIES, d=1)
def cdf(on: Peaks, sizes: Sizes) -> Counted:
    """Count a distribution function of one dimension."""
    task = _pass("cdf", sizes)
    return _distribution(task, on, _passed(task, on, sizes.boxes), _AFTER_CDF)


@sized(OF_QUERIES, d=1)
def log_cdf(on: Peaks, sizes: Sizes) -> Counted:
    """Count its logarithm: sums of what is below and of what is above."""
    task = _pass("cdf", sizes)
    both = [part for side in ("below", "above") for part in _named(side, _passed(task, on, sizes.boxes))]
    return _distribution(task, on, both, _AFTER_LOG_CDF)


@sized(f"{OF_DATA} {FOUND} cells steps local")
def debias(on: Peaks, sizes: Sizes, steps: int = 1) -> Counted:
    """Count shifts of the data along the score at the data."""
    task = dataclasses.replace(_pass("moments", sizes.at_points(), ratio=True), looked=True)
    parts = [*_named("score", _passed(task, on, sizes.boxes)), _shift(on, sizes.n, sizes.d)]
    further, flops, traffic = _further(task, on, sizes.boxes, steps)
    counted = _estimate(task, on, [*parts, *further], flops=flops, traffic=traffic)
    return dataclasses.replace(counted, pairs=steps * task.pairs)


def _further(task: Pass, on: Peaks, boxes: int, steps: int) -> tuple[list[Part], float, float]:
    """Parts of the steps after the first, passes of the data at points that have moved, float64; and the textbook's."""
    more, n, d = density_check.steps(steps) - 1, task.n, task.d
    again = dataclasses.replace(task, itemsize=8, itself=False)
    parts = [*_named("further steps", _passed(again, on, boxes)), _shift(on, n, d)] if more else []
    textbook = flash_score_flops(n, n, d), flash_pass_bytes(n, n, d, moments=True)
    return [part.times(more) for part in parts], more * textbook[0], more * textbook[1]


@sized(f"{OF_QUERIES} {FOUND} cells steps local")
def sd_kde(on: Peaks, sizes: Sizes, steps: int = 1) -> Counted:
    """Count score-debiased densities: parts of the score, the shift and the density, by these names."""
    n, m, d, boxes = sizes.n, sizes.m, sizes.d, sizes.boxes
    of_first, of_second = sizes.of_two()
    given = dataclasses.replace(_pass("sum", of_second), looked=True)
    estimate = _pass("moments", of_first.at_points(), ratio=True)
    estimate = dataclasses.replace(estimate, looked=True)
    moved = dataclasses.replace(given, itemsize=8, itself=False)  # debiased data are float64
    of_score = _passed(estimate, on, boxes, in_order=not sizes.weighted)
    line = d == 1 and not given.local
    sorted_by_score = line and not sizes.weighted and not one_dimension_cost.takes_pairs(estimate, on.backend)
    of_kde = _passed(moved, on, boxes, ordered=sorted_by_score and on.backend == "gpu")
    shift = _shift(on, n, d, m)
    if line:
        shift = elementwise.doubles("shift", on, 2 * m)
    elif (
        m > 0
        and steps == 1
        and on.backend == "gpu"
        and not given.local
        and estimate.share is None
        and moved.share is None
        and estimate.cells is None
        and moved.cells is None
        and _engine(estimate, on) == "f16_symmetric"
        and _engine(moved, on) == "f16"
    ):
        # One launch finishes the score, moves the data and makes the operands of the density.
        of_score = [part for part in of_score if part.name != "finish"]
        prepared = next(part for part in of_kde if part.name == "prepare")
        of_kde = [part for part in of_kde if part is not prepared]
        sums = 4.0 * n * (tensor.depth_of(d) + 1)
        shift = Part("shift", prepared.bytes + sums + float(d) * (given.itemsize * n + 8 * m))
    further, flops, traffic = _further(estimate, on, boxes, steps)
    parts = [*_survey(given, on, estimate), *_named("score", of_score), shift, *further, *_named("kde", of_kde)]
    flops, traffic = flops + flash_flops(n, m, d), traffic + flash_bytes(n, m, d)
    return _counted(parts, steps * estimate.pairs + given.pairs, flops, traffic, on)


def bandwidth(
    on: Peaks, *, n: int, d: int, dtype: Any = "float64", weighted: bool = False, covariance: bool = False
) -> Counted:
    """Count a reference rule for the bandwidth: passes over (n, d) float64 numbers in ``cukde/bandwidth/rules.py``."""
    entries, item = float(n) * d, np.dtype(dtype).itemsize
    numbers = 8.0 * entries
    gpu = on.backend == "gpu"
    passes = functools.partial(elementwise.passes, on=on)
    # Arrays read and written: converted, checked, offsets taken (2) where there are weights (2), ranges (3), scaled
    # (2), centred (product with the weights 1, difference 2), squared (2), summed (1). A covariance takes products with
    # the weights (2) and of all columns (2) in place of squares and their sums. A GPU writes arrays by elements; the
    # weights are four more.
    looked = item * entries + 2 * numbers + 8.0 * n * (4 + 6 * weighted)
    last, arrays, work, launches = ("covariance", 4, 1 + 2 * d, 8) if covariance else ("variance", 3, 4, 6)
    parts = [
        passes("look", numbers=entries + 4 * n, traffic=looked, launches=8 * gpu),
        passes("centre", numbers=5 * entries, traffic=12 * numbers, work={"float64": 5 * entries}, launches=8 * gpu),
        passes(
            last,
            numbers=entries,
            traffic=arrays * numbers,
            work={"float64": work * entries},
            launches=launches * gpu,
        ),
    ]
    if gpu:
        parts = [*(host.begun(part, on) for part in parts), host.waits("waits", on, _WAITS)]
    else:  # NumPy's passes run on one core
        rows: dict[Unit, float] = {"scalar": _SCALAR_OF_ROW * n + _SCALAR_OF_ENTRY * entries}
        parts = [dataclasses.replace(part, blocks=1.0) for part in (*parts, Part("rows", work=rows))]
    return Counted(tuple(parts), "passes over the data counted in cukde/bandwidth/rules.py")


@sized("n d dtype weighted boxes", dtype="float64")
def abramson(on: Peaks, sizes: Sizes) -> Counted:
    """Count factors of the bandwidth, see ``cukde/bandwidth/rules.py``: the pilot density, then the factors."""
    task = _pass("sum", sizes.at_points())
    factors = elementwise.doubles("factors", on, (8 + 6 * sizes.weighted) * sizes.n, launches=4 + 4 * sizes.weighted)
    called = waiting.calls("call", on)  # as data are checked
    return _estimate(task, on, [*called, *_named("pilot", _passed(task, on, sizes.boxes)), factors])


def _pass(output: Output, sizes: Sizes, *, k: int = 0, ratio: bool = False) -> Pass:
    """Check the sizes of a pass over all pairs."""
    n, m, d = sizes.n, sizes.m, sizes.d
    for name, size in (("n", n), ("d", d)):
        if size < 1:
            raise ValueError(f"{name} must be at least 1; got {size}")
    if output == "cdf" and d > 1:
        raise ValueError(f"d must be 1 for a distribution function; got {d}")
    if sizes.at_data and m != n:
        raise ValueError(f"m must be n = {n} where at_data says that the queries are the data; got {m}")
    promoted = density_check.result_dtype(np.empty(0, sizes.dtype))
    chosen = density_check.precision(sizes.precision, promoted)
    itemsize = 8 if chosen == "float64" else promoted.itemsize
    flags = (sizes.at_data, sizes.weighted, sizes.deterministic, sizes.check_finite)
    tolerance, share, cells = density_check.tolerance(sizes.rtol), _share(sizes.share), _cells(sizes.cells, d)
    observed = {
        "screened": _share(sizes.screened, "screened"),
        "ran": sizes.ran,
        "again": _share(sizes.again, "again") or 0.0,
        "in_vain": bool(sizes.in_vain),
        "own_out": sizes.leave_one_out,
    }
    return Pass(output, n, m, d, chosen, itemsize, k, *flags, ratio, tolerance, share, cells, sizes.local, **observed)


def _mass(task: Pass, on: Peaks, samples: int, boxes: int) -> list[Part]:
    """Parts of a mass by so many points; on a line nodes lie in the boxes of the data, half a bandwidth wide."""
    if samples == 0:
        return []
    points = NODES * (boxes // 2 + 2 * REACH) if task.d == 1 else samples
    passed = _passed(dataclasses.replace(task, m=points, itself=False, own_out=False), on, boxes)
    drawn = [] if task.d == 1 else [_draw(on, float(points) * task.d)]
    mean = elementwise.awaited("mass: mean", on, 12 * points, operations=_OF_MASS, waits=_WAITS_OF_MASS)
    return [*waiting.calls("host", on, 2), *drawn, *_named("mass", passed), mean]


def _draw(on: Peaks, numbers: float) -> Part:
    """NumPy draws so many coordinates of the points of a mass, and a GPU waits for them."""
    if on.backend == "cpu":
        return Part("mass: draw", 40 * numbers, {"scalar": _SCALAR_OF_DRAWN * numbers}, blocks=1.0)
    return Part("mass: draw", 8 * numbers, cycles=host.POINT_OF_MASS * numbers * on.clock, launches=2)


def _share(share: Any, name: str = "share") -> float | None:
    """Check the share of pairs that a pass takes, or another share."""
    if share is None:
        return None
    share = core_check.number(name, share, 0)
    if share > 1:
        raise ValueError(f"{name} must be at most 1; got {share}")
    return share


def _cells(cells: Any, d: int) -> int | None:
    """Check the number of cells of queries of the transform."""
    if cells is None:
        return None
    if d not in plane_plan.COLUMNS:
        raise ValueError(f"cells must be None but for 2 and 3 dimensions; got d = {d}")
    return core_check.count("cells", cells)


def _estimate(task: Pass, on: Peaks, parts: Sequence[Part], *, flops: float = 0, traffic: float = 0) -> Counted:
    """Count a pass, with the parts after its reductions; the textbook's ``flops`` and ``traffic`` grow by these."""
    moments = task.output == "moments"
    flops += (flash_score_flops if moments else flash_density_flops)(task.n, task.m, task.d)
    traffic += flash_pass_bytes(task.n, task.m, task.d, moments=moments)
    return _counted([*_survey(task, on), *parts], task.pairs, flops, traffic, on)


def _distribution(task: Pass, on: Peaks, passed: list[Part], launches: int) -> Counted:
    """Count array operations after passes, too: they follow a wait, so that those of few queries wait for Python."""
    finish = elementwise.doubles("finish", on, 12 * task.m, launches=launches)
    return _estimate(task, on, [*passed, host.begun(finish, on)])


_OF_ALL_PAIRS = {
    "small": cuda_cores.small,
    "f16 ahead": tensor.ordered,
    "f16": tensor.ordered,
    "f16_symmetric": tensor.symmetric,
    "wide": wide.f16,
    "wide_f64": wide.f64,
    "f64": cuda_cores.f64,
    "difference": cuda_cores.by_difference,
}


def _engine(task: Pass, on: Peaks) -> str:
    """Name of the pass over all pairs: that which ran, or which takes data near their mean."""
    return engines.engine(task, on) if task.ran is None else task.ran


def _passed(task: Pass, on: Peaks, boxes: int, *, ordered: bool = False, in_order: bool = False) -> list[Part]:
    """Parts of a pass over all pairs, or over a share of them."""
    most = math.inf if on.backend == "cpu" else plan_gpu.SKIPPING_COLUMNS
    if task.share is not None and not 2 <= task.d <= most:
        raise ValueError(
            f"share must be None for {task.d} dimensions on {on.name}: passes that leave out pairs are of 2 dimensions "
            f"or more, on a GPU of at most {plan_gpu.SKIPPING_COLUMNS}"
        )
    if task.m == 0:
        return []
    shape = task.shape(on)
    consulted(plan_cpu.plan(shape) if on.backend == "cpu" else plan_gpu.plan(shape))
    if task.local:
        return _local(task, on)
    if task.cells is not None:
        return plane_cost.passed(task, on, task.cells)
    if task.share is not None:
        return (
            skipping_cpu.passed(task, on, task.share) if on.backend == "cpu" else skipping.passed(task, on, task.share)
        )
    if task.d == 1:
        return one_dimension_cost.passed(task, on, boxes, ordered=ordered, in_order=in_order)
    if on.backend == "cpu":
        return cost_cpu.passed(task, on)
    if task.own_out and task.d in plane_plan.COLUMNS and not plan_gpu.own_pairs_are_few(task.n):
        # Own terms are taken from sums of all pairs, as the transform has them.
        taken = elementwise.doubles("own terms", on, 16 * task.n, launches=10)
        return [*_passed(dataclasses.replace(task, own_out=False), on, boxes), taken]
    name = _engine(task, on)
    if name == "centred" and task.own_out:
        return centred.passed(task, on)
    return _OF_ALL_PAIRS[name](task, on) if name in _OF_ALL_PAIRS else skipping.by_rate(name, task, on)


def _local(task: Pass, on: Peaks) -> list[Part]:
    """Parts of a pass with a factor for each point: all pairs by differences, on a CPU in double."""
    if task.share is not None and on.backend == "gpu":
        raise ValueError("share must be None where each point has a factor: such a pass takes all pairs on a GPU")
    task = dataclasses.replace(task, weighted=True)  # no pair is the same both ways
    # Checked, squared, logarithms taken; exponents' offsets and scales written.
    factors = elementwise.doubles("factors", on, 14 * task.n, launches=12)
    if on.backend == "cpu":
        if task.share is not None:
            return [factors, *skipping_cpu.passed(task, on, task.share)]
        return [factors, *cost_cpu.passed(task, on)]
    precision = "float64" if task.precision == "float64" else "ieee"
    return [factors, *cuda_cores.by_difference(dataclasses.replace(task, precision=precision), on)]


def _survey(task: Pass, on: Peaks, first: Pass | None = None) -> list[Part]:
    """Pre-pass reductions: the mean of the data, and a look at all arrays; ``first`` of several passes is another one.

    Without ``check_finite`` it is left out where no engine of a GPU asks for the radius.
    """
    if on.backend == "cpu":
        return cost_cpu.before(task, *(_name_on_cpu(one, on) for one in (first, task) if one is not None))
    # What an observed call waits for, and the transform in any case. Else work of the device alone is counted, and how
    # long it is idle when the host has learnt which products will do.
    transform = task.d == 1 and not one_dimension_cost.takes_pairs(task, "gpu")
    name = task.ran or ("line" if transform else None)
    of_call = [] if name is None else [Part("host", cycles=1e-3 * plan_gpu.call_ms(name) * on.clock, launches=0)]
    if task.ran == "small":  # whose launch does it
        return of_call
    data = float(task.itemsize * task.d) * task.n
    values = float(task.itemsize) * task.k * task.n
    weights = 8.0 * task.n * 5 if task.weighted else 0.0
    launches = 1 + (task.n * task.d > _ENTRIES_OF_PART) + _WEIGHT_LAUNCHES * task.weighted
    by_products = task.d > 1 and task.precision != "ieee" and not task.local
    looks = task.checked or by_products
    looked = task.point_bytes + values if looks else 0.0
    means = _MEAN * (1 + (task.n * task.d > _ENTRIES_OF_PART))
    others = elementwise.short(_WEIGHT_LAUNCHES * task.weighted + _SURVEY_LAUNCHES * looks)
    launches += _SURVEY_LAUNCHES * looks
    waits = name is None and by_products and not _ahead(task, on)
    cycles = means + others + waits * host.RADIUS * on.clock
    return [*of_call, Part("survey", data + looked + weights, cycles=cycles, launches=launches)]


def _ahead(task: Pass, on: Peaks) -> bool:
    """Whether products are launched before the values are known, and the host waits for nothing before."""
    plain = task.checked and not (task.itself or task.weighted) and task.output != "values"
    return plain and plan_gpu.ahead_serves(task.shape(on))


def _name_on_cpu(task: Pass, on: Peaks) -> str:
    if task.d == 1 and not task.local:
        return one_dimension_cost.name_of(task)
    return "pairs" if task.share is not None or task.cells is not None else cost_cpu.name_of(task, on)


def _shift(on: Peaks, n: int, d: int, m: int = 0) -> Part:
    """Move the data in float64: moments, their scale, the sum; queries are converted."""
    end = _end("shift", on, n, n * (3 * d + 2) + 2 * m * d, n * (6 * d + 2) + 2 * m * d)
    if on.backend == "cpu" or m == 0:
        return end
    converted = max(elementwise.cycles(on, float(m) * d), elementwise.SHORT)
    return dataclasses.replace(end, cycles=end.cycles + converted, launches=2)


def _laplace_end(on: Peaks, sizes: Sizes) -> Part:
    """Densities of the sums: of one column by CuPy or NumPy."""
    by_arrays = 20 * sizes.m
    return (
        elementwise.doubles("density", on, by_arrays, launches=9)
        if sizes.d == 1
        else _end("density", on, sizes.m, 4 * sizes.m, by_arrays)
    )


def _end(name: str, on: Peaks, m: int, numbers: float, by_numpy: float, *, launches: int = 1) -> Part:
    """What becomes of sums at ``m`` queries, by kernels that read and write so many float64 numbers in all.

    NumPy takes several passes. A GPU has a warp for each query, however few its numbers are.
    """
    if on.backend == "cpu":
        return elementwise.doubles(name, on, by_numpy)
    waves = m / (_QUERIES_OF_END * _RESIDENT_OF_END * on.multiprocessors)
    cycles = launches * max(elementwise.CYCLES * waves, elementwise.SHORT)
    return Part(name, 8.0 * numbers, cycles=cycles, launches=launches)


def _named(stage: str, parts: Sequence[Part]) -> list[Part]:
    """Name the parts of one of several stages; the pass itself has the name of the stage."""
    return [dataclasses.replace(p, name=stage if p.name == "pass" else f"{stage}: {p.name}") for p in parts]


def _counted(parts: Sequence[Part], pairs: float, flops: float, traffic: float, on: Peaks) -> Counted:
    if on.backend == "cpu":
        parts = [dataclasses.replace(part, launches=0) for part in parts]
    return Counted(tuple(parts), _SOURCE, pairs, flops, traffic)
