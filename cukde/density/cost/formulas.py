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
from cukde.density.one_dimension import cost as one_dimension_cost
from cukde.density.pairs.cost import cpu as cost_cpu, engines, ordinary, tensor, wide
from cukde.density.pairs.cost.engines import Pass

_SOURCE = (
    "counted from the loops of kernels_cu/ and cukde/density/, an exponential and the products of its exponent a pair; "
    "textbook: Flash-SD-KDE, section 3.1 and appendix A"
)

# Boxes between the first point and the last of a line, half a bandwidth wide, where nobody says: those of a million
# points from a normal distribution by Silverman's rule are 300.
DEFAULT_BOXES = 512

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


def kde(
    on: Peaks,
    *,
    n: int,
    m: int,
    d: int,
    dtype: Any = "float32",
    precision: str | None = None,
    weighted: bool = False,
    local: bool = False,
    at_data: bool = False,
    deterministic: bool = False,
    check_finite: bool = True,
    boxes: int = DEFAULT_BOXES,
) -> Counted:
    """Count a density of ``n`` points of ``d`` dimensions at ``m`` queries; ``local`` says that each has a factor.

    A call with ``rtol`` is counted as one of all pairs, the most that it takes.
    """
    of = _pass("sum", n, m, d, dtype, precision, weighted, at_data, deterministic, check_finite)
    parts = [*_survey(of, on), *(_local(of, on) if local else _passed(of, on, boxes))]
    return _counted(parts, of.pairs, flash_density_flops(n, m, d), flash_pass_bytes(n, m, d, moments=False), on)


def score(
    on: Peaks,
    *,
    n: int,
    m: int,
    d: int,
    dtype: Any = "float32",
    precision: str | None = None,
    weighted: bool = False,
    at_data: bool = False,
    deterministic: bool = False,
    check_finite: bool = True,
    boxes: int = DEFAULT_BOXES,
) -> Counted:
    """Count the gradients of the log density."""
    of = _pass("moments", n, m, d, dtype, precision, weighted, at_data, deterministic, check_finite, ratio=True)
    after = _passes("scale", on, m, 6 * d, launches=4)
    parts = [*_survey(of, on), *_passed(of, on, boxes), after]
    return _counted(parts, of.pairs, flash_score_flops(n, m, d), flash_pass_bytes(n, m, d, moments=True), on)


def density_and_score(
    on: Peaks,
    *,
    n: int,
    m: int,
    d: int,
    dtype: Any = "float32",
    precision: str | None = None,
    weighted: bool = False,
    at_data: bool = False,
    deterministic: bool = False,
    check_finite: bool = True,
    boxes: int = DEFAULT_BOXES,
) -> Counted:
    """Count log densities with their gradients."""
    of = _pass("moments", n, m, d, dtype, precision, weighted, at_data, deterministic, check_finite)
    after = _passes("scale", on, m, 6 * d + 8, launches=9)
    parts = [*_survey(of, on), *_passed(of, on, boxes), after]
    return _counted(parts, of.pairs, flash_score_flops(n, m, d), flash_pass_bytes(n, m, d, moments=True), on)


def laplace_kde(
    on: Peaks,
    *,
    n: int,
    m: int,
    d: int,
    dtype: Any = "float32",
    precision: str | None = None,
    weighted: bool = False,
    at_data: bool = False,
    deterministic: bool = False,
    check_finite: bool = True,
    boxes: int = DEFAULT_BOXES,
) -> Counted:
    """Count a Laplace-corrected density: a factor, by one multiply-add, beside each exponential."""
    of = _pass("laplace", n, m, d, dtype, precision, weighted, at_data, deterministic, check_finite)
    parts = [*_survey(of, on), *_passed(of, on, boxes)]
    if on.backend == "cpu" or d == 1 or _engine(of, on) != "f16":  # whose pass ends in the density
        parts.append(_passes("density", on, m, 20, launches=9))
    flops = flash_density_flops(n, m, d) + 2 * of.pairs
    return _counted(parts, of.pairs, flops, flash_pass_bytes(n, m, d, moments=False), on)


