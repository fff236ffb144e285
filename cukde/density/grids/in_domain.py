r"""Product grids over a domain with walls and periods: which coordinates lie in it, and what its kernel is.

The kernel of a domain is a product of those of its columns, if the bandwidth is, so that the exact way is a product of
matrices as without a domain, of Gaussians summed over all images or over waves (:mod:`cukde.density.domains.columns`).

A transform takes the images as more data: those within ``REACH`` deviations of the grid along each axis. Of any other
the exponent is q > REACH^2 / 2, and exp(-q) <= exp(-7 REACH^2 / 16) exp(-q / 8): all of them together are less than
exp(-7 REACH^2 / 16) G of a kernel's peak, with the G of :mod:`cukde.density.domains.images`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from cukde.density.domains.columns import Column, columns_of, image
from cukde.density.domains.domain import Domain
from cukde.density.plan import compositions as plan_compositions

REACH = 10.0

# Terms of a column's sum are left out that are smaller than the largest by so much in their exponent.
_UNLIKE = 60.0


class GridInDomain(NamedTuple):
    """Coordinates that lie in a domain, from its origin, float64."""

    domain: Domain
    inside: list[np.ndarray]  # places of those of each axis
    axes: list[np.ndarray]  # along a period they go on as they were given, from within the first one
    wrapped: list[np.ndarray]  # in the domain's cell
    shape: tuple[int, ...]  # of the whole grid

    @classmethod
    def of(cls, domain: Domain, axes: Sequence[np.ndarray]) -> GridInDomain:
        """Place the given coordinates in a domain."""
        inside, near, wrapped = [], [], []
        for k, given in enumerate(axes):
            one = Domain(*(ends[k : k + 1] for ends in domain))
            kept = np.flatnonzero(~one.outside(given[:, None], np)[:, 0])
            g = given[kept].astype(np.float64)
            cell = one.anchored(g[:, None], np)[:, 0]
            turns = np.rint((g - cell) / domain.period[k]) if domain.periodic[k] else np.zeros(len(g))
            # Coordinates of a period or two stay in their order, which may be that of a regular grid.
            within = domain.periodic[k] and len(g) > 0 and np.ptp(turns) <= 1
            inside.append(kept)
            near.append(cell + domain.period[k] * (turns - turns.min()) if within else cell)
            wrapped.append(cell)
        return cls(domain, inside, near, wrapped, tuple(map(len, axes)))

    def whole(self, values: Any, outside: float, xp: Any) -> Any:
        """The whole grid, of values in the domain and of what there is outside."""
        if values.shape == self.shape:
            return values
        out = xp.full(self.shape, outside, dtype=values.dtype)
        if values.size:
            out[xp.ix_(*map(xp.asarray, self.inside))] = values
        return out

    def columns(self, deviations: np.ndarray) -> list[Column]:
        """How the kernel of each column is summed over its images."""
        return columns_of(deviations, self.domain, _UNLIKE)

    def images_of_point(self, deviations: np.ndarray) -> float:
        """About how many images of a point, itself among them, lie within reach of the grid."""
        number = 1.0
        for k, (low, high) in enumerate(self._reached(deviations)):
            cell = self.domain.cell[k]
            number *= max(1.0, (high - low) / cell) if math.isfinite(cell) else 1.0 + self.domain.bounded[k]
        return number

    def images(self, X: Any, deviations: np.ndarray, xp: Any) -> tuple[Any, Any] | None:
        """Which points (n, d) have images within reach of the grid, a row each, and these; None where there are many.

        Points that lie in the domain are among them as they are.
        """
        if not plan_compositions.images_suit_transform(self.images_of_point(deviations)):
            return None
        index, places = xp.arange(len(X)), X
        for k, (low, high) in enumerate(self._reached(deviations)):
            v = places[:, k]
            parts = []
            for z in self._images(v, k, low, high):
                rows = xp.flatnonzero((z >= low) & (z <= high)) if z is not v else xp.arange(len(v))
                some = places[rows]
                some[:, k] = z[rows]
                parts.append((index[rows], some))
            index, places = (xp.concatenate(part) for part in zip(*parts, strict=True))
        return index, places

    def left_out(self, deviations: np.ndarray) -> float:
        """Of a kernel's peak: what a point's images beyond reach add up to at most, at any point of the grid."""
        with np.errstate(all="ignore"):
            number = 5 + 2 * math.sqrt(4 * math.pi * len(deviations)) * deviations / self.domain.cell
        return math.exp(-7 / 16 * REACH**2) * float(np.prod(number))

    def _reached(self, deviations: np.ndarray) -> list[tuple[float, float]]:
        return [
            (float(g.min()) - REACH * float(h), float(g.max()) + REACH * float(h))
            for g, h in zip(self.axes, deviations, strict=True)
        ]

    def _images(self, v: Any, k: int, low: float, high: float) -> list[Any]:
        """Images of points along one axis, the points themselves first, in all cells that are within reach."""
        cell, period = float(self.domain.cell[k]), float(self.domain.period[k])
        if math.isinf(cell):
            return [v, -v] if self.domain.bounded[k] else [v]
        cells = [i for i in range(math.floor(low / cell), math.floor(high / cell) + 1) if i != 0]
        # Taken from its upper end a column lies below its origin, but only where it has no lower one.
        return [v, *(image(v, i, period, cell) for i in cells)]
