"""Maxima of a density by Newton's method, in float64: few points, which climb to where the gradient vanishes."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np

# In bandwidths: the distance at which the mean shift's change is taken, the longest step, and how far a point is moved
# that sits on a saddle.
_DIFFERENCE, _LONGEST, _NUDGE = 2.0**-17, 0.5, 0.05

# Curvatures of the log density, in units of 1/h^2. One this close to zero may be of either sign: two maxima with so
# flat a saddle between them are 0.04 bandwidths apart, and it lies below them by less than 1e-8 of the density. Steps
# divide by no less than the other; where no curvature is more, as on a plateau, a mean shift of so few bandwidths is as
# good as none.
_FLAT, _LEAST, _LEVEL = 1e-4, 1e-5, 1e-8

# Log densities of float64 passes are off by no more.
_ROUNDING = 1e-11

_NUMBERS = 2**22  # that a block of a pass has


class Ascent(Protocol):
    """What the search asks of a density."""

    @property
    def h(self) -> float: ...

    def exact_shift(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]: ...


class Maxima(NamedTuple):
    """Where points have climbed to."""

    points: np.ndarray  # (k, d)
    log_density: np.ndarray  # (k,)
    curvature: np.ndarray  # (k, d, d), or without numbers: minus second derivatives of the log density, times h^2
    reached: np.ndarray  # (k,) bool: a maximum, or still on the way to one
    steps: int  # of the longest way

    @classmethod
    def none(cls, d: int) -> Maxima:
        """No points."""
        return cls(np.empty((0, d)), np.empty(0), np.empty((0, d, d)), np.empty(0, bool), 0)

    def of(self, rows: Any) -> Maxima:
        """Some of them."""
        points, log_density, curvature, reached = (a[rows] for a in self[:4])
        return Maxima(points, log_density, curvature, reached, self.steps)

    def joined(self, others: Maxima) -> Maxima:
        """These and others."""
        both = (np.concatenate(pair) for pair in zip(self[:4], others[:4], strict=True))
        points, log_density, curvature, reached = both
        return Maxima(points, log_density, curvature, reached, max(self.steps, others.steps))


class _Bowls(NamedTuple):
    """The density and its derivatives at points."""

    log_density: np.ndarray
    shift: np.ndarray
    curvature: np.ndarray

    def at(self, rows: Any) -> _Bowls:
        return _Bowls(*(a[rows] for a in self))

    def set(self, rows: Any, others: _Bowls) -> None:
        for array, other in zip(self, others, strict=True):
            array[rows] = other


def climb(field: Ascent, z: np.ndarray, tolerance: float, most: int, *, curved: bool) -> Maxima:
    """Take points (k, d) to maxima, by at most ``most`` steps, until one is shorter than ``tolerance`` bandwidths.

    A step is Newton's with all curvatures taken as if they bent down, so that it climbs; where the density falls all
    the same, a quarter of it, down to a mean shift. A point where the gradient vanishes but some direction bends up is
    moved along it, to the side where the largest coordinate of that direction is positive. Curvature is kept where it
    is ``curved``. Memory beside the result is bounded.
    """
    k, d = z.shape
    curvature = np.full((k, d, d) if curved else (k, 0, 0), np.nan)
    out = Maxima(z.copy(), np.full(k, np.nan), curvature, np.zeros(k, bool), 0)
    if k == 0:
        return out
    if most == 0:
        return out._replace(log_density=field.exact_shift(z)[1])
    left, steps = np.flatnonzero(np.isfinite(z).all(axis=1)), 0
    rows = max(1, _NUMBERS // (d * (d + 1)))
    for start in range(0, len(left), rows):
        steps = max(steps, _by_newton(field, out, left[start : start + rows], tolerance, most))
    return out._replace(steps=steps)


def _by_newton(field: Ascent, out: Maxima, left: np.ndarray, tolerance: float, most: int) -> int:
    """Take the points of a block to their maxima; return the steps it took."""
    h, z = field.h, out.points[left]
    here, reach = _bowls(field, z), np.full(len(left), _LONGEST)
    for step in range(1, most + 1):
        _keep(out, left, z, here, reached=False)
        usable = np.isfinite(here.curvature).all(axis=(1, 2)) & np.isfinite(here.shift).all(axis=1)
        left, z, here, reach = left[usable], z[usable], here.at(usable), reach[usable]
        bends, along = np.linalg.eigh(here.curvature)
        newton = np.einsum(
            "kij,kj->ki", along, np.einsum("kij,ki->kj", along, here.shift) / np.maximum(abs(bends), _LEAST)
        )
        least = abs(bends).min(axis=1)
        level = (least <= _LEAST) & (np.linalg.norm(here.shift, axis=1) <= _LEVEL * h)
        newton[level] = 0
        length = np.linalg.norm(newton, axis=1)
        still = length <= np.maximum(tolerance * h, 4 * np.spacing(abs(z).max(axis=1)))
        at_top = still & (bends[:, 0] > -_FLAT)
        _keep(out, left[at_top], (z + newton)[at_top], here.at(at_top), reached=True)
        if at_top.all():
            return step
        left, z, newton, length, still, along, reach = (
            a[~at_top] for a in (left, z, newton, length, still, along, reach)
        )
        here = here.at(~at_top)

        steepest = along[:, :, 0]  # up
        largest = np.take_along_axis(steepest, abs(steepest).argmax(axis=1)[:, None], axis=1)
        step_length = np.minimum(reach * h, length)
        step_there = newton * (step_length / np.maximum(length, _LEAST * tolerance * h))[:, None]
        surely = step_length <= np.linalg.norm(here.shift, axis=1)  # a mean shift, which goes further then, never falls
        step_there = np.where(surely[:, None], here.shift, step_there)
        there = z + np.where(still[:, None], _NUDGE * h * np.sign(largest) * steepest, step_there)
        bowls = _bowls(field, there)
        lower = here.log_density - _ROUNDING * (1 + abs(here.log_density))
        fell = ~(bowls.log_density >= lower) & ~still & ~surely
        reach = np.where(fell, step_length / (4 * h), np.minimum(2 * reach, _LONGEST))
        there[fell] = z[fell]
        bowls.set(fell, here.at(fell))
        z, here = there, bowls
    _keep(out, left, z, here, reached=False)
    return most


def _keep(out: Maxima, rows: np.ndarray, z: np.ndarray, here: _Bowls, *, reached: bool) -> None:
    out.points[rows], out.log_density[rows], out.reached[rows] = z, here.log_density, reached
    if out.curvature.size:
        out.curvature[rows] = here.curvature


def _bowls(field: Ascent, z: np.ndarray) -> _Bowls:
    """The density, its mean shift and its curvature at points (k, d), of one pass: at each point and beside it."""
    k, d = z.shape
    # Wide enough for the coordinates to hold it where the data lie far from zero.
    width = np.maximum(_DIFFERENCE * field.h, 2.0**10 * np.spacing(abs(z).max(axis=1)))
    points = z[:, None] + np.concatenate([np.zeros((1, d)), np.eye(d)]) * width[:, None, None]
    shift, log_density = field.exact_shift(points.reshape(-1, d))
    shift = shift.reshape(k, d + 1, d)
    moved = (points[:, 1:] - z[:, None])[:, np.arange(d), np.arange(d)]
    with np.errstate(all="ignore"):
        curvature = (shift[:, :1] - shift[:, 1:]) / moved[:, :, None]
    return _Bowls(
        log_density.reshape(k, d + 1)[:, 0].copy(),
        shift[:, 0].copy(),
        0.5 * (curvature + curvature.transpose(0, 2, 1)),
    )
