"""Sizes of calls of cross-validation."""

from __future__ import annotations

from typing import Any

import numpy as np

from cukde import _dispatch
from cukde._cross_validation import COUNT
from cukde._leave_one_out import proportional
from cukde.perf.costs import _arguments, _density_calls


def of_cross_validation(
    X: Any,
    method: str = "kde",
    bandwidths: Any = None,
    objective: str = "likelihood",
    *,
    weights: Any = None,
    per_dimension: bool = False,
    precision: str | None = None,
) -> dict[str, Any]:
    """Sizes of a call; a default grid has not gone on."""
    sizes = _density_calls.of_bandwidth(X, weights=weights)
    count, directions = COUNT, 1
    if bandwidths is not None:
        given = _arguments.shape(bandwidths)
        count, directions = given[0], _directions(bandwidths) if len(given) > 1 else 1
    return sizes | {
        "bandwidths": count,
        "directions": directions,
        "method": method,
        "objective": objective,
        "precision": precision,
    }


def _directions(bandwidths: Any) -> int:
    """How many sets of proportional bandwidths there are."""
    return sum(1 for _ in proportional(np.asarray(_dispatch.to_host(bandwidths), np.float64)))
