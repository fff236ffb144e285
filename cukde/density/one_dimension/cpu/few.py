"""The fast Gauss transform of few points of a line on the CPU, by NumPy alone.

See :mod:`cukde.density.one_dimension.plan` for the method and its bound. Compiled loops take about as long for so few
points, and a process that has none loaded does without. Boxes lie beside each other in a table, so that the moments
around a box of queries are neighbours in memory, and a translation is a product of matrices.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np

from cukde.core import dispatch
from cukde.core.cpu import arrays
from cukde.density.kept import kept
from cukde.density.one_dimension import cdf_pairs, plan as one_dimension_plan
from cukde.density.one_dimension.plan import Plan
from cukde.density.options import LOG_ZERO, Options
from cukde.density.pairs.cpu import few
from cukde.density.pairs.cpu.ends import ended
from cukde.density.plan import cpu as plan_cpu
from cukde.density.sums import Output, PartialSums, put

# Boxes in a table, and multiply-adds of all translations, up to which this takes no longer than compiled loops in two
# threads do.
_MOST_BOXES = 2**12
_MOST_PRODUCTS = 2**22
# Pairs of the distribution function that the transform leaves, up to which the same holds.
_MOST_CDF_PAIRS_LEFT = 2**15

# Multiply-adds of a product up to which BLAS takes it in the caller's thread.
_PRODUCTS_OF_BLOCK = 2**18

# Pairs whose terms are multiplied by many columns of values, and those multiply-adds, up to which the same holds.
_MOST_PAIRS_OF_VALUES = 2**17
_MOST_PRODUCTS_OF_VALUES = 2**25


class _Limits(NamedTuple):
    """Up to which the transform is made."""

    boxes: int
    products: int
    cdf_pairs: int


_FEW = _Limits(_MOST_BOXES, _MOST_PRODUCTS, _MOST_CDF_PAIRS_LEFT)
_MANY = _Limits(2**17, 2**31, 2**24)  # in a second


def partial_sums(
    X: np.ndarray,
    Y: np.ndarray | None,
    h: float,
    output: Output,
    options: Options,
    *,
    values: np.ndarray | None = None,
    ratio: bool = False,
) -> PartialSums:
    """Return what :func:`cukde.density.one_dimension.cpu.passes.partial_sums` does."""
    sums = _sums(X, X if Y is None else Y, h, output, options, values, _FEW)
    if sums is not None:
        return sums
    compiled = dispatch.passes("cukde.density.one_dimension", arrays)
    out: PartialSums = compiled.partial_sums(X, Y, h, output, options, values=values, ratio=ratio)
    return out


density, debias = ended(partial_sums)


def many(
    X: np.ndarray,
    Y: np.ndarray | None,
    h: float,
    output: Output,
    options: Options,
    *,
    values: np.ndarray | None = None,
    ratio: bool = False,
) -> PartialSums | None:
    """Return the same of many points, for which compiled loops are faster; None where compiling takes no longer."""
    m = len(X if Y is None else Y)
    columns = 1 if values is None else 1 + values.shape[1]
    sums = None
    is_short = plan_cpu.answers_line_meanwhile(len(X), m, columns)
    if not options.deterministic and options.local_factors is None and is_short:
        sums = _sums(X, X if Y is None else Y, h, output, options, values, _MANY)
    return few.many(X, Y, h, output, options, values=values) if sums is None else sums


density_of_many, _ = ended(many)


def _sums(
    X: np.ndarray,
    Y: np.ndarray,
    h: float,
    output: Output,
    options: Options,
    values: np.ndarray | None,
    limits: _Limits,
) -> PartialSums | None:
    """Sum the transform; None where it does not pay, or too many queries are not within its bound."""
    precision = options.precision
    if output == "cdf" and plan_cpu.few_of_line_take_pairs(len(X), len(Y), cdf=True):
        return cdf_pairs.sums(X, Y, h, options.log_weights, arrays)
    if output == "laplace_moments":
        return None
    smallest, largest = one_dimension_plan.BANDWIDTHS
    if not one_dimension_plan.serves(precision, options.rtol) or not smallest < h < largest:
        return None
    tables = _tables(h, output, one_dimension_plan.TOLERANCE[precision])
    store = options.kept if values is None else None
    key = h, output, precision
    boxes = kept(
        store,
        "few boxes",
        X,
        key,
        lambda: _summed(X.reshape(-1), values, options.log_weights, tables.plan, limits.boxes),
    )
    if boxes is None:
        return None
    y = Y.reshape(-1).astype(np.float64, copy=False)
    places = _placed(y, boxes, tables.plan)
    if len(places.occupied) * len(boxes.mass) * sum(table.size for table in tables.translations) > limits.products:
        return _every_pair(X, Y, h, output, options, values, limits) if output == "values" else None
    B, accepted = _translated(boxes, places.occupied, tables, output)
    sums = _evaluated(B, places, tables.plan, output)
    left = np.flatnonzero(~(places.inside & accepted[places.row]))
    if len(left):
        of_left = _every_pair(X, Y[left], h, output, options, values, limits)
        if of_left is None:
            return None
        put(sums, left, of_left)
    return sums


def _every_pair(
    X: np.ndarray,
    Y: np.ndarray,
    h: float,
    output: Output,
    options: Options,
    values: np.ndarray | None,
    limits: _Limits,
) -> PartialSums | None:
    """Sum all pairs; None where they are many."""
    pairs = len(X) * len(Y)
    if output == "cdf":
        return cdf_pairs.sums(X, Y, h, options.log_weights, arrays) if pairs <= limits.cdf_pairs else None
    if values is None and limits is _MANY:
        return few.many(X, Y, h, output, options)
    if values is None:
        fit = plan_cpu.few_of_line_take_pairs(len(X), len(Y), cdf=False)
    else:
        fit = pairs <= _MOST_PAIRS_OF_VALUES and pairs * values.shape[1] <= _MOST_PRODUCTS_OF_VALUES
    return few.partial_sums(X, Y, h, output, options, values=values) if fit else None


class _Tables(NamedTuple):
    """A plan, and its tables in the order of the boxes around a box of queries, from the left."""

    plan: Plan
    translations: list[np.ndarray]  # (boxes * P, P) each: of moments, a box after the other, to powers of each sum
    error: np.ndarray  # (boxes,)
    least: np.ndarray  # (boxes,)


@functools.lru_cache(64)
def _tables(h: float, output: Output, tolerance: float) -> _Tables:
    plan = one_dimension_plan.plan(h, output, tolerance)
    tables = (np.ascontiguousarray(table[::-1].transpose(0, 2, 1)) for table in plan.translations(output))
    return _Tables(
        plan, [table.reshape(-1, plan.order) for table in tables], plan.error[::-1].copy(), plan.least[::-1].copy()
    )


class _Boxes(NamedTuple):
    """Sums of the data box by box, with empty boxes at either end: twice the plan's reach."""

    first: int  # number of the first box that holds data
    last: int
    M: np.ndarray  # (C, boxes, P): the weight first, then each of the values
    mass: np.ndarray  # (C, boxes)


