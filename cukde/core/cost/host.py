"""Seconds of the host for which the device waits. Measured beside an H200; other hosts differ."""

from __future__ import annotations

from dataclasses import replace

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

OPERATION = 1.4e-5
"""An array operation that CuPy begins; places by an array of places count as three. Where the host waits for numbers in
between, it is not ahead of the device: the 64 groups of rows of a conditional sample, a short pass and some 50
operations each, take 1 ms a group on an H200."""


def waits(name: str, on: Peaks, copies: float, operations: float = 0, seconds: float = 0.0) -> Part:
    """The device waits for so many copies to the host, array operations begun after them, and work of the host."""
    return Part(name, cycles=(copies * COPY + operations * OPERATION + seconds) * on.clock, launches=0)


def begun(part: Part, on: Peaks) -> Part:
    """The same array operations by a host that waits for numbers between them: they take a GPU no less than Python."""
    return replace(part, cycles=max(part.cycles, part.launches * OPERATION * on.clock))
