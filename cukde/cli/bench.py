"""``cukde bench``: the suite of the sources, and recorded runs held against each other."""

from __future__ import annotations

import argparse
from typing import Any

from cukde.cli import bench_compare, bench_suite


def add_parser(commands: Any) -> None:
    """Add this command to the ``cukde`` parser."""
    parser = commands.add_parser(
        "bench",
        help="measure the sources' tables and figures, and compare recorded runs",
        description=f"{bench_suite.DESCRIPTION}\n\n{bench_compare.DESCRIPTION}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    what = parser.add_mutually_exclusive_group(required=True)
    bench_suite.add_options(parser, what)
    bench_compare.add_options(parser, what)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Do what is asked for, and return the exit code."""
    return bench_suite.run(args) if args.compare is None else bench_compare.run(args)
