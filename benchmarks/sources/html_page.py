"""The report as one HTML file that loads nothing: its style and figures are in it, and it has no script."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.sources import formats
from benchmarks.sources.formats import Written
from benchmarks.sources.section import Table

if TYPE_CHECKING:
    from benchmarks.sources.pages import Drawn, Part, Report

_STYLE = Path(__file__).with_name("report.css")
_LONG = 28  # characters: a longer cell is broken into lines
# Nothing may be fetched, whatever a browser makes of the rest.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


def page(title: str, report: Report) -> str:
    """The whole file."""
    return "\n".join(_page(title, report)) + "\n"


def _page(title: str, report: Report) -> Iterator[str]:
    yield "<!DOCTYPE html>"
    yield '<html lang="en">'
    yield "<head>"
    yield '<meta charset="utf-8">'
    yield f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield f"<title>{escape(title)}</title>"
    yield f"<style>\n{_STYLE.read_text(encoding='utf-8')}</style>"
    yield "</head>"
    yield "<body>"
    yield f"<header>\n<h1>{escape(title)}</h1>"
    for warning in report.warnings:
        yield f'<p class="warning">{_text(warning)}</p>'
    yield '<div class="scroll"><table class="facts"><tbody>'
    for name, value in report.facts:
        yield f'<tr><th scope="row">{escape(name)}</th><td>{_text(value)}</td></tr>'
    yield "</tbody></table></div>\n</header>"
    yield '<nav aria-label="Contents">\n<h2>Contents</h2>\n<ul>'
    for part in report.parts:
        state = "failed" if part.kept.error else formats.duration(part.kept.seconds)
        link = f'<a href="#section-{part.kept.number}">{part.kept.number}. {_text(part.kept.title)}</a>'
        yield f'<li>{link} <span class="soft">({state})</span></li>'
    yield "</ul>\n</nav>\n<main>"
    for part in report.parts:
        yield from _section(part)
    yield "</main>\n</body>\n</html>"


def _section(part: Part) -> Iterator[str]:
    kept = part.kept
    yield f'<section id="section-{kept.number}">\n<h2>{kept.number}. {_text(kept.title)}</h2>'
    source = f"Source: {_text(kept.source)}. " if kept.source else ""
    yield f'<p class="soft">{source}Took {formats.duration(kept.seconds)}.</p>'
    if part.elsewhere:
        yield f'<p class="warning">Of another run: {_text("; ".join(part.elsewhere))}.</p>'
    if kept.error:
        yield f'<p class="error">Failed: {_text(kept.error)}</p>'
    if kept.outcome.findings:
        yield "<ul>"
        yield from (f"<li>{_text(finding)}</li>" for finding in kept.outcome.findings)
        yield "</ul>"
    for place, table in enumerate(kept.outcome.tables, start=1):
        yield from _table(f"Table {kept.number}.{place}", table)
    for place, drawn in enumerate(part.figures, start=1):
        yield from _figure(f"Figure {kept.number}.{place}", f"f{kept.number}-{place}", drawn)
    yield "</section>"


def _table(name: str, table: Table) -> Iterator[str]:
    laid = formats.layout(table)
    yield '<div class="table">\n<div class="scroll" tabindex="0"><table>'
    yield f"<caption><b>{name}.</b> {_text(table.title)}</caption>"
    heads = zip(laid.columns, laid.numeric, strict=True)
    cells = "".join(f'<th scope="col"{_class("right" * of)}>{_text(head)}</th>' for head, of in heads)
    yield f"<thead><tr>{cells}</tr></thead>\n<tbody>"
    for row in laid.rows:
        yield f"<tr>{''.join(map(_cell, row, laid.numeric))}</tr>"
    yield "</tbody></table></div>"
    notes = ([_text(table.note)] if table.note else []) + [f"{mark} {_text(reason)}" for mark, reason in laid.reasons]
    yield from (f'<p class="note">{note}</p>' for note in notes)
    yield "</div>"


def _figure(name: str, key: str, drawn: Drawn) -> Iterator[str]:
    yield "<figure>"
    if drawn.svg is not None:
        from benchmarks.sources import drawing

        label = escape(f"{drawn.figure.title}: {drawn.figure.y_label} by {drawn.figure.x_label}")
        yield f'<div class="panel" role="img" aria-label="{label}">{drawing.inline(drawn.svg, key)}</div>'
    said = " ".join(filter(None, (drawn.figure.caption, drawn.note)))
    yield f"<figcaption><b>{name}. {_text(drawn.figure.title)}.</b> <span>{_text(said)}</span></figcaption>"
    yield "</figure>"


def _cell(cell: Written, of_numbers: bool) -> str:
    looks = ["right"] * (of_numbers and cell.kind != "text") + ["soft"] * (cell.kind == "reason")
    looks += ["long"] * (len(cell.text) > _LONG)
    return f"<td{_class(' '.join(looks))}>{_text(cell.text)}</td>"


def _class(names: str) -> str:
    return f' class="{names}"' if names else ""


def _text(text: str) -> str:
    """A text as HTML; what stands in backquotes is code."""
    return "".join(f"<code>{escape(p)}</code>" if code else escape(p) for p, code in formats.pieces(text))
