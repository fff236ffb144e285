"""Tile shapes by architecture: the tables in ``tables/``, one a file, and which of them a device takes.

A table says of each engine what its kernels' tiles are, as measured on a GPU (``docs/kernels.md``)::

    {"gpu": "NVIDIA H200", "date": "2026-11-21", "engines": {"f16": [
        {"of": {"output": "sum", "products": 1, "depth": 16}, "tiles": [{"warps": 4, "row_tiles": 4, ...}, ...]},
        ...

An entry holds for every kernel that has the values in ``of``; of several the first one counts.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from cukde.core.gpu import device

FOLDER = Path(__file__).parent / "tables"

Tile = TypeVar("Tile")


@dataclass(frozen=True, eq=False)
class Table:
    """The tiles for an architecture; it is known by its identity, so that it can be a key."""

    name: str  # of the file
    architecture: int  # 90 is compute capability 9.0
    gpu: str  # that it was measured on
    date: str
    engines: Mapping[str, Sequence[Mapping[str, Any]]]

    def tiles(self, engine: str, kind: Callable[..., Tile], key: Mapping[str, Any]) -> tuple[Tile, ...]:
        """Tiles of a kernel of an engine, each made by ``kind``; ``key`` is the kernel's specialisation key."""
        for entry in self.engines.get(engine, ()):
            if unknown := entry["of"].keys() - key.keys():
                raise ValueError(f"{self.name}: kernels of {engine} have no {', '.join(sorted(unknown))}")
            if all(key[name] == value for name, value in entry["of"].items()):
                return tuple(kind(**tile) for tile in entry["tiles"])
        raise ValueError(f"{self.name} has no tiles of {engine} for {dict(key)}")


def table() -> Table:
    """The table for the current device."""
    return nearest(device.capability(), tables())


@functools.cache
def nearest(capability: tuple[int, int], among: tuple[Table, ...]) -> Table:
    """The table of the same architecture, else of the nearest older one, else of the oldest that there is."""
    architecture = 10 * capability[0] + capability[1]
    older = [one for one in among if one.architecture <= architecture]
    if older:
        return max(older, key=lambda one: one.architecture)
    return min(among, key=lambda one: one.architecture)


@functools.cache
def tables() -> tuple[Table, ...]:
    """All tables, by architecture."""
    by_architecture = sorted((read(path) for path in FOLDER.glob("sm_*.json")), key=lambda one: one.architecture)
    if not by_architecture:
        raise FileNotFoundError(f"there is no table of tiles in {FOLDER}; reinstall the package")
    return tuple(by_architecture)


def read(path: Path) -> Table:
    """Read one table; what is wrong with its form is an error that names the file."""
    name = re.fullmatch(r"sm_(\d+)\.json", path.name)
    if name is None:
        raise ValueError(f"a table of tiles is called sm_<architecture>.json; got {path.name}")
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        gpu, date, engines = content["gpu"], content["date"], content["engines"]
        for entry in (entry for entries in engines.values() for entry in entries):
            if entry.keys() != {"of", "tiles"} or not entry["tiles"]:
                raise ValueError(f"an entry has `of` and one or more `tiles`; got {entry}")
            for tile in entry["tiles"]:
                if not all(isinstance(value, bool) or value > 0 for value in tile.values()):
                    raise ValueError(f"numbers of tiles are positive; got {tile}")
    except (ValueError, TypeError, AttributeError, KeyError) as error:
        raise ValueError(f"{path.name} is no table of tiles: {error!r}") from error
    return Table(path.name, int(name[1]), gpu, date, engines)
