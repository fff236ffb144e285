"""Two measured runs beside each other: what became slower, faster or less accurate by more than the runs vary."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.tools import records
from benchmarks.tools.pace import SAME, Calibration, Pace, pace, unquiet
from cukde.core import aligned

_KEY = ("op", "backend", "shape", "dtype", "precision", "timing")
"""Keys that distinguish the measurements of a record."""

_TIMES = ("median_ms", "q1_ms", "q3_ms", "low_ms", "high_ms", "runs")

PASSING = {"sm_clock_mhz"}
"""Values that differ between two runs on one machine."""

_WORSE = 2.0
"""Factor from which an error is worse; the order of summation changes it, too."""

_ROUNDING = 2.0**-52
"""Errors below this are errors of the float64 references."""


@dataclass(frozen=True)
class Change:
    """One measurement that two runs share, with the times of both as recorded.

    Spreads are the intervals that hold both the quartiles and the confidence interval of the median; errors are
    ``rel_err_max`` of the rows. The pace is the ratio of the machine's times for the same work, new over old, by both
    calibrations, and the interval in which it lies; 1 without calibrations. The threshold is the fraction of the old
    time that a change must exceed.
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
    pace: Pace = SAME
    threshold: float = 0.0

    @property
    def ratio(self) -> float:
        """New time over old, as measured: above 1 is slower."""
        return self.new_ms / self.old_ms if self.old_ms else math.inf

    @property
    def normalised(self) -> float:
        """New time over old, corrected for the pace of the machine."""
        return self.ratio / self.pace.ratio

    @property
    def verdict(self) -> str:
        """The word "slower" or "faster" if the change exceeds both spreads and the threshold; else empty."""
        if self.new_spread[0] / self.pace.high > self.old_spread[1] and self.normalised > 1 + self.threshold:
            return "slower"
        faster = self.new_spread[1] / self.pace.low < self.old_spread[0] and self.normalised < 1 / (1 + self.threshold)
        return "faster" if faster else ""

    @property
    def undecided(self) -> bool:
        """Whether it became slower at one end of the calibrations' interval, and not at the other."""
        beyond = self.new_spread[0] / self.pace.low > self.old_spread[1]
        return beyond and self.ratio / self.pace.low > 1 + self.threshold and self.verdict != "slower"

    @property
    def error_worse(self) -> bool:
        """Whether the error is more than twice the old one."""
        if self.old_error is None or self.new_error is None or not math.isfinite(self.old_error):
            return False
        return not self.new_error <= _WORSE * max(self.old_error, _ROUNDING)  # NaN is worse

    @property
    def error_lost(self) -> bool:
        """Whether the old run knows the error and the new one does not."""
        return self.old_error is not None and self.new_error is None

    @property
    def regressed(self) -> bool:
        """Whether it became slower, or its error worse."""
        return self.verdict == "slower" or self.error_worse

    @property
    def error_changed(self) -> bool:
        """Whether the errors differ in their two printed digits."""
        return _error(self.old_error) != _error(self.new_error)


