"""Files of sections: a record of the rows, and beside them the tables, figures and findings, or why there are none."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.sources.section import Outcome, Section, Setting
from benchmarks.tools import records
from benchmarks.tools.comparison import PASSING
from benchmarks.tools.records import made
from cukde.core import files as core_files

CHANGED = " with changes"
"""How the commit of a record of changed code ends on a page."""


@dataclass(frozen=True)
class Kept:
    """A section that was run; ``record`` is as :func:`benchmarks.tools.records.read` has it."""

    record: dict[str, Any]
    number: int
    title: str
    source: str
    quick: bool
    no_gpu: str | None
    seconds: float
    error: str | None
    outcome: Outcome


def path(folder: Path, number: int) -> Path:
    """The file of a section."""
    return folder / f"section-{number}.json"


def text(
    section: Section,
    outcome: Outcome,
    setting: Setting,
    seconds: float,
    *,
    calibration: dict[str, Any] | None = None,
    error: str | None = None,
) -> str:
    """What the file of a section holds that was run here and now; TypeError for what JSON does not have."""
    found = outcome.as_json()
    beside = {
        "section": {"number": section.number, "title": section.title, "source": section.source},
        "quick": setting.quick,
        "no_gpu": setting.no_gpu,
        "seconds": round(seconds, 3),
        "error": error,
    }
    return json.dumps(made(found.pop("rows"), calibration) | beside | found, indent=1, default=_plain) + "\n"


def write(folder: Path, number: int, content: str) -> None:
    """Write the file of a section, whole or not at all."""
    core_files.replace(path(folder, number), content.encode())


def read(file: Path) -> Kept:
    """Read the file of a section; ValueError for what is none."""
    record = records.read(file)
    try:
        outcome = Outcome.from_json(record)
        return Kept(
            record,
            **record["section"],
            **{name: record[name] for name in ("quick", "no_gpu", "seconds", "error")},
            outcome=outcome,
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{file.name} must be what a section of this suite left; {error!r}") from None


def read_all(folder: Path) -> tuple[list[Kept], list[str]]:
    """Read the files of a folder, in the order of the sections; and say which of them are damaged."""
    found, damaged = [], []
    for file in folder.glob("section-*.json"):
        try:
            found.append(read(file))
        except ValueError as error:
            damaged.append(str(error))
    return sorted(found, key=lambda kept: kept.number), damaged


def origin(record: dict[str, Any], quick: bool, no_gpu: str | None) -> dict[str, Any]:
    """What two sections must share to stand in one report without a word: where, of what and how large."""
    machine = {key: value for key, value in record["machine"].items() if key not in PASSING}
    if no_gpu is not None:  # it may be there, and not work
        machine["gpu"] = None
    return {"commit": commit(record), "sizes": "quick" if quick else "full"} | machine | record["versions"]


def commit(record: dict[str, Any]) -> str:
    """The commit of a record, as a page names it."""
    return f"{record['commit']}{CHANGED}" if record.get("changed") else str(record["commit"])


def differences(of: dict[str, Any], other: dict[str, Any]) -> list[str]:
    """Say in which parts of their origins, and how, two sections differ."""
    names = of | other
    return [f"{name} {_said(of, name)}, not {_said(other, name)}" for name in names if of.get(name) != other.get(name)]


def _said(origin: dict[str, Any], name: str) -> str:
    return str(origin[name]) if origin.get(name) is not None else "none"


def _plain(value: Any) -> Any:
    """NumPy's numbers as Python's."""
    if hasattr(value, "item") and getattr(value, "ndim", None) == 0:
        return value.item()
    raise TypeError(f"rows, tables and figures hold numbers and texts; got a {type(value).__name__}")
