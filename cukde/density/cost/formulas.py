"""What the density family costs: passes over all pairs of data and queries, and what comes before and after them.

Of data whose distances to their mean are small enough for products of tensor cores; and of a bandwidth that is a
number, as others change the points before anything else.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from cukde.core.cost import elementwise, host
from cukde.core.cost.cost import Counted, Part, Unit
from cukde.core.cost.peaks import Peaks
from cukde.density import check as density_check
from cukde.density.cost.flash import (
    flash_bytes,
    flash_density_flops,
    flash_flops,
    flash_pass_bytes,
    flash_score_flops,
)
from cukde.density.cost.sizes import OF_DATA, OF_QUERIES, OPTIONS, Sizes, sized
from cukde.density.one_dimension import cost as one_dimension_cost
from cukde.density.pairs.cost import cpu as cost_cpu, cuda_cores, engines, tensor, wide
from cukde.density.pairs.cost.engines import Pass
from cukde.density.sums import Output

_SOURCE = (
    "counted from the loops of kernels_cu/ and cukde/density/, an exponential and the products of its exponent a pair; "
    "textbook: Flash-SD-KDE, section 3.1 and appendix A"
)

# Launches of CuPy's elementwise kernels: mean, zeros, survey and its copy; weights and their logarithms.
_SURVEY_LAUNCHES, _WEIGHT_LAUNCHES = 3, 10

# Entries that a block of the mean adds up, and its cycles: Nsight Compute on an H200, 9 us.
_ENTRIES_OF_PART, _MEAN = 2**16, 17_000

# As many operations one at a time as NumPy takes to begin a row, in the five passes that have one number a row or one a
# column beside the data; and to choose and compare an entry, in two. Measured on a core of 4.1e9 a second: 40 ns a row
# and 1.2 ns an entry of 2^17 entries in rows of 2 to 64.
_SCALAR_OF_ROW, _SCALAR_OF_ENTRY = 165, 5

# So many operations one at a time take as long as NumPy's mean, and the largest distance to it, of an entry: 1.3 and
# 0.56 ns on the same core.
_SCALAR_OF_MEAN, _SCALAR_OF_LOOK = 5.5, 2.3


@sized(f"n m d dtype precision weighted local at_data {OPTIONS}")
def kde(on: Peaks, sizes: Sizes, local: bool = False) -> Counted:
    """Count a density of ``n`` points of ``d`` dimensions at ``m`` queries; ``local``: each point has its own factor.

    A call with ``rtol`` is counted as one of all pairs, the most that it takes.
    """
    each = _pass("sum", sizes)
    return _estimate(each, on, _local(each, on) if local else _passed(each, on, sizes.boxes))


@sized(OF_QUERIES)
def score(on: Peaks, sizes: Sizes) -> Counted:
    """Count the gradients of the log density."""
    each = _pass("moments", sizes, ratio=True)
    after = elementwise.doubles("scale", on, 6 * sizes.d * sizes.m, launches=4)
    return _estimate(each, on, [*_passed(each, on, sizes.boxes), after])


@sized(OF_QUERIES)
def density_and_score(on: Peaks, sizes: Sizes) -> Counted:
    """Count log densities with their gradients."""
    each = _pass("moments", sizes)
    after = elementwise.doubles("scale", on, (6 * sizes.d + 8) * sizes.m, launches=9)
    return _estimate(each, on, [*_passed(each, on, sizes.boxes), after])


@sized(OF_QUERIES)
def laplace_kde(on: Peaks, sizes: Sizes) -> Counted:
    """Count a Laplace-corrected density: a factor, by one multiply-add, beside each exponential."""
    each = _pass("laplace", sizes)
    parts = _passed(each, on, sizes.boxes)
    if on.backend == "cpu" or sizes.d == 1 or _engine(each, on) != "f16":  # whose pass ends in the density
        parts.append(elementwise.doubles("density", on, 20 * sizes.m, launches=9))
    return _estimate(each, on, parts, flops=2 * each.pairs)


@sized(f"n m d k dtype precision at_data {OPTIONS}")
def kernel_sum(on: Peaks, sizes: Sizes, k: int = 1) -> Counted:
    """Count sums of ``k`` values."""
    each = _pass("values", sizes, k=k)
    parts = [*_passed(each, on, sizes.boxes), elementwise.doubles("scale", on, 4 * k * sizes.m, launches=3)]
    return _estimate(each, on, parts, flops=2 * k * each.pairs, traffic=4 * k * (sizes.n + sizes.m))


@sized(OF_QUERIES, d=1)
def cdf(on: Peaks, sizes: Sizes) -> Counted:
    """Count a distribution function of one dimension."""
    each = _pass("cdf", sizes)
    return _distribution(each, on, _passed(each, on, sizes.boxes))


@sized(OF_QUERIES, d=1)
def log_cdf(on: Peaks, sizes: Sizes) -> Counted:
    """Count its logarithm: sums of what is below and of what is above."""
    each = _pass("cdf", sizes)
    both = [part for side in ("below", "above") for part in _named(side, _passed(each, on, sizes.boxes))]
    return _distribution(each, on, both)


@sized(OF_DATA)
def debias(on: Peaks, sizes: Sizes) -> Counted:
    """Count a shift of the data along the score at the data."""
    each = _pass("moments", sizes.at_points(), ratio=True)
    return _estimate(each, on, [*_named("score", _passed(each, on, sizes.boxes)), _shift(on, sizes.n, sizes.d)])


@sized(OF_QUERIES)
def sd_kde(on: Peaks, sizes: Sizes) -> Counted:
    """Count score-debiased densities: parts of the score, the shift and the density, by these names."""
    n, m, d, boxes = sizes.n, sizes.m, sizes.d, sizes.boxes
    given = _pass("sum", sizes)
    estimate = dataclasses.replace(given, output="moments", m=n, itself=True, ratio=True)
    moved = dataclasses.replace(given, itemsize=8, itself=False)  # debiased data are float64
    of_score = _passed(estimate, on, boxes, in_order=not sizes.weighted)
    sorted_by_score = d == 1 and not sizes.weighted and not one_dimension_cost.takes_pairs(estimate, on.backend)
    of_kde = _passed(moved, on, boxes, ordered=sorted_by_score and on.backend == "gpu")
    shift = _shift(on, n, d, m)
    if d == 1:
        shift = elementwise.doubles("shift", on, 2 * m)
    elif m > 0 and on.backend == "gpu" and _engine(estimate, on) == "f16_symmetric" and _engine(moved, on) == "f16":
        # One launch finishes the score, moves the data and makes the operands of the density.
        of_score = [part for part in of_score if part.name != "finish"]
        prepared = next(part for part in of_kde if part.name == "prepare")
        of_kde = [part for part in of_kde if part is not prepared]
        sums = 4.0 * n * (tensor.depth_of(d) + 1)
        shift = Part("shift", prepared.bytes + sums + float(d) * (given.itemsize * n + 8 * m))
    parts = [*_survey(given, on), *_named("score", of_score), shift, *_named("kde", of_kde)]
    return _counted(parts, estimate.pairs + given.pairs, flash_flops(n, m, d), flash_bytes(n, m, d), on)


def bandwidth(on: Peaks, *, n: int, d: int, dtype: Any = "float64", weighted: bool = False) -> Counted:
    """Count a reference rule for the bandwidth: passes over (n, d) float64 numbers, see ``cukde/bandwidth/rules.py``."""
    entries, item = float(n) * d, np.dtype(dtype).itemsize
    numbers = 8.0 * entries
    gpu = on.backend == "gpu"
    # Read and written: converted, checked, offsets taken (2 arrays) where weights are (2), ranges (3), scaled (2),
    # centred (product with the weights 1, difference 2), squared (2), summed (1).
    parts = [
        Part("look", item * entries + 2 * numbers + 8.0 * n * (4 + 6 * weighted), launches=8 * gpu),
        Part("centre", 12 * numbers, {"float64": 5 * entries}, launches=8 * gpu),
        Part("variance", 3 * numbers, {"float64": 4 * entries}, launches=6 * gpu),
    ]
    if not gpu:  # NumPy's passes run on one core
        rows: dict[Unit, float] = {"scalar": _SCALAR_OF_ROW * n + _SCALAR_OF_ENTRY * entries}
        parts = [dataclasses.replace(part, blocks=1.0) for part in (*parts, Part("rows", work=rows))]
    return Counted(tuple(parts), "passes over the data counted in cukde/bandwidth/rules.py")


@sized("n d dtype weighted boxes", dtype="float64")
def abramson(on: Peaks, sizes: Sizes) -> Counted:
    """Count factors of the bandwidth, see ``cukde/bandwidth/rules.py``: the pilot density, then the factors."""
    each = _pass("sum", sizes.at_points())
    factors = elementwise.doubles("factors", on, (8 + 6 * sizes.weighted) * sizes.n, launches=4 + 4 * sizes.weighted)
    return _estimate(each, on, [*_named("pilot", _passed(each, on, sizes.boxes)), factors])


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
    return Pass(output, n, m, d, chosen, itemsize, k, *flags, ratio)


def _estimate(of: Pass, on: Peaks, parts: Sequence[Part], *, flops: float = 0, traffic: float = 0) -> Counted:
    """Count a pass with what comes before and after; ``flops`` and ``traffic`` are a textbook's beside its own."""
    moments = of.output == "moments"
    flops += (flash_score_flops if moments else flash_density_flops)(of.n, of.m, of.d)
    traffic += flash_pass_bytes(of.n, of.m, of.d, moments=moments)
    return _counted([*_survey(of, on), *parts], of.pairs, flops, traffic, on)


