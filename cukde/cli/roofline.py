"""``cukde roofline``: the public operations on the device at hand, beside what it can do at most."""

from __future__ import annotations

import argparse
import importlib.util
import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from cukde.cli import output
from cukde.cli.errors import CommandError

if TYPE_CHECKING:
    from cukde.perf import Explanation

_NAME = "cukde-roofline.png"

# In a row: on a GPU what Python takes to launch one is hidden behind the one before.
_CALLS = {"cpu": 1, "gpu": 10}

_DESCRIPTION = """\
Run the public operations at moderate sizes, and show what binds each of them and how near it comes: by its time, the
model of its cost, and the peaks of the device, without counters, a profiler or root. Takes about half a minute. Peaks
are those that `cukde info --peaks` measured, or else published ones."""


def add_parser(commands: Any) -> None:
    """Add this command to the ``cukde`` parser."""
    parser = commands.add_parser(
        "roofline",
        help="what binds each operation on this machine, with a table and a picture",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--backend", choices=("cpu", "gpu"), help="default: the GPU where one works")
    parser.add_argument("--only", metavar="OP", nargs="+", help="these operations, as kde or functions.gelu")
    parser.add_argument(
        "--out",
        metavar="DIR_OR_FILE",
        type=Path,
        default=Path(),
        help=f"a folder for {_NAME}, or a .png file; default: the working folder",
    )
    parser.add_argument("--no-plot", action="store_true", help="no picture")
    parser.add_argument("--json", metavar="FILE", type=Path, help="write a record of the run")
    parser.add_argument("--explain", action="store_true", help="print the whole explanation of each operation")
    parser.add_argument("--seconds", metavar="S", type=_seconds, default=0.3, help="for each operation; default: 0.3")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    """Explain each operation, then show the table and the picture."""
    names = operations(args.only)
    picture = None
    if not args.no_plot:
        if importlib.util.find_spec("matplotlib"):
            picture = output.picture_path(args.out, _NAME)
        else:
            print("cukde: note: no picture without Matplotlib: pip install 'cukde[plot]'", file=sys.stderr)
    if args.json is not None:
        output.placeable("--json", args.json)
    backend = _backend(args.backend)
    explained = explain_all(names, backend, args.seconds)

    from cukde import perf

    roofline = perf.roofline(explained.values())
    if args.explain:
        print("\n\n".join(map(str, explained.values())), end="\n\n")
    print(roofline)
    if picture is not None:
        with output.replacing(picture) as part:
            roofline.draw(part)
        print(f"Picture: {picture}")
    if args.json is not None:
        rows = [
            explanation.row() | {"roofline": point.row()}
            for explanation, point in zip(explained.values(), roofline.points, strict=True)
        ]
        with output.replacing(args.json) as part:
            perf.write_record(part, rows)
        print(f"Record: {args.json}")


def operations(only: list[str] | None) -> list[str]:
    """Return the operations to run, each once."""
    from cukde.cli.workloads import WORKLOADS

    unknown = [name for name in only or () if name not in WORKLOADS]
    if unknown:
        raise CommandError(f"--only knows no {', '.join(unknown)}; the operations are {', '.join(WORKLOADS)}")
    return list(dict.fromkeys(WORKLOADS if only is None else only))


def explain_all(names: list[str], backend: Literal["cpu", "gpu"], seconds: float) -> dict[str, Explanation]:
    """Run operations of the backend."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    from cukde import perf
    from cukde.cli.workloads import WORKLOADS

    on = perf.peaks("cpu" if backend == "cpu" else None)
    explained = {}
    columns = (TextColumn("{task.description:<28}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        step = bar.add_task("", total=len(names))
        for name in names:
            bar.update(step, description=name)
            call = WORKLOADS[name].call(backend)
            explained[name] = perf.explain(call, on=on, seconds=seconds, calls=_CALLS[backend])
            bar.advance(step)
    return explained


def _backend(wanted: Literal["cpu", "gpu"] | None) -> Literal["cpu", "gpu"]:
    """Where to run."""
    if wanted == "cpu":
        return "cpu"
    from cukde.cli import info

    works, state = info.gpu()
    if wanted == "gpu" and not works:
        raise CommandError(f"--backend gpu needs a working GPU: {state}")
    return "gpu" if works else "cpu"


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (value > 0 and math.isfinite(value)):
        raise argparse.ArgumentTypeError(f"expected a positive number of seconds; got {text!r}")
    return value
