"""Points spread over the cells of a grid, for backends that have no loop of their own for it."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from cukde.density.grids.plan import Plan

_BLOCK = 2**22  # numbers that are added at a time, which bounds memory
_ONE = 2.0**62  # sums of all weights, 1, in the integers that are added: they have the same bits in any order


def spread(x: Any, weights: Any, plan: Plan, xp: Any) -> Any:
    """Return the weight in each cell of a plan's grid, float64; without weights every point's is 1/n."""
    n = len(x)
    order = plan.order
    sums = xp.zeros(math.prod(plan.cells), np.uint64)
    rows = max(1, _BLOCK // order)
    for start in range(0, n, rows):
        block = slice(start, start + rows)
        share = xp.full(len(x[block]), 1 / n) if weights is None else weights[block]
        firsts, splines = [], []
        for k, axis in enumerate(plan.axes):
            position = (x[block, k].astype(np.float64) - axis.low) / axis.step + axis.before
            inside = (position >= axis.first) & (position <= axis.last)
            share = xp.where(inside, share, 0)
            position = xp.where(inside, position, axis.first) + 0.5 * order
            last = xp.floor(position)
            firsts.append(last.astype(np.int64) - (order - 1))
            splines.append(spline(position - last, order, xp))
        _add(sums, firsts, splines, share, plan, xp)
    return (sums.astype(np.float64) / _ONE).reshape(plan.cells)


def _add(sums: Any, firsts: list[Any], splines: list[Any], share: Any, plan: Plan, xp: Any) -> None:
    """Add a block's weights: a launch for each combination of cells along all axes but the last."""
    last = xp.arange(plan.order)
    for offsets in itertools.product(range(plan.order), repeat=len(firsts) - 1):
        row, of_row = 0, share * _ONE
        for k, offset in enumerate(offsets):
            row = (row + firsts[k] + offset) * plan.cells[k + 1]
            of_row = of_row * splines[k][:, offset]
        cells = (row + firsts[-1])[:, None] + last
        xp.add.at(sums, cells, (of_row[:, None] * splines[-1] + 0.5).astype(np.uint64))


def spline(rest: Any, order: int, xp: Any) -> Any:
    """Values of a spline at ``order`` cells in ascending order, (n, order), for points so far beyond the last."""
    values = [xp.ones_like(rest)]  # in descending order
    for k in range(2, order + 1):
        below = [xp.zeros_like(rest), *values]
        above = [*values, xp.zeros_like(rest)]
        values = [((rest + j) * above[j] + (k - rest - j) * below[j]) / (k - 1) for j in range(k)]
    return xp.stack(values[::-1], axis=1)
