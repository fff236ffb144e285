"""Mean shift: points that climb a density, from where they start to where they settle.

A step takes a point to the mean of the data, weighted by its kernel: y + h^2 s(y) with the score s. It never lowers the
density. As log-sum-exp lies above its tangent, log p(y + v) >= log p(y) + (s . v) - |v|^2 / (2 h^2) for any v; and for
v = h^2 s that is log p(y) + |v|^2 / (2 h^2).

With local factors f_j the weights of the mean are w_j f_j^-(d+2) phi_j (Comaniciu, Ramesh and Meer), and the same holds
with their mean of f_j^2 h^2 for h^2. The bandwidth that lengths below are multiples of is then that of the narrowest
kernel.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from cukde.core import row_keys
from cukde.density.modes.coordinates import Coordinates
from cukde.density.modes.newton import Maxima, climb
from cukde.density.problem import Problem
from cukde.density.sums import PartialSums
from cukde.density.whitening import Whitening

# Passes between two looks at what has become of the points: a look waits for the device, a pass does not.
PASSES_OF_LOOK = 4

# Passes after which points that have not settled are left to Newton's method, whatever they do.
MOST_PASSES = 512

# In bandwidths: the width of a cell in which a point goes on as one with those that have been there; so few points are
# as near to the border of two clusters that hardly one goes the wrong way. Points whose step is less than the other
# have settled, which is more than the arithmetic of the passes is off by.
_SAME = 2.0**-6
_SETTLED = {"float64": 1e-3, "float32": 1e-3, "ieee": 1e-3, "tf32": 2e-2}

# A point is on the hill of a known maximum where one step of Newton's method with the curvature of the maximum itself
# ends no further from it than so much of the distance to it, or so many bandwidths; and hills whose least curvature is
# less than that are not known well enough.
_MISS, _NEAR, _REACH, _LEAST_CURVATURE = 0.25, 1e-3, 1.0, 0.02

# Points that look for maxima ahead of the others: the highest of as many cells a bandwidth wide, so few that they take
# no more than a part of the time of a pass, and so many steps of Newton's method.
_SCOUTS, _LEAST_SCOUTS, _SHARE_OF_SCOUTS, _STEPS_OF_SCOUTS = 64, 8, 64, 16

# In bandwidths: no scouts go where a maximum is known that near; maxima no further from a known one are that one.
_UNKNOWN, _NEW = 0.5, 1e-2

# Between two looks at whether every point knows whom it follows in the end: up to 32 follow each other in a row then.
_DOUBLINGS = 5


class Climbed:
    """What the search asks of a density, in coordinates in which its bandwidth ``h`` is a number."""

    def __init__(self, backend: ModuleType, coordinates: Coordinates, h: float, precision: str) -> None:
        """Take where points are, and the arithmetic of the passes by which they climb."""
        self.backend, self.coordinates, self.h, self.precision = backend, coordinates, h, precision

    def shift(self, z: Any) -> tuple[Any, Any]:
        """Steps of the points ``z`` (m, d), in the precision that is asked for, and log densities, up to 2.4e-4."""
        return self._stepped(z, exact=False)

    def exact_shift(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The same of points on the host, in float64, which may lie beyond ends of the domain."""
        home = self.backend.asarray(self.coordinates.home(z, np))
        shift, log_density = map(self.backend.asnumpy, self._stepped(home, exact=True))
        return shift * self.coordinates.sides(z), log_density

    def _stepped(self, z: Any, *, exact: bool) -> tuple[Any, Any]:
        """Steps and log densities of points at home, in the precision of the passes or exactly in float64."""
        raise NotImplementedError


