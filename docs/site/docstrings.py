"""Docstrings, numpydoc with the roles of reStructuredText, become Markdown when the API reference is built."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path
from typing import Any

import griffe

_REFERENCE = Path(__file__).parents[1] / "reference"
_ENTRIES = frozenset(
    name for page in _REFERENCE.glob("*.md") for name in re.findall(r"^::: (\S+)", page.read_text(), re.MULTILINE)
)
_HEADING = re.compile(r"^(\S.*)\n-{3,}$\n?", re.MULTILINE)
_LISTS = {"Attributes", "Other Parameters", "Parameters", "Raises", "Returns", "Warns", "Yields"}
_ROLE = re.compile(r":(?:func|class|meth|mod|data):`(~?)([^`]+)`")
_PAGE = re.compile(r"(``|\b)docs/(\w+)\.md\1")
_INLINE = re.compile(r":math:`([^`]+)`")
_DISPLAY = re.compile(r"^([ ]*)\.\. math::[ ]*(.*(?:\n(?:\1[ ]+\S.*|[ ]*(?=\n\1[ ]+\S)))*)", re.MULTILINE)
_TABLE = re.compile(r"^=+(?: +=+)+\n(.*)\n=+(?: +=+)+\n((?:.*\n)+?)=+(?: +=+)+$", re.MULTILINE)
_ALSO = re.compile(r"^(\w+(?:, \w+)*)(?: : (.*))?$", re.MULTILINE)
_SESSION = re.compile(r"^([ ]*)(>>> .*(?:\n\1[ ]*\S.*)*)", re.MULTILINE)


def markdown(text: str, path: str) -> str:
    """Return the docstring of the object at ``path`` in Markdown."""
    first, *rest = _HEADING.split(text)
    parts = [_body(first, path)]
    for name, body in zip(rest[::2], rest[1::2], strict=True):
        parts.append(f"**{name}**\n\n{_section(name, body, path)}")
    return "\n\n".join(parts)


def _section(name: str, text: str, path: str) -> str:
    if name in _LISTS:
        return _items(text, path)
    if name == "References":
        return "\n".join(f"- {_body(' '.join(one.split()), path)}" for one in _references(text))
    return _body(re.sub(_ALSO, _others, text) if name == "See Also" else text, path)


def _body(text: str, path: str) -> str:
    """Paragraphs, formulas, tables and sessions of Python."""
    text = _DISPLAY.sub(_displayed, _TABLE.sub(_table, text.strip("\n")))
    text = re.sub(r"::$(?=\n\n[ ]+)", ":", text, flags=re.MULTILINE)  # code follows
    text = _INLINE.sub(lambda found: f"${' '.join(found[1].split())}$", text)
    text = _SESSION.sub(lambda found: f"{found[1]}```pycon\n{found[0]}\n{found[1]}```", text)
    text = _PAGE.sub(r"[`docs/\2.md`](../\2.md)", text)
    return _ROLE.sub(lambda found: _link(found[2], path, short=bool(found[1])), text)


def _items(text: str, path: str) -> str:
    """A list of what begins at the margin: names with types, and what is said of them."""
    items = re.findall(r"^\S.*(?:\n(?:[ ]+.*|[ ]*(?=\n[ ]+\S)))*", text, re.MULTILINE)
    lines = []
    for item in items:
        head, _, said = item.partition("\n")
        name, colon, kind = head.partition(" : ")
        said = textwrap.indent(_body(textwrap.dedent(said), path), "    ").lstrip()
        name = name.replace("``", "")
        lines.append(f"- `{name}`{f' : *{kind}*' if colon else ''}{f': {said}' if said else ''}")
    return "\n".join(lines)


def _displayed(found: re.Match[str]) -> str:
    """Formulas of a directive, which blank lines part."""
    margin, body = found.groups()
    parts = [" ".join(part.split()) for part in re.split(r"\n[ ]*\n", body) if part.strip()]
    return "".join(f"\n{margin}$$\n{margin}{part}\n{margin}$$\n" for part in parts)


def _others(found: re.Match[str]) -> str:
    """A line of "See Also": names, and what they are for."""
    names = ", ".join(f":func:`{name}`" for name in found[1].split(", "))
    return f"- {names}{f': {found[2]}' if found[2] else ''}"


def _references(text: str) -> list[str]:
    """References, each of which begins on a line of its own, after one that ends with a full stop."""
    return re.split(r"(?<=\.)\n(?=\S)|\n\n+", text.strip())


def _table(found: re.Match[str]) -> str:
    rows = [re.split(r" {2,}", row.strip()) for row in (found[1], *found[2].splitlines())]
    lines = [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([lines[0], "|" + "---|" * len(rows[0]), *lines[1:]])


def _link(name: str, path: str, *, short: bool) -> str:
    """A link to the entry that the name means where ``path`` is, or the name as code where there is none."""
    name = name.removeprefix("~")
    said = name.rpartition(".")[2] if short else name
    above = path.split(".")
    for depth in range(len(above), -1, -1):
        full = ".".join([*above[:depth], name])
        owner = full.rpartition(".")[0]
        if full in _ENTRIES or (owner in _ENTRIES and owner.rpartition(".")[2][0].isupper()):  # a class and its method
            return f"[`{said}`][{full}]"
    return f"`{said}`"


class Markdown(griffe.Extension):
    """Converts every docstring once it is read."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Convert the docstring of one object."""
        if obj.docstring is not None:
            obj.docstring.value = markdown(obj.docstring.value, obj.path)
