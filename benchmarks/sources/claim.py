"""A claim of a source beside what the records have: its row of docs/sources.md, and how records are asked."""

from __future__ import annotations

import functools
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.tools import records

RESULTS = Path(__file__).resolve().parents[1] / "results"
OURS = "cukde"

_HEAD = ("claim", "found", "measured here", "record")
_WHOLE = 1000  # from here on numbers are written without decimals
_DIGITS = 3
_PART = " (from "  # of a rival's name: it took a part of the queries, and its time is that of all of them


class Claim(NamedTuple):
    """What a source says, and what came of it."""

    said: str  # with the source's figure
    found: str  # confirmed, refuted or open; where, or why
    measured: str
    records: Sequence[str] = ()

    def line(self) -> str:
        """Its row of the table."""
        return _line([*self[:-1], ", ".join(f"`{name}.json`" for name in self.records)])


def table(claims: Sequence[Claim]) -> str:
    """All rows below their head."""
    return "\n".join([_line(_HEAD), "|" + "---|" * len(_HEAD), *(claim.line() for claim in claims)])


def finding(text: str, *, if_: bool) -> str:
    """Return the text, as long as the records bear it out."""
    if not if_:
        raise ValueError(f"expected records that bear out {text!r}; got others: write another finding")
    return text


def of_sizes(holds: Sequence[bool]) -> str:
    """What is found of a claim that holds at some of the sizes."""
    if all(holds):
        return "confirmed"
    return f"confirmed at {sum(holds)} of {len(holds)} sizes" if any(holds) else "refuted"


def there(name: str) -> bool:
    """Whether there is a record of that name."""
    return (RESULTS / f"{name}.json").is_file()


@functools.cache
def record(name: str) -> dict[str, Any]:
    """A record by its name, perhaps in a folder of the results."""
    return records.read(RESULTS / f"{name}.json")


def rows(name: str, op: str, *, precision: str | None = None, backend: str | None = None, **shape: Any) -> list[Any]:
    """Rows of a record of that operation, and of that shape as far as it is given."""
    found = [
        row
        for row in record(name)["rows"]
        if row["op"] == op
        and precision in (None, row.get("precision"))
        and backend in (None, row.get("backend"))
        and shape.items() <= row.get("shape", {}).items()
    ]
    if not found:
        raise LookupError(f"expected rows of {op} {shape} in the record {name}; got none")
    return found


def figures(key: str, name: str, op: str, program: str = OURS, **which: Any) -> list[float]:
    """A number of the library, or of a rival by its name: one a seed, as many as the record has."""
    of_each: dict[int, float] = {}
    for row in rows(name, op, **which):
        of = row if program == OURS else row.get("peer") or {}
        if key in of and (program == OURS or of["name"].partition(_PART)[0] == program):
            of_each[row.get("seed", 0)] = float(of[key])
    if not of_each:
        raise LookupError(f"expected {key} of {program} for {op} {which} in the record {name}; got none")
    return list(of_each.values())


def ms(name: str, op: str, program: str = OURS, **which: Any) -> float:
    """Milliseconds a call, the median over the seeds."""
    return statistics.median(figures("median_ms", name, op, program, **which))


def error(name: str, op: str, program: str = OURS, **which: Any) -> float:
    """The worst relative error of all seeds."""
    return max(figures("rel_err_max", name, op, program, **which))


def digits(value: float) -> str:
    """Three digits, or the whole number if it has more."""
    if abs(value) >= _WHOLE:
        return f"{value:,.0f}"
    text = f"{value:#.{_DIGITS}g}"
    return text.rstrip(".")


def power(value: float) -> str:
    """One digit and an exponent, such as 5e-6."""
    digit, _, exponent = f"{value:.0e}".partition("e")
    return f"{digit}e{int(exponent)}"


def percent(share: float) -> str:
    """A share, such as 5.0%."""
    return f"{100 * share:.2g}%" if share < 0.1 else f"{100 * share:.0f}%"


def span(values: Sequence[float]) -> str:
    """From the least to the greatest, three decimals."""
    return f"{min(values):.3f} to {max(values):.3f}"


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
