"""Sizes that the cost formulas of the density family share."""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from typing import Any

from cukde.core.cost.sizes import takes

# A formula takes the options of a call, and the number of boxes; and those of a call with data alone, or with queries.
OPTIONS = "deterministic check_finite boxes"
OF_DATA = f"n d dtype precision weighted {OPTIONS}"
OF_QUERIES = f"n m d dtype precision weighted at_data {OPTIONS}"


@dataclass(frozen=True)
class Sizes:
    """``n`` points and ``m`` queries of ``d`` dimensions, and the options of a call.

    ``boxes`` lie between the first point and the last of a line, each half a bandwidth wide. The default is for a call
    that does not know better: a million points from a normal distribution, by Silverman's rule, have 300.
    ``rtol`` is the tolerance of a call: one below that of the transform of one dimension makes it take all pairs.
    ``share`` is that of the pairs which a pass takes where it leaves out others; None: it takes all, in the way
    that is fastest then. A call of two passes has a share for both, or a pair of them. ``cells`` is likewise the number
    of cells of queries where the fast Gauss transform of two or three columns takes a pass; None: it does not.
    ``local`` says that each point has its own factor of the bandwidth. ``ran`` is the name of the pass that took all
    pairs on a GPU, or a pair of them; None: that which takes data near their mean (:func:`cukde.perf.plan`).
    """

    n: int
    m: int
    d: int
    dtype: Any = "float32"
    precision: str | None = None
    weighted: bool = False
    at_data: bool = False
    deterministic: bool = False
    check_finite: bool = True
    boxes: int = 512
    rtol: float | None = None
    share: Any = None
    cells: Any = None
    local: bool = False
    ran: Any = None

    def at_points(self) -> Sizes:
        """Sizes of a call whose queries are the data."""
        return replace(self, m=self.n, at_data=True)


sized = functools.partial(takes, Sizes)