def _distribution(of: Pass, on: Peaks, passed: list[Part]) -> Counted:
    return _estimate(of, on, [*passed, elementwise.doubles("finish", on, 12 * of.m, launches=8)])


def _engine(of: Pass, on: Peaks) -> engines.Engine:
    return engines.engine(of, on.capability)


def _passed(of: Pass, on: Peaks, boxes: int, *, ordered: bool = False, in_order: bool = False) -> list[Part]:
    """Parts of a pass over all pairs."""
    if of.m == 0:
        return []
    if of.d == 1:
        return one_dimension_cost.passed(of, on, boxes, ordered=ordered, in_order=in_order)
    if on.backend == "cpu":
        return cost_cpu.passed(of)
    return {
        "f16": tensor.ordered,
        "f16_symmetric": tensor.symmetric,
        "wide": wide.f16,
        "wide_f64": wide.f64,
        "f64": cuda_cores.f64,
        "difference": cuda_cores.by_difference,
    }[_engine(of, on)](of, on)


def _local(of: Pass, on: Peaks) -> list[Part]:
    """Parts of a density with a factor for each point: of all pairs, by differences; on a CPU in double, by BLAS."""
    if of.m == 0:
        return []
    # Checked, squared, logarithms taken; exponents' offsets and scales written.
    factors = elementwise.doubles("factors", on, 14 * of.n, launches=12)
    if on.backend == "cpu":
        precision = "ieee" if of.precision == "ieee" else "float64"
        return [factors, *cost_cpu.passed(dataclasses.replace(of, precision=precision))]
    precision = "float64" if of.precision == "float64" else "ieee"
    return [factors, *cuda_cores.by_difference(dataclasses.replace(of, precision=precision), on)]


