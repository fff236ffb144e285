"""From times to a table of tiles: which tiles are chosen, and the file that says so."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from cukde.density.pairs.gpu.splits import Shape

# Of times, that a choice must gain to change.
LEAST_GAIN = 1.02

# Of the best time, up to which a candidate is measured again.
_NEAR = 1.1

Tile = TypeVar("Tile")


class Timed(NamedTuple, Generic[Tile]):
    """A candidate's milliseconds: with as many queries as keep the device busy, and with few."""

    tile: Tile
    busy: float
    few: float


class Choice(NamedTuple):
    """What was chosen for a kernel instead of what, and what that gains."""

    of: Mapping[str, Any]
    before: Sequence[Any]
    after: Sequence[Any]
    gain_busy: float  # time before / time after
    gain_few: float


def close(rough: Sequence[Timed[Any]], current: Sequence[Any]) -> list[Any]:
    """Candidates that one look at each leaves: those near the best in either time, and the current ones."""
    kept = set(map(plain, current))
    busy, few = min(one.busy for one in rough), min(one.few for one in rough)
    return [one.tile for one in rough if one.tile in kept or one.busy <= _NEAR * busy or one.few <= _NEAR * few]


def shapes(of: Mapping[str, Any], current: Sequence[Shape], timed: Sequence[Timed[Shape]]) -> Choice:
    """Choose a shape for many queries and one for few, whose efficiency is its rate when the device is busy."""
    known = {plain(one.tile): one for one in timed}
    wide, gain_busy = _fastest(plain(current[0]), known, lambda one: one.busy)
    narrow, gain_few = _fastest(plain(current[-1]), known, lambda one: one.few)
    after = [wide]
    if narrow != wide:
        rate = known[wide].busy / known[narrow].busy
        after.append(dataclasses.replace(narrow, efficiency=round(min(1.0, max(rate, 0.01)), 2)))
    return Choice(of, current, after, gain_busy, gain_few)


def layout(of: Mapping[str, Any], current: Any, timed: Sequence[Timed[Any]]) -> Choice:
    """Choose the one layout that is fastest when the device is busy."""
    chosen, gain = _fastest(current, {one.tile: one for one in timed}, lambda one: one.busy)
    return Choice(of, [current], [chosen], gain, 1.0)


def _fastest(
    current: Tile, known: Mapping[Tile, Timed[Tile]], time: Callable[[Timed[Tile]], float]
) -> tuple[Tile, float]:
    """The fastest candidate and its gain; the current one, unless more is gained than measurements scatter."""
    if not known:
        raise ValueError("no candidate is of any use")
    best = min(known.values(), key=time)
    if current not in known:  # it spills on this architecture
        return best.tile, 1.0
    gain = time(known[current]) / time(best)
    return (best.tile, gain) if gain > LEAST_GAIN else (current, 1.0)


def plain(tile: Any) -> Any:
    """The tile without its efficiency, which the kernel knows nothing of."""
    return dataclasses.replace(tile, efficiency=1.0) if isinstance(tile, Shape) else tile


def entry(choice: Choice) -> dict[str, Any]:
    """A choice as it stands in a table."""
    return {"of": dict(choice.of), "tiles": [_fields(tile) for tile in choice.after]}


def _fields(tile: Any) -> dict[str, Any]:
    named = (field.name for field in dataclasses.fields(tile) if field.metadata.get("in_table", True))
    fields = {name: getattr(tile, name) for name in named}
    if fields.get("efficiency") == 1.0:
        del fields["efficiency"]
    return fields


def dumps(gpu: str, date: str, engines: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    """The text of a table, a line an entry."""
    listed = (
        f"  {json.dumps(name)}: [\n" + ",\n".join(f"   {json.dumps(one)}" for one in entries) + "\n  ]"
        for name, entries in engines.items()
    )
    head = f'{{\n "gpu": {json.dumps(gpu)},\n "date": {json.dumps(date)},\n "engines": {{\n'
    return head + ",\n".join(listed) + "\n }\n}\n"


def line(engine: str, choice: Choice) -> str:
    """A choice for people."""
    of = " ".join(f"{name}={value}" for name, value in choice.of.items())
    before, after = ("  ".join(map(_short, tiles)) for tiles in (choice.before, choice.after))
    gain = f"{100 * (choice.gain_busy - 1):+.0f}% busy, {100 * (choice.gain_few - 1):+.0f}% few"
    return f"{engine:<14} {of:<48} {before:<44} {after:<44} {gain}"


def _short(tile: Any) -> str:
    values = (f"{int(v)}" if not isinstance(v, float) else f"@{v:g}" for v in _fields(tile).values())
    return "/".join(values)
