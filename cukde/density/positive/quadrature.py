"""Nodes of the trapezoidal rule: of a line, near the data, and of a product grid."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from cukde.core import dispatch
from cukde.density.mass_sizes import NODES, REACH
from cukde.density.problem import Problem


class Nodes(NamedTuple):
    """Points with the weights of a rule, and of the rule of every second point along each axis."""

    points: np.ndarray  # (m, d)
    weights: np.ndarray  # (m,)
    coarse: np.ndarray  # (m,)

    def blocks(self, size: int) -> Iterator[Nodes]:
        """Some at a time."""
        for start in range(0, len(self.points), size):
            yield Nodes(*(a[start : start + size] for a in self))


def of_line(problem: Problem) -> Nodes:
    """Nodes wherever data of one column are near, within their domain."""
    xp, h = problem.xp, float(problem.whitening.bandwidth.reshape(-1)[0])
    if problem.whitening.bandwidth.ndim == 2:
        h = math.sqrt(h)
    low, high = -math.inf, math.inf
    if problem.domain is not None:
        ((low,), (high,)) = problem.domain.ends
        if problem.domain.periodic[0]:
            low, high = 0.0, float(problem.domain.period[0])
    if math.isfinite(low) and math.isfinite(high):  # whole cells between both ends
        h = (high - low) / math.ceil((high - low) / h)
    start = low if math.isfinite(low) else high if math.isfinite(high) else float(problem.options.centre[0])
    x = problem.X[:, 0].astype(xp.float64)
    cells = np.unique(dispatch.to_host(xp.unique(xp.floor((x - start) / h))))
    cells = (cells[:, None] + np.arange(-REACH, REACH + 1)).ravel()
    if problem.domain is not None and problem.domain.periodic[0]:
        cells = np.mod(cells, round((high - low) / h))  # what lies beyond an end is at the other
    cells = np.unique(cells)
    if math.isfinite(low):
        cells = cells[cells >= 0]
    if math.isfinite(high):
        cells = cells[cells < round((high - low) / h)] if math.isfinite(low) else cells[cells < 0]
    step = h / NODES
    numbers = (cells[:, None] * NODES + np.arange(NODES)).ravel()
    if math.isfinite(high) and numbers[-1] + 1 == round((high - start) / step):
        numbers = np.append(numbers, numbers[-1] + 1)
    weights, coarse = np.full(len(numbers), step), np.where(numbers % 2 == 0, 2 * step, 0.0)
    for end in (low, high):
        if math.isfinite(end):
            at_end = numbers == round((end - start) / step)
            weights[at_end] /= 2
            coarse[at_end] /= 2
    points = start + numbers * step
    if problem.domain is not None:
        points = (points + problem.domain.origin[0]).clip(problem.domain.low[0], problem.domain.high[0])
    return Nodes(points[:, None], weights, coarse)


def of_grid(axes: Sequence[np.ndarray]) -> Nodes:
    """Nodes of a product grid; coordinates of an axis rise, an odd number of them."""
    points: Any = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(axes))
    weights = coarse = np.ones(1)
    for axis in axes:
        half = np.zeros(len(axis))
        half[::2] = _trapezoidal(axis[::2])
        weights = np.multiply.outer(weights, _trapezoidal(axis)).ravel()
        coarse = np.multiply.outer(coarse, half).ravel()
    return Nodes(points, weights, coarse)


def _trapezoidal(axis: np.ndarray) -> np.ndarray:
    steps = np.diff(axis)
    return 0.5 * (np.append(steps, 0.0) + np.append(0.0, steps))
