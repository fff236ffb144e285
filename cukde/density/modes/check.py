"""The errors a user of modes can cause, raised before anything is summed."""

from __future__ import annotations

from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

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


def seeds_in_memory(points: Any, is_collection: bool) -> None:
    """Raise beside a collection of Dask's without seeds in memory: each step needs all points that still climb."""
    if points is None or is_collection:
        raise TypeError(
            "seeds must be an array in memory beside Dask collections: give points to start from, such as "
            "X.compute(), or a sample of the rows"
        )


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


def bandwidth_in_domain(h: np.ndarray) -> None:
    """Raise for a covariance beside a domain, which has no coordinates in which both are simple."""
    if h.ndim == 2:
        raise ValueError(
            f"h must be a number or {len(h)} deviations for modes with bounds or periods; got a covariance: write "
            "numpy.sqrt(numpy.diag(h))"
        )


def seeds_inside(count: int, rows: int) -> None:
    """Raise for seeds that lie outside of the bounds."""
    if count:
        raise ValueError(f"seeds must lie within bounds; {count} of {rows} rows lie outside: drop those rows")


def seeds(points: Any, d: int, backend: ModuleType, *, finite: bool) -> Any:
    """Check points to start from; return them with shape (m, d)."""
    out, _ = density_check.queries(points, d, backend, "seeds")
    if out.shape[0] == 0:
        raise ValueError(f"seeds must have at least one row; got shape {out.shape}")
    if finite:
        core_check.finite({"seeds": bool(backend.xp.isfinite(out).all())})
    return out
