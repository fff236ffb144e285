"""The weight that is left without a row, by which the sums over all other rows are divided."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from cukde.core.dask.devices import computing
from cukde.core.dask.graph import Blocks, each, gathered
from cukde.density import check as density_check
from cukde.density.dask.blocks import Block
from cukde.density.leave_one_out import heaviest_and_others
from cukde.density.sums import PartialSums, log_sum


class _Weight(NamedTuple):
    """Weight of a block of rows: logarithms of the sum, of the largest, and of the sum of the others."""

    number: int
    total: float
    largest: float
    others: float


class _Weights(NamedTuple):
    """Weight of all rows: logarithms of the sum, and of the sum without the heaviest row; and whose block that is."""

    total: float
    others: float
    heaviest: int


def without_own_weight(data: Blocks, sums: Blocks, *, weighted: bool) -> Blocks:
    """Sums without own terms such that, divided by the weight of all rows, they are divided by that of the others."""
    weights = gathered("weights", _weights, each("weight", _weight, data), weighted=weighted)
    return each("others", _scaled, data, sums, extra=weights)


def _weight(block: Block) -> _Weight:
    n = len(block.points)
    if block.log_mass == -math.inf:
        return _Weight(block.number, -math.inf, -math.inf, -math.inf)
    if block.log_weights is None:
        return _Weight(block.number, block.log_mass, 0.0, math.log(n - 1) if n > 1 else -math.inf)
    with computing(block.points) as backend, np.errstate(all="ignore"):  # of unchecked weights
        heaviest, others = heaviest_and_others(block.log_weights, backend.xp)
        largest = float(block.log_weights[heaviest])
    return _Weight(block.number, block.log_mass, block.log_mass + largest, block.log_mass + others)


def _weights(blocks: list[_Weight], *, weighted: bool) -> _Weights:
    heaviest = max(blocks, key=lambda block: block.largest)
    total = log_sum([block.total for block in blocks])
    if total == -math.inf:
        density_check.weight_range(0.0, 0.0) if weighted else density_check.rows_to_leave_out(0)
    others = log_sum([block.others if block is heaviest else block.total for block in blocks])
    if others == -math.inf:
        density_check.rows_to_leave_out(1)
    return _Weights(total, others, heaviest.number)


def _scaled(block: Block, sums: PartialSums, weights: _Weights) -> PartialSums:
    if not len(block.points):
        return sums
    with computing(sums.total) as backend, np.errstate(all="ignore"):
        xp = backend.xp
        if block.log_weights is None or block.log_mass == -math.inf:
            share = -math.inf if block.log_mass == -math.inf else -weights.total
            log_rest: Any = math.log1p(-math.exp(share))
        else:
            own = backend.asarray(block.log_weights) + block.log_mass
            log_rest = xp.log1p(-xp.exp(own - weights.total))
            if block.number == weights.heaviest:  # of which next to nothing may be left
                log_rest[int(own.argmax())] = weights.others - weights.total
        return sums._replace(reference=backend.asarray(sums.reference) - log_rest)