def kernel_sum(
    on: Peaks,
    *,
    n: int,
    m: int,
    d: int,
    k: int = 1,
    dtype: Any = "float32",
    precision: str | None = None,
    at_data: bool = False,
    deterministic: bool = False,
    check_finite: bool = True,
    boxes: int = DEFAULT_BOXES,
) -> Counted:
    """Count sums of ``k`` values."""
    of = _pass("values", n, m, d, dtype, precision, False, at_data, deterministic, check_finite, k=k)
    parts = [*_survey(of, on), *_passed(of, on, boxes), _passes("scale", on, m, 4 * k, launches=3)]
    flops = flash_density_flops(n, m, d) + 2 * k * of.pairs
    return _counted(parts, of.pairs, flops, flash_pass_bytes(n, m, d, moments=False) + 4 * k * (n + m), on)


def cdf(
    on: Peaks,
    *,
    n: int,
    m: int,
    d: int = 1,
    dtype: Any = "float32",
    precision: str | None = None,
    weighted: bool = False,
    at_data: bool = False,
    deterministic: bool = False,
    check_finite: bool = True,
    boxes: int = DEFAULT_BOXES,
) -> Counted:
    """Count a distribution function of one dimension."""
    of = _pass("cdf", n, m, d, dtype, precision, weighted, at_data, deterministic, check_finite)
    return _distribution(of, on, _passed(of, on, boxes))


def log_cdf(
    on: Peaks,
    *,
    n: int,
    m: int,
    d: int = 1,
    dtype: Any = "float32",
    precision: str | None = None,
    weighted: bool = False,
    at_data: bool = False,
    deterministic: bool = False,
    check_finite: bool = True,
    boxes: int = DEFAULT_BOXES,
) -> Counted:
    """Count its logarithm: sums of what is below and of what is above."""
    of = _pass("cdf", n, m, d, dtype, precision, weighted, at_data, deterministic, check_finite)
    both = [part for side in ("below", "above") for part in _named(side, _passed(of, on, boxes))]
    return _distribution(of, on, both)


def debias(
    on: Peaks,
    *,
    n: int,
    d: int,
    dtype: Any = "float32",
    precision: str | None = None,
    weighted: bool = False,
    deterministic: bool = False,
    check_finite: bool = True,
    boxes: int = DEFAULT_BOXES,
) -> Counted:
    """Count moving the data along their score at their own points."""
    of = _pass("moments", n, n, d, dtype, precision, weighted, True, deterministic, check_finite, ratio=True)
    parts = [*_survey(of, on), *_named("score", _passed(of, on, boxes)), _shift(on, n, d)]
    return _counted(parts, of.pairs, flash_score_flops(n, n, d), flash_pass_bytes(n, n, d, moments=True), on)


def sd_kde(
    on: Peaks,
    *,
    n: int,
    m: int,
    d: int,
    dtype: Any = "float32",
    precision: str | None = None,
    weighted: bool = False,
    at_data: bool = False,
    deterministic: bool = False,
    check_finite: bool = True,
    boxes: int = DEFAULT_BOXES,
) -> Counted:
    """Count score-debiased densities: parts of the score, the shift and the density, by these names."""
    given = _pass("sum", n, m, d, dtype, precision, weighted, at_data, deterministic, check_finite)
    estimate = dataclasses.replace(given, output="moments", m=n, itself=True, ratio=True)
    moved = dataclasses.replace(given, itemsize=8, itself=False)  # debiased data are float64
    of_score = _passed(estimate, on, boxes, in_order=not weighted)
    sorted_by_score = d == 1 and not weighted and not one_dimension_cost.takes_pairs(estimate, on.backend)
    of_kde = _passed(moved, on, boxes, ordered=sorted_by_score and on.backend == "gpu")
    shift = _shift(on, n, d, m)
    if d == 1:
        shift = _passes("shift", on, m, 2)
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


