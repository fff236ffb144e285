"""Which pass takes the pairs of a call on the CPU."""

from __future__ import annotations

import functools

from cukde.core.plan import Candidate, Plan
from cukde.density.plan.shape import Shape

PRODUCTS_IN_DOUBLE = {"float32": 1e8, "tf32": 1e8, "float64": 2800.0}
"""Largest scaled squared radius at which exponents from products in double are accurate enough."""

_PAIRS_OF_OWN = 2**22  # of leave-one-out in one to three columns, that pairs take in about the time of a transform


def own_pairs_are_few(n: int) -> bool:
    """Whether all pairs of leave-one-out take about as little time as a transform of one to three columns."""
    return n**2 <= _PAIRS_OF_OWN


@functools.lru_cache(maxsize=1024)
def plan(shape: Shape) -> Plan:
    """All candidates for a pass, in the order in which they are asked."""
    return Plan(str(shape), (Candidate("product"),))


def radii() -> tuple[float, ...]:
    """Scaled squared radii that stand for all others: of products in single and in double, and of differences."""
    return 0.0, 300.0, 2 * PRODUCTS_IN_DOUBLE["float32"]
