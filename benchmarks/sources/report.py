"""The report of a folder of sections, from their files alone: a page that needs nothing else, and one in Markdown.

python -m benchmarks.sources.report DIR
"""

from __future__ import annotations

import argparse
import importlib.util
from collections import Counter
from pathlib import Path

from benchmarks import peers
from benchmarks.sources import html_page, markdown_page, section_file
from benchmarks.sources.pages import Drawn, Part, Report, facts
from benchmarks.sources.section import Figure
from benchmarks.sources.section_file import Kept
from cukde.core import extras, files as core_files

TITLE = "The sources' tables and figures, measured by cukde"


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
        core_files.replace(file, svg.encode())
    core_files.replace(folder / "report.html", html_page.page(TITLE, report).encode())
    core_files.replace(folder / "report.md", markdown_page.page(TITLE, report).encode())
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


def _drawn(of: Kept) -> list[Drawn]:
    return [
        _figure(figure, f"figures/section-{of.number}-{place}.svg")
        for place, figure in enumerate(of.outcome.figures, start=1)
    ]


def _figure(figure: Figure, file: str) -> Drawn:
    if importlib.util.find_spec("matplotlib") is None:
        return Drawn(figure, file, None, f"Not drawn, since there is no Matplotlib: {extras.install('plot')}.")
    from benchmarks.sources import drawing

    missing = drawing.undrawn(figure)
    try:
        svg = drawing.svg(figure)
    except Exception as error:  # the measurements of hours are not lost to a picture
        return Drawn(figure, file, None, f"Not drawn: {peers.reason(error)}")
    if svg is None:
        return Drawn(figure, file, None, "Not drawn, since there is no value of any series.")
    return Drawn(figure, file, svg, f"Without a value: {', '.join(missing)}." if missing else "")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sources.report", description=__doc__)
    parser.add_argument("folder", type=Path, help="what `python -m benchmarks.sources --out` wrote to")
    wanted = parser.parse_args()
    if not write(wanted.folder):
        parser.error(f"{wanted.folder} must be a folder with files section-N.json; it has none")