@dataclass(frozen=True, repr=False)
class Comparison:
    """Two runs; printed, it is a table.

    Rows are measurements of both runs, in the order of the new one; ``only_old`` and ``only_new`` are those of one run,
    with the other run's reason if it gives one. Warnings are other differences: machine, versions, rows with the same
    keys, and errors that the new run does not give; also machines that were not quiet, by their calibrations.
    ``peer_ratio`` is the geometric mean of the ratios, new over old, of the rivals' times: the change of the machine
    alone. Notes name the calibrations that normalise times, or the reason why there are none.
    """

    rows: tuple[Change, ...]
    only_old: tuple[str, ...]
    only_new: tuple[str, ...]
    warnings: tuple[str, ...]
    peer_ratio: float | None
    notes: tuple[str, ...] = ()

    @property
    def regressions(self) -> tuple[Change, ...]:
        """Measurements that became slower, or whose errors became worse."""
        return tuple(row for row in self.rows if row.regressed)

    @property
    def slower(self) -> tuple[Change, ...]:
        """Measurements that take longer by more than the spread."""
        return tuple(row for row in self.rows if row.verdict == "slower")

    @property
    def faster(self) -> tuple[Change, ...]:
        """Measurements that take less by more than the spread."""
        return tuple(row for row in self.rows if row.verdict == "faster")

    def __str__(self) -> str:
        """The table."""
        return self.text()

    def text(self, *, changed: bool = False) -> str:
        """Return the table as text: all measurements, or only those that changed, with the worse ones first."""
        lines = [f"warning: {text}" for text in self.warnings] + list(self.notes)
        rows = self.rows
        if changed:
            rows = self.regressions + tuple(row for row in self.rows if not row.regressed and row.undecided)
            rows += tuple(row for row in self.faster if not row.regressed and not row.undecided)
        if rows:
            lines += _table(rows)
        lines.append(self._counts() if self.rows else "no measurement is in both runs")
        if self.peer_ratio is not None:
            lines.append(f"the rivals in both runs: new / old {self.peer_ratio:.3f} on average (geometric)")
        for title, names in (("old", self.only_old), ("new", self.only_new)):
            lines += [f"only in the {title} run: {name}" for name in names]
        return "\n".join(lines)

    def _counts(self) -> str:
        alike = len(self.rows) - len(self.slower) - len(self.faster)
        worse = sum(row.error_worse for row in self.rows)
        mean = _geometric_mean(row.ratio for row in self.rows)
        counts = f"{len(self.slower)} slower, {len(self.faster)} faster, {alike} within the spread"
        threshold = self.rows[0].threshold
        counts += f" or {threshold:.3%}".replace(".000%", "%") if threshold else ""
        counts += f", {worse} with a worse error" if worse else ""
        undecided = sum(row.undecided for row in self.rows)
        counts += f", {undecided} that the calibrations do not decide (slower?)" if undecided else ""
        counts += f"; new / old {mean:.3f} on average (geometric)"
        if any(row.pace != SAME for row in self.rows):
            counts += f", normalised {_geometric_mean(row.normalised for row in self.rows):.3f}"
        return counts

    __repr__ = __str__


def compare(
    old: Mapping[str, Any] | str | Path, new: Mapping[str, Any] | str | Path, *, threshold: float = 0.0
) -> Comparison:
    """Compare two measured runs, records or their paths: ``print(compare(old, new))`` shows what changed.

    Rows are the same measurement if "op", "backend", "shape", "dtype", "precision" and "timing" are equal. If several
    rows of a run are equal, and both runs have equally many, they are compared in order. A change counts if the runs do
    not overlap, neither in their quartiles nor in the confidence intervals of their medians, if recorded, and if it
    exceeds ``threshold``, a fraction of the old time. An error counts as worse if it is more than twice the old one.

    If both records have a calibration, new times are divided by a ratio of the machine's times, new over old, for the
    same work. For rows that memory limits this work is the copy, for rows with another bound the exponentials on their
    backend; for rows without a bound the geometric mean of these kernels is used. A change then counts only if the runs
    do not overlap for any ratio in its interval. Calibrations do not show other waits, such as launches of a GPU by a
    slower processor.
    """
    if isinstance(threshold, bool) or not isinstance(threshold, int | float) or not 0 <= threshold < math.inf:
        raise ValueError(f"threshold must be a finite number from 0, such as 0.1 for 10 percent; got {threshold!r}")
    named = {
        name: records.read(run) if isinstance(run, str | Path) else records.checked(run, name)
        for name, run in (("old", old), ("new", new))
    }
    runs = list(named.values())
    measured = [_measurements(run["rows"], name) for name, run in named.items()]
    calibrations = [run.get("calibration", {}) for run in runs]
    rows, unclear = [], []
    for key, after in measured[1].items():
        before = measured[0].get(key, [])
        if len(before) == len(after):
            pairs = zip(before, after, strict=True)
            rows += [_change(was, now, _paced(was, now, *calibrations), threshold) for was, now in pairs]
        elif before:
            unclear.append(f"{len(before)} rows of the old run and {len(after)} of the new are {_name(after[0])}")
    only = [
        tuple(_name(mine[0]) + _reason(other["rows"], key) for key, mine in own.items() if key not in others)
        for own, others, other in ((*measured, runs[1]), (*measured[::-1], runs[0]))
    ]
    failed = [f"the {name} run failed: {run['error']}" for name, run in named.items() if run.get("error")]
    lost = [f"the new run does not say the error of {_name(vars(row))}" for row in rows if row.error_lost]
    warnings = [*failed, *_differences(*runs), *_unquiet(*calibrations), *unclear, *lost]
    peers = _peers(*(run["rows"] for run in runs))
    notes = _normalised_by(list(dict.fromkeys(row.backend for row in rows)), *calibrations)
    return Comparison(tuple(rows), only[0], only[1], tuple(warnings), peers, tuple(notes))


