"""Time of passes that leave out pairs, and of those that take all, by rates: the choice between them, and the model.

``cukde/density/pairs/gpu/skipping/`` has the passes.
"""

from __future__ import annotations

import functools
import math

from cukde.core.cost.cost import Part, Unit
from cukde.core.cost.peaks import Peaks
from cukde.density.pairs.cost import differences
from cukde.density.pairs.cost.engines import Pass

# Picoseconds a pair on an H200, by dimensions: measured by benchmarks/density/bench_map.py and its kin. The choice
# needs their ratios alone, to within a third.
_DENSE = {
    "f16_symmetric": {16: 0.28, 32: 0.45, 64: 0.9},
    "f16": {16: 0.36, 32: 0.55, 64: 1.0},
    "centred": {2: 0.5, 3: 0.6, 8: 1.5, 16: 1.7, 32: 2.5, 64: 5.0},
    "wide": {128: 2.2},
    "f64": {16: 2.2, 32: 3.5, 64: 6.0},
    "centred_f64": {3: 2.2, 8: 2.6, 16: 3.2, 32: 6.0, 64: 9.0},
    "wide_f64": {64: 6.0, 128: 9.0},
    "difference": {2: 1.25, 3: 1.35, 8: 2.3, 16: 2.9, 32: 6.2, 64: 12.0},
}
# With moments, of the same: benchmarks/results/centred_h200.txt.
_MOMENTS = {
    "centred": {2: 0.8, 3: 1.3, 8: 2.7, 16: 3.2, 32: 4.5, 64: 7.7},
    "difference": {2: 1.55, 3: 1.75, 8: 5.7, 16: 6.3, 32: 11.0, 64: 21.0},
}
# Beside, with up to so many columns of values; more of them take all of it again. Measured at d = 16 with 8 and 16
# columns by benchmarks/density/bench_engine.py and benchmarks/perf/modelled.py; others follow the model of the engines.
_VALUES = {
    "f16_symmetric": {16: 0.33, 32: 0.5},
    "f16": {16: 0.54, 32: 0.75, 64: 1.3},
    "wide": {64: 3.2},
    "f64": {16: 1.3, 64: 4.8},
    "wide_f64": {64: 3.2},
    "difference": {1: 0.1, 16: 1.0, 64: 6.0},
}
_DENSE_DOUBLE = {3: 4.0, 8: 7.0, 16: 9.8, 32: 19.0, 64: 38.0}  # differences in double; beyond, differences.rate
_BOXES = {2: 0.41, 3: 0.53, 4: 0.62, 5: 0.72}  # of pairs that are summed, where boxes decide alone
_SCREEN = {16: 0.055, 32: 0.13, 64: 0.28, 128: 0.5}  # of all pairs
_BOXES_BY_PRODUCTS = {5: 0.40}
_BOXES_ONCE = {3: 0.235, 5: 0.30}  # and each pair is taken once
_PRODUCTS = {16: 0.43, 32: 0.67, 64: 2.1, 128: 4.2}  # of pairs that are summed
_PRODUCTS_ONCE = {16: 0.32, 32: 0.5}
_DIFFERENCES = {8: 3.0, 16: 4.5, 32: 12.0, 64: 30.0, 128: 80.0}
_DOUBLE = 4.0  # times as much in double

MOST_DIMENSIONS = max(_SCREEN)
"""Of passes that leave out pairs."""

ORDER_MS = 1.5
"""Milliseconds for order, bounds and the look at the data, however many there are."""

CENTRED_MS = 0.3
"""Milliseconds that the centred pass takes beside its pairs: order, blocks and tiles, in some twenty launches."""

# Of a column of values: milliseconds for each sign that it has, and picoseconds for each of all its pairs. Fitted to
# passes of 262,144 by 131,072 points on an H200, of 1, 3 and 16 columns.
_SIGN_MS, _COLUMN = 2.0, 0.05

# Instructions and exponentials of an H200, a picosecond: what rates are as work, for other processors.
_INSTRUCTIONS, _EXPONENTIALS, _EXPONENTIALS_DOUBLE = 33.0, 4.15, 1.23


