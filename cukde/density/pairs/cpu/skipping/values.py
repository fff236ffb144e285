"""Values of data in order, and what bounds their sums: every column has a tolerance of its own."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from cukde.core.cpu import threads
from cukde.core.cpu.jit import OPTIONS, njit
from cukde.density.pairs.cpu.skipping.points import BLOCK, BLOCKS_OF_GROUP, Data

MOST_COLUMNS = 32
"""Of values: those of more take longer than a product of matrices over all pairs, but where few pairs count."""

_BLOCKS_OF_TASK = 256
_LARGEST = {4: 1e36, 8: 1e290}  # absolute value: 64 of them add up within the range
_MASSES = (1e-250, 1e290)  # of columns, beside those of zero


class Values(NamedTuple):
    """Columns of values."""

    blocks: np.ndarray  # (blocks, k, 64) in the dtype of the points
    mass: np.ndarray  # (k,) float64: sum of absolute values times weights
    signed: np.ndarray  # (k,) bool: a column has values of both signs
    weight: float  # sum of the weights


def served(values: np.ndarray, log_weights: np.ndarray | None, itemsize: int) -> bool:
    """Whether columns are few, and within the ranges of a pass; not where values are not numbers."""
    if not 0 < values.shape[1] <= MOST_COLUMNS or not np.abs(values).max() < _LARGEST[itemsize]:
        return False
    size = np.abs(values, dtype=np.float64)
    weights = np.ones(len(values)) if log_weights is None else np.exp(log_weights - log_weights.max())
    mass, low, high = weights @ size, *_MASSES
    return bool((((mass > low) & (mass < high)) | ~size.any(axis=0)).all())


def ordered(values: np.ndarray, data: Data, order: np.ndarray) -> tuple[Values, Data]:
    """Put values (n, k) in order, and return the data with masses of boxes as shares of the whole.

    The share of a box is the least that it has of a column's mass, or of the sum of the weights.
    """
    count, k = len(data.points), values.shape[1]
    blocks, masses = np.empty((count, k, BLOCK), data.points.dtype), np.empty((count, k))

    def task(first: int) -> None:
        threads.checkpoint()
        _fill(values, order, data.log2_weights, first, min(first + _BLOCKS_OF_TASK, count), blocks, masses)

    threads.run(task, range(0, count, _BLOCKS_OF_TASK))
    mass, weight = masses.sum(axis=0), float(data.blocks.mass.sum())
    of_groups = np.add.reduceat(masses, np.arange(0, count, BLOCKS_OF_GROUP))
    signed = (values.min(axis=0) < 0) & (values.max(axis=0) > 0)
    some = mass > 0
    boxes, groups = (
        of._replace(mass=np.minimum(of.mass / weight, (masses_of[:, some] / mass[some]).min(axis=1, initial=1.0)))
        for of, masses_of in ((data.blocks, masses), (data.groups, of_groups))
    )
    return Values(blocks, mass, signed, weight), data._replace(blocks=boxes, groups=groups)


@njit(**OPTIONS)
def _fill(values: Any, order: Any, log2_weights: Any, first: int, last: int, blocks: Any, masses: Any) -> None:
    """Write some blocks of values, and the sums of absolute ones times weights. Places that are left have zero."""
    n, k = values.shape
    for b in range(first, last):
        for c in range(k):
            masses[b, c] = 0.0
        for j in range(BLOCK):
            place = b * BLOCK + j
            if place >= n:
                for c in range(k):
                    blocks[b, c, j] = 0.0
                continue
            weight = np.exp2(log2_weights[b, j]) if log2_weights.size else 1.0
            for c in range(k):
                blocks[b, c, j] = values[order[place], c]
                masses[b, c] += weight * abs(np.float64(values[order[place], c]))