def _key(row: Mapping[str, Any]) -> str:
    return json.dumps([row.get(name) for name in _KEY], sort_keys=True)


def _measurements(rows: Iterable[Mapping[str, Any]], name: str) -> dict[str, list[Mapping[str, Any]]]:
    """Rows with a time, by their key. A measurement has a row for each rival, and counts once."""
    measured: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        _check(row, name)
        if row.get("median_ms") is not None:
            same = measured.setdefault(_key(row), [])
            if not any(all(row.get(name) == other.get(name) for name in _TIMES) for other in same):
                same.append(row)
    return measured


def _check(row: Mapping[str, Any], name: str) -> None:
    """Raise for an invalid row."""
    for part in ("shape", "peer"):
        if not isinstance(row.get(part) or {}, Mapping):
            raise ValueError(f"the {part} of a row of the {name} run must be a dictionary; got {row[part]!r:.100}")
    for times, title in ((row, "a row"), (row.get("peer") or {}, "a rival")):
        for key in _TIMES:
            value = times.get(key)
            if value is not None and not (_is_number(value) and 0 <= value < math.inf):
                raise ValueError(
                    f"{key} of {title} of the {name} run must be a finite number from 0; got {value!r:.100}"
                )
    error = row.get("rel_err_max")
    if error is not None and not _is_number(error):
        raise ValueError(f"rel_err_max of a row of the {name} run must be a number; got {error!r:.100}")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _paced(old: Mapping[str, Any], new: Mapping[str, Any], before: Calibration, after: Calibration) -> Pace:
    """The pace of the machine for a row; 1 where it is not known."""
    backend = str(new.get("backend"))
    bound = str(new.get("bound") or old.get("bound") or "")
    return pace(before.get(backend, {}), after.get(backend, {}), bound) or SAME


def _unquiet(old: Calibration, new: Calibration) -> list[str]:
    runs = (("old", old), ("new", new))
    return [f"the machine of the {name} run was not quiet: {text}" for name, run in runs for text in unquiet(run)]


def _normalised_by(backends: Iterable[str], old: Calibration, new: Calibration) -> list[str]:
    """For each backend the calibrations that divide its times, or the reason why there are none."""
    lines = []
    for backend in backends:
        before, after = old.get(backend, {}), new.get(backend, {})
        whose = backend or "other"
        both = {name: after[name]["median_ms"] / before[name]["median_ms"] for name in after if name in before}
        if both:
            ratios = ", ".join(f"{name} {ratio:.3f}" for name, ratio in both.items())
            lines.append(f"{whose} times are normalised: calibration, new / old: {ratios}")
        else:
            without = " and ".join(name for name, run in (("old", before), ("new", after)) if not run)
            missing = f"no {whose} calibration in the {without} run" if without else "calibrations of other kernels"
            lines.append(f"{whose} times are compared as they were measured: {missing}")
    return lines


