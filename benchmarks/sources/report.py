"""The report of a folder of sections, from their files alone: a page that needs nothing else, and one in Markdown.

python -m benchmarks.sources.report DIR
"""

from __future__ import annotations

import argparse
import importlib.util
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from benchmarks import record
from benchmarks.sources import formats, html_page, markdown_page, section_file
from benchmarks.sources.section import Figure
from benchmarks.sources.section_file import Kept
from cukde import _files

TITLE = "The sources' tables and figures, measured by cukde"
_CLOCKS = {"sm_clock_mhz": "when it ended", "sm_clock_max_mhz": "at most"}


@dataclass(frozen=True)
class Drawn:
    """A figure as the pages show it; ``svg`` is None where ``note`` says why."""

    figure: Figure
    file: str  # beside the pages
    svg: str | None
    note: str


@dataclass(frozen=True)
class Part:
    """A section as the pages show it; ``elsewhere`` says how its run differs from that of the others."""

    kept: Kept
    figures: list[Drawn]
    elsewhere: list[str]


@dataclass(frozen=True)
class Report:
    """All that the pages show."""

    facts: list[tuple[str, str]]
    warnings: list[str]
    parts: list[Part]


def write(folder: Path) -> bool:
    """Write report.html, report.md and the figures of the latter; nothing, and False, where there is no section."""
    found, damaged = section_file.read_all(folder)
    if not (found or damaged):
        return False
    report = made(found, damaged)
    drawn = {folder / each.file: each.svg for part in report.parts for each in part.figures if each.svg}
    for old in (folder / "figures").glob("section-*.svg"):
        if old not in drawn:
            old.unlink()
    for file, svg in drawn.items():
        _files.replace(file, svg.encode())
    _files.replace(folder / "report.html", html_page.page(TITLE, report).encode())
    _files.replace(folder / "report.md", markdown_page.page(TITLE, report).encode())
    return True


def made(found: list[Kept], damaged: list[str]) -> Report:
    """Put together what the pages show."""
    warnings = [f"Left out: {problem}" for problem in damaged]
    if not found:
        return Report([], warnings, [])
    origins = [section_file.origin(each.record, each.quick, each.no_gpu) for each in found]
    common, _ = Counter(tuple(sorted(origin.items(), key=str)) for origin in origins).most_common(1)[0]
    of_most = [each for each, origin in zip(found, origins, strict=True) if origin == dict(common)]
    parts = [
        Part(each, _drawn(each), section_file.differences(origin, dict(common)))
        for each, origin in zip(found, origins, strict=True)
    ]
    if any(part.elsewhere for part in parts):
        warnings.append("Not all sections come from the same machine, commit and sizes: those that differ say how.")
    if any(each.quick for each in found):
        warnings.append("Quick sizes: they show that everything runs; for figures to rely on, run it without --quick.")
    failed = [f"{each.number}" for each in found if each.error]
    if failed:
        warnings.append(f"Failed: section {', '.join(failed)}.")
    return Report(facts(of_most), warnings, parts)


def facts(found: list[Kept]) -> list[tuple[str, str]]:
    """Describe the run that some sections share: the machine, the versions, when and by which command."""
    first = found[0]
    machine, versions = first.record["machine"], dict(first.record["versions"])
    if first.no_gpu is not None:
        out = [("GPU", f"none: {first.no_gpu}")]
    else:
        out = [("GPU", str(machine.get("gpu", "not named"))), ("Driver", str(machine.get("driver", "not known")))]
        out += [("CUDA", str(machine.get("cuda") or "not known")), ("SM clock", _clocks(found))]
    dates = sorted(each.record["date"].replace("T", " ").replace("+00:00", "") for each in found)
    python, cukde = (versions.pop(name, "not known") for name in ("python", "cukde"))
    return [
        *out,
        ("CPU", f"{machine['cpu']}, {machine['cores']} cores"),
        ("cukde", f"{cukde}, commit {first.record['commit']}"),
        ("Versions", ", ".join([f"Python {python}", *(f"{name} {version}" for name, version in versions.items())])),
        ("Date", (dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}") + " UTC"),
        ("Command", "; ".join(dict.fromkeys(f"`{each.record['command']}`" for each in found))),
        ("Sizes", "quick" if first.quick else "full"),
        ("Time", f"{formats.duration(sum(each.seconds for each in found))} for {len(found)} sections"),
    ]


def _clocks(found: list[Kept]) -> str:
    said = []
    for key, what in _CLOCKS.items():
        clocks = [each.record["machine"][key] for each in found if key in each.record["machine"]]
        if clocks:
            low, high = min(clocks), max(clocks)
            said.append(f"{formats.number(low)}{f' to {formats.number(high)}' if high > low else ''} MHz {what}")
    return ", ".join(said) or "not known"


def _drawn(of: Kept) -> list[Drawn]:
    return [
        _figure(figure, f"figures/section-{of.number}-{place}.svg")
        for place, figure in enumerate(of.outcome.figures, start=1)
    ]


def _figure(figure: Figure, file: str) -> Drawn:
    if importlib.util.find_spec("matplotlib") is None:
        return Drawn(figure, file, None, "Not drawn, since there is no Matplotlib: pip install 'cukde[plot]'.")
    from benchmarks.sources import drawing

    missing = drawing.undrawn(figure)
    try:
        svg = drawing.svg(figure)
    except Exception as error:  # the measurements of hours are not lost to a picture
        return Drawn(figure, file, None, f"Not drawn: {record.reason(error)}")
    if svg is None:
        return Drawn(figure, file, None, "Not drawn, since there is no value of any series.")
    return Drawn(figure, file, svg, f"Without a value: {', '.join(missing)}." if missing else "")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sources.report", description=__doc__)
    parser.add_argument("folder", type=Path, help="what `cukde bench --suite sources --out` wrote to")
    wanted = parser.parse_args()
    if not write(wanted.folder):
        parser.error(f"{wanted.folder} must be a folder with files section-N.json; it has none")
