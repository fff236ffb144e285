"""Search for the bandwidth of the best leave-one-out score: along a grid, then with one deviation a column."""

from __future__ import annotations

import math
import warnings
from typing import NamedTuple, Protocol

import numpy as np

from cukde.bandwidth import check
from cukde.bandwidth.scores import proportional
from cukde.core import reprs
from cukde.core.public import public_in
from cukde.core.warnings import BandwidthRangeWarning

# The default grid, in powers of 2 of a reference rule: 1/8 to 1.83 of it by steps of 9%, within which the score of the
# best is flat; its 24th factor is 1. It goes on by two octaves at a time, down to 2^-15 or up to 2^13 of the rule.
_STEPS_OF_OCTAVE = 8
COUNT = 32
_FIRST = -24
_MORE, _EXTENSIONS = 16, 6

_BOX = math.log(256)  # how far deviations may go from where they start, either way
_AT_EDGE = 1e-3  # of its sides
_ITERATIONS = 60
# Of the score, relative, and of its gradient: samples of the same size differ by far more. Below that single precision
# is noise to a line search.
_TOLERANCES = {"float32": (1e-6, 1e-3), "float64": (1e-9, 1e-5)}
_WORST = 1e10  # stands for a score that overflows: a line search needs numbers

_TIES = (
    "; where many rows share values, scores grow without bound as the bandwidth shrinks: count every value once, "
    "values, counts = np.unique(X, axis=0, return_counts=True) and weights=counts"
)


@public_in("cukde.bandwidth")
@reprs.readable
class CrossValidation(NamedTuple):
    """The result of :func:`cukde.bandwidth.cross_validate`: see there."""

    bandwidth: np.ndarray
    score: float
    bandwidths: np.ndarray
    scores: np.ndarray


class Criterion(Protocol):
    """A score as a function of bandwidths, such as :class:`cukde.bandwidth.scores.LeaveOneOut`."""

    precision: str
    ranges: np.ndarray

    @property
    def is_logarithmic(self) -> bool: ...

    def scores(self, h: np.ndarray) -> np.ndarray: ...

    def with_gradient(self, h: np.ndarray) -> tuple[float, np.ndarray]: ...


def search(objective: Criterion, bandwidths: np.ndarray, *, per_dimension: bool) -> CrossValidation:
    """Return the best of (B, d) ``bandwidths``, or of a grid about a rule's (d,) deviations; all on the host.

    Warns the caller's caller where the best is at an end.
    """
    listed = bandwidths.ndim == 2
    least = bandwidths.min(axis=0) if listed else bandwidths * _factor(_FIRST)
    least = least * math.exp(-_BOX) if per_dimension else least
    check.within_reach(objective.ranges, least, single=objective.precision == "float32")
    if per_dimension:
        check.ranges(objective.ranges)
    tried, scores = (bandwidths, objective.scores(bandwidths)) if listed else _extended(objective, bandwidths)
    best = int(scores.argmax())
    result, end = CrossValidation(tried[best], float(scores[best]), tried, scores), _end(tried, best)
    if per_dimension:
        result, end = _optimised(objective, result)
    if end:
        _warn(end, result.bandwidth, listed=listed, per_dimension=per_dimension)
    return result


def _factor(step: float) -> float:
    return float(2 ** (step / _STEPS_OF_OCTAVE))


def _extended(objective: Criterion, reference: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Bandwidths of the grid and their scores, in rising order, with the grid going on while an end is the best."""
    first, count = _FIRST, COUNT
    tried = _grid(reference, first, count)
    scores = objective.scores(tried)
    for _ in range(_EXTENSIONS):
        best = int(scores.argmax())
        if 0 < best < count - 1:
            break
        below = best == 0
        more = _grid(reference, first - _MORE if below else first + count, _MORE)
        parts = [more, tried] if below else [tried, more]
        their = objective.scores(more)
        tried, scores = np.concatenate(parts), np.concatenate([their, scores] if below else [scores, their])
        first, count = first - _MORE * below, count + _MORE
    return tried, scores


def _grid(reference: np.ndarray, first: int, count: int) -> np.ndarray:
    return np.array([_factor(step) for step in range(first, first + count)])[:, None] * reference


def _end(h: np.ndarray, best: int) -> str:
    """Say whether the best is the "smallest" or the "largest" of the bandwidths that are proportional to it, or ""."""
    along = next(h[members, 0] for members in proportional(h) if best in members)
    if along.min() == along.max():
        return ""
    return {along.min(): "smallest", along.max(): "largest"}.get(h[best, 0], "")


def _optimised(objective: Criterion, start: CrossValidation) -> tuple[CrossValidation, str]:
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
            return _WORST, np.zeros(len(u))
        if score > best.score:
            best = best._replace(bandwidth=h, score=score)
        return (start.score - score) / unit, -gradient / unit

    of_score, of_gradient = _TOLERANCES[objective.precision]
    minimize(
        loss,
        origin,
        jac=True,
        method="L-BFGS-B",
        bounds=[(u - _BOX, u + _BOX) for u in origin],
        options={"maxiter": _ITERATIONS, "ftol": of_score, "gtol": of_gradient},
    )
    moved = np.log(best.bandwidth) - origin
    widest = moved[abs(moved).argmax()]
    if abs(widest) < _BOX * (1 - _AT_EDGE):
        return best, ""
    return best, "smallest" if widest < 0 else "largest"


def _warn(end: str, h: np.ndarray, *, listed: bool, per_dimension: bool) -> None:
    if per_dimension:
        reach = f"{math.exp(_BOX):.0f} times from that of the best bandwidth tried"
        what = f"a column's deviation is the {end} that is looked for, {reach}: {_text(h)}; start from other bandwidths"
    else:
        ends = "among those given" if listed else "of the grid, which has gone on as far as it does"
        what = f"the best bandwidth is the {end} {ends}: {_text(h)}; give {end.removesuffix('est')}er ones"
        if not listed:
            what = f"{what} as bandwidths=..."
    warnings.warn(what + _TIES * (end == "smallest"), BandwidthRangeWarning, stacklevel=5)


def _text(h: np.ndarray) -> str:
    return np.array2string(h, precision=4, threshold=8)
