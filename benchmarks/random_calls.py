"""What the records of calls drawn at random say: two rows of the README's table, and a part of docs/measured.md.

A record is one of ``python -m benchmarks.density.bench_any``. Of the two in the middle, medians are the lower.
"""

from __future__ import annotations

import statistics
import textwrap
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.tools import records

FILES = ("any_h200", "any_cpu")
"""Records of a GPU and of a CPU."""

_WIDE, _SHORT_MS, _WORST = 64, 1.0, 10  # columns, the time of a call that is mostly that of Python, rows of the table

_HEAD = (
    "| slower call | points | queries | columns | data | bandwidth | cukde | rival | its time | times as fast |\n"
    "|---|---|---|---|---|---|---|---|---|---|"
)


class Calls(NamedTuple):
    """The calls of a record, each beside the fastest of its rivals, the slowest first."""

    file: str
    run: dict[str, Any]
    rows: list[dict[str, Any]]

    @property
    def backend(self) -> str:
        return str(self.rows[0]["backend"])

    @property
    def lost(self) -> list[dict[str, Any]]:
        return [row for row in self.rows if ratio(row) < 1]

    @property
    def wrong(self) -> list[dict[str, Any]]:
        """Calls of cukde beyond its error bound."""
        return [row for row in self.rows if row["error_over_promise"] > 1]

    @property
    def wrong_rivals(self) -> int | None:
        """How many of the fastest rivals are beyond that bound; None where the record does not say."""
        errors = [row["peer"].get("error_over_promise") for row in self.rows]
        known = [error for error in errors if error is not None]
        return sum(error > 1 for error in known) if known else None

    def median(self, of: Callable[[dict[str, Any]], float]) -> float:
        return statistics.median_low(map(of, self.rows))


def ratio(row: dict[str, Any]) -> float:
    """How many times as fast as the rival."""
    return float(row["peer"]["median_ms"] / row["median_ms"])


def read(file: str, results: Path) -> Calls:
    """Read a record."""
    run = records.read(results / f"{file}.json")
    best: dict[int, dict[str, Any]] = {}
    for row in run["rows"]:
        seed = row["shape"]["seed"]
        if "median_ms" in row["peer"] and (seed not in best or ratio(row) < ratio(best[seed])):
            best[seed] = row
    return Calls(file, run, sorted(best.values(), key=ratio))


def to_whom(calls: Calls) -> str:
    """Than whom the lost calls are slower, and how often: ``slower than PyTorch in 5, than cuVS in 4``."""
    counts = Counter(row["peer"]["name"] for row in calls.lost)
    ordered = sorted(counts.items(), key=lambda of: (-of[1], of[0]))
    return "slower " + ", ".join(f"than {name} in {count}" for name, count in ordered)


def where(calls: Calls) -> str:
    """What the lost calls have in common: how many of them are in each class of calls."""
    wide = [row for row in calls.rows if row["shape"]["d"] > _WIDE]
    narrow = [row for row in calls.rows if row["shape"]["d"] <= _WIDE]
    short = [row for row in narrow if row["median_ms"] < _SHORT_MS]
    other = [row for row in narrow if row["median_ms"] >= _SHORT_MS]
    lost = [sum(ratio(row) < 1 for row in of) or "none" for of in (wide, short, other)]
    return (
        f"Of the {len(wide)} calls with more than {_WIDE} columns it is slower in {lost[0]}, of the {len(short)} "
        f"others that take less than {_SHORT_MS:g} ms in {lost[1]}, and of the remaining {len(other)} in {lost[2]}."
    )


def errors(calls: Calls) -> str:
    """Whose errors are beyond the bounds that cukde states."""
    own, theirs = len(calls.wrong) or "No", calls.wrong_rivals
    said = f"{own} results of cukde have errors beyond its bounds"
    return f"{said}." if theirs is None else f"{said}; of the fastest rivals', {theirs or 'none'} have."


def section(results: Path, digits: Callable[[float], str], taken: Callable[[float], str]) -> str:
    """What docs/measured.md says of both records."""
    parts = []
    for calls in (read(file, results) for file in FILES):
        place = calls.run["machine"].get("gpu") or f"{calls.run['machine']['cores']} CPU cores"
        text = (
            f"**{len(calls.rows)} calls on {place}** (`{calls.file}.json`, {calls.run['date'][:10]}). The median call "
            f"is {digits(calls.median(ratio))} times faster than its fastest rival, and the worst "
            f"{digits(ratio(calls.rows[0]))} times as fast. "
        )
        text += f"cukde is {to_whom(calls)}. {where(calls)} " if calls.lost else ""
        parts.append(textwrap.fill(text + errors(calls), 120, break_long_words=False, break_on_hyphens=False))
        if calls.lost:
            parts.append("\n".join([_HEAD, *_lines(calls.lost[:_WORST], digits, taken)]))
    return "\n\n".join(parts)


def _lines(
    rows: Iterable[dict[str, Any]], digits: Callable[[float], str], taken: Callable[[float], str]
) -> Iterable[str]:
    for row in rows:
        of, peer = row["shape"], row["peer"]
        name = ", ".join(filter(None, [f"`{row['op']}`", row["dtype"], of["option"].replace("_", " ")]))
        cells = [name, *(f"{of[size]:,}" for size in "nmd"), of["data"], f"{of['factor']:.2f}"]
        cells += [taken(row["median_ms"]), peer["name"], taken(peer["median_ms"]), digits(ratio(row))]
        yield f"| {' | '.join(cells)} |"
