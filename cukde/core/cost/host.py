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

RADIUS = 1.2e-4
"""From when the host knows the scaled squared radius, which decides the products of a pass, to the next kernel.
Unchecked densities by products take 0.10 to 0.14 ms longer on an H200 than when nothing waited for it. Differences,
which do not ask for it, take as long as then (perf_h200.json and perf_h100.json of benchmarks/results)."""

NORMAL, ROW_BY_WEIGHT = 1.1e-8, 2e-7
"""A normal number of NumPy's generator, and a row that it draws by its weight, with their copies to the device. An
entropy that draws 131,072 rows of 16 columns takes 50 ms longer than its passes on an H200; slower hosts take 14 and
260 ns without the copies."""

OPERATION = 1.4e-5
"""An array operation that CuPy begins; places by an array of places count as three. Where the host waits for numbers in
between, it is not ahead of the device: the 64 groups of rows of a conditional sample, a short pass and some 50
operations each, take 1 ms a group on an H200."""

POINT_OF_MASS = 3.4e-8
"""A coordinate of a point that finds the mass of the positive estimate, by NumPy's sines, cosines and logarithms; 45 ns
on a slower host."""


def waits(name: str, on: Peaks, copies: float, operations: float = 0, seconds: float = 0.0) -> Part:
    """Time for which the device waits: copies to the host, array operations begun after them, and work of the host."""
    return Part(name, cycles=(copies * COPY + operations * OPERATION + seconds) * on.clock, launches=0)


def begun(part: Part, on: Peaks) -> Part:
    """The same array operations, where the host waits for numbers between them: they take no less than Python."""
    return replace(part, cycles=max(part.cycles, part.launches * OPERATION * on.clock))