def _summed(
    x: np.ndarray, values: np.ndarray | None, log_weights: np.ndarray | None, plan: Plan, most_boxes: int
) -> _Boxes | None:
    """Sum the boxes of the data; None where there are none, or too many."""
    x = x.astype(np.float64, copy=False)
    columns = np.ones((1, len(x)))
    if values is not None:
        columns = np.concatenate([columns, values.T], dtype=np.float64)
    if log_weights is not None:
        counted = log_weights > LOG_ZERO
        x, columns = x[counted], columns[:, counted] * np.exp(log_weights[counted])
        if len(x) == 0:
            return None
    box = np.floor(x * (1 / plan.width))
    lowest, highest = box.min(), box.max()
    ends, most = 2 * plan.reach, one_dimension_plan.MOST_BOXES
    if not (-most < lowest <= highest < most and highest - lowest < most_boxes):
        return None
    coordinates = (x - (box + 0.5) * plan.width) / plan.unit
    order = np.argsort(box, kind="stable")
    places = (box[order] - lowest).astype(np.int64)
    starts = np.flatnonzero(np.diff(places, prepend=-1))
    size, held = int(highest - lowest) + 1 + 2 * ends, places[starts] + ends
    M, mass = np.zeros((len(columns), size, plan.order)), np.zeros((len(columns), size))
    powers, a = np.empty((plan.order, len(x))), coordinates[order]
    for c, column in enumerate(columns[:, order]):
        powers[0] = column
        for k in range(1, plan.order):
            np.multiply(powers[k - 1], a, powers[k])
        M[c, held] = np.add.reduceat(powers, starts, axis=1).T
        mass[c, held] = np.add.reduceat(np.abs(column), starts)
    return _Boxes(int(lowest), int(highest), M, mass)


