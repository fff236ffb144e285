"""Seconds of the host for which the device waits. Measured beside an H200; other hosts differ."""

from __future__ import annotations

from cukde.core.cost.cost import Part
from cukde.core.cost.peaks import Peaks

COPY = 3e-5
"""A copy of a few numbers to the host. A call of ``pwpa``, which copies twice, takes 0.07 ms longer than a call of a
``PiecewisePolynomial`` (benchmarks/results/piecewise_h200.json)."""

NUMBA_LAUNCH = 2.8e-5
"""A launch of a Numba kernel with twenty arguments."""

TIES = 3e-4
"""From the moment when the host knows the ties of all columns of a matrix to the next kernel of Kendall's tau. Calls
with hardly any device work take 0.47 ms, most of it here (table in cukde/kendall/plan.py)."""


def waits(name: str, on: Peaks, copies: float, launches: float = 0, seconds: float = 0.0) -> Part:
    """The device waits for so many copies to the host, for launches that follow them, and for the host's own work."""
    return Part(name, cycles=(copies * COPY + launches * on.launch + seconds) * on.clock, launches=0)
