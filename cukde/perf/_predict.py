"""The time of an operation from its cost and a processor's peaks, by the report's rule and by a better one."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from cukde.core import check as core_check
from cukde.core.cost.cost import Cost, Part, Unit
from cukde.core.cost.peaks import Peaks
from cukde.core.cost.registry import by_name, counted
from cukde.core.public import public_in
from cukde.perf import _published
from cukde.perf._lookup import peaks

OVERLAP = 2.0

# Bytes from memory come through the cache, and multiply-adds are among the instructions: each two units take as long as
# the slower of them.
_STREAM: tuple[Unit, ...] = ("memory", "cache")
_ISSUED: tuple[Unit, ...] = ("fma", "instruction")


@public_in("cukde.perf")
@dataclass(frozen=True)
class PartTime:
    """Predicted time of one part, seconds."""

    name: str
    seconds: float
    units: dict[str, float]
    """Time of each unit by itself; "latency" is that of the longest chain of dependent steps."""

    @property
    def binds(self) -> str:
        """The unit that takes the longest."""
        return max(self.units, key=lambda unit: self.units[unit]) if self.units else "launch"


@public_in("cukde.perf")
@dataclass(frozen=True)
class Prediction:
    """Predicted time of an operation: see :func:`predict`.

    Attributes
    ----------
    cost : Cost
    gpu : str
        Name of the processor.
    seconds : float
        By the library's rule.
    report_seconds : float
        By the report's rule.
    report_compute, report_memory : float
        The two times of the report's rule, in seconds; it takes the larger.
    parts : tuple of PartTime
    launch : float
        Seconds of the launches, which are hidden if there is enough work.
    binds : str
        What limits the time: a unit, "latency" or "launch".
    bound : float
        Seconds of what binds by itself, in all parts together. No program that does this work is faster.

    Examples
    --------
    >>> from cukde import perf
    >>> prediction = perf.predict("kde", "H200", n=2**20, m=2**17, d=16)
    >>> prediction.binds, prediction.bound < prediction.seconds < prediction.report_seconds
    ('exponential', True)

    Notes
    -----
    ``seconds`` has the error that :func:`predict` states.
    """

    cost: Cost
    gpu: str
    seconds: float
    report_seconds: float
    report_compute: float
    report_memory: float
    parts: tuple[PartTime, ...] = field(repr=False)
    launch: float
    binds: str
    bound: float


def predict(
    op: str,
    gpu: str | Peaks | None = None,
    *,
    bytes_per_pair: float | None = None,
    flops_per_pair: float | None = None,
    launch_seconds: float | None = None,
    overlap: float = OVERLAP,
    cold: bool = True,
    **shapes: Any,
) -> Prediction:
    """Predict how long an operation takes, by two rules, without running it.

    The report's rule is max(flops / peak, bytes / bandwidth) + launch, with the flops and bytes of a textbook program.

    The library's rule counts the work of the program that runs. For each part it combines the times t of all units as
    ``sum(t ** overlap) ** (1 / overlap)``. Memory and cache count as one unit there, and so do multiply-adds and all
    instructions. Memory serves what the cache cannot keep. The multiprocessor with the most blocks determines the end,
    and a block takes at least the time of its longest chain of dependent steps. Launches add their time if there is not
    enough work to hide them.

    Parameters
    ----------
    op : str
    gpu : str or Peaks, optional
        As for :func:`cukde.perf.peaks`.
    bytes_per_pair, flops_per_pair : float, optional
        Assumptions of the report's rule for operations over pairs; default: as the operation's source counts.
    launch_seconds : float, optional
        Seconds of a launch; default: 5e-6 for the report's rule, and that of the peaks for the library's rule.
    overlap : float
        How well units overlap: 1 means one after the other, infinity means as long as the slowest.
    cold : bool
        Whether inputs come from memory. Otherwise inputs that fit into the cache come from there.
    **shapes
        As for :func:`cukde.perf.cost`.

    Returns
    -------
    Prediction

    Examples
    --------
    The report's table:

    >>> from cukde import perf
    >>> p = perf.predict("kendall_matrix", "TITAN V", n=100, p=5, q=5)
    >>> round(1e6 * p.report_seconds, 2)
    8.03

    A density, of which a tenth of the pairs matters:

    >>> sizes = {"n": 2**20, "m": 2**17, "d": 16}
    >>> perf.predict("kde", "H200", share=0.1, **sizes).seconds < perf.predict("kde", "H200", **sizes).seconds
    True

    Notes
    -----
    If the work depends on the data, the most is counted: all pairs of densities and sums of values. ``share=0.1`` among
    the sizes means that passes take one pair of ten; for ``sd_kde``, ``share=(0.1, 0.2)`` is for the score and the
    density. ``cells=8_000`` is the number of cells of queries for which the fast Gauss transform of two or three
    columns has expansions. :func:`explain` finds both for a call.

    On an H200 the error of the library's rule is a factor of 1.11, as the geometric mean over 162 calls of all
    operations; that of the report's rule is 6.5 (``docs/performance.md``, ``benchmarks/results/perf_h200.json``).
    """
    on = peaks(gpu)
    core_check.flag("cold", cold)
    return predicted(
        counted(by_name(op), on, shapes),
        on,
        bytes_per_pair=bytes_per_pair,
        flops_per_pair=flops_per_pair,
        launch_seconds=launch_seconds,
        overlap=overlap,
        cold=cold,
    )


def predicted(
    cost: Cost,
    on: Peaks,
    *,
    bytes_per_pair: float | None = None,
    flops_per_pair: float | None = None,
    launch_seconds: float | None = None,
    overlap: float = OVERLAP,
    cold: bool = True,
    hit_rate: float | None = None,
    reduction: float = 1.0,
    throughput: Mapping[Unit, float] | None = None,
) -> Prediction:
    """Predict the time of a cost.

    A sensitivity analysis perturbs the last three: the part of the re-read bytes that the cache serves (default: all
    or none, by size), a factor for the instructions that only reduce, and factors for the rates of units.
    """
    _check(bytes_per_pair=bytes_per_pair, flops_per_pair=flops_per_pair, launch_seconds=launch_seconds, overlap=overlap)
    if cost.pairs == 0 and not (bytes_per_pair is None and flops_per_pair is None):
        raise ValueError(f"{cost.op} is no operation over pairs: it takes no bytes_per_pair or flops_per_pair")
    factors: Mapping[Unit, float] = {} if throughput is None else throughput

    def timed(part: Part) -> PartTime:
        again = max(0.0, part.requested - part.bytes)  # bytes that are asked for again
        fits = part.bytes <= on.cache_bytes
        served = hit_rate
        if served is None:
            served = float(fits) if part.footprint is None else min(1.0, on.cache_bytes / max(part.footprint, 1.0))
        work: dict[Unit, float] = {"memory": (part.bytes if cold or not fits else 0.0) + again * (1 - served)}
        work["cache"] = max(part.requested, part.bytes)
        work.update(part.work)
        if part.reduction:
            work["instruction"] = work.get("instruction", 0.0) + (reduction - 1) * part.reduction
        fair = part.blocks / on.multiprocessors
        uneven = math.ceil(fair) / fair if 0 < fair < math.inf else 1.0
        units: dict[str, float] = {}
        for unit, count in work.items():
            if count > 0:
                rate, efficiency = on.rate(unit) * factors.get(unit, 1.0), 1 if unit in _STREAM else part.efficiency
                units[unit] = uneven * count / rate / efficiency
        if part.cycles:
            waves = math.ceil(fair / part.resident) if fair < math.inf else 1
            units["latency"] = waves * part.cycles / on.clock
        return PartTime(part.name, _together(units, overlap), units)

    parts = tuple(map(timed, cost.parts))
    launch = cost.launches * (on.launch if launch_seconds is None else launch_seconds)
    body = sum(part.seconds for part in parts)
    units = alone(parts) | {"launch": launch}
    binds = max(units, key=lambda unit: units[unit])
    flops = cost.textbook_flops if flops_per_pair is None else flops_per_pair * cost.pairs
    traffic = cost.textbook_bytes if bytes_per_pair is None else bytes_per_pair * cost.pairs
    compute, memory = flops / on.rate("fma"), traffic / on.rate("memory")
    once = _published.LAUNCH if launch_seconds is None else launch_seconds
    return Prediction(
        cost,
        on.name,
        max(body, launch),
        max(compute, memory) + once,
        compute,
        memory,
        parts,
        launch,
        binds,
        units[binds],
    )


def alone(parts: Iterable[PartTime]) -> dict[str, float]:
    """Seconds of each unit by itself, in all parts together."""
    units: dict[str, float] = {}
    for part in parts:
        for unit, seconds in part.units.items():
            units[unit] = units.get(unit, 0.0) + seconds
    return units


def _together(units: Mapping[str, float], overlap: float) -> float:
    """Seconds of units that work at the same time, as well as they can."""
    times = [time for unit, time in units.items() if unit not in (*_STREAM, *_ISSUED)]
    times += [max(units.get(unit, 0.0) for unit in alike) for alike in (_STREAM, _ISSUED)]
    longest = max(times)
    if longest == 0.0 or math.isinf(overlap):
        return longest
    return longest * math.fsum((time / longest) ** overlap for time in times) ** (1 / overlap)


def _check(**numbers: float | None) -> None:
    for name, number in numbers.items():
        infinite = name == "overlap" and isinstance(number, float) and number == math.inf
        if (number is not None or name == "overlap") and not infinite:
            core_check.number(name, number, 1 if name == "overlap" else 0)


def cost(op: str, gpu: str | Peaks | None = "H200", **shapes: Any) -> Cost:
    """Count the work of an operation on a processor.

    Parameters
    ----------
    op : str
        See :func:`operations`.
    gpu : str or Peaks
        As for :func:`cukde.perf.peaks`. The engine that computes a call, and so its work, depends on the processor.
    **shapes
        Sizes, with the names of the operation's documentation: ``n``, ``m``, ``d`` for the density functions.

    Returns
    -------
    Cost

    Raises
    ------
    ValueError
        For an operation or a processor that is not known (the message says which are), for sizes that the operation
        does not take, and for missing ones.

    Examples
    --------
    >>> from cukde import perf
    >>> perf.cost("kde", n=1024, m=128, d=16).exponentials
    131072.0

    Notes
    -----
    The work of the program that runs is counted exactly in inner loops, and roughly before and after them. For three
    kernels hardware counters show 0.9 to 1.6 times as much, and once 2.9 times (``docs/performance.md`` says why).
    """
    return counted(by_name(op), peaks(gpu), shapes)
