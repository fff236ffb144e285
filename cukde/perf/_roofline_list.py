"""The list of a roofline's points: sizes that all rows of an operation share stand once, the others in each row."""

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
        The number of the point, its sizes that other points of the operation do not share, and the point.
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
    number, point : int and RooflinePoint, optional
        Those of the row that begins here.
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
    listed: list[Group] = []
    number = 1
    for op, alike in (item for family in by_family.values() for item in family.items()):
        first = alike[0].shapes
        names = dict.fromkeys(name for point in alike for name in told(op, point.shapes))
        same = [name for name in names if all(point.shapes.get(name) == first.get(name) for point in alike)]
        own = [name for name in names if name not in same]
        rows = tuple((number + i, _words(point.shapes, own), point) for i, point in enumerate(alike))
        listed.append(Group(op, _words(first, same), rows))
        number += len(alike)
    return listed


def lines(group: Group, width: int, whole: int) -> Iterator[Line]:
    """Yield an operation's lines: its heading, of ``whole`` characters at most, and rows of ``width``.

    Without a heading each row names the operation: so it is where all rows have the same sizes, or there is one row.
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
    """Sizes in one line, the dtype first and short, without a precision that repeats it."""
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
    """Lines of a text; those after the first are indented by two more."""
    after = indent + "  "
    return textwrap.wrap(text, width, initial_indent=indent, subsequent_indent=after, break_on_hyphens=False) or [""]
