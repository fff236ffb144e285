"""Measure, on this machine, the tables of the papers that this library follows.

Each section prints its rows when it is done, and writes DIR/section-N.json. If the command is run again, it measures
only the sections that are missing. docs/sources.md puts the records beside the papers' claims.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.sources import suite
from benchmarks.tools import checkout


def main(arguments: Sequence[str] | None = None) -> int:
    """Run sections of the suite; 1 if a section failed, 2 for wrong arguments."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.sources",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--out", metavar="DIR", type=Path, required=True, help="the folder for the sections")
    parser.add_argument(
        "--section",
        metavar="N",
        type=int,
        nargs="+",
        choices=sorted(suite.MODULES),
        help="run these sections, even if they are done; default: all that are missing",
    )
    parser.add_argument(
        "--quick", action="store_true", help="use small sizes, which takes less than 90 seconds on two cores"
    )
    parser.add_argument("--traceback", action="store_true", help="show where a failure came from")
    args = parser.parse_args(arguments)
    try:
        checkout.begin()
        args.out.mkdir(parents=True, exist_ok=True)
    except (RuntimeError, OSError) as error:
        parser.error(str(error))
    failed = suite.run(args.out, args.section, quick=args.quick, tracebacks=args.traceback)
    if failed:
        which = f"section{'s' * (len(failed) > 1)} {', '.join(map(str, failed))}"
        print(f"error: {which} failed; run the same command again to run what failed anew", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
