"""How a verdict changes when the model's assumptions are perturbed over stated ranges."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cukde.core import check as core_check
from cukde.core.cost.cost import Cost
from cukde.core.cost.peaks import Peaks
from cukde.core.cost.registry import by_name, counted
from cukde.core.public import public_in
from cukde.perf import _text
from cukde.perf._lookup import peaks
from cukde.perf._predict import Prediction, predicted

HIT_RATES = (0.0, 0.25, 0.5, 0.75, 1.0)
"""Part of the re-read bytes that the cache serves: from none to all."""

REDUCTIONS = (0.5, 1.0, 2.0, 4.0)
"""Factors of the instructions that only bring partial sums together."""

THROUGHPUTS = (0.5, 0.75, 1.0, 1.5, 2.0)
"""Factors of the rates of units that compute."""

HIT_RATE, REDUCTION, THROUGHPUT = "cache hit rate", "reduction overhead", "instruction throughput"


@public_in("cukde.perf")
@dataclass(frozen=True)
class Perturbed:
    """The model's result with one assumption changed.

    Attributes
    ----------
    assumption : str
        "cache hit rate", "reduction overhead", "instruction throughput" (of all units that compute), or
        "throughput of UNIT" (of one unit).
    value : float
        Hit rate, or a factor.
    seconds : float
        Predicted time.
    binds : str
        What takes the longest.
    """

    assumption: str
    value: float
    seconds: float
    binds: str


@public_in("cukde.perf")
@dataclass(frozen=True, repr=False)
class Sensitivity:
    """How the verdict of a model depends on its assumptions: see :func:`sensitivity`.

    Attributes
    ----------
    op : str
    base : Prediction
        With the assumptions as they are.
    rows : tuple of Perturbed

    Examples
    --------
    >>> from cukde import perf
    >>> result = perf.sensitivity("kde", "H200", n=65536, m=65536, d=16)
    >>> result.base.binds, len(result.rows) > 10
    ('exponential', True)

    Notes
    -----
    It shows how the verdict depends on errors of the model; it is not an error interval of a time.
    """

    op: str
    base: Prediction
    rows: tuple[Perturbed, ...]

    @property
    def changed(self) -> tuple[Perturbed, ...]:
        """Rows in which something else binds."""
        return tuple(row for row in self.rows if row.binds != self.base.binds)

    @property
    def stable(self) -> bool:
        """Whether the same unit binds in all rows."""
        return not self.changed

    @property
    def range(self) -> tuple[float, float]:
        """Shortest and longest predicted time of all rows, seconds."""
        every = [row.seconds for row in self.rows]
        return min(every), max(every)

    @property
    def verdict(self) -> str:
        """Whether the verdict holds, in a sentence."""
        if self.stable:
            return f"stable: {self.base.binds} binds in all {len(self.rows)} perturbed models"
        moved: dict[tuple[str, str], list[str]] = {}
        for row in self.changed:
            moved.setdefault((row.binds, row.assumption), []).append(f"{row.value:g}")
        where = [f"{binds} binds at {assumption} {', '.join(values)}" for (binds, assumption), values in moved.items()]
        return (
            f"not stable: {self.base.binds} binds in {len(self.rows) - len(self.changed)} of {len(self.rows)} "
            f"perturbed models, but " + "; ".join(where)
        )

    def __repr__(self) -> str:
        """The table, as it is printed."""
        lines = [
            f"sensitivity of the predicted {_text.si(self.base.seconds, 's')}, {self.base.binds} binding "
            "(*: something else binds)"
        ]
        by_assumption: dict[str, list[Perturbed]] = {}
        for row in self.rows:
            by_assumption.setdefault(row.assumption, []).append(row)
        for assumption, rows in by_assumption.items():
            label = assumption.replace("throughput of", "  of")
            if all(row.seconds == self.base.seconds and row.binds == self.base.binds for row in rows):
                lines.append(f"  {label:<23}does not enter")
                continue
            cells = [
                f"{row.value:g}: {_text.si(row.seconds, 's')}{'*' * (row.binds != self.base.binds)}" for row in rows
            ]
            lines.append(f"  {label:<23}" + "".join(f"{cell:<15}" for cell in cells).rstrip())
        return "\n".join((*lines, *_text.wrapped(self.verdict, "  ")))


def sensitivity(op: str, gpu: str | Peaks | None = None, *, cold: bool = True, **shapes: Any) -> Sensitivity:
    """Perturb the assumptions of the model of an operation, and report whether the same unit still binds.

    One assumption changes at a time:

    - the hit rate of the last cache (a GPU's L2): 0, 0.25, 0.5, 0.75 and 1 of the bytes that are asked for again;
    - the instructions that only reduce: 0.5, 1, 2 and 4 times;
    - the rates of units that compute: 0.5, 0.75, 1, 1.5 and 2 times, of all of them, which compares them with memory,
      and of each by itself, which compares them with each other.

    Parameters
    ----------
    op : str
    gpu : str or Peaks, optional
        As for :func:`cukde.perf.peaks`.
    cold : bool
        As for :func:`cukde.perf.predict`.
    **shapes
        As for :func:`cukde.perf.cost`.

    Returns
    -------
    Sensitivity
        Its string is the table.

    Raises
    ------
    ValueError
        As :func:`cukde.perf.predict` does.

    Examples
    --------
    >>> from cukde import perf
    >>> perf.sensitivity("kde", "H200", n=65536, m=65536, d=16).rows[0].assumption
    'cache hit rate'

    Notes
    -----
    The result shows on which errors of the model the verdict depends, not how large they are. The ranges are those of
    the sensitivity analysis of the depthwise-convolution study: L2 hit rates, reduction overhead and instruction
    throughput.
    """
    on = peaks(gpu)
    core_check.flag("cold", cold)
    return perturbed(counted(by_name(op), on, shapes), on, cold=cold)


def perturbed(cost: Cost, on: Peaks, *, cold: bool) -> Sensitivity:
    """Perturb the model of a cost."""
    worked = (unit for part in cost.parts for unit, count in part.work.items() if count > 0)
    units = tuple(unit for unit in dict.fromkeys(worked) if unit not in ("memory", "cache"))
    rows: list[Perturbed] = []

    def perturb(assumption: str, value: float, **change: Any) -> None:
        prediction = predicted(cost, on, cold=cold, **change)
        rows.append(Perturbed(assumption, value, prediction.seconds, prediction.binds))

    for value in HIT_RATES:
        perturb(HIT_RATE, value, hit_rate=value)
    for value in REDUCTIONS:
        perturb(REDUCTION, value, reduction=value)
    groups = {THROUGHPUT: units} | {f"throughput of {unit}": (unit,) for unit in units if len(units) > 1}
    for assumption, group in groups.items():
        for value in THROUGHPUTS:
            perturb(assumption, value, throughput=dict.fromkeys(group, value))
    return Sensitivity(cost.op, predicted(cost, on, cold=cold), tuple(rows))