class _Places(NamedTuple):
    """Queries by their boxes, of which the first is the plan's reach to the left of the data's."""

    occupied: np.ndarray  # (T,): boxes that hold queries
    row: np.ndarray  # (m,): of a query's box among those
    inside: np.ndarray  # (m,) bool: whether data are within reach; without, the row is any
    coordinate: np.ndarray  # (m,): in the box


def _placed(y: np.ndarray, boxes: _Boxes, plan: Plan) -> _Places:
    low, high = boxes.first - plan.reach, boxes.last + plan.reach
    box = np.floor(y * (1 / plan.width))
    inside = (box >= low) & (box <= high)
    box = np.where(inside, box, low)  # whose number may be beyond any integer
    number = (box - low).astype(np.int64)
    occupied = np.flatnonzero(np.bincount(number, minlength=high - low + 1))
    row = np.searchsorted(occupied, number)
    coordinate = np.where(inside, (y - (box + 0.5) * plan.width) / plan.unit, 0.0)
    return _Places(occupied, row, inside, coordinate)


def _windows(table: np.ndarray, rows: np.ndarray, boxes: int) -> np.ndarray:
    """Copy the entries of so many neighbouring boxes from each of ``rows`` on; ``table`` (boxes, ...) is contiguous."""
    flat, width = table.reshape(-1), table[0].size
    out: np.ndarray = np.lib.stride_tricks.sliding_window_view(flat, boxes * width)[rows * width]
    return out


def _translated(boxes: _Boxes, occupied: np.ndarray, tables: _Tables, output: Output) -> tuple[np.ndarray, np.ndarray]:
    """Return B (Q, P, T) of boxes of queries, with Q sums of each, and which of them are within the bound."""
    plan, count = tables.plan, len(tables.error)
    B = np.empty((len(boxes.M) * len(tables.translations), plan.order, len(occupied)))
    accepted = np.ones(len(occupied), bool)
    step = max(1, _PRODUCTS_OF_BLOCK // tables.translations[0].size)
    for c, (M, mass) in enumerate(zip(boxes.M, boxes.mass, strict=True)):
        near = _windows(mass, occupied, count)
        to_left = np.zeros(1)
        if output == "cdf":  # all of which counts
            to_left = np.concatenate([[0.0], np.cumsum(mass)])[occupied]
        outside = np.maximum(0.0, mass.sum() - near.sum(axis=1) * (1 - 1e-15))
        accepted &= near @ tables.error + outside * plan.beyond <= plan.tolerance * (near @ tables.least + to_left)
        for start in range(0, len(occupied), step):
            rows = slice(start, start + step)
            for of_sum, table in zip(B[c :: len(boxes.M)], tables.translations, strict=True):
                of_sum[:, rows] = (_windows(M, occupied[rows], count) @ table).T
        B[c, 0] += to_left
    return B, accepted


def _evaluated(B: np.ndarray, places: _Places, plan: Plan, output: Output) -> PartialSums:
    u, rows = places.coordinate, places.row
    total = B[0, -1, rows]
    slope = np.zeros_like(total) if output == "moments" else None
    for powers in B[0, -2::-1]:
        if slope is not None:
            slope *= u
            slope += total
        total *= u
        total += powers[rows]
    moments: Any = None
    if slope is not None:
        moments = (plan.slope * slope)[:, None]
    elif len(B) > 1:
        moments = np.empty((len(rows), len(B) - 1))
        for c, of_column in enumerate(B[1:]):
            value = of_column[-1, rows]
            for powers in of_column[-2::-1]:
                value *= u
                value += powers[rows]
            moments[:, c] = value
    return PartialSums(np.zeros(len(rows)), total, moments)
