"""``cukde demo``: speed and equality with scikit-learn on real data, the methods compared, and a picture of both."""

from __future__ import annotations

import argparse
from typing import Any

from cukde.cli import device, output, progress
from cukde.cli.errors import CommandError

_NAME = "cukde-demo.png"

_DESCRIPTION = """\
Estimate a density of handwritten digits with scikit-learn's KernelDensity and with cukde's, and show the times and the
largest difference. Then compare the methods of cukde by the log density of held-out digits. This takes about 20
seconds the first time, which compiles, and 10 seconds later."""


def add_parser(commands: Any) -> None:
    """Add this command to the ``cukde`` parser."""
    parser = commands.add_parser(
        "demo",
        help="compare speed and results with scikit-learn's on real data, with a picture",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    output.add_picture_option(parser, _NAME)
    parser.add_argument(
        "--random-state",
        "--seed",
        metavar="N",
        type=_seed,
        default=0,
        help="seed that chooses held-out rows; default: 0",
    )
    parser.add_argument("--gpu", action="store_true", help="measure the GPU as well; an error if none works")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    """Measure and print the map, then the methods, then draw both.

    Imports are here so that the terminal says something during them.
    """
    picture = output.picture_path(args.out, _NAME)
    to_gpu = device.asarray(gpu=True) if args.gpu else None

    with progress.stages() as say:
        say("importing")
        from cukde.cli import demo_map, demo_methods, demo_report

        images, labels = _digits()
        measured = demo_map.measure(images, to_gpu, say)
    demo_report.show_map(measured)
    with progress.stages() as say:
        comparisons = [
            demo_methods.compare(images, labels, dimensions, args.random_state, say)
            for dimensions in demo_methods.DIMENSIONS
        ]
    demo_report.show_methods(comparisons)
    if picture is not None:
        from cukde.cli import demo_figure

        demo_figure.save(measured, comparisons, picture)
        print(f"Picture: {picture}")


def _digits() -> tuple[Any, Any]:
    """Return images as rows of 64 pixels, and what digits they are."""
    from sklearn.datasets import load_digits

    try:
        images, labels = load_digits(return_X_y=True)
    except OSError as error:
        raise CommandError(f"cannot read the digits that scikit-learn brings: {error}") from None
    return images, labels


def _seed(text: str) -> int:
    if not text.isdecimal() or int(text) >= 2**32:
        raise argparse.ArgumentTypeError(f"expected a whole number from 0 to {2**32 - 1}; got {text!r}")
    return int(text)
