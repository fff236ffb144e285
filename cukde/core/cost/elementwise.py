"""Costs of CuPy's elementwise kernels, which take numbers one by one, and of any short kernel."""

from __future__ import annotations

from dataclasses import replace

from cukde.core.cost import host
from cukde.core.cost.cost import Part, Unit
from cukde.core.cost.peaks import Peaks

# A thread of such a kernel takes one number, so the rate at which blocks come and go binds a pass, whatever it reads
# and writes: 4.8 ps for each number on an H200 at 1.96 GHz, from 2^24 to 2^26 numbers of 2 to 8 bytes. CYCLES is that
# time for as many blocks as its multiprocessors hold.
THREADS, RESIDENT = 128, 16
CYCLES = 2550

# Cycles of a kernel with hardly any work, which begins, waits for memory and ends: 4 us on an H200. Nsight Compute, for
# CuPy's copy of 64,000 numbers.
SHORT = 7900


def passes(
    name: str,
    on: Peaks,
    numbers: float,
    traffic: float,
    *,
    launches: int = 1,
    work: dict[Unit, float] | None = None,
) -> Part:
    """Passes of ``launches`` kernels, one after the other, over ``numbers`` in all with ``traffic`` bytes.

    On a CPU passes take as long as their bytes and their work.
    """
    if on.backend == "cpu":
        return Part(name, traffic, work or {}, launches=launches)
    least = launches * SHORT * (numbers > 0)
    return Part(name, traffic, work or {}, cycles=max(cycles(on, numbers), least), launches=launches)


def doubles(name: str, on: Peaks, numbers: float, *, launches: int = 1) -> Part:
    """Passes that read and write so many float64 numbers in all, two of them at a time; a CPU launches nothing."""
    return passes(name, on, numbers / 2, 8.0 * numbers, launches=launches if on.backend == "gpu" else 0)


def awaited(name: str, on: Peaks, numbers: float, *, operations: float, waits: float = 0) -> Part:
    """The same in so many array operations, where the host waits for results between them; see :func:`host.begun`."""
    part = host.begun(doubles(name, on, numbers, launches=round(operations)), on)
    return replace(part, cycles=part.cycles + waits * host.COPY * on.clock) if on.backend == "gpu" else part


def cycles(on: Peaks, numbers: float) -> float:
    """Cycles of passes over so many numbers."""
    return CYCLES * numbers / (THREADS * RESIDENT * on.multiprocessors)


def short(launches: int = 1) -> float:
    """Cycles of so many kernels with hardly any work."""
    return float(launches * SHORT)
