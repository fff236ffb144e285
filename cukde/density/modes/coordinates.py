"""Coordinates in which modes are looked for: the bandwidth is a number there, and a domain has its walls at 0.

Over walls and periods a density goes on: mirrored at each wall, and the same after each period. So points may climb as
if there were no ends, and those that cross one are brought home. At a wall the density has no slope along it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from cukde.density.domains.domain import Domain
from cukde.density.modes.newton import Maxima
from cukde.density.whitening import Whitening


class Coordinates(NamedTuple):
    """Where points lie, of a bandwidth and of a domain or none."""

    whitening: Whitening
    centre: np.ndarray | None  # (d,), on the host, where the whitening has its origin; of no use in a domain
    domain: Domain | None  # of the user
    here: Domain | None  # the same in these coordinates

    @classmethod
    def of(cls, whitening: Whitening, centre: np.ndarray | None, domain: Domain | None) -> Coordinates:
        """Coordinates of a whitening about a centre; with a domain the bandwidth is no covariance."""
        if domain is None:
            return cls(whitening, centre, None, None)
        scale = 1.0 if whitening.plain else whitening.bandwidth
        low, high = domain.ends / scale
        return cls(whitening, centre, domain, Domain(low, high, domain.period / scale))

    @property
    def h(self) -> float:
        """The bandwidth."""
        return float(self.whitening.h)

    @property
    def box(self) -> np.ndarray | None:
        """Periods of the columns, 0 where there is none; None where no column has one."""
        if self.here is None or not self.here.periodic.any():
            return None
        return np.where(self.here.periodic, self.here.period, 0.0)

    def to(self, A: Any, xp: Any) -> Any:
        """Points, in a domain from its origin, in these coordinates, float64."""
        if self.domain is None:
            centre = None if self.centre is None else xp.asarray(self.centre)
            return self.whitening.apply(A, centre, xp).astype(xp.float64, copy=False)
        return A if self.whitening.plain else A / xp.asarray(self.whitening.bandwidth)

    def back(self, z: np.ndarray) -> np.ndarray:
        """Points on the host in the user's coordinates."""
        if self.domain is None:
            assert self.centre is not None
            return self.whitening.restore(z, self.centre)
        out: np.ndarray = self.domain.restored(z if self.whitening.plain else z * self.whitening.bandwidth, np)
        return out

    def step(self, score: Any, xp: Any) -> Any:
        """Steps of mean shift of points whose scores are given in the user's coordinates."""
        return self.whitening.apply(self.whitening.smooth(score, xp), xp.zeros(score.shape[1]), xp)

    def home(self, z: Any, xp: Any) -> Any:
        """Points in the domain that those anywhere are images of."""
        return z if self.here is None else self.here.folded(z, xp)

    def sides(self, z: np.ndarray) -> Any:
        """What steps at points on the host are times those at home."""
        return 1.0 if self.here is None else self.here.sides(z, np)

    def maxima_at_home(self, maxima: Maxima) -> Maxima:
        """Maxima that were climbed to, brought home; between images their curvature changes signs off its diagonal."""
        if self.here is None:
            return maxima
        sides = self.sides(maxima.points)
        curvature = maxima.curvature
        if curvature.size:
            curvature = curvature * sides[:, :, None] * sides[:, None, :]
        return maxima._replace(points=self.home(maxima.points, np), curvature=curvature)

    def at_ends(self, z: np.ndarray, distance: float) -> np.ndarray:
        """Points on the host at home, those within a distance of a wall on it, of a period's end at its beginning."""
        if self.here is None:
            return z
        out = z.copy()
        low, high = self.here.ends
        for wall in (low, high):
            near = np.isfinite(wall) & (abs(out - wall) <= distance)
            out = np.where(near, wall, out)
        return np.where(out >= self.here.period - distance, 0.0, out)
