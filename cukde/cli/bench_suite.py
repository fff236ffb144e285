"""``cukde bench --suite``: the sources' tables and figures, measured by the suite of a checkout."""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import os
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import cukde
from cukde.cli.errors import CommandError, file_errors

DESCRIPTION = """\
--suite measures the tables and figures of the papers that this library follows, on the hardware that is there, and
writes a report: DIR/report.html, which needs nothing beside it, and DIR/report.md. Each section leaves
DIR/section-N.json when it is done, and the same command goes on with those that are not there. The suite is in the
checkout of cukde's sources, not in the package: run it there."""


def add_options(parser: argparse.ArgumentParser, what: Any) -> None:
    """Add ``--suite`` to what may be done, and its options."""
    what.add_argument("--suite", choices=("sources",), help="run the sections of this suite")
    options = parser.add_argument_group("options of --suite")
    options.add_argument("--out", metavar="DIR", type=Path, help="the folder of the sections and the report")
    options.add_argument(
        "--section",
        metavar="N",
        type=int,
        nargs="+",
        help="run these sections, whether or not they are there; default: all",
    )
    options.add_argument("--quick", action="store_true", help="small sizes: less than 90 seconds on two cores")


def run(args: argparse.Namespace) -> int:
    """Run sections and say where the report is; 1 where a section failed."""
    if args.out is None:
        raise CommandError("--suite needs --out DIR, the folder of the sections and the report")
    suite = _suite(_checkout())
    unknown = [str(number) for number in args.section or () if number not in suite.MODULES]
    if unknown:
        there = ", ".join(map(str, sorted(suite.MODULES)))
        raise CommandError(f"--section knows no {', '.join(unknown)}; the sections are {there}")
    _make(args.out)
    if importlib.util.find_spec("matplotlib") is None:
        print("cukde: note: no figures without Matplotlib: pip install 'cukde[plot]'", file=sys.stderr)
    with file_errors("write to", args.out):  # of sections no error comes here
        failed = suite.run(args.out, args.section, quick=args.quick, tracebacks=args.traceback)
    print(f"Report: {args.out / 'report.html'}")
    print(f"Report: {args.out / 'report.md'}")
    if failed:
        which = f"section{'s' * (len(failed) > 1)} {', '.join(map(str, failed))}"
        print(f"cukde: error: {which} failed; run the same command again to run what failed anew", file=sys.stderr)
    return 1 if failed else 0


def _checkout() -> Path:
    """Where the suite is: beside the package, or in the working folder."""
    for folder in (Path(cukde.__file__).resolve().parents[1], Path.cwd()):
        if (folder / "benchmarks" / "sources" / "suite.py").is_file() and (
            folder / "cukde" / "cli" / "main.py"
        ).is_file():
            return folder
    raise CommandError(
        "the suite is in the checkout of cukde's sources, which is neither beside the package nor the working folder: "
        "git clone it, and run `cukde bench` in that folder"
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
    """Make the folder of the run, which must be one that can be written to."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CommandError(f"--out must be a folder; cannot make {folder}: {error.strerror or error}") from None
    if not os.access(folder, os.W_OK):
        raise CommandError(f"--out must be a folder that you may write to; got {folder}")
