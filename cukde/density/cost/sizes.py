"""Sizes that the cost formulas of the density family share."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from cukde.core.cost.sizes import takes

# A formula takes the options of a call, and the number of boxes; and those of a call with data alone, or with queries;
# and the tolerance, and what only a run can tell.
OPTIONS = "deterministic check_finite boxes"
OF_DATA = f"n d dtype precision weighted {OPTIONS}"
OF_QUERIES = f"n m d dtype precision weighted at_data {OPTIONS}"

FOUND = "rtol share screened ran again in_vain"


@dataclass(frozen=True)
class Sizes:
    """``n`` points and ``m`` queries of ``d`` dimensions, and the options of a call.

    ``boxes`` lie between the first point and the last of a line, each half a bandwidth wide. The default is for a call
    that does not know better: a million points from a normal distribution, by Silverman's rule, have 300.
    ``rtol`` is the tolerance of a call: one below that of the transform of one dimension makes it take all pairs.
    ``share`` is that of the pairs which a pass takes where it leaves out others; None: it takes all, in the way
    that is fastest then. A call of two passes has a share for both, or a pair of them. ``screened`` is the share of
    pairs whose distances such a pass finds on a CPU, to tell whether they count; None: it is estimated. ``cells`` is
    likewise the number of cells of queries where the fast Gauss transform of two or three columns takes a pass; None:
    it does not.
    ``local`` says that each point has its own factor of the bandwidth. ``ran`` is the name of the pass that took all
    pairs, or a pair of them; None: that which takes data near their mean (:func:`cukde.perf.plan`). On a CPU ``again``
    is the share of queries that were summed once more, in double or after a transform, and ``in_vain`` whether points
    were put in order for a pass that leaves out pairs, before all pairs were taken.
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
    screened: Any = None
    ran: Any = None
    again: Any = None
    in_vain: Any = None
    leave_one_out: bool = False

    def at_points(self, *, leave_one_out: bool = False) -> Sizes:
        """Sizes of a call whose queries are the data, each without its own row or with it."""
        return replace(self, m=self.n, at_data=True, leave_one_out=leave_one_out)

    def of_two(self) -> tuple[Sizes, Sizes]:
        """Sizes of both passes of a call, where what a run found is a pair, or the same for both."""
        found = {name: getattr(self, name) for name in ("share", "screened", "cells", "ran", "again", "in_vain")}
        both = {
            name: value if isinstance(value, Sequence) and len(value) == 2 else (value, value)
            for name, value in found.items()
        }
        first, second = (replace(self, **{name: pair[k] for name, pair in both.items()}) for k in (0, 1))
        return first, second


sized = functools.partial(takes, Sizes)
