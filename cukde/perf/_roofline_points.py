"""A measured operation under a roofline."""

from __future__ import annotations

import contextlib
import math
from dataclasses import dataclass
from typing import Any

from cukde.core.cost.cost import Unit
from cukde.core.cost.registry import by_name
from cukde.core.public import public_in

# Families by the first word that the name of an operation contains.
_FAMILIES = {
    "convolution": ("conv1d", "activation"),
    "Kendall": ("kendall", "concordance"),
    "piecewise": ("piecewise", "pwpa", "aos", "functions"),
    "density": ("kde", "score", "debias", "kernel_sum", "density", "bandwidth", "grid"),
}


@public_in("cukde.perf")
@dataclass(frozen=True)
class RooflinePoint:
    """One call, and the roof that limits it.

    Attributes
    ----------
    op : str
    shapes : dict
    seconds : float
        As measured.
    binds : str
        What limits the time by the model: a unit, "latency" or "launch".
    unit : str
        The unit whose operations the point counts: the one that binds, if it computes; else the unit that computes the
        longest; that of ``slope`` if none computes.
    work : float
        Those operations.
    slope : {"memory", "cache"}
        The source of the bytes: a measured cache that binds or holds everything, or else memory.
    bytes : float
        Bytes of the least traffic of memory, or requested from the cache.
    peak : float
        Highest operations a second of the unit.
    bandwidth : float
        Highest bytes a second of the slope.
    bound_seconds : float
        Seconds of what binds by itself.

    Examples
    --------
    >>> from cukde import perf
    >>> point = perf.roofline([("kde", {"n": 65536, "m": 65536, "d": 16}, 1.3e-3)], "H200").points[0]
    >>> point.binds, 0 < point.percent_of_bound <= 100
    ('exponential', True)

    Notes
    -----
    The rate is as accurate as ``seconds``; ``bound_seconds`` has the errors of the peaks and of the counts.
    """

    op: str
    shapes: dict[str, Any]
    seconds: float
    binds: str
    unit: Unit
    work: float
    slope: Unit
    bytes: float
    peak: float
    bandwidth: float
    bound_seconds: float

    @property
    def intensity(self) -> float:
        """The unit's operations for each byte."""
        return self.work / self.bytes if self.bytes else math.inf

    @property
    def rate(self) -> float:
        """Achieved operations a second."""
        return self.work / self.seconds

    @property
    def roof(self) -> float:
        """Highest operations a second at this intensity."""
        return min(self.peak, self.intensity * self.bandwidth) if self.bytes else self.peak

    @property
    def percent(self) -> float:
        """Achieved percent of the roof."""
        return 100 * self.rate / self.roof

    @property
    def percent_of_bound(self) -> float:
        """Time of what binds, in percent of the measured time: 100 is the limit."""
        return 100 * self.bound_seconds / self.seconds

    @property
    def study(self) -> bool:
        """Whether this is a kernel of the study, for comparison, and not of the library."""
        return self.op.startswith("study")

    @property
    def family(self) -> str:
        """Family of the operation, for the colour: "density", "Kendall", "piecewise", "convolution" or "other"."""
        name = self.op
        with contextlib.suppress(ValueError):  # it is not declared any more
            name += f" {by_name(self.op).target.__module__}"
        return next((family for family, parts in _FAMILIES.items() if any(p in name.lower() for p in parts)), "other")

    def row(self) -> dict[str, Any]:
        """Its numbers by name; None for an infinite one."""
        names = (*self.__dataclass_fields__, "intensity", "rate", "roof", "percent", "percent_of_bound", "family")
        return {name: None if (number := getattr(self, name)) == math.inf else number for name in names}
