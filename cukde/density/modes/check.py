"""The errors a user of modes can cause, raised before anything is summed."""

from __future__ import annotations

from types import ModuleType
from typing import Any, NamedTuple

from cukde.core import check as core_check
from cukde.density import check as density_check

# Bandwidths: the least that steps in float64 can be held to, and the default within which modes are merged. Of two
# equal points little more than two bandwidths apart the saddle lies D^4 / 192 below the modes, D bandwidths apart.
LEAST_TOLERANCE = 1e-9
MERGE_DISTANCE = 0.1


class Search(NamedTuple):
    """How modes are looked for."""

    tolerance: float
    most: int
    merge_distance: float


def in_memory(name: str, is_collection: bool) -> None:
    """Raise for a collection of Dask's: each step needs what the one before has left of the points."""
    if is_collection:
        raise TypeError(f"{name} must be an array in memory; got a Dask collection: write {name}.compute()")


def search(tolerance: Any, max_iterations: Any, merge_distance: Any) -> Search:
    """Check the options of the search."""
    tolerance = core_check.number("tolerance", tolerance, LEAST_TOLERANCE)
    most = core_check.count("max_iterations", max_iterations)
    distance = MERGE_DISTANCE
    if merge_distance is not None:
        distance = core_check.number("merge_distance", merge_distance, above=True)
    if tolerance > distance:
        raise ValueError(
            f"tolerance must be at most merge_distance, {distance:g} bandwidths, or points that climb to the same mode "
            f"would stay apart; got {tolerance:g}"
        )
    return Search(tolerance, most, distance)


def seeds(points: Any, d: int, backend: ModuleType, *, finite: bool) -> Any:
    """Check points to start from; return them with shape (m, d)."""
    out, _ = density_check.queries(points, d, backend, "seeds")
    if out.shape[0] == 0:
        raise ValueError(f"seeds must have at least one row; got shape {out.shape}")
    if finite:
        core_check.finite({"seeds": bool(backend.xp.isfinite(out).all())})
    return out
