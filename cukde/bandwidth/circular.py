r"""The spread of a periodic column, as the reference rules take it.

With the angles a_j = 2 pi x_j / T and weights w_j that sum to 1, R = |sum_j w_j exp(i a_j)| is 1 where all points are
one. Of R^2 the part (R^2 - sum w^2) / (1 - sum w^2) = rho^2 is an unbiased estimate for independent rows, and

    sigma = T / (2 pi) (-log rho^2)^(1/2)

the deviation of a normal distribution that is wrapped around the period with that rho (Mardia and Jupp 2000, sections
2.3.4 and 3.5.7). Of data that are narrow beside the period it is the sample deviation. Where the data are spread evenly
R vanishes: rho^2 is no less than 1 / n_eff, what it is off by.

Nothing cancels: about the mean direction 1 - R = 2 sum_j w_j sin^2(a_j / 2).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from cukde.bandwidth.data import Rows


def deviation(rows: Rows, k: int, period: float, xp: Any) -> float:
    """Deviation of column ``k``, in its units; 0 where all points are one."""
    x = rows.points[:, k].astype(xp.float64, copy=False)
    w = rows.weights / rows.total
    # About a row that counts, so that data far from 0 lose nothing.
    angles = xp.where(rows.weights > 0, xp.mod(x - x[rows.heaviest], period), 0.0) * (2 * math.pi / period)
    mean = math.atan2(float(w @ xp.sin(angles)), float(w @ xp.cos(angles)))
    halves = xp.sin(0.5 * (angles - mean))
    missing = 2 * float(w @ (halves * halves))  # 1 - R
    effective = rows.effective
    # total^2 - sum w^2, without the cancellation where one row has nearly all the weight
    distinct = (2 * rows.rest + (rows.rest**2 - rows.squares)) / rows.total**2
    unlike = min(missing * (2 - missing) / distinct, 1 - 1 / effective)
    return period / (2 * math.pi) * math.sqrt(-np.log1p(-unlike))