class Field(Climbed):
    """The density of a problem."""

    def __init__(self, problem: Problem, coordinates: Coordinates) -> None:
        """Take a problem with its data, in the user's coordinates or those of its domain."""
        xp, whitening = problem.xp, problem.whitening
        factors, self._log_weights = problem.options.local_factors, None
        h = coordinates.h if factors is None else coordinates.h * float(factors.min())
        super().__init__(problem.backend, coordinates, h, problem.options.precision)
        self._log_constant = problem.log_constant
        if factors is not None:  # of the steps, beside which the passes have those of each kernel's height
            log_w = problem.options.log_weights
            self._log_weights = -2 * xp.log(factors) + (0.0 if log_w is None else log_w)
        centre = xp.zeros_like(problem.options.centre)
        if whitening.plain or problem.domain is not None:
            centre = coordinates.to(problem.options.centre[None], xp)[0]
        self._problem = problem._replace(
            X=coordinates.to(problem.X, xp),
            Y=None,
            whitening=Whitening(np.asarray(whitening.h), problem.X.shape[1], single=whitening.single),
            options=problem.options._replace(centre=centre),
            domain=coordinates.here,
            outside=None,
        )

    def of_sums(self, sums: PartialSums) -> tuple[Any, Any]:
        """Steps and log densities of sums of moments."""
        xp = self.backend.xp
        with np.errstate(all="ignore"):  # of unchecked data
            return sums.moments / sums.total[:, None], sums.reference + xp.log(sums.total) + self._log_constant

    def _stepped(self, z: Any, *, exact: bool) -> tuple[Any, Any]:
        options = self._problem.options._replace(precision="float64" if exact else self.precision)
        problem = self._problem._replace(Y=z, options=options)
        if self._log_weights is None:
            return self.of_sums(problem.sums("moments", ratio=not exact))
        of_steps = problem._replace(options=options._replace(log_weights=self._log_weights))
        shift = self.of_sums(of_steps.sums("moments", ratio=not exact))[0]
        sums = problem.sums("sum")
        return shift, sums.reference + self.backend.xp.log(sums.total) + self._log_constant


class Ends(NamedTuple):
    """Where points have climbed to; several may have gone on as one."""

    points: Any  # (m, d)
    leader: Any  # (m,): which point each has gone on as
    caught: Any  # (m,): of leaders, the known maximum on whose hill they are, or -1
    known: Maxima
    passes: int


def settle(field: Climbed, z: Any, first: tuple[Any, Any] | None, tolerance: float, most: int) -> Ends:
    """Let points climb by at most ``most`` steps until they settle, or come onto the hill of a known maximum.

    ``first`` are steps and log densities at the points where they are known.
    """
    xp = field.backend.xp
    m, d = z.shape
    ids, leader = xp.arange(m), xp.arange(m)
    points, caught, height = z.copy(), xp.full(m, -1), xp.empty(m)
    known, trails = _Known(field, d), _Trails(xp)
    passes, scouted = 0, 1
    while len(ids) and passes < most:
        for _ in range(min(PASSES_OF_LOOK, most - passes)):
            start = z
            shift, log_density = field.shift(z) if first is None else first
            first = None
            z = field.coordinates.home(start + shift, xp)
            cells = _cells(z, _SAME * field.h, xp)
            trails.add(ids, cells)
            passes += 1
        with np.errstate(all="ignore"):
            if passes >= 2 * scouted:
                scouted = passes
                known.add(_highest(start, log_density, known.most_scouts(len(ids)), field), tolerance)
            hill = known.hills(start, shift)
            length = xp.sqrt((shift * shift).sum(axis=1))
            goes_on = (hill < 0) & (length >= _SETTLED[field.precision] * field.h) & xp.isfinite(length)
            points[ids], caught[ids], height[ids] = z, hill, xp.where(goes_on, log_density, xp.inf)
            leader = trails.followed(ids, cells, leader, height)
            left = xp.flatnonzero(goes_on & (leader[ids] == ids))
            ids, cells = ids[left], cells[left]
            if len(ids) == 0:
                break
            _, one, which = xp.unique(cells, return_index=True, return_inverse=True)
            leader[ids] = ids[one][which]
            leader = leader[leader]
            ids = ids[one]
            z = points[ids]
    return Ends(points, leader, caught, known.maxima, passes)


