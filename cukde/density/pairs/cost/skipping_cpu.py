"""Time on the CPU of passes that leave out pairs, and of those that take all, by rates: the choice, and the model.

``cukde/density/pairs/cpu/skipping/`` has the passes. Rates are nanoseconds on two cores with AVX-512 (Zen 4), by
dimensions; the choice needs their ratios alone, to within a third.
"""

from __future__ import annotations

from cukde.core.cost.cost import Part, Unit
from cukde.density.pairs.cost.engines import Pass
from cukde.density.sums import Output

# For a pair, where all are taken, in single and in double precision: of products of matrices. Differences, which take
# their place now, were measured at 0.6 of it; the rates below are to be measured beside them before these change.
_DENSE_SINGLE = {5: 0.45, 16: 0.55, 32: 0.73, 64: 1.1, 128: 1.9}
_DENSE_DOUBLE = {3: 0.72, 8: 0.8, 16: 0.96, 32: 1.34, 64: 2.1, 128: 3.4}
_ONCE = 0.6  # of that, where a pair serves both of its points

# For a pair of a query and a block that is not left out.
_SUMMED_SINGLE = {2: 0.34, 3: 0.4, 5: 0.44, 8: 0.56, 16: 0.98, 32: 1.7, 64: 2.9, 128: 5.4}
_SUMMED_DOUBLE = {2: 0.54, 3: 0.6, 5: 0.76, 8: 0.9, 16: 1.6, 32: 2.7, 64: 6.3, 128: 20.0}
_SCREENED = {8: 0.5, 16: 0.8, 32: 1.6, 64: 3.0, 128: 6.0}
_SKIPPING_ONCE = 0.28  # of both, where a pair serves both of its points; all are screened

SCREENED_FROM = 6
"""Dimensions from which on boxes are so wide that squared distances in single precision pay, before those in double."""

# Beside, with values: for any of them, and for each column.
_VALUES_SINGLE, _VALUES_DOUBLE = (0.05, 0.02), (0.06, 0.025)
_VALUES_SUMMED_SINGLE, _VALUES_SUMMED_DOUBLE = (0.15, 0.04), (0.2, 0.06)

# Operations of these cores, a nanosecond: what rates are as work, for other processors.
_SCALARS = 7.6

_ROW, _COORDINATE = 100.0, 10.0  # for a point, and each of its coordinates: order and blocks
_QUERY, _SIDE = 500.0, 0.1  # for a query, and a dimension of a block that it may be near


def dense(output: Output, d: int, k: int = 0, *, single: bool, once: bool) -> float:
    """Nanoseconds a pair of the pass that takes all of them."""
    moments = output == "moments"
    values = _of_values(_VALUES_SINGLE if single else _VALUES_DOUBLE, k)
    rate = _at(_DENSE_SINGLE if single else _DENSE_DOUBLE, d)
    return rate * (1 + 0.9 * d / (d + 14) if moments else 1.0) * (_ONCE if once else 1.0) + values


def skipping(
    output: Output,
    d: int,
    n: int,
    m: int,
    k: int,
    screened: float,
    summed: float,
    *,
    single: bool,
    once: bool,
    ordered: bool,
) -> float:
    """Nanoseconds of a whole pass that screens and sums shares of its pairs; ``ordered``: without the order.

    ``once`` says that each pair serves both of its points; it counts twice.
    """
    ordering = 0.0 if ordered else order(d, n, m)
    taken = n * m * (summed * _summing(output, d, k, single=single) + screened * _at(_SCREENED, d))
    return ordering + _boxes(d, n, m) + taken * (_SKIPPING_ONCE if once else 1.0)


def passed(task: Pass, share: float) -> list[Part]:
    """Parts of a pass that sums a share of its pairs.

    How many are screened is not known of a share: it is estimated, as between mixtures and one normal distribution.
    """
    single = task.precision in ("float32", "tf32") and task.itemsize == 4 and not task.weighted
    both = task.output == "moments" and task.itself and not task.weighted
    once = _SKIPPING_ONCE if both else 1.0
    pairs = share * task.pairs
    rate = once * _summing(task.output, task.d, task.k, single=single)
    unit: Unit = "exponential" if single else "exponential_f64"
    ordering = order(task.d, task.n, 0 if task.itself else task.m) + _boxes(task.d, task.n, task.m)
    parts = [
        Part("order", task.point_bytes, {"scalar": _SCALARS * ordering}),
        Part("pass", task.result_bytes, {unit: pairs, "scalar": _SCALARS * rate * pairs}),
    ]
    if both or (not single and task.d >= SCREENED_FROM):
        screened = once * share ** (3 / task.d) * task.pairs * _at(_SCREENED, task.d)
        parts.insert(1, Part("screen", work={"scalar": _SCALARS * screened}))
    return parts


def _summing(output: Output, d: int, k: int = 0, *, single: bool) -> float:
    """Nanoseconds of a pair that is summed."""
    rate = _at(_SUMMED_SINGLE if single else _SUMMED_DOUBLE, d)
    rate = rate * (1 + 0.5 * d / (d + 3)) if output == "moments" else rate
    return rate + _of_values(_VALUES_SUMMED_SINGLE if single else _VALUES_SUMMED_DOUBLE, k)


def _of_values(rates: tuple[float, float], k: int) -> float:
    return rates[0] + rates[1] * k if k else 0.0


def order(d: int, n: int, m: int) -> float:
    """Nanoseconds to put points in order."""
    return (_ROW + _COORDINATE * d) * (n + m)


def _boxes(d: int, n: int, m: int) -> float:
    """Nanoseconds to find the blocks that are near queries."""
    return m * (_QUERY + _SIDE * d * n / 64)


def _at(rates: dict[int, float], d: int) -> float:
    """The rate of the first number of dimensions that is not below ``d``; beyond the last, in proportion."""
    for most, rate in rates.items():
        if d <= most:
            return rate
    return rate * d / most
