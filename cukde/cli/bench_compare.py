"""``cukde bench --compare``: what became slower or less accurate between two runs, or folders of runs."""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cukde.cli.errors import CommandError, file_errors

if TYPE_CHECKING:
    from cukde.perf import Comparison

DESCRIPTION = """\
--compare reads two records of runs, or two folders of them, whose files are compared by name. Times are divided by what
calibrations measured around each run: a slower machine is no regression. What is slower by more than the threshold and
by more than both runs spread, or whose error is more than twice the old one, makes the exit code 1."""


def add_options(parser: argparse.ArgumentParser, what: Any) -> None:
    """Add ``--compare`` to what may be done, and its option."""
    what.add_argument(
        "--compare", nargs=2, metavar=("OLD", "NEW"), type=Path, help="two records, or two folders of records"
    )
    options = parser.add_argument_group("options of --compare")
    options.add_argument(
        "--threshold",
        metavar="PERCENT",
        type=_percent,
        default=10.0,
        help="what is slower by no more is no regression; default: 10",
    )


def run(args: argparse.Namespace) -> int:
    """Print the comparison; 1 where there is a regression, else 0."""
    (old, new), threshold = args.compare, args.threshold / 100
    pairs, alone = _pairs(old, new)
    found = {name: _compared(*files, threshold) for name, files in pairs.items()}
    if not any(comparison.rows for comparison in found.values()):
        raise CommandError(f"no measurement is both in {old} and in {new}: nothing was compared")
    for name, comparison in found.items():
        if len(found) > 1 or alone:
            print(f"{name}:")
        print(comparison.text(changed=True), end="\n\n")
    for line in alone:
        print(line)
    regressions = {name: comparison.regressions for name, comparison in found.items()}
    count = sum(map(len, regressions.values()))
    of = sum(len(comparison.rows) for comparison in found.values())
    print(
        f"{count or 'no'} regression{'s' * (count != 1)} in {of} measurement{'s' * (of != 1)}: "
        f"slower by more than {100 * threshold:g} percent, or an error more than twice the old one"
    )
    return int(count > 0)


def _pairs(old: Path, new: Path) -> tuple[dict[str, tuple[Path, Path]], list[str]]:
    """Files to compare by their names, and what to say of those that are in one folder alone."""
    if old.is_dir() != new.is_dir():
        file, folder = (new, old) if old.is_dir() else (old, new)
        raise CommandError(f"--compare needs two files or two folders; {folder} is a folder, {file} is none")
    if not old.is_dir():
        return {new.name: (old, new)}, []
    files = [{path.name: path for path in sorted(folder.glob("*.json"))} for folder in (old, new)]
    both = {name: (files[0][name], path) for name, path in files[1].items() if name in files[0]}
    if not both:
        raise CommandError(f"--compare found no .json file of one name in {old} and in {new}")
    titles = ((old, files[0]), (new, files[1]))
    return both, [f"only in {folder}: {name}" for folder, own in titles for name in own if name not in both]


def _compared(old: Path, new: Path, threshold: float) -> Comparison:
    from cukde import perf

    runs = []
    for path in (old, new):
        with file_errors("read", path):
            try:
                runs.append(perf.read_record(path))
            except ValueError as error:
                raise CommandError(str(error)) from None
    try:
        return perf.compare(*runs, threshold=threshold)
    except ValueError as error:
        raise CommandError(f"cannot compare {old} and {new}: {error}") from None


def _percent(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise argparse.ArgumentTypeError(f"expected a percentage from 0; got {text!r}")
    return value
