"""``cukde demo``: the three densities and scikit-learn's on real data, in tables and a picture."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from cukde.cli import output, progress

if TYPE_CHECKING:
    from cukde.cli.demo_task import Outcome, Task

_NAME = "cukde-demo.png"

_DESCRIPTION = """\
Compare KDE, SD-KDE and the Laplace-corrected KDE with scikit-learn's KernelDensity on handwritten digits:
log-likelihood of held-out rows, detection of a digit that was left out, and time. Takes about 20 seconds."""


def add_parser(commands: Any) -> None:
    """Add this command to the ``cukde`` parser."""
    parser = commands.add_parser(
        "demo",
        help="compare the densities on real data, with a table and a picture",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    output.add_picture_option(parser, _NAME)
    parser.add_argument(
        "--random-state", "--seed", metavar="N", type=_seed, default=0, help="of the splits; default: 0"
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    """Run all methods on all tasks, then show the tables, the verdicts and the picture."""
    picture = output.picture_path(args.out, _NAME)

    from cukde.cli import info

    gpu_works, gpu_state = info.gpu()
    with progress.stages() as say:
        tasks, outcomes = measure(args.random_state, say, with_gpu=gpu_works)

    from cukde.cli import demo_report

    demo_report.show(outcomes)
    notes = [] if gpu_works else [f"GPU not measured: {gpu_state}."]
    if picture is not None:
        from cukde.cli import demo_figure

        demo_figure.save(tasks[0], outcomes, picture)
        notes.append(f"Picture: {picture}")
    for note in notes:
        print(f"* {note}")


def measure(seed: int, say: Callable[[str], None], *, with_gpu: bool) -> tuple[list[Task], list[Outcome]]:
    """Run every method on every task; imports are here so that the terminal says something during them."""
    say("preparing digits")
    from cukde.cli import demo_task

    tasks = demo_task.prepare_all(seed)
    on_gpu = demo_task.gpu_methods() if with_gpu else []
    methods = [*demo_task.cpu_methods(), *on_gpu, demo_task.scikit_learn()]
    outcomes = [demo_task.Outcome(method) for method in methods]
    say("compiling")
    for method in methods:
        method.density(*tasks[0].rows)  # not timed
    for number, task in enumerate(tasks, 1):
        for outcome in outcomes:  # in turn, so that a busy machine slows all of them alike
            say(f"task {number} of {len(tasks)}: {outcome.method.label}")
            demo_task.run(outcome.method, task, outcome)
    return tasks, outcomes


def _seed(text: str) -> int:
    if not text.isdecimal() or int(text) >= 2**32:
        raise argparse.ArgumentTypeError(f"expected a whole number from 0 to {2**32 - 1}; got {text!r}")
    return int(text)
