"""The report in Markdown, as GitHub shows it; its figures are files beside it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from benchmarks.sources import formats
from benchmarks.sources.section import Table

if TYPE_CHECKING:
    from benchmarks.sources.pages import Drawn, Part, Report


def page(title: str, report: Report) -> str:
    """The whole file."""
    return "\n".join(_page(title, report)) + "\n"


def _page(title: str, report: Report) -> Iterator[str]:
    yield f"# {_text(title)}"
    for warning in report.warnings:
        yield f"\n> {_text(warning)}"
    if report.facts:
        yield "\n| | |\n|---|---|"
        yield from (f"| {_text(name)} | {_text(value)} |" for name, value in report.facts)
    yield ""
    for part in report.parts:
        state = "failed" if part.kept.error else formats.duration(part.kept.seconds)
        yield f"- [{part.kept.number}. {_text(part.kept.title)}](#section-{part.kept.number}) ({state})"
    for part in report.parts:
        yield from _section(part)


def _section(part: Part) -> Iterator[str]:
    kept = part.kept
    yield f'\n<a id="section-{kept.number}"></a>\n\n## {kept.number}. {_text(kept.title)}'
    source = f"Source: {_text(kept.source)}. " if kept.source else ""
    yield f"\n{source}Took {formats.duration(kept.seconds)}."
    if part.elsewhere:
        yield f"\n> Of another run: {_text('; '.join(part.elsewhere))}."
    if kept.error:
        yield f"\n> Failed: {_text(kept.error)}"
    if kept.outcome.findings:
        yield ""
        yield from (f"- {_text(finding)}" for finding in kept.outcome.findings)
    for place, table in enumerate(kept.outcome.tables, start=1):
        yield from _table(f"Table {kept.number}.{place}", table)
    for place, drawn in enumerate(part.figures, start=1):
        yield from _figure(f"Figure {kept.number}.{place}", drawn)


def _table(name: str, table: Table) -> Iterator[str]:
    laid = formats.layout(table)
    yield f"\n**{name}.** {_text(table.title)}\n"
    yield _row([_text(column) for column in laid.columns])
    yield _row(["---:" if of_numbers else "---" for of_numbers in laid.numeric])
    yield from (_row([_text(cell.text) for cell in row]) for row in laid.rows)
    notes = ([_text(table.note)] if table.note else []) + [f"{_text(m)} {_text(reason)}" for m, reason in laid.reasons]
    yield from (f"\n{note}" for note in notes)


def _figure(name: str, drawn: Drawn) -> Iterator[str]:
    if drawn.svg is not None:
        yield f"\n![{_text(drawn.figure.title)}]({drawn.file})"
    said = " ".join(filter(None, (drawn.figure.caption, drawn.note)))
    yield f"\n**{name}. {_text(drawn.figure.title)}.** {_text(said)}".rstrip()


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _text(text: str) -> str:
    """A text that means itself in Markdown, on one line; what stands in backquotes is code."""
    return "".join(
        f"`{piece.replace('|', chr(92) + '|')}`" if code else re.sub(r"([\\`*_\[\]<>|#~$&])", r"\\\1", piece)
        for piece, code in formats.pieces(" ".join(text.split()))
    )
