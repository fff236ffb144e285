"""What the README and docs/measured.md have from the records in benchmarks/results: tables, and random calls.

python -m benchmarks.readme
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks import random_calls
from benchmarks.chosen import CPU, GPU, Chosen
from benchmarks.record import ON_CPU
from benchmarks.tools import records

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
README, MEASURED = ROOT / "README.md", ROOT / "docs" / "measured.md"
BEGIN = "<!-- table of records: begin (python -m benchmarks.readme) -->"
END = "<!-- table of records: end -->"
RANDOM = "<!-- random calls: begin (python -m benchmarks.readme) -->", "<!-- random calls: end -->"

_SHORT = (
    "| | where | cukde | error | best rival | its time | its error | times faster |\n|---|---|---|---|---|---|---|---|"
)
_LONG = (
    "| | size | precision | cukde | error | best rival | its time | its error | times faster | record |\n"
    "|---|---|---|---|---|---|---|---|---|---|"
)


class Row(NamedTuple):
    """What a row of a table says: our call and the fastest of the rivals that have the operation's result."""

    chosen: Chosen
    size: str
    ours: dict[str, Any]
    rival: dict[str, Any] | None
    run: dict[str, Any]  # the record
    mode: str = ""  # what another mode of the rival takes

    @property
    def times_faster(self) -> float:
        return self.rival["median_ms"] / self.ours["median_ms"] if self.rival else math.nan

    @property
    def machine(self) -> str:
        return _machine(self.run)


def row(chosen: Chosen, results: Path = RESULTS) -> Row:
    """Read a row from its record."""
    file = results / f"{chosen.file}.json"
    run = records.read(file)
    found = [r for r in run["rows"] if _is(r, chosen)]
    if not found:
        wanted = f"{chosen.op} {chosen.precision} {chosen.shape}"
        raise LookupError(f"{file.name} has no row of {wanted}; choose another in benchmarks/chosen.py, or record it")
    # Those of another layout of data, such as ties, are rows of their own.
    ours = min(found, key=lambda r: len(r["shape"]))
    same = [r for r in found if r["shape"] == ours["shape"] and r.get("seed") == ours.get("seed")]
    rivals = [r["peer"] for r in same if "median_ms" in r.get("peer", {})]
    rivals = [rival for rival in rivals if rival["name"] not in chosen.apart]
    best = min(rivals, key=lambda rival: (not _right(rival), rival["median_ms"]), default=None)
    return Row(chosen, chosen.size.format(**ours["shape"]), ours, best, run, _mode(chosen, rivals))


def short_table(results: Path = RESULTS) -> str:
    """The README's: calls at random, and some rows of both, where most is won first."""
    rows = [row(chosen, results) for chosen in GPU + CPU if chosen.in_readme]
    drawn = [random_line(random_calls.read(file, results)) for file in random_calls.FILES]
    return "\n".join([_SHORT, *drawn, *map(short_line, sorted(rows, key=lambda found: -found.times_faster))])


def long_tables(results: Path = RESULTS) -> str:
    """All rows, those of GPUs first."""
    on_gpu, on_cpu = ([long_line(row(chosen, results)) for chosen in group] for group in (GPU, CPU))
    return "\n\n".join(
        ["On a GPU, arrays already there:", "\n".join([_LONG, *on_gpu]), "On a CPU:", "\n".join([_LONG, *on_cpu])]
    )


def short_line(found: Row) -> str:
    """A line of the README's table: it links the record."""
    chosen = found.chosen
    where = f"{found.ours['backend'].upper()}, [{found.machine}](benchmarks/results/{chosen.file}.json)"
    return _line([f"{chosen.what}: {found.size}, {chosen.precision}", where, *_compared(found)])


def random_line(calls: random_calls.Calls) -> str:
    """A line of the README's table: medians over calls at random, the worst, and how many are slower than whom."""
    columns = [row["shape"]["d"] for row in calls.rows]
    *rivals, last = dict.fromkeys(row["peer"]["name"] for row in calls.run["rows"] if "median_ms" in row["peer"])
    lost = random_calls.to_whom(calls) if calls.lost else "slower in none"
    own = f"beyond bounds in {len(calls.wrong)}" if calls.wrong else "all within bounds"
    theirs = "not recorded" if calls.wrong_rivals is None else f"beyond those bounds in {calls.wrong_rivals}"
    return _line(
        [
            f"[{len(calls.rows)} random calls](docs/measured.md#random-calls): densities and scores, {min(columns)} to "
            f"{max(columns):,} columns; medians",
            f"{calls.backend.upper()}, [{_machine(calls.run)}](benchmarks/results/{calls.file}.json)",
            _taken(calls.median(lambda row: row["median_ms"])),
            own,
            f"{' or '.join(filter(None, [', '.join(rivals), last]))}; {lost}",
            _taken(calls.median(lambda row: row["peer"]["median_ms"])),
            theirs,
            f"{_ratio(calls.median(random_calls.ratio))}; worst {_ratio(random_calls.ratio(calls.rows[0]))}",
        ]
    )