def _survey(of: Pass, on: Peaks) -> list[Part]:
    """The mean of the data, and with ``check_finite`` a look at all arrays."""
    data, queries = float(of.itemsize * of.d) * of.n, float(of.itemsize * of.d) * (0 if of.itself else of.m)
    values = float(of.itemsize) * of.k * of.n
    weights = 8.0 * of.n * 8 if of.weighted else 0.0
    launches = 1 + (of.n * of.d > _ENTRIES_OF_PART) + _WEIGHT_LAUNCHES * of.weighted
    looked = (data + queries + values) if of.known else 0.0
    if on.backend == "cpu":  # one core's
        entries = (_SCALAR_OF_MEAN * data + _SCALAR_OF_LOOK * (data + queries)) / of.itemsize
        return [Part("survey", data + looked + weights, {"scalar": entries}, blocks=1.0)]
    means = _MEAN * (1 + (of.n * of.d > _ENTRIES_OF_PART))
    others = elementwise.short(_WEIGHT_LAUNCHES * of.weighted + _SURVEY_LAUNCHES * of.known)
    launches += _SURVEY_LAUNCHES * of.known
    parts = [Part("survey", data + looked + weights, cycles=means + others, launches=launches)]
    if of.d == 1 and not one_dimension_cost.takes_pairs(of, "gpu"):  # it waits, so that nothing hides the host
        parts.insert(0, Part("host", cycles=host.DENSITY * on.clock, launches=0))
    return parts


def _shift(on: Peaks, n: int, d: int, m: int = 0) -> Part:
    """Data moved by CuPy or NumPy, in float64: moments, their scale, the sum; queries are converted."""
    return elementwise.doubles("shift", on, n * (6 * d + 2) + 2 * m * d, launches=3)


def _named(stage: str, parts: Sequence[Part]) -> list[Part]:
    """Parts of a stage of several, by its name: the pass itself has that of the stage."""
    return [dataclasses.replace(p, name=stage if p.name == "pass" else f"{stage}: {p.name}") for p in parts]


def _counted(parts: Sequence[Part], pairs: float, flops: float, traffic: float, on: Peaks) -> Counted:
    if on.backend == "cpu":
        parts = [dataclasses.replace(part, launches=0) for part in parts]
    return Counted(tuple(parts), _SOURCE, pairs, flops, traffic)
