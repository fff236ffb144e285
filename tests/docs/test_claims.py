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

ASSUMED = {"performance.md": ["5 us", "2 ms", "1 ms"], "domains.md": ["2.8 ps", "0.4 ps"]} | {
    "sources.md": ["2.23 ms", "2.11 ms", "3.06 ms", "21.73 ms", "3.33 and 16.91 ms", "2.3 s"]
}
"""Times that are parameters of the model, are worked out of a text, crossovers_h200.txt, or are what a source says."""

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


PAGE = """\
A page without records.

## Times

A call takes 0.35, 0.9 and 12 ms (`run_cpu.json`), which
is 3.4 times faster, with an error of 4e-7.
```
sleep 7 s
```
"""


@pytest.fixture
def run_cpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [{"median_ms": 0.354, "rel_err_max": 3.6e-7, "peer": {"median_ms": 1.2}}, {"parts_ms": [1], "low_ms": 0.85}]
    (tmp_path / "run_cpu.json").write_text(json.dumps({"rows": rows}))
    monkeypatch.setitem(globals(), "RESULTS", tmp_path)
    recorded.cache_clear()


@pytest.mark.usefixtures("run_cpu")
class TestClaims:
    def test_numbers_of_a_page(self) -> None:
        found = [(claim.kind, claim.value, claim.half) for claim in claims(PAGE)]
        assert found == [
            ("time", 0.35, pytest.approx(0.005)),
            ("time", 0.9, pytest.approx(0.05)),
            ("time", 12.0, pytest.approx(0.5)),
            ("ratio", 3.4, pytest.approx(0.05)),
            ("error", 4e-7, pytest.approx(5e-8)),
        ]

    def test_a_record_in_a_folder_is_found(self, tmp_path: Path) -> None:
        (tmp_path / "runs").mkdir()
        (tmp_path / "run_cpu.json").rename(tmp_path / "runs" / "run-cpu.json")
        assert unfounded(PAGE, []) == ["## Times: 0.35, 0.9 and 12 ms"] * 3
        assert unfounded(PAGE.replace("run_cpu", "runs/run-cpu"), []) == ["## Times: 0.35, 0.9 and 12 ms"]

    def test_numbers_of_a_record(self) -> None:
        found = recorded("run_cpu")
        assert (found["time"], found["error"]) == ([0.354, 1.2, 0.85], [3.6e-7])
        assert found["ratio"] == pytest.approx([1.2 / 0.354, 0.354 / 1.2])

    def test_what_no_record_holds_is_found(self) -> None:
        assert unfounded(PAGE, []) == ["## Times: 0.35, 0.9 and 12 ms"]  # for 12
        assert unfounded(PAGE, ["0.35, 0.9 and 12 ms"]) == []
        assert unfounded(PAGE.replace("12 ms", "1.20 ms").replace("3.4 times", "3.5 times"), []) == [
            "## Times: 3.5 times faster"
        ]
        assert unfounded(PAGE.replace("12 ms", "1.20 ms").replace("4e-7", "5e-7"), []) == ["## Times: 5e-7"]

    def test_times_without_a_record_are_found(self) -> None:
        assert unfounded(PAGE.replace("run_cpu", "gone_cpu"), []) == ["## Times: 0.35, 0.9 and 12 ms"] * 3
        assert unfounded("## Bounds\n<!-- not measured: by formulas -->\nTakes 5 s.\n", []) == []
        assert unfounded("Takes 5 s.\n\n## Other\n\n`run_cpu.json`", []) == ["Takes 5 s.: 5 s"]
