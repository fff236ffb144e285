"""Samples of the positive estimate: points of the kernel estimate, of which its factor decides how many stay."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from cukde.core import dispatch
from cukde.density import correction

_MOST = 2**20  # points proposed at once


def largest(points: Any) -> float:
    """The bound of the factor for points of these columns."""
    return correction.largest_factor(points.shape[1])


def draw(
    proposed: Callable[[int], Any], log_factor: Callable[[Any], Any], count: int, acceptance: float, rng: Any
) -> Any:
    """Return ``count`` points, exactly of the density: each of those proposed stays with probability factor / largest.

    ``acceptance`` is the expected share of those that stay. Random numbers are drawn on the host.
    """
    parts: list[Any] = []
    left = count
    while left > 0:
        points = proposed(min(_MOST, math.ceil(1.1 * left / acceptance) + 16))
        log_share = dispatch.to_host(log_factor(points)) - math.log(largest(points))
        stays = np.flatnonzero(np.log1p(-rng.uniform(0, 1, size=len(points))) < log_share)[:left]
        backend = dispatch.backend(points)
        parts.append(points[backend.xp.asarray(stays)])
        left -= len(stays)
    return dispatch.backend(parts[0]).xp.concatenate(parts)
