"""The search for modes: points climb, those that have settled are taken to maxima, and these are merged."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from cukde.core import reprs
from cukde.core.public import public_in
from cukde.core.types import Array
from cukde.core.warnings import ConvergenceWarning, of_user
from cukde.density import results
from cukde.density.modes import mean_shift, merge
from cukde.density.modes.check import Search
from cukde.density.modes.mean_shift import Climbed, Ends
from cukde.density.modes.newton import Maxima, climb

# Steps of Newton's method after which it is given up, whatever is allowed.
_MOST_STEPS = 1000


@public_in("cukde")
@reprs.readable
class Modes(NamedTuple):
    """The result of :func:`cukde.modes`: see there."""

    points: Array
    log_density: Array
    labels: Array
    iterations: int


def reported(maxima: Modes, lost: int, dtype: np.dtype, *, flat: bool, xp: Any) -> Modes:
    """The result of a search, of columns or one that is ``flat``; warns the user of the public function."""
    points = maxima.points[:, 0] if flat else maxima.points
    if lost:
        of_user(
            f"{lost} of {maxima.labels.size} seeds had not reached a maximum after {maxima.iterations} steps, "
            "and are labelled by where they are: give a larger max_iterations, or a larger tolerance",
            ConvergenceWarning,
        )
    points, log_density = (results.cast(xp.asarray(a), dtype) for a in (points, maxima.log_density))
    return Modes(points, log_density, maxima.labels, maxima.iterations)


def searched(field: Climbed, start: Any, first: tuple[Any, Any] | None, search: Search) -> tuple[Modes, int]:
    """Modes from points to start from, on the host but for the labels, and how many of these have not reached one.

    ``first`` are steps and log densities at the points where they are known.
    """
    xp, coordinates = field.backend.xp, field.coordinates
    ends = mean_shift.settle(field, start, first, search.tolerance, min(search.most, mean_shift.MOST_PASSES))
    candidates, which = _candidates(field, ends, search)
    iterations = ends.passes + candidates.steps

    usable = np.flatnonzero(np.isfinite(candidates.points).all(axis=1) & np.isfinite(candidates.log_density))
    maxima = candidates.of(usable)
    at = coordinates.at_ends(maxima.points, search.tolerance * field.h)
    box = None if coordinates.box is None else coordinates.box / field.h
    kept, cluster = merge.merged(at / field.h, maxima.log_density, search.merge_distance, box)
    label = np.full(len(candidates.points), -1)
    label[usable] = cluster
    labels = xp.asarray(label)[which]
    reached = xp.asarray(candidates.reached)[which]
    return Modes(coordinates.back(at[kept]), maxima.log_density[kept], labels, iterations), int((~reached).sum())


def _candidates(field: Climbed, ends: Ends, search: Search) -> tuple[Maxima, Any]:
    """Where all points end, and the number of that for each of them."""
    xp, asnumpy = field.backend.xp, field.backend.asnumpy
    leaders = xp.unique(ends.leader)
    caught, points = asnumpy(ends.caught[leaders]), asnumpy(ends.points[leaders])
    hills, of_hill = np.unique(caught[caught >= 0], return_inverse=True)
    most = min(search.most - ends.passes, _MOST_STEPS)
    climbed = climb(field, points[caught < 0], search.tolerance, most, curved=False)
    climbed = field.coordinates.maxima_at_home(climbed)
    number = np.empty(len(caught), np.int64)
    number[caught >= 0] = of_hill
    number[caught < 0] = len(hills) + np.arange(len(climbed.points))
    number_of_leader = xp.zeros(len(ends.leader), np.int64)
    number_of_leader[leaders] = xp.asarray(number)
    known = ends.known.of(hills)
    known = known._replace(curvature=np.empty((len(hills), *climbed.curvature.shape[1:])), steps=0)
    return known.joined(climbed), number_of_leader[ends.leader]