def _change(old: Mapping[str, Any], new: Mapping[str, Any], pace: Pace, threshold: float) -> Change:
    names = {name: str(new.get(name) or "") for name in _KEY if name != "shape"}
    return Change(
        shape=new.get("shape") or {},
        old_ms=old["median_ms"],
        new_ms=new["median_ms"],
        old_spread=_spread(old),
        new_spread=_spread(new),
        old_error=old.get("rel_err_max"),
        new_error=new.get("rel_err_max"),
        pace=pace,
        threshold=threshold,
        **names,
    )


def _spread(row: Mapping[str, Any]) -> tuple[float, float]:
    median = row["median_ms"]
    ends = (("q1_ms", "low_ms"), ("q3_ms", "high_ms"))
    least, most = ([row[name] for name in names if row.get(name) is not None] for names in ends)
    return min([median, *least]), max([median, *most])


def _peers(old: Iterable[Mapping[str, Any]], new: Iterable[Mapping[str, Any]]) -> float | None:
    """How the times of rivals changed; the first time of a rival in a run counts."""
    times: list[dict[tuple[str, str], float]] = []
    for rows in (old, new):
        peers = [(_key(row), row["peer"]) for row in rows if (row.get("peer") or {}).get("median_ms")]
        times.append({(key, peer["name"]): peer["median_ms"] for key, peer in reversed(peers)})
    both = times[0].keys() & times[1].keys()
    return _geometric_mean(times[1][key] / times[0][key] for key in both) if both else None


def _geometric_mean(ratios: Iterable[float]) -> float:
    logs = [math.log(ratio) if ratio > 0 else -math.inf for ratio in ratios]
    return math.exp(math.fsum(logs) / len(logs))


def _differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    differences = []
    for title in ("machine", "versions"):
        before, after = old[title], new[title]
        names = [name for name in {**before, **after} if name not in PASSING and before.get(name) != after.get(name)]
        if names:
            told = ", ".join(f"{name} {before.get(name, 'none')} -> {after.get(name, 'none')}" for name in names)
            differences.append(f"the {title} differ{'s' if title == 'machine' else ''}: {told}")
    return differences


def _reason(rows: Iterable[Mapping[str, Any]], key: str) -> str:
    reasons = (str(row["reason"]) for row in rows if "reason" in row and _key(row) == key)
    return next((f" (the other has none: {reason})" for reason in reasons), "")


def _name(row: Mapping[str, Any]) -> str:
    shape = _sizes(row.get("shape") or {})
    return " ".join(str(part) for part in (row.get("op"), row.get("backend"), shape, *_how(row)) if part)


def _sizes(shape: Mapping[str, Any]) -> str:
    return " ".join(f"{name}={size}" for name, size in shape.items())


def _how(row: Mapping[str, Any]) -> list[str]:
    """Dtype and timing, and the precision where it differs from the dtype."""
    dtype, precision = str(row.get("dtype") or ""), str(row.get("precision") or "")
    return [dtype, precision if precision != dtype else "", str(row.get("timing") or "")]


def _table(rows: Iterable[Change]) -> list[str]:
    rows = list(rows)
    normalised = any(row.pace != SAME for row in rows)
    titles = ("old, ms", "new, ms", "new/old", "normalised" if normalised else "")
    cells = [("operation", "", "sizes", "arithmetic", *titles, "", "")]
    for row in rows:
        how = " ".join(part for part in _how(vars(row)) if part)
        error = f"error {_error(row.old_error)} -> {_error(row.new_error)}" if row.error_changed else ""
        error += " worse" if row.error_worse else ""
        times = (f"{row.old_ms:.4g}", f"{row.new_ms:.4g}", f"{row.ratio:.3f}", f"{row.normalised:.3f}" * normalised)
        cells.append(
            (row.op, row.backend, _sizes(row.shape), how, *times, row.verdict or "slower?" * row.undecided, error)
        )
    return aligned.lines(cells, range(4, 8))


def _error(error: float | None) -> str:
    return "none" if error is None else f"{error:.1e}"