class _Trails:
    """Cells that points have been in, and who was there first."""

    def __init__(self, xp: Any) -> None:
        self._xp = xp
        self._cells, self._ids = [xp.empty(0, np.uint64)], [xp.empty(0, np.int64)]

    def add(self, ids: Any, cells: Any) -> None:
        """Remember where points have come to."""
        self._cells.append(cells)
        self._ids.append(ids)

    def followed(self, ids: Any, cells: Any, leader: Any, height: Any) -> Any:
        """Whom each point follows, now that some are where another has been which is higher by now."""
        xp = self._xp
        known, first = xp.unique(xp.concatenate(self._cells), return_index=True)
        visitors = xp.concatenate(self._ids)[first]
        self._cells, self._ids = [known], [visitors]
        other = leader[visitors[xp.searchsorted(known, cells)]]
        leader[ids] = xp.where(height[other] > height[ids], other, ids)
        while True:  # as all follow higher ones, none follows itself
            for _ in range(_DOUBLINGS):
                leader = leader[leader]
            if bool((leader[leader] == leader).all()):
                return leader


class _Known:
    """Maxima that are known, and the hills about them."""

    def __init__(self, field: Climbed, d: int) -> None:
        self._field, self._d = field, d
        self.maxima = Maxima.none(d)

    def most_scouts(self, left: int) -> int:
        """How many points may look for more, where so many are left."""
        return max(_LEAST_SCOUTS, min(_SCOUTS, left // (_SHARE_OF_SCOUTS * (self._d + 1))))

    def add(self, scouts: np.ndarray, tolerance: float) -> None:
        """Look for maxima from points on the host."""
        h = self._field.h
        scouts = scouts[_apart(scouts, self.maxima.points, _UNKNOWN * h)]
        if len(scouts) == 0:
            return
        maxima = climb(self._field, scouts, tolerance, _STEPS_OF_SCOUTS, curved=True)
        maxima = self._field.coordinates.maxima_at_home(maxima)
        maxima = maxima.of(maxima.reached)
        maxima = maxima.of(np.linalg.eigvalsh(maxima.curvature)[:, 0] > _LEAST_CURVATURE)
        for i in range(len(maxima.points)):
            if _apart(maxima.points[i : i + 1], self.maxima.points, _NEW * h)[0]:
                self.maxima = self.maxima.joined(maxima.of(slice(i, i + 1)))

    def hills(self, z: Any, shift: Any) -> Any:
        """Number of the maximum on whose hill each point is, by its step there; -1 where on none."""
        xp, h, k = self._field.backend.xp, self._field.h, len(self.maxima.points)
        out = xp.full(len(z), -1)
        if k == 0:
            return out
        tops = xp.asarray(self.maxima.points)
        inverse = xp.asarray(np.linalg.inv(self.maxima.curvature))
        norms = (tops * tops).sum(axis=1)
        rows = max(1, 2**22 // (k + self._d**2))
        for start in range(0, len(z), rows):
            some = slice(start, start + rows)
            nearest = (norms - 2 * (z[some] @ tops.T)).argmin(axis=1)  # but for rounding, which costs time at most
            away = z[some] - tops[nearest]
            miss = (inverse[nearest] @ shift[some, :, None])[:, :, 0] + away
            missed, distance = (xp.sqrt((a * a).sum(axis=1)) for a in (miss, away))
            hits = (missed <= _MISS * distance + _NEAR * h) & (distance <= _REACH * h)
            out[some] = xp.where(hits, nearest, -1)
        return out


def _apart(points: np.ndarray, others: np.ndarray, distance: float) -> np.ndarray:
    """Which of some points are no closer than ``distance`` to each of a few others."""
    if len(others) == 0:
        return np.ones(len(points), bool)
    away = np.linalg.norm(points[:, None] - others, axis=2).min(axis=1)
    return np.asarray(away >= distance)


def _highest(z: Any, log_density: Any, most: int, field: Climbed) -> np.ndarray:
    """The highest points of cells a bandwidth wide, in descending order, at most so many; on the host."""
    xp = field.backend.xp
    order = xp.argsort(-log_density)
    _, first = xp.unique(_cells(z[order], field.h, xp), return_index=True)
    out = field.backend.asnumpy(z[order[xp.sort(first)[:most]]])
    return np.asarray(out[np.isfinite(out).all(axis=1)])


def _cells(z: Any, size: float, xp: Any) -> Any:
    """A number for the cell of each point in a grid: of 1e7 different cells two have the same by a chance of 3e-6."""
    with np.errstate(all="ignore"):
        return row_keys.of(xp.floor(z / size), xp)
