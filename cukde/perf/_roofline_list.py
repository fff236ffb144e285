"""The list of a roofline's points: an operation's sizes that all its rows share once, and in each row the others."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cukde.core.cost.registry import told
from cukde.perf import _text

if TYPE_CHECKING:
    from cukde.perf._roofline_points import RooflinePoint

_SHORT = {"float16": "f16", "bfloat16": "bf16", "float32": "f32", "float64": "f64", "complex64": "c64"}


@dataclass(frozen=True)
class Group:
    """The points of one operation.

    Attributes
    ----------
    op : str
    shared : str
        Sizes of all points.
    rows : tuple of (int, str, RooflinePoint)
        The point's number, the sizes that other points of the operation do not share, and the point.
    """

    op: str
    shared: str
    rows: tuple[tuple[int, str, RooflinePoint], ...]


@dataclass(frozen=True)
class Line:
    """A line of the list.

    Attributes
    ----------
    text : str
    name : str
        The operation, where the text begins with it.
    number : int, optional
        Of the row that begins here.
    point : RooflinePoint, optional
        Of that row.
    """

    text: str
    name: str = ""
    number: int | None = None
    point: RooflinePoint | None = None


def groups(points: Sequence[RooflinePoint]) -> list[Group]:
    """Points by family, then by operation, both in the order of their first points, and numbered in that order."""
    by_family: dict[str, dict[str, list[RooflinePoint]]] = {}
    for point in points:
        by_family.setdefault(point.family, {}).setdefault(point.op, []).append(point)
    found: list[Group] = []
    number = 1
    for op, of in (item for family in by_family.values() for item in family.items()):
        names = dict.fromkeys(name for point in of for name in told(op, point.shapes))
        same = [name for name in names if all(point.shapes.get(name) == of[0].shapes.get(name) for point in of)]
        own = [name for name in names if name not in same]
        rows = tuple((number + i, _words(point.shapes, own), point) for i, point in enumerate(of))
        found.append(Group(op, _words(of[0].shapes, same), rows))
        number += len(of)
    return found


def lines(group: Group, width: int, whole: int) -> Iterator[Line]:
    """Yield an operation's lines: its heading, of ``whole`` characters at most, and rows of ``width``.

    Where the rows are alike, or there is but one, each says the operation itself and there is no heading.
    """
    alike = not any(own for _, own, _ in group.rows)
    title = f"{group.op} {group.shared}".rstrip()
    if not alike:
        first, *rest = _wrapped(title, whole)
        yield Line(first, group.op[: len(first)])
        yield from map(Line, rest)
    for number, own, point in group.rows:
        first, *rest = _wrapped(title, width) if alike else _wrapped(own, width, "  ")
        yield Line(first, group.op[: len(first)] if alike else "", number, point)
        yield from map(Line, rest)


def _words(shapes: dict[str, Any], names: Sequence[str]) -> str:
    """Sizes in one line, the dtype first and short; a precision that says it again is left out."""
    sizes = {name: shapes.get(name) for name in sorted(names, key=lambda name: name != "dtype")}
    if sizes.get("precision") == sizes.get("dtype"):
        sizes.pop("precision", None)
    return _text.sizes(
        {
            name: _SHORT.get(value, value) if isinstance(value, str) else value
            for name, value in sizes.items()
            if value != ""
        }
    )


def _wrapped(text: str, width: int, indent: str = "") -> list[str]:
    """Lines of a text, of which the rest is indented by two more than the first."""
    after = indent + "  "
    return textwrap.wrap(text, width, initial_indent=indent, subsequent_indent=after, break_on_hyphens=False) or [""]
