"""Two measured runs beside each other: what became slower or faster by more than the runs spread."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cukde.perf._record import checked, read_record

_KEY = ("op", "backend", "shape", "dtype", "precision", "timing")
"""What tells measurements of a record apart."""

_TIMES = ("median_ms", "q1_ms", "q3_ms", "low_ms", "high_ms", "runs")

_PASSING = {"sm_clock_mhz"}
"""What differs between two runs on one machine."""


@dataclass(frozen=True)
class Change:
    """One measurement of both runs: see :func:`compare`.

    Attributes
    ----------
    op, backend, dtype, precision, timing : str
        Empty where the rows do not say.
    shape : dict
    old_ms, new_ms : float
        Medians.
    old_spread, new_spread : tuple of float
        From the lower quartile, or the lower end of the median's confidence interval where that is lower, to the upper.
    old_error, new_error : float or None
        ``rel_err_max`` of the rows.
    """

    op: str
    backend: str
    shape: Mapping[str, Any]
    dtype: str
    precision: str
    timing: str
    old_ms: float
    new_ms: float
    old_spread: tuple[float, float]
    new_spread: tuple[float, float]
    old_error: float | None
    new_error: float | None

    @property
    def ratio(self) -> float:
        """New time over old: above 1 is slower."""
        return self.new_ms / self.old_ms if self.old_ms else math.inf

    @property
    def verdict(self) -> str:
        """Whether it became "slower" or "faster" by more than both spreads; else empty."""
        if self.new_spread[0] > self.old_spread[1]:
            return "slower"
        return "faster" if self.new_spread[1] < self.old_spread[0] else ""

    @property
    def error_changed(self) -> bool:
        """Whether the errors differ in what is printed, two digits."""
        return _error(self.old_error) != _error(self.new_error)


@dataclass(frozen=True, repr=False)
class Comparison:
    """What :func:`compare` finds; printed, it is a table.

    Attributes
    ----------
    rows : tuple of Change
        Measurements of both runs, in the order of the new one.
    only_old, only_new : tuple of str
        Measurements of one run alone, and why the other has none where it says.
    warnings : tuple of str
        What else differs: machine, versions, rows that cannot be told apart.
    peer_ratio : float or None
        Geometric mean of the new times over the old of the rivals in both runs: what the machine did to times that the
        library has no part in.
    """

    rows: tuple[Change, ...]
    only_old: tuple[str, ...]
    only_new: tuple[str, ...]
    warnings: tuple[str, ...]
    peer_ratio: float | None

    @property
    def slower(self) -> tuple[Change, ...]:
        """Measurements that take longer by more than the spread."""
        return tuple(row for row in self.rows if row.verdict == "slower")

    @property
    def faster(self) -> tuple[Change, ...]:
        """Measurements that take less by more than the spread."""
        return tuple(row for row in self.rows if row.verdict == "faster")

    def __str__(self) -> str:
        """Say it in a table."""
        lines = [f"warning: {text}" for text in self.warnings]
        if self.rows:
            lines += _table(self.rows)
            mean = _geometric_mean(row.ratio for row in self.rows)
            alike = len(self.rows) - len(self.slower) - len(self.faster)
            lines.append(
                f"{len(self.slower)} slower, {len(self.faster)} faster, {alike} within the spread; "
                f"new / old {mean:.3f} on average (geometric)"
            )
        else:
            lines.append("no measurement is in both runs")
        if self.peer_ratio is not None:
            lines.append(f"the rivals in both runs: new / old {self.peer_ratio:.3f} on average (geometric)")
        for title, names in (("old", self.only_old), ("new", self.only_new)):
            lines += [f"only in the {title} run: {name}" for name in names]
        return "\n".join(lines)

    __repr__ = __str__


def compare(old: Mapping[str, Any] | str | Path, new: Mapping[str, Any] | str | Path) -> Comparison:
    """Compare two measured runs: ``print(perf.compare(old, new))`` shows what changed.

    Rows are of the same measurement where "op", "backend", "shape", "dtype", "precision" and "timing" are equal; of
    several that are, as many in both runs, the first belongs to the first. A change counts where the runs do not
    overlap, neither their quartiles nor the confidence intervals of their medians, where these were recorded.

    Parameters
    ----------
    old, new : dict, str or Path
        Records: see :func:`write_record`.

    Returns
    -------
    Comparison

    Raises
    ------
    FileNotFoundError, ValueError
        For what is no record.

    Examples
    --------
    >>> from cukde import perf
    >>> row = {"op": "kde", "backend": "cpu", "shape": {"n": 9}, "dtype": "float64", "precision": "float64"}
    >>> run = {"date": "", "commit": "", "machine": {}, "versions": {}, "command": ""}
    >>> old = run | {"rows": [row | {"median_ms": 4.0, "q1_ms": 3.9, "q3_ms": 4.1}]}
    >>> new = run | {"rows": [row | {"median_ms": 2.0, "q1_ms": 1.9, "q3_ms": 2.1}]}
    >>> perf.compare(old, new).faster[0].ratio
    0.5
    """
    runs = [_record(run, name) for run, name in ((old, "old"), (new, "new"))]
    found = [_measurements(run["rows"]) for run in runs]
    rows, unclear = [], []
    for key, after in found[1].items():
        before = found[0].get(key, [])
        if len(before) == len(after):
            rows += [_change(*pair) for pair in zip(before, after, strict=True)]
        elif before:
            unclear.append(f"{len(before)} rows of the old run and {len(after)} of the new are {_name(after[0])}")
    only = [
        tuple(_name(mine[0]) + _reason(other["rows"], key) for key, mine in own.items() if key not in others)
        for own, others, other in ((found[0], found[1], runs[1]), (found[1], found[0], runs[0]))
    ]
    warnings = [*_differences(*runs), *unclear]
    return Comparison(tuple(rows), only[0], only[1], tuple(warnings), _peers(*(run["rows"] for run in runs)))


def _record(run: Any, name: str) -> dict[str, Any]:
    return read_record(run) if isinstance(run, str | Path) else checked(run, name)


def _key(row: Mapping[str, Any]) -> str:
    return json.dumps([row.get(name) for name in _KEY], sort_keys=True)


def _measurements(rows: Iterable[Mapping[str, Any]]) -> dict[str, list[Mapping[str, Any]]]:
    """Rows with a time by what they are of; a measurement has a row for each rival, and counts once."""
    found: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        if isinstance(row.get("median_ms"), int | float):
            same = found.setdefault(_key(row), [])
            if not any(all(row.get(name) == other.get(name) for name in _TIMES) for other in same):
                same.append(row)
    return found


def _change(old: Mapping[str, Any], new: Mapping[str, Any]) -> Change:
    names = {name: str(new.get(name) or "") for name in _KEY if name != "shape"}
    return Change(
        shape=new.get("shape") or {},
        old_ms=old["median_ms"],
        new_ms=new["median_ms"],
        old_spread=_spread(old),
        new_spread=_spread(new),
        old_error=old.get("rel_err_max"),
        new_error=new.get("rel_err_max"),
        **names,
    )


def _spread(row: Mapping[str, Any]) -> tuple[float, float]:
    median = row["median_ms"]
    least, most = ([row.get(name, median) for name in names] for names in (("q1_ms", "low_ms"), ("q3_ms", "high_ms")))
    return min(least), max(most)


def _peers(old: Iterable[Mapping[str, Any]], new: Iterable[Mapping[str, Any]]) -> float | None:
    """How the times of rivals changed; of a rival that a run has several times, the first counts."""
    times: list[dict[tuple[str, str], float]] = []
    for rows in (old, new):
        peers = [(_key(row), row["peer"]) for row in rows if row.get("peer", {}).get("median_ms")]
        times.append({(key, peer["name"]): peer["median_ms"] for key, peer in reversed(peers)})
    both = times[0].keys() & times[1].keys()
    return _geometric_mean(times[1][key] / times[0][key] for key in both) if both else None


def _geometric_mean(ratios: Iterable[float]) -> float:
    logs = [math.log(ratio) if ratio > 0 else -math.inf for ratio in ratios]
    return math.exp(math.fsum(logs) / len(logs))


def _differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    found = []
    for title in ("machine", "versions"):
        before, after = old[title], new[title]
        names = [name for name in {**before, **after} if name not in _PASSING and before.get(name) != after.get(name)]
        if names:
            told = ", ".join(f"{name} {before.get(name, 'none')} -> {after.get(name, 'none')}" for name in names)
            found.append(f"the {title} differ{'s' if title == 'machine' else ''}: {told}")
    return found


def _reason(rows: Iterable[Mapping[str, Any]], key: str) -> str:
    reasons = (str(row["reason"]) for row in rows if "reason" in row and _key(row) == key)
    return next((f" (the other has none: {reason})" for reason in reasons), "")


def _name(row: Mapping[str, Any]) -> str:
    shape = _sizes(row.get("shape") or {})
    return " ".join(str(part) for part in (row.get("op"), row.get("backend"), shape, *_how(row)) if part)


def _sizes(shape: Mapping[str, Any]) -> str:
    return " ".join(f"{name}={size}" for name, size in shape.items())


def _how(row: Mapping[str, Any]) -> list[str]:
    """Dtype and timing, and the precision where it says more than the dtype."""
    dtype, precision = str(row.get("dtype") or ""), str(row.get("precision") or "")
    return [dtype, precision if precision != dtype else "", str(row.get("timing") or "")]


def _table(rows: Iterable[Change]) -> list[str]:
    cells = [("operation", "", "sizes", "arithmetic", "old, ms", "new, ms", "new/old", "", "")]
    for row in rows:
        how = " ".join(part for part in _how(vars(row)) if part)
        error = f"error {_error(row.old_error)} -> {_error(row.new_error)}" if row.error_changed else ""
        times = (f"{row.old_ms:.4g}", f"{row.new_ms:.4g}", f"{row.ratio:.3f}")
        cells.append((row.op, row.backend, _sizes(row.shape), how, *times, row.verdict, error))
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    numbers = range(4, 7)
    return [
        "  ".join(
            f"{cell:>{width}}" if i in numbers else f"{cell:<{width}}"
            for i, (cell, width) in enumerate(zip(line, widths, strict=True))
            if width
        ).rstrip()
        for line in cells
    ]


def _error(error: float | None) -> str:
    return "none" if error is None else f"{error:.1e}"