def long_line(found: Row) -> str:
    """A line of the long tables: it names the record, to which no link of the site leads."""
    chosen = found.chosen
    source = f"{found.machine}, {found.run['date'][:10]}, `{chosen.file}.json`"
    return _line([chosen.what, found.size, chosen.precision, *_compared(found), source])


def random_section(results: Path = RESULTS) -> str:
    """What docs/measured.md says of calls at random."""
    return random_calls.section(results, _ratio, _taken)


def renewed(page: str, between: str, marks: tuple[str, str] = (BEGIN, END)) -> str:
    """Return a page with this table, or these, between its marks."""
    before, begin, rest = page.partition(marks[0])
    _, end, after = rest.partition(marks[1])
    if not (begin and end):
        raise ValueError(f"the page has no tables to be renewed: it wants the lines {marks[0]} and {marks[1]}")
    return f"{before}{begin}\n\n{between}\n\n{end}{after}"


def main(readme: Path = README, measured: Path = MEASURED) -> None:
    """Write the tables into both pages."""
    readme.write_text(renewed(readme.read_text(encoding="utf-8"), short_table()), encoding="utf-8")
    page = renewed(measured.read_text(encoding="utf-8"), long_tables())
    measured.write_text(renewed(page, random_section(), RANDOM), encoding="utf-8")


def _machine(run: dict[str, Any]) -> str:
    machine = run["machine"]
    return machine.get("gpu") or f"{machine['cpu'].split('(')[0].split()[0]}, {machine['cores']} cores"


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _compared(found: Row) -> Sequence[str]:
    """Time and error of ours and of the rival, and how many times faster ours is."""
    if found.rival is None:
        return [*_measured(found.ours), *[""] * 4]
    name = "; ".join(filter(None, [_name(found.rival["name"], found.ours["backend"]), found.mode]))
    return [*_measured(found.ours), name, *_measured(found.rival), _ratio(found.times_faster)]


def _mode(chosen: Chosen, rivals: Sequence[dict[str, Any]]) -> str:
    """Time and error of another mode of the best rival."""
    if chosen.also is None:
        return ""
    name, said = chosen.also
    least = min((rival for rival in rivals if rival["name"] == name), key=lambda rival: rival["median_ms"])
    return f"{said} {' with '.join(_measured(least))}"


def _is(r: dict[str, Any], chosen: Chosen) -> bool:
    """Whether a row is measured, with its error, and has the values asked for."""
    return (
        "median_ms" in r
        and chosen.backend in (None, r["backend"])
        and r.get("timing") == chosen.timing
        and (r["op"], r["precision"]) == (chosen.op, chosen.precision)
        and r.get("rel_err_max") is not None
        and chosen.shape.items() <= r["shape"].items()
    )


def _right(rival: dict[str, Any]) -> bool:
    """Whether a rival's numbers are numbers: some overflow."""
    error = rival.get("rel_err_max")
    return error is None or math.isfinite(error)


def _measured(times: dict[str, Any]) -> Sequence[str]:
    """Time and error."""
    error = times.get("rel_err_max")
    return _taken(times["median_ms"]), "not recorded" if error is None else power(error)


def _taken(ms: float) -> str:
    return f"{_digits(ms / 1e3)} s" if ms >= 1e3 else f"{_digits(ms)} ms"


def _digits(number: float) -> str:
    """Three digits of a number, and all before the point."""
    return f"{number:,.{max(0, 2 - math.floor(math.log10(number)))}f}"


def power(error: float) -> str:
    """One digit: 4e-5."""
    digit, exponent = f"{error:.0e}".split("e")
    return "0" if error == 0 else f"{digit}e{int(exponent)}"


def _ratio(of: float) -> str:
    """Two digits, and all before the point."""
    return f"{of:,.{max(0, 1 - math.floor(math.log10(of)))}f}"


def _name(rival: str, backend: str) -> str:
    if rival in ("Flash-SD-KDE", "Flash-SD-KDE, TF32"):
        return "Flash-SD-KDE, default mode (TF32)"
    if rival == "source kernel":
        return "gpuKendall's kernel"
    if rival.endswith(("AoS", "SoA")):
        return f"torchPACE's kernel, {rival}"
    return f"{rival}, on the CPU" if backend == "gpu" and rival.startswith(ON_CPU) else rival


if __name__ == "__main__":
    main()
