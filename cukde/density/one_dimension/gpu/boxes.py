"""Points of a line in ascending order, and the boxes of a plan that they occupy."""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import cupy as cp
import numpy as np

from cukde.density.one_dimension import plan as one_dimension_plan
from cukde.density.one_dimension.plan import Plan
from cukde.density.sums import Output

# Powers that kernels are made for, for single and for double precision: no output needs more. Powers that a plan does
# without are zero in its translation.
ORDERS = (12, 18)

_ROW = 1024  # entries that are added one after another in a running sum


class Points(NamedTuple):
    """Data in ascending order, with what belongs to them."""

    x: Any  # (n,)
    log_weights: Any | None  # (n,)
    values: Any | None  # (n, k)
    low: float  # all data lie between these
    high: float
    tight: bool  # ... of which some lie at both
    exact: bool = True  # or a few neighbours are out of order by a rounding

    @classmethod
    def sorted(cls, X: Any, log_weights: Any, values: Any, low: float, high: float) -> Points:
        """Sort data (n, 1) that are known to lie between two numbers; infinite where nothing is known."""
        x = X.reshape(-1)
        if log_weights is None and values is None:
            return cls(cp.sort(x), None, None, low, high, False)
        order = cp.argsort(x)
        log_weights, values = (None if a is None else a[order] for a in (log_weights, values))
        return cls(x[order], log_weights, values, low, high, False)

    def sorted_again(self) -> Points:
        """Return them in exact order."""
        return self if self.exact else Points.sorted(self.x, self.log_weights, self.values, self.low, self.high)

    def tightened(self) -> Points:
        """Look where they begin and end, which waits for the device."""
        if self.tight:
            return self
        ends = cp.asnumpy(self.x[:: max(1, self.x.size - 1)])
        return self._replace(low=float(ends[0]), high=float(ends[-1]), tight=True)

    def masses_before(self) -> Any | None:
        """Sum of the weights before each of them, and of all, (n + 1,) float64; None where each weight is one."""
        if self.log_weights is None:
            return None
        return cp.concatenate((cp.zeros(1), running_sums(cp.exp(self.log_weights))))

    def masses(self) -> Any | None:
        """Sums of the weights, and of those times |values|, (1 + k,) float64; None where both are one."""
        if self.log_weights is None and self.values is None:
            return None
        weights = cp.ones(self.x.size) if self.log_weights is None else cp.exp(self.log_weights)
        masses = [weights.sum()[None]]
        if self.values is not None:
            masses.append(weights @ cp.abs(self.values).astype(np.float64, copy=False))
        return cp.concatenate(masses)


class Boxes(NamedTuple):
    """Boxes of data: so many from ``first`` on, or those that ``ids`` lists."""

    first: float
    number: int
    ids: Any | None = None  # (number,) float64, ascending


def boxes(points: Points, plan: Plan) -> tuple[Points, Boxes | None]:
    """Lay boxes over the points; return these, their ends tightened where that was needed, and None without boxes."""
    # Of more boxes the occupied ones are found, which waits for the device.
    few = one_dimension_plan.few_boxes(points.x.size)
    laid = _all_between(points, plan)
    if laid is None or laid.number > few:
        points = points.sorted_again().tightened()
        laid = _all_between(points, plan)
    if laid is None or laid.number <= few:
        return points, laid
    ids = box_of(points.x, plan.width)
    ids = ids[cp.concatenate((cp.ones(1, np.bool_), ids[1:] != ids[:-1]))]
    return points, Boxes(math.nan, len(ids), ids)


def crowded(laid: Boxes, points: Points) -> bool:
    """Whether boxes hold points enough for expansions; otherwise a query's neighbours are summed one by one."""
    return laid.ids is None or laid.number <= one_dimension_plan.few_boxes(points.x.size)


def _all_between(points: Points, plan: Plan) -> Boxes | None:
    low, high = points.low / plan.width, points.high / plan.width
    if not (abs(low) < one_dimension_plan.MOST_BOXES and abs(high) < one_dimension_plan.MOST_BOXES):  # or it is a NaN
        return None
    first = math.floor(low)
    return Boxes(float(first), math.floor(high) - first + 1)


def running_sums(a: Any) -> Any:
    """Sums up to each entry of (n,), added in one order on every run, which CUB's scan of a line does not promise."""
    n = a.size
    rows = -(-n // _ROW)
    padded = cp.zeros((rows, _ROW))
    padded.reshape(-1)[:n] = a
    sums = cp.cumsum(padded, axis=1)
    if rows > 1:
        sums[1:] += running_sums(sums[:, -1])[:-1, None]
    return sums.reshape(-1)[:n]


def box_of(a: Any, width: float) -> Any:
    """Box of each entry as a float; the quotient is rounded, products of a box and the width are not."""
    a = a.astype(np.float64, copy=False)
    out = cp.floor(a / width)
    out -= a < out * width
    out += a >= (out + 1) * width
    return out


def order(plan: Plan) -> int:
    """Powers that the kernels of a plan are made for."""
    return next(powers for powers in ORDERS if powers >= plan.order)


@functools.lru_cache(32)
def table(h: float, output: Output, tolerance: float, context: tuple[int, int]) -> Any:
    """Return error, least and translations [sum, offset, k, l] of a plan, in one array on a device."""
    plan = one_dimension_plan.plan(h, output, tolerance)
    powers, translations = order(plan), plan.translations(output)
    T = np.zeros((len(translations), len(plan.error), powers, powers))
    for to, translation in zip(T, translations, strict=True):
        to[:, : plan.order, : plan.order] = translation.transpose(0, 2, 1)
    return cp.asarray(np.concatenate((plan.error, plan.least, T.reshape(-1))))
