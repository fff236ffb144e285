"""Compare two records of runs, or two folders of records, whose files are matched by name.

Times are divided by the calibrations around each run, so that a slower machine is not a regression. The exit code is 1
if a time is longer by more than the threshold and by more than the spread of both runs, or if an error is more than
twice the old one.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.tools import comparison
from cukde.cli.errors import number


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the comparison; 1 if there is a regression, 2 if nothing can be compared."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.tools.compare",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument(
        "--threshold",
        metavar="PERCENT",
        type=number("a percentage from 0", lambda value: value >= 0),
        default=10.0,
        help="a time longer by no more than this is not a regression; default: 10",
    )
    args = parser.parse_args(arguments)
    try:
        return _compared(args.old, args.new, args.threshold)
    except OSError as error:
        print(f"error: cannot read {error.filename}: {error.strerror or error}", file=sys.stderr)
    except ValueError as error:
        print(f"error: cannot compare {args.old} and {args.new}: {error}", file=sys.stderr)
    return 2


def _compared(old: Path, new: Path, percent: float) -> int:
    pairs, alone = _pairs(old, new)
    found = {name: comparison.compare(*files, threshold=percent / 100) for name, files in pairs.items()}
    if not any(each.rows for each in found.values()):
        raise ValueError("no measurement is in both")
    for name, each in found.items():
        if len(found) > 1 or alone:
            print(f"{name}:")
        print(each.text(changed=True), end="\n\n")
    for line in alone:
        print(line)
    count = sum(len(each.regressions) for each in found.values())
    total = sum(len(each.rows) for each in found.values())
    print(
        f"{count or 'no'} regression{'s' * (count != 1)} in {total} measurement{'s' * (total != 1)}: "
        f"slower by more than {percent:g} percent, or an error more than twice the old one"
    )
    return int(count > 0)


def _pairs(old: Path, new: Path) -> tuple[dict[str, tuple[Path, Path]], list[str]]:
    """Return the files to compare by their names, and messages about files in only one of the folders."""
    if old.is_dir() != new.is_dir():
        raise ValueError("one is a folder, the other is none")
    if not old.is_dir():
        return {new.name: (old, new)}, []
    files = [{path.name: path for path in sorted(folder.glob("*.json"))} for folder in (old, new)]
    both = {name: (files[0][name], path) for name, path in files[1].items() if name in files[0]}
    if not both:
        raise ValueError("no .json file is in both")
    titles = ((old, files[0]), (new, files[1]))
    return both, [f"only in {folder}: {name}" for folder, names in titles for name in names if name not in both]


if __name__ == "__main__":
    sys.exit(main())
