"""Times, errors and ratios that the README and the documentation state are those of the records that they name.

A section with ``<!-- not measured: REASON -->`` has times of another kind, such as what a formula gives.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "benchmarks" / "results"
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]

ASSUMED = {
    "performance.md": ["5 us", "2 ms", "1 ms"],
    "sources.md": ["2.23 ms", "2.11 ms", "3.06 ms", "21.73 ms", "3.33 and 16.91 ms", "2.3 s"],
}
"""Times that are parameters of the model, or are what a source says."""

_NUMBER = r"(?<![\w.,^-])(?<!= )\d+(?:,\d{3})*(?:\.\d+)?"
_AND = r"(?:, | and | to | or |, and |, not )(?:of [^.;]{1,60}? )?"
_TIMES = re.compile(rf"({_NUMBER}(?:{_AND}{_NUMBER})*) (s|ms|us|ns|ps)\b")
_RATIOS = re.compile(rf"({_NUMBER}(?:{_AND}{_NUMBER})*) times (?:faster|as fast|less)")
_ERRORS = re.compile(
    r"(?:errors? of |s with |s in float\d\d \(|s \| )(\de-\d+)\b"
)  # beside a time: others are promised
_RECORD = re.compile(r"\b(\w+/)?([\w-]+)\.json\b")  # perhaps in a folder
_MILLISECONDS = {"s": 1e3, "ms": 1.0, "us": 1e-3, "ns": 1e-6, "ps": 1e-9}


class Claim(NamedTuple):
    """A number of a section."""

    text: str  # with what it is a number of
    value: float
    half: float  # half a unit of its last digit
    kind: str


def prose(section: str) -> str:
    """Return it without code, as one line: sentences run over the ends of lines."""
    return re.sub(r"\s+", " ", re.sub(r"(?ms)^ *```.*?^ *```$|`[^`]*`", " ", section))


def claims(section: str) -> Iterator[Claim]:
    """Numbers that a record can hold."""
    text = prose(section)
    for found in _TIMES.finditer(text):
        yield from _numbers(found, "time", _MILLISECONDS[found[2]])
    for found in _RATIOS.finditer(text):
        yield from _numbers(found, "ratio", 1.0)
    for found in _ERRORS.finditer(text):
        exponent = found[1].partition("e")[2]
        yield Claim(found[1], float(found[1]), 0.5 * 10.0 ** int(exponent), "error")


def _numbers(found: re.Match[str], kind: str, unit: float) -> Iterator[Claim]:
    for number in re.findall(_NUMBER, found[1]):
        digits = number.replace(",", "")
        decimals = len(digits.partition(".")[2])
        yield Claim(found[0], float(digits) * unit, 0.5 * 10.0**-decimals * unit, kind)


@functools.cache
def recorded(name: str) -> dict[str, list[float]]:
    """All times in milliseconds, errors, and ratios to rivals of a record."""
    found: dict[str, list[float]] = {"time": [], "error": [], "ratio": []}

    def walk(key: str, value: Any, scale: float = 1.0) -> None:
        if isinstance(value, dict):
            for k, v in value.items():
                walk(k, v, 1e3 if key == "link" else 1.0)
        elif isinstance(value, int | float):
            if key.endswith("_ms") or key in ("latency", "overhead"):
                found["time"].append(value * scale)
            elif key.startswith("rel_err"):
                found["error"].append(value)

    for row in json.loads((RESULTS / f"{name}.json").read_text())["rows"]:
        walk("", row)
        rival = row.get("peer")
        if isinstance(rival, dict) and "median_ms" in rival and "median_ms" in row:  # a rival may have a row of its own
            ratio = rival["median_ms"] / row["median_ms"]
            found["ratio"] += [ratio, 1 / ratio]
    return found


def unfounded(page: str, assumed: list[str]) -> list[str]:
    """Numbers of a page that no record named in their section holds."""
    found = []
    for section in re.split(r"(?m)^(?=## )", page):
        if re.search(r"^<!-- not measured: .+ -->$", section, re.MULTILINE):
            continue
        named = {f"{folder}{name}" for pair in _RECORD.findall(section) for folder, name in (pair, ("", pair[1]))}
        records = [recorded(name) for name in sorted(named) if (RESULTS / f"{name}.json").is_file()]
        for claim in claims(section):
            if claim.kind != "time" and not records:  # held by a test, which the page names
                continue
            near = (abs(v - claim.value) <= 1.000001 * claim.half for record in records for v in record[claim.kind])
            if claim.text not in assumed and not any(near):
                found.append(f"{section.splitlines()[0]}: {claim.text}")
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_times_are_recorded(page: Path) -> None:
    assert unfounded(page.read_text(encoding="utf-8"), ASSUMED.get(page.name, [])) == []
