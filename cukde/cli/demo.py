"""``cukde demo``: speed and equality with scikit-learn's KernelDensity on real data, and a picture of the density."""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from cukde.cli import device, output, progress
from cukde.cli.errors import CommandError
from cukde.core import aligned, dispatch

_NAME = "cukde-demo.png"
SIDE = 180  # points of the map along each axis
CALLS = 3
_EMPTY = 1e-6  # of the peak density: the map counts as empty below

_DESCRIPTION = """\
Estimate a density of handwritten digits with scikit-learn's KernelDensity and with cukde's, and show the times and the
largest difference. This takes some 15 seconds the first time, which compiles, and fewer later."""


def add_parser(commands: Any) -> None:
    """Add this command to the ``cukde`` parser."""
    parser = commands.add_parser(
        "demo",
        help="compare speed and results with scikit-learn's on real data, with a picture",
        description=_DESCRIPTION,
    )
    output.add_picture_option(parser, _NAME)
    parser.add_argument("--gpu", action="store_true", help="measure the GPU as well; an error if none works")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    """Time both libraries, print how far their results are apart, and draw the density."""
    picture = output.picture_path(args.out, _NAME)
    to_gpu = device.asarray(gpu=True) if args.gpu else None
    with progress.stages() as say:
        say("importing")  # here, so that the terminal says something during it
        from sklearn import decomposition, neighbors

        import cukde

        X = decomposition.PCA(2, random_state=0).fit_transform(_digits())
        h = float(np.mean(cukde.bandwidth.silverman(X)))
        axes = np.linspace(X.min(axis=0), X.max(axis=0), SIDE).T
        Y = np.stack(np.meshgrid(*axes), axis=-1).reshape(-1, 2)

        def call(estimator: Any, move: Callable[[Any], Any]) -> Callable[[], np.ndarray]:
            return lambda: dispatch.to_host(estimator(bandwidth=h).fit(move(X)).score_samples(move(Y)))

        calls = {
            "scikit-learn": call(neighbors.KernelDensity, np.asarray),
            "cukde": call(cukde.KernelDensity, np.asarray),
        }
        if to_gpu is not None:
            calls["cukde, GPU with copies"] = call(cukde.KernelDensity, to_gpu)
        seconds, results = _in_turn(calls, say)
    print(
        f"Log density of {len(X):,} handwritten digits on 2 principal axes, at {len(Y):,} points:\n"
        f"KernelDensity(bandwidth={h:.2f}).fit(X).score_samples(Y), {CALLS} times each\n"
    )
    _print_times(seconds)
    print(f"\n{equality(*results.values())}")
    if picture is not None:
        _draw(X, results["cukde"].reshape(SIDE, SIDE), axes, picture)
        print(f"Picture: {picture}")


def _digits() -> np.ndarray:
    """Return images as rows of 64 pixels."""
    from sklearn.datasets import load_digits

    try:
        images: np.ndarray = load_digits(return_X_y=True)[0]
    except OSError as error:
        raise CommandError(f"cannot read the digits that scikit-learn brings: {error}") from None
    return images


def _in_turn(
    calls: dict[str, Callable[[], np.ndarray]], say: Callable[[str], None]
) -> tuple[dict[str, list[float]], dict[str, np.ndarray]]:
    """Time each call some times, in turns, so that a busy machine slows all alike; the first turn compiles."""
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    results = {}
    for turn in range(CALLS + 1):
        for name, call in calls.items():
            say(f"call {turn} of {CALLS}: {name}" if turn else f"compiling: {name}")
            start = time.perf_counter()
            results[name] = call()
            seconds[name] += [time.perf_counter() - start] * (turn > 0)
    return seconds, results


def _print_times(seconds: dict[str, list[float]]) -> None:
    rows: list[tuple[str, ...]] = [("", "median seconds", "lowest", "highest", "times as fast")]
    first = statistics.median(next(iter(seconds.values())))
    for name, those in seconds.items():
        times = (statistics.median(those), min(those), max(those))
        rows.append((name, *(f"{value:.3g}" for value in times), f"{first / times[0]:.0f}"))
    print(*aligned.lines(rows, range(1, 5)), sep="\n")


def equality(peer: np.ndarray, *ours: np.ndarray) -> str:
    """Say how far log densities are from scikit-learn's."""
    differences = np.abs(np.subtract(ours, peer)).max(axis=0)
    filled = peer > peer.max() + np.log(_EMPTY)
    return (
        f"Where the density is above {_EMPTY:.0e} of its peak ({filled.mean():.0%} of the points), the log densities\n"
        f"differ by at most {differences[filled].max():.0e}; at the other points by up to {differences.max():.0e}."
    )


def _draw(X: np.ndarray, log_density: np.ndarray, axes: np.ndarray, path: Path) -> None:
    """Draw the density in colours, and the digits as points."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 8), layout="constrained")
    plot = figure.subplots()
    plot.pcolormesh(*axes, np.exp(log_density), cmap="Blues", rasterized=True)
    plot.plot(*X.T, ".", ms=2, color="#d1662f")
    plot.set_title(f"{len(X):,} handwritten digits on their 2 principal axes, and their density")
    output.save_figure(figure, path)