def abramson(
    on: Peaks, *, n: int, d: int, dtype: Any = "float64", weighted: bool = False, boxes: int = DEFAULT_BOXES
) -> Counted:
    """Count factors of the bandwidth, see ``cukde/bandwidth/rules.py``: the pilot density, and what is made of it."""
    of = _pass("sum", n, n, d, dtype, None, weighted, True, False, True)
    factors = _passes("factors", on, n, 8 + 6 * weighted, launches=4 + 4 * weighted)
    parts = [*_survey(of, on), *_named("pilot", _passed(of, on, boxes)), factors]
    return _counted(parts, of.pairs, flash_density_flops(n, n, d), flash_pass_bytes(n, n, d, moments=False), on)


def _pass(
    output: Any,
    n: int,
    m: int,
    d: int,
    dtype: Any,
    precision: str | None,
    weighted: bool,
    at_data: bool,
    deterministic: bool,
    check_finite: bool,
    *,
    k: int = 0,
    ratio: bool = False,
) -> Pass:
    for name, size in (("n", n), ("d", d)):
        if size < 1:
            raise ValueError(f"{name} must be at least 1; got {size}")
    if output == "cdf" and d > 1:
        raise ValueError(f"d must be 1 for a distribution function; got {d}")
    if at_data and m != n:
        raise ValueError(f"m must be n = {n} where at_data says that the queries are the data; got {m}")
    promoted = density_check.result_dtype(np.empty(0, dtype))
    chosen = density_check.precision(precision, promoted)
    itemsize = 8 if chosen == "float64" else promoted.itemsize
    return Pass(output, n, m, d, chosen, itemsize, k, at_data, weighted, deterministic, check_finite, ratio)


def _distribution(of: Pass, on: Peaks, passed: list[Part]) -> Counted:
    parts = [*_survey(of, on), *passed, _passes("finish", on, of.m, 12, launches=8)]
    traffic = flash_pass_bytes(of.n, of.m, 1, moments=False)
    return _counted(parts, of.pairs, flash_density_flops(of.n, of.m, 1), traffic, on)


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
        "f64": ordinary.f64,
        "difference": ordinary.by_difference,
    }[_engine(of, on)](of, on)


def _local(of: Pass, on: Peaks) -> list[Part]:
    """Parts of a density with a factor for each point: of all pairs, by differences; on a CPU in double, by BLAS."""
    if of.m == 0:
        return []
    # Checked, squared, logarithms taken; exponents' offsets and scales written.
    factors = _passes("factors", on, of.n, 14, launches=12)
    if on.backend == "cpu":
        precision = "ieee" if of.precision == "ieee" else "float64"
        return [factors, *cost_cpu.passed(dataclasses.replace(of, precision=precision))]
    precision = "float64" if of.precision == "float64" else "ieee"
    return [factors, *ordinary.by_difference(dataclasses.replace(of, precision=precision), on)]


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
    return _passes("shift", on, n, 6 * d + 2, queries=m * d, launches=3)


def _passes(name: str, on: Peaks, rows: int, numbers: float, *, queries: float = 0.0, launches: int = 1) -> Part:
    """What reads and writes so many float64 numbers a row: two of them in a pass, and of queries too."""
    traffic = 8.0 * (rows * numbers + 2 * queries)
    return elementwise.passes(name, on, rows * numbers / 2 + queries, traffic, launches=launches)


def _named(stage: str, parts: Sequence[Part]) -> list[Part]:
    """Parts of a stage of several, by its name: the pass itself has that of the stage."""
    return [dataclasses.replace(p, name=stage if p.name == "pass" else f"{stage}: {p.name}") for p in parts]


def _counted(parts: Sequence[Part], pairs: float, flops: float, traffic: float, on: Peaks) -> Counted:
    if on.backend == "cpu":
        parts = [dataclasses.replace(part, launches=0) for part in parts]
    return Counted(tuple(parts), _SOURCE, pairs, flops, traffic)
