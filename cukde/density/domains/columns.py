r"""A column of a domain in the product form of its kernel: which images or waves its sum has; both backends follow it.

With u and v a column of query and point, h its bandwidth, and z the images of v,

    theta(u, v) = sum_z exp(-(u - z)^2 / (2 h^2)) = exp(-r^2 / (2 h^2)) (1 + sum_{z others} exp(-e_z)),

r the distance to the nearest image and e_z >= 0 how much larger the exponent of another is: nothing underflows, as the
r^2 are added up over the columns and sums are relative to the largest exponent. Where the bandwidth is 0.15 of the
period T or more, Poisson's sum is shorter,

    theta = (h sqrt(2 pi) / T) (1 + 2 sum_k a_k cos(2 pi k (u - v) / T)),    a_k = exp(-2 pi^2 h^2 k^2 / T^2),

two products of cosines and sines for all pairs; between walls at 0 and L, with T = 2 L, it is twice that with
cos(pi k u / L) cos(pi k v / L). It is at least 0.02 of its first term, so that no more than two digits cancel. The term
of a point is the product of its columns' theta; its first moment about the query is h^2 d/du log theta times that, and
the Laplace-corrected kernel has 1 - sum (h^2 / 2) theta'' / theta.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from cukde.density.domains.domain import Domain
from cukde.density.plan import compositions as plan_compositions
from cukde.density.sums import Output

_NEGLIGIBLE = 46.0  # where Poisson's sum ends: its terms are below 1e-20


def image(v: Any, cell: int, period: float, width: float) -> Any:
    """Where images of points in a cell lie: of a period, of walls a ``width`` apart, or of one wall; others are inf."""
    if cell == 0:
        return v
    if math.isfinite(period):
        return v + cell * period
    if math.isinf(width):
        return -v
    return (cell + 1) * width - v if cell % 2 else cell * width + v


class Column(NamedTuple):
    """How a column's theta is summed: over cells beside that of the point, or over waves."""

    h: float
    period: float  # infinite where there is none
    width: float  # between two walls, likewise
    waves: int  # 0 where images are summed
    cells: tuple[int, ...]

    @property
    def periodic(self) -> bool:
        """Whether the column has a period."""
        return math.isfinite(self.period)

    @property
    def terms(self) -> float:
        """Exponentials of a pair, or as much work."""
        return 1 + len(self.cells) + plan_compositions.OF_WAVE * self.waves * (1 + self.periodic)

    @property
    def log_constant(self) -> float:
        """Logarithm of what Poisson's sum is a multiple of."""
        if not self.waves:
            return 0.0
        return 0.5 * math.log(2 * math.pi) + math.log(self.h) - math.log(self.period if self.periodic else self.width)

    def image(self, v: Any, cell: int) -> Any:
        """Where the images of the points ``v`` in a cell lie."""
        return image(v, cell, self.period, self.width)

    def waves_of_data(self, v: Any, xp: Any) -> Any:
        """Cosines of points (n,), and of a period their sines: (waves, n) or twice as many rows."""
        phase = self._frequencies(xp)[:, None] * v
        return xp.concatenate([xp.cos(phase), xp.sin(phase)]) if self.periodic else xp.cos(phase)

    def waves_of_queries(self, u: Any, output: Output, xp: Any) -> tuple[Any, Any]:
        """What multiplies these, of queries (m,): for theta less its first term, and for its derivative times theta."""
        phase = u[:, None] * self._frequencies(xp)
        around = self.period if self.periodic else 2 * self.width
        # Of wide bandwidths no wave is left; their squares must not overflow.
        unit = min(2 * math.pi * (self.h / around), 1e3) * xp.arange(1, self.waves + 1)
        decay = 2 * xp.exp(-0.5 * unit**2)
        cosines, sines = xp.cos(phase) * decay, xp.sin(phase) * decay
        value = xp.concatenate([cosines, sines], axis=1) if self.periodic else cosines
        if output == "moments":
            parts = -self.h * (unit * sines), self.h * (unit * cosines)  # 0 where their product overflows
        else:
            parts = -0.5 * unit**2 * cosines, -0.5 * unit**2 * sines
        return value, xp.concatenate(parts, axis=1) if self.periodic else parts[0]

    def _frequencies(self, xp: Any) -> Any:
        around = self.period if self.periodic else 2 * self.width
        return (2 * math.pi / around) * xp.arange(1, self.waves + 1)


def columns_of(deviations: np.ndarray, domain: Domain, unlike: float) -> list[Column]:
    """Choose how each column is summed; terms that are smaller by ``unlike`` in their exponent are left out."""
    return [_column(k, deviations, domain, unlike) for k in range(len(deviations))]


def _column(k: int, deviations: np.ndarray, domain: Domain, unlike: float) -> Column:
    h, period, cell = float(deviations[k]), float(domain.period[k]), float(domain.cell[k])
    width = math.inf if math.isfinite(period) else cell
    around = period if math.isfinite(period) else 2 * width
    if math.isinf(around):
        return Column(h, period, width, 0, (1,) if domain.bounded[k] else ())
    if plan_compositions.waves_are_fewer(h, around):
        waves = math.ceil(math.sqrt(_NEGLIGIBLE / 2) / math.pi * (around / h))
        return Column(h, period, width, max(1, waves), ())
    # In cell i an exponent is larger by ((i - 1)^2 - 1) cell^2 / (2 h^2) at least.
    most = math.floor(1 + math.sqrt(1 + 2 * unlike * (h / cell) ** 2))
    return Column(h, period, width, 0, tuple(i for j in range(1, most + 1) for i in (j, -j)))
