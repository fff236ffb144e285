"""Parts of a report: its facts, and its sections as they are drawn."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.sources import formats
from benchmarks.sources.section import Figure
from benchmarks.sources.section_file import Kept, commit

_CLOCKS = {"sm_clock_mhz": "when it ended", "sm_clock_max_mhz": "at most"}


@dataclass(frozen=True)
class Drawn:
    """A figure as the pages show it; ``svg`` is None where ``note`` says why."""

    figure: Figure
    file: str  # beside the pages
    svg: str | None
    note: str


@dataclass(frozen=True)
class Part:
    """A section as the pages show it; ``elsewhere`` says how its run differs from that of the others."""

    kept: Kept
    figures: list[Drawn]
    elsewhere: list[str]


@dataclass(frozen=True)
class Report:
    """All that the pages show."""

    facts: list[tuple[str, str]]
    warnings: list[str]
    parts: list[Part]


def facts(found: list[Kept]) -> list[tuple[str, str]]:
    """Describe the run that some sections share: the machine, the versions, when and by which command."""
    first = found[0]
    machine, versions = first.record["machine"], dict(first.record["versions"])
    if first.no_gpu is not None:
        out = [("GPU", f"none: {first.no_gpu}")]
    else:
        out = [("GPU", str(machine.get("gpu", "not named"))), ("Driver", str(machine.get("driver", "not known")))]
        out += [("CUDA", str(machine.get("cuda") or "not known")), ("SM clock", _clocks(found))]
    dates = sorted(each.record["date"].replace("T", " ").replace("+00:00", "") for each in found)
    python, cukde = (versions.pop(name, "not known") for name in ("python", "cukde"))
    return [
        *out,
        ("CPU", f"{machine['cpu']}, {machine['cores']} cores"),
        ("cukde", f"{cukde}, commit {commit(first.record)}"),
        ("Versions", ", ".join([f"Python {python}", *(f"{name} {version}" for name, version in versions.items())])),
        ("Date", (dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}") + " UTC"),
        ("Command", "; ".join(dict.fromkeys(f"`{each.record['command']}`" for each in found))),
        ("Sizes", "quick" if first.quick else "full"),
        ("Time", f"{formats.duration(sum(each.seconds for each in found))} for {len(found)} sections"),
    ]


def _clocks(found: list[Kept]) -> str:
    said = []
    for key, what in _CLOCKS.items():
        clocks = [each.record["machine"][key] for each in found if key in each.record["machine"]]
        if clocks:
            low, high = min(clocks), max(clocks)
            said.append(f"{formats.number(low)}{f' to {formats.number(high)}' if high > low else ''} MHz {what}")
    return ", ".join(said) or "not known"