def column_ms(pairs: float, signs: int = 1) -> float:
    """Milliseconds for the bounds and the order of a column of values, which has one sign or both."""
    return signs * _SIGN_MS + 1e-9 * pairs * _COLUMN


def screened(d: int) -> bool:
    """Whether a product a pair tells what is left out; in fewer dimensions boxes do."""
    return d > max(_BOXES)


def screening(d: int) -> float:
    """Picoseconds for each of all pairs."""
    return _at(_SCREEN, d) if screened(d) else 0.0


def summing(precision: str, d: int, tight: float, *, once: bool) -> float:
    """Picoseconds for each pair that is not left out; products are good for a share ``tight`` of blocks.

    ``once`` says that a pass takes each pair once where they are; it counts twice.
    """
    slow, fast = (_DIFFERENCES, _PRODUCTS) if screened(d) else (_BOXES, _BOXES_BY_PRODUCTS)
    if once:
        fast = fast if d > max(_PRODUCTS_ONCE) else _PRODUCTS_ONCE if screened(d) else _BOXES_ONCE
    rate = tight * _at(fast, d) + (1 - tight) * _at(slow, d)
    return rate * (_DOUBLE if precision == "float64" else 1)


def dense(engine: str, precision: str, d: int, k: int = 0, *, moments: bool = False) -> float:
    """Picoseconds a pair of an engine that takes all of them, with ``k`` columns of values or with ``moments``."""
    if precision == "float64" and engine == "centred":
        engine = "centred_f64"
    in_double = engine == "difference" and precision == "float64"
    if engine == "difference" and d > max(_DENSE_DOUBLE):
        return differences.rate(d, k or d, double=in_double)
    rates = _MOMENTS if moments and engine in _MOMENTS else _DENSE
    rate = _at(_DENSE_DOUBLE if in_double else rates.get(engine, _DENSE["f16"]), d)
    if not k:
        return rate
    of_columns = _VALUES.get(engine, _VALUES["f16"])
    return -(-k // max(of_columns)) * (rate + _at(of_columns, k) * (2 if in_double else 1))


@functools.cache
def slowest(d: int) -> float:
    """The same of the slowest engine."""
    return max(dense("difference", "float64", d), *(dense(engine, "float32", d, moments=True) for engine in _DENSE))


def _at(rates: dict[int, float], d: int) -> float:
    """The rate of the first number of dimensions that is not below ``d``, else of the last."""
    return next((rate for most, rate in rates.items() if d <= most), list(rates.values())[-1])


def passed(task: Pass, on: Peaks, share: float) -> list[Part]:
    """Parts of a pass that takes a share of its pairs; on an H200 they take what the choice reckons with.

    A part is instructions, and the exponentials of the pairs that are summed. Each column of values is a pass.
    """
    passes = task.k if task.output == "values" else 1
    order_ms = ORDER_MS + (passes * column_ms(task.pairs) if task.output == "values" else 0.0)
    double = task.precision == "float64"
    once = not double and not task.weighted and task.output == "moments" and task.mean_shift
    summed = task.output in ("sum", "values") or (not task.weighted and task.output == "laplace")
    by_products = once or (not double and summed)
    rate = summing(task.precision, task.d, float(by_products), once=once)
    exponentials = passes * share * task.pairs
    of_exponentials = 1 / (_EXPONENTIALS_DOUBLE if double else _EXPONENTIALS)
    others = math.sqrt(max(0.0, rate**2 - of_exponentials**2))  # units overlap: squares of their times add up
    unit: Unit = "exponential_f64" if double else "exponential"
    parts = [
        Part("order", task.point_bytes, cycles=1e-3 * order_ms * on.clock),
        Part("pass", task.result_bytes, {unit: exponentials, "instruction": _INSTRUCTIONS * others * exponentials}),
    ]
    if screened(task.d):
        parts.insert(1, Part("screen", work={"instruction": _INSTRUCTIONS * screening(task.d) * passes * task.pairs}))
    return parts
