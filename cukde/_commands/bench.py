"""``cukde bench``: recorded runs of the benchmarks, held against each other."""

from __future__ import annotations

import argparse
from typing import Any

from cukde._commands import bench_compare

_DESCRIPTION = """\
Compare two recorded runs of the benchmarks."""


def add_parser(commands: Any) -> None:
    """Add this command to the ``cukde`` parser."""
    parser = commands.add_parser(
        "bench",
        help="find what became slower from one recorded run to another",
        description=f"{_DESCRIPTION}\n\n{bench_compare.DESCRIPTION}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    what = parser.add_mutually_exclusive_group(required=True)
    bench_compare.add_options(parser, what)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Do what is asked for, and return the exit code."""
    old, new = args.compare
    return bench_compare.run(old, new, args.threshold / 100)
