"""``cukde bench``: the suite of a checkout, which measures the sources' tables and figures, and comparisons of runs."""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import os
import sys
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import cukde
from cukde.cli import output
from cukde.cli.errors import CommandError, file_errors, number
from cukde.core import extras

if TYPE_CHECKING:
    from cukde.perf import Comparison

_DESCRIPTION = """\
--suite measures, on this machine, the tables and figures of the papers that this library follows. It writes a report:
DIR/report.html, a single file, and DIR/report.md. Each section writes DIR/section-N.json when it is done. If the
command is run again, it measures only the sections that are missing. The suite is in a checkout of cukde's sources,
not in the package: run it there.

--compare reads two records of runs, or two folders of records, whose files are matched by name. Times are divided by
the calibrations around each run, so that a slower machine is not a regression. The exit code is 1 if a time is longer
by more than the threshold and by more than the spread of both runs, or if an error is more than twice the old one."""


def add_parser(commands: Any) -> None:
    """Add this command to the ``cukde`` parser."""
    parser = commands.add_parser(
        "bench",
        help="measure the tables and figures of the papers, or compare recorded runs",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    actions = parser.add_mutually_exclusive_group(required=True)
    actions.add_argument("--suite", choices=("sources",), help="run the sections of this suite")
    options = parser.add_argument_group("options of --suite")
    options.add_argument("--out", metavar="DIR", type=Path, help="the folder for the sections and the report")
    options.add_argument(
        "--section",
        metavar="N",
        type=int,
        nargs="+",
        help="run these sections, even if they are done; default: all that are missing",
    )
    options.add_argument(
        "--quick", action="store_true", help="use small sizes, which takes less than 90 seconds on two cores"
    )
    actions.add_argument(
        "--compare", nargs=2, metavar=("OLD", "NEW"), type=Path, help="two records, or two folders of records"
    )
    options = parser.add_argument_group("options of --compare")
    options.add_argument(
        "--threshold",
        metavar="PERCENT",
        type=number("a percentage from 0", lambda value: value >= 0),
        default=10.0,
        help="a time longer by no more than this is not a regression; default: 10",
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run the suite or compare records, and return the exit code."""
    return _measure(args) if args.compare is None else _compare(args)


def _measure(args: argparse.Namespace) -> int:
    """Run sections of the suite and print where the report is; 1 if a section failed."""
    checkout = _checkout()
    if args.out is None:
        raise CommandError("--suite needs --out DIR, the folder of the sections and the report")
    suite = _suite(checkout)
    unknown = [str(number) for number in args.section or () if number not in suite.MODULES]
    if unknown:
        there = ", ".join(map(str, sorted(suite.MODULES)))
        raise CommandError(f"--section knows no {', '.join(unknown)}; the sections are {there}")
    output.recordable()
    _make(args.out)
    if importlib.util.find_spec("matplotlib") is None:
        print(f"cukde: note: no figures without Matplotlib: {extras.install('plot')}", file=sys.stderr)
    with file_errors("write to", args.out):  # sections handle their own errors
        failed = suite.run(args.out, args.section, quick=args.quick, tracebacks=args.traceback)
    print(f"Report: {args.out / 'report.html'}")
    print(f"Report: {args.out / 'report.md'}")
    if failed:
        which = f"section{'s' * (len(failed) > 1)} {', '.join(map(str, failed))}"
        print(f"cukde: error: {which} failed; run the same command again to run what failed anew", file=sys.stderr)
    return 1 if failed else 0


def _checkout() -> Path:
    """Return the checkout with the suite: the package's folder, or the working folder."""
    files = "benchmarks/sources/suite.py", "cukde/cli/main.py"
    for folder in (Path(cukde.__file__).resolve().parents[1], Path.cwd()):
        if all((folder / file).is_file() for file in files):
            return folder
    raise CommandError(
        "--suite runs modules that the installed package does not have: they are in the folder benchmarks of cukde's "
        f"sources, a git checkout or the unpacked archive (sdist); neither {Path(cukde.__file__).resolve().parent} nor "
        "the working folder is in one. In the folder of the sources write: pip install -e '.[test,bench]', then the "
        "same command. --compare works anywhere"
    )


def _suite(checkout: Path) -> ModuleType:
    """Import the suite of a checkout."""
    if str(checkout) not in sys.path:
        sys.path.insert(0, str(checkout))
    try:
        return importlib.import_module("benchmarks.sources.suite")
    except ModuleNotFoundError as error:
        if error.name is not None and error.name.startswith("benchmarks"):
            raise CommandError(
                f"{error.name} is not in the checkout {checkout}, or another package named benchmarks hides it"
            ) from None
        raise CommandError(f"the suite needs {error.name}: pip install -e '.[test,bench]' in {checkout}") from None


def _make(folder: Path) -> None:
    """Make the folder of the run, which must be writeable."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CommandError(f"--out must be a folder; cannot make {folder}: {error.strerror or error}") from None
    if not os.access(folder, os.W_OK):
        raise CommandError(f"--out must be a folder that you may write to; got {folder}")


def _compare(args: argparse.Namespace) -> int:
    """Print the comparison; 1 if there is a regression."""
    (old, new), threshold = args.compare, args.threshold / 100
    pairs, alone = _pairs(old, new)
    comparisons = {name: _compared(*files, threshold) for name, files in pairs.items()}
    if not any(comparison.rows for comparison in comparisons.values()):
        raise CommandError(f"no measurement is both in {old} and in {new}: nothing was compared")
    for name, comparison in comparisons.items():
        if len(comparisons) > 1 or alone:
            print(f"{name}:")
        print(comparison.text(changed=True), end="\n\n")
    for line in alone:
        print(line)
    count = sum(len(comparison.regressions) for comparison in comparisons.values())
    total = sum(len(comparison.rows) for comparison in comparisons.values())
    print(
        f"{count or 'no'} regression{'s' * (count != 1)} in {total} measurement{'s' * (total != 1)}: "
        f"slower by more than {100 * threshold:g} percent, or an error more than twice the old one"
    )
    return int(count > 0)


def _pairs(old: Path, new: Path) -> tuple[dict[str, tuple[Path, Path]], list[str]]:
    """Return the files to compare by their names, and messages about files in only one of the folders."""
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
    return both, [f"only in {folder}: {name}" for folder, names in titles for name in names if name not in both]


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
