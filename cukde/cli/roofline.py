"""``cukde roofline``: the public operations on this machine's device, relative to its peaks."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from cukde.cli import output, progress
from cukde.cli.errors import CommandError, number

if TYPE_CHECKING:
    from cukde.perf import Explanation

_NAME = "cukde-roofline.png"

# Successive calls: on a GPU the launch of a call overlaps with the call before.
_CALLS = {"cpu": 1, "gpu": 10}

_DESCRIPTION = """\
Run the public operations at moderate sizes. Show which unit of the device limits each of them ("binds"), and how near
the operation comes to that limit. This follows from its time, a model of its cost, and the peaks of the device. It
needs no hardware counters, no profiler and no root rights, and takes about half a minute.

Peaks are those that `cukde info --peaks` measured. Without them, a CPU is measured first, and a GPU has published
peaks."""


def add_parser(commands: Any) -> None:
    """Add this command to the ``cukde`` parser."""
    parser = commands.add_parser(
        "roofline",
        help="show what limits each operation on this machine, in a table and a picture",
        description=_DESCRIPTION,
    )
    parser.add_argument("--backend", choices=("cpu", "gpu"), help="default: the GPU if one works")
    parser.add_argument(
        "--only", metavar="OP", nargs="+", help="run only these operations, such as kde or functions.gelu"
    )
    output.add_picture_option(parser, _NAME)
    parser.add_argument("--no-plot", action="store_true", help="draw no picture")
    parser.add_argument("--json", metavar="FILE", type=Path, help="write the measured and modelled numbers")
    parser.add_argument("--explain", action="store_true", help="print the full explanation of each operation")
    seconds = number("a positive number of seconds", lambda value: value > 0)
    parser.add_argument(
        "--seconds", metavar="S", type=seconds, default=0.3, help="time for each operation; default: 0.3"
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    """Explain each operation, then show the table and the picture."""
    names = operations(args.only)
    picture = None if args.no_plot else output.picture_path(args.out, _NAME)
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
            part.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
        print(f"Numbers: {args.json}")


def operations(only: list[str] | None) -> list[str]:
    """Return the operations to run, each once."""
    from cukde.cli.workloads import WORKLOADS

    unknown = [name for name in only or () if name not in WORKLOADS]
    if unknown:
        raise CommandError(f"--only knows no {', '.join(unknown)}; the operations are {', '.join(WORKLOADS)}")
    return list(dict.fromkeys(WORKLOADS if only is None else only))


def explain_all(names: list[str], backend: Literal["cpu", "gpu"], seconds: float) -> dict[str, Explanation]:
    """Run and explain operations on a backend."""
    from cukde import perf
    from cukde.cli.workloads import WORKLOADS

    on = perf.peaks("cpu" if backend == "cpu" else None)
    explained = {}
    with progress.stages() as say:
        for number, name in enumerate(names, 1):
            say(f"{number} of {len(names)}: {name}")
            call = WORKLOADS[name].call(backend)
            explained[name] = perf.explain(call, on=on, seconds=seconds, calls=_CALLS[backend])
    return explained


def _backend(option: Literal["cpu", "gpu"] | None) -> Literal["cpu", "gpu"]:
    """Return the backend of an option, by default the GPU if one works."""
    if option == "cpu":
        return "cpu"
    from cukde.cli import info

    works, state = info.gpu()
    if option == "gpu" and not works:
        raise CommandError(f"--backend gpu needs a working GPU: {state}")
    return "gpu" if works else "cpu"
