"""Options that every pass over pairs takes, whatever it sums."""

from __future__ import annotations

from typing import Any, NamedTuple

from cukde.density.kept import Kept
from cukde.density.plan import shape as plan_shape

LOG_ZERO = -1e29
"""Logarithms of weights below this stand for a weight of zero."""


class Options(NamedTuple):
    """Options of a pass, made once for a call; arrays are those of the backend."""

    precision: str  # arithmetic of the pairs: "float32", "tf32", "ieee" or "float64"
    log_weights: Any = None  # (n,) float64, of the data; -1e30 stands for the logarithm of zero; None: all are 0
    centre: Any = None  # (d,) float64, from which products take points; None: the mean of the data
    squared_radius: Any = None  # largest squared distance to the centre, in bandwidths; None: unknown
    deterministic: bool = False  # the same bits on every run
    local_factors: Any = None  # (n,) float64, of the bandwidth of each point; None: all are 1
    # What may be left out of a query's sum, relative to what is kept; None: the precision's own; 0: nothing.
    rtol: float | None = None
    # What may be left out beside, in units of the sums, by passes that leave out pairs; on a GPU by the exponential's.
    atol: float = 0.0
    kept: Kept | None = None  # what passes make of data that stay; None: they do not
    bounded: bool = False  # the scaled squared radius may be less by as many times as there are rows
    # What rounding has taken from whitened data and queries, (n, d) and (m, d), where they reach far; on the CPU.
    lost: tuple[Any, Any] | None = None
    own: Any = None  # (m,) int64, row of the data that adds nothing to a query's sums, -1: none; on a GPU all in order
    of_gradient: bool = False  # terms of moments are divided by squared local factors, as those of gradients are

    @property
    def tolerance(self) -> float:
        """What may be left out of a query's sum, relative to what is kept; 0: nothing."""
        return plan_shape.tolerance(self.precision, self.rtol)

    @property
    def own_out(self) -> bool:
        """Whether queries leave out rows of the data."""
        return self.own is not None

    def at_ratio(self, ratio: float) -> Options:
        """Return the options for bandwidths smaller by a ratio: the scaled squared radius grows by its square."""
        if self.squared_radius is None or ratio == 1:
            return self
        return self._replace(squared_radius=self.squared_radius * ratio**2)

    def of_rows(self, rows: Any) -> Options:
        """Return the options for some rows of the data, of which nothing is kept."""
        log_weights, factors = (None if a is None else a[rows] for a in (self.log_weights, self.local_factors))
        return self._replace(log_weights=log_weights, local_factors=factors, kept=None)
