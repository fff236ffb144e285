"""What griffe's parser of numpydoc leaves alone becomes Markdown: roles, formulas and tables of reStructuredText."""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path
from typing import Any

import griffe

_REFERENCE = Path(__file__).parents[1] / "reference"
_ENTRIES = frozenset(
    name for page in _REFERENCE.glob("*.md") for name in re.findall(r"^::: (\S+)", page.read_text(), re.MULTILINE)
)
_ROLE = re.compile(r":(?:func|class|meth|mod|data):`(~?)([^`]+)`")
_PAGE = re.compile(r"(``|\b)docs/(\w+)\.md\1")
_INLINE = re.compile(r":math:`([^`]+)`")
_DISPLAY = re.compile(r"^([ ]*)\.\. math::[ ]*(.*(?:\n(?:\1[ ]+\S.*|[ ]*(?=\n\1[ ]+\S)))*)", re.MULTILINE)
_TABLE = re.compile(r"^=+(?: +=+)+\n(.*)\n=+(?: +=+)+\n((?:.*\n)+?)=+(?: +=+)+$", re.MULTILINE)
_SECTION = re.compile(r"^(\S.*)\n-{3,}\n((?:.*\n?)*?)(?=^\S.*\n-{3,}$|\Z)", re.MULTILINE)
_TYPED = {"Attributes", "Other Parameters", "Parameters", "Raises", "Returns", "Yields"}
_ITEM = re.compile(r"^(\S.*)\n((?:(?: {4}.*)?\n)*)", re.MULTILINE)
_OTHERS = re.compile(r"^(\w+(?:, \w+)*)(?: : (.*))?$", re.MULTILINE)


def markdown(text: str, path: str) -> str:
    """Return the docstring of the object at ``path``, still in sections, with Markdown in them."""
    text = _DISPLAY.sub(_displayed, _TABLE.sub(_table, _SECTION.sub(_section, text)))
    text = re.sub(r"::$(?=\n\n[ ]+)", ":", text, flags=re.MULTILINE)  # code follows
    text = _INLINE.sub(lambda found: f"${' '.join(found[1].split())}$", text)
    text = _PAGE.sub(r"[`docs/\2.md`](../\2.md)", text)
    return _ROLE.sub(lambda found: _link(found[2], path, short=bool(found[1])), text)


def _section(found: re.Match[str]) -> str:
    """A section with others as links, or with items that griffe reads as they are meant."""
    name, body = found.groups()
    if name == "See Also":
        body = _OTHERS.sub(_others, body)
    elif name in _TYPED:
        body = _ITEM.sub(lambda item: _item(name, *item.groups()), f"{body}\n")
    return f"{name}\n{'-' * len(name)}\n{body}"


def _item(section: str, head: str, said: str) -> str:
    """An item with its type behind a character without width, and one for each of several parameters.

    griffe would make a call of ``shape (n,)``, and gives all parameters of an item the default of the first.
    """
    names, colon, kind = head.replace("``", "").partition(" : ")
    if not colon and section in ("Raises", "Returns", "Yields"):
        return f"\u2060{names}\n{said}"
    typed = f"{colon}\u2060{kind}" if colon else ""
    several = names.split(", ") if section.endswith("Parameters") else [names]
    return "".join(f"{name}{typed}\n{said}" for name in several)


def _displayed(found: re.Match[str]) -> str:
    """Formulas of a directive, which blank lines part."""
    margin, body = found.groups()
    parts = [" ".join(part.split()) for part in re.split(r"\n[ ]*\n", body) if part.strip()]
    return "".join(f"\n{margin}$$\n{margin}{part}\n{margin}$$\n" for part in parts)


def _others(found: re.Match[str]) -> str:
    """A line of "See Also": names, and what they are for."""
    names = ", ".join(f":func:`{name}`" for name in found[1].split(", "))
    return f"- {names}{f': {found[2]}' if found[2] else ''}"


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


def as_it_runs(function: griffe.Function) -> None:
    """Give a function with ``**options`` the signature and the docstring that it has once a table has filled them."""
    kind = griffe.ParameterKind
    if function.docstring is None or all(each.kind is not kind.var_keyword for each in function.parameters):
        return
    found = getattr(importlib.import_module(function.module.path), function.name)
    function.docstring.value = inspect.getdoc(found) or ""
    function.parameters = griffe.Parameters()
    for name, each in inspect.signature(found).parameters.items():
        default = None if each.default is each.empty else repr(each.default)
        function.parameters.add(griffe.Parameter(name, kind=getattr(kind, each.kind.name.lower()), default=default))


class Markdown(griffe.Extension):
    """Converts every docstring once it is read, before it is parsed."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Convert the docstring of one object."""
        if obj.is_function and obj.parent is obj.module:
            as_it_runs(obj)
        if obj.docstring is not None:
            obj.docstring.value = markdown(obj.docstring.value, obj.path)
