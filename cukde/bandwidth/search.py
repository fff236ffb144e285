"""Search for the bandwidth of the best leave-one-out score: along a grid, then with one deviation a column."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal, NamedTuple, Protocol

import numpy as np

from cukde.bandwidth import check
from cukde.bandwidth.scores import proportional
from cukde.core import reprs
from cukde.core.entry.names import Labelled
from cukde.core.public import public_in
from cukde.core.warnings import BandwidthRangeWarning, of_user

# Octaves about a reference rule that a grid goes on within, and down where rows share values. Where they do not a score
# falls at last, as soon as the bandwidth is below the distances of rows; but clusters may be far apart.
_OCTAVES, _DOWN_OF_TIES = 50, 15

BOX = math.log(256)  # how far deviations may go from where they start, either way
_AT_EDGE = 1e-3  # of its sides
_ITERATIONS = 60
# Of the score, relative, and of its gradient: samples of the same size differ by far more. Below that single precision
# is noise to a line search.
TOLERANCES = {"float32": (1e-6, 1e-3), "float64": (1e-9, 1e-5)}
WORST = 1e10  # stands for a score that overflows: a line search needs numbers

_TIES = (
    "rows share values, so that scores grow without bound as the bandwidth shrinks: count every value once, values, "
    "counts = np.unique(X, axis=0, return_counts=True) and weights=counts, or spread the values over the step that "
    "they were rounded to"
)


class _CrossValidation(NamedTuple):
    bandwidth: np.ndarray
    score: float
    bandwidths: np.ndarray
    scores: np.ndarray


@public_in("cukde.bandwidth")
@reprs.readable
class CrossValidation(Labelled, _CrossValidation):
    """The result of :func:`cukde.bandwidth.cross_validate`: see there."""


class _CovarianceValidation(NamedTuple):
    bandwidth: np.ndarray
    score: float
    bandwidths: np.ndarray
    scores: np.ndarray
    gain: float
    gain_error: float


@public_in("cukde.bandwidth")
@reprs.readable
class CovarianceValidation(Labelled, _CovarianceValidation):
    """The result of :func:`cukde.bandwidth.cross_validate` with ``covariance=True``: see there."""


class Criterion(Protocol):
    """A score as a function of bandwidths, such as :class:`cukde.bandwidth.scores.LeaveOneOut`."""

    precision: Literal["float32", "float64"]
    ranges: np.ndarray
    is_logarithmic: bool

    def scores(self, h: np.ndarray) -> np.ndarray: ...

    def with_gradient(self, h: np.ndarray) -> tuple[float, np.ndarray]: ...


class Grid(NamedTuple):
    """Multiples of a reference rule, by powers of 2: those that a search begins with, and how it goes on."""

    steps: int  # of an octave
    first: int
    size: int
    more: int  # steps that are added at an end
    patience: int  # steps at the lower end of which none may be the best

    def of(self, reference: np.ndarray, first: int, count: int) -> np.ndarray:
        """Return bandwidths, (count, d), in rising order."""
        return np.array([2 ** (step / self.steps) for step in range(first, first + count)])[:, None] * reference


CROSS_VALIDATED = Grid(steps=8, first=-24, size=32, more=16, patience=1)
"""1/8 to 1.83 of the rule by steps of 9%, within which the score of the best is flat."""

Tied = Callable[[], bool]
"""Whether rows share values such that a score may grow without bound as the bandwidth shrinks."""


def search(objective: Criterion, bandwidths: np.ndarray, tied: Tied, *, per_dimension: bool) -> CrossValidation:
    """Return the best of (B, d) ``bandwidths``, or of a grid about a rule's (d,) deviations; all on the host.

    Warns the caller's caller where the best is at an end.
    """
    listed = bandwidths.ndim == 2
    of_grid = CROSS_VALIDATED.of(bandwidths, CROSS_VALIDATED.first, 1)
    least = bandwidths.min(axis=0) if listed else of_grid[0]
    least = least * math.exp(-BOX) if per_dimension else least
    check.within_reach(objective.ranges, least, single=objective.precision == "float32")
    if per_dimension:
        check.ranges(objective.ranges)
    if listed:
        tried, scores = bandwidths, objective.scores(bandwidths)
    else:
        tried, scores = along(CROSS_VALIDATED, bandwidths, objective.scores, tied)
    best = int(scores.argmax())
    result, end = CrossValidation(tried[best], float(scores[best]), tried, scores), _end(tried, best)
    if per_dimension:
        result, end = climbed(objective, result)
    if end:
        warn(end, result.bandwidth, tied, listed=listed, per_dimension=per_dimension)
    return result


def along(
    grid: Grid, reference: np.ndarray, score: Callable[[np.ndarray], np.ndarray], tied: Tied
) -> tuple[np.ndarray, np.ndarray]:
    """Bandwidths of a grid and their scores, in rising order; the grid goes on while an end is the best."""
    first, count = grid.first, grid.size
    tried = grid.of(reference, first, count)
    scores, down = score(tried), 0
    while True:
        best = int(scores.argmax())
        below = best < grid.patience
        if below:
            down = down or (_DOWN_OF_TIES if tied() else _OCTAVES)
            first -= grid.more
            if first < -down * grid.steps:
                break
        elif best < count - 1 or first + count + grid.more > _OCTAVES * grid.steps:
            break
        more = grid.of(reference, first if below else first + count, grid.more)
        parts = [more, tried] if below else [tried, more]
        their = score(more)
        tried, scores = np.concatenate(parts), np.concatenate([their, scores] if below else [scores, their])
        count += grid.more
    return tried, scores


def _end(h: np.ndarray, best: int) -> str:
    """Say whether the best is the "smallest" or the "largest" of the bandwidths that are proportional to it, or ""."""
    along = next(h[members, 0] for members in proportional(h) if best in members)
    if along.min() == along.max():
        return ""
    return {along.min(): "smallest", along.max(): "largest"}.get(h[best, 0], "")


def climbed(objective: Criterion, start: CrossValidation) -> tuple[CrossValidation, str]:
    """Maximise over one deviation a column from the best of the grid; say which side of the box it is at, if at one."""
    from scipy.optimize import minimize

    origin = np.log(start.bandwidth)
    # Tolerances are relative to 1: densities have the unit of a volume's inverse, their logarithms have none.
    unit = 1.0 if objective.is_logarithmic else abs(start.score) or 1.0
    best = start

    def loss(u: np.ndarray) -> tuple[float, np.ndarray]:
        nonlocal best
        h = np.exp(u)
        score, gradient = objective.with_gradient(h)
        if not (math.isfinite(score) and np.isfinite(gradient).all()):
            return WORST, np.zeros(len(u))
        if score > best.score:
            best = best._replace(bandwidth=h, score=score)
        return (start.score - score) / unit, -gradient / unit

    of_score, of_gradient = TOLERANCES[objective.precision]
    minimize(
        loss,
        origin,
        jac=True,
        method="L-BFGS-B",
        bounds=[(u - BOX, u + BOX) for u in origin],
        options={"maxiter": _ITERATIONS, "ftol": of_score, "gtol": of_gradient},
    )
    moved = np.log(best.bandwidth) - origin
    widest = moved[abs(moved).argmax()]
    if abs(widest) < BOX * (1 - _AT_EDGE):
        return best, ""
    return best, "smallest" if widest < 0 else "largest"


def warn(
    end: str,
    h: np.ndarray,
    tied: Tied,
    *,
    listed: bool = False,
    per_dimension: bool = False,
    call: str = "cukde.bandwidth.cross_validate(X, method, bandwidths)",
) -> None:
    """Say that the best is at an end, and what of: rows that share values, or else what to try."""
    if per_dimension:
        reach = f"{math.exp(BOX):.0f} times from that of the best bandwidth tried"
        what, then = f"a column's deviation is the {end} that is looked for, {reach}", "start from other bandwidths"
    else:
        ends = "among those given" if listed else "of the grid, which has gone on as far as it does"
        what, then = f"the best bandwidth is the {end} {ends}", f"give {end.removesuffix('est')}er ones"
        if not listed:
            then = f"{then} as {call}"
    if end == "smallest" and tied():
        then = f"{then}; {_TIES}" if listed or per_dimension else _TIES
    of_user(f"{what}: {_text(h)}; {then}", BandwidthRangeWarning)


def _text(h: np.ndarray) -> str:
    return np.array2string(h, precision=4, threshold=8)
