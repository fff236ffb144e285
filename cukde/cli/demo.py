"""``cukde demo``: a map and the anomalies of real data, and the time beside scikit-learn's KernelDensity."""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from cukde.cli import device, output, progress
from cukde.cli.errors import CommandError
from cukde.core import aligned, dispatch
from cukde.core.cpu import meanwhile

_NAME = "cukde-demo.png"
SIDE = 180  # points of the map along each axis
CALLS = 3  # of cukde, after the first one; scikit-learn takes seconds for one
UNUSUAL = 4  # images of each digit
_AXES = 8  # principal axes, in which images are compared
_EMPTY = 1e-6  # of the peak density: the map counts as empty below

_NEXT = """\
The same for your rows:
  log_p = cukde.KernelDensity(bandwidth="select").fit(X).score_samples(Y)
  odd = cukde.OutlierDetector(contamination=0.01).fit_predict(X) < 0
Guide: https://cukde.readthedocs.io"""

_DESCRIPTION = """\
Map the density of 1,797 handwritten digits, find the most unusual ones, and show the time and the largest difference
beside scikit-learn's KernelDensity. This takes some 20 seconds."""


class Found(NamedTuple):
    """Rows of the images of a digit."""

    digit: int
    typical: int  # the highest density at the other images
    unusual: np.ndarray  # the lowest ones


def add_parser(commands: Any) -> None:
    """Add this command to the ``cukde`` parser."""
    parser = commands.add_parser(
        "demo",
        help="map real data and find their anomalies, with a picture and the time beside scikit-learn's",
        description=_DESCRIPTION,
    )
    output.add_picture_option(parser, _NAME)
    parser.add_argument("--gpu", action="store_true", help="measure the GPU as well; an error if none works")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> None:
    """Time both libraries on the map, find unusual images, and draw all."""
    picture = output.picture_path(args.out, _NAME)
    to_gpu = device.asarray(gpu=True) if args.gpu else None
    with progress.stages() as say:
        say("importing")  # here, so that the terminal says something during it
        from sklearn import decomposition, neighbors

        import cukde

        images, digits = _digits()
        scores = decomposition.PCA(_AXES, random_state=0).fit_transform(images)
        X = scores[:, :2]
        h = float(np.mean(cukde.bandwidth.silverman(X)))
        axes = np.linspace(X.min(axis=0) - h, X.max(axis=0) + h, SIDE).T
        Y = np.stack(np.meshgrid(*axes), axis=-1).reshape(-1, 2)

        def call(estimator: Any, move: Callable[[Any], Any]) -> Callable[[], np.ndarray]:
            return lambda: dispatch.to_host(estimator(bandwidth=h).fit(move(X)).score_samples(move(Y)))

        calls = {
            "scikit-learn": (1, call(neighbors.KernelDensity, np.asarray)),
            "cukde": (CALLS, call(cukde.KernelDensity, np.asarray)),
        }
        if to_gpu is not None:
            calls["cukde, GPU with copies"] = (CALLS, call(cukde.KernelDensity, to_gpu))
        seconds, results = _timed(calls, say)
        say("unusual images")
        found = unusual(scores, digits)
    print(
        f"A map of {len(X):,} handwritten digits, the log density at {len(Y):,} points of 2 principal axes:\n"
        f"KernelDensity(bandwidth={h:.2f}).fit(X).score_samples(Y)\n"
    )
    _print_times(seconds)
    print(f"\n{equality(*results.values())}\n")
    _print_found(found)
    if picture is not None:
        _draw(images, X, results["cukde"].reshape(SIDE, SIDE), axes, found, seconds, picture)
        print(f"\nPicture: {picture}")
    print(f"\n{_NEXT}")


def _digits() -> tuple[np.ndarray, np.ndarray]:
    """Return images as rows of 64 pixels, and which digit each is."""
    from sklearn.datasets import load_digits

    try:
        images, digits = load_digits(return_X_y=True)
    except OSError as error:
        raise CommandError(f"cannot read the digits that scikit-learn brings: {error}") from None
    return images, digits


def _timed(
    calls: dict[str, tuple[int, Callable[[], np.ndarray]]], say: Callable[[str], None]
) -> tuple[dict[str, list[float]], dict[str, np.ndarray]]:
    """Time each call as often as it says; where that is several times, after a first call, which compiles."""
    seconds: dict[str, list[float]] = {}
    results = {}
    for name, (times, call) in calls.items():
        if times > 1:
            say(f"compiling, if this is the first run: {name}")
            with meanwhile.within(meanwhile.WAITING):  # all code that the call needs, before it is timed
                call()
        seconds[name] = []
        for turn in range(times):
            say(f"call {turn + 1} of {times}: {name}")
            start = time.perf_counter()
            results[name] = call()
            seconds[name].append(time.perf_counter() - start)
    return seconds, results


def _print_times(seconds: dict[str, list[float]]) -> None:
    rows: list[tuple[str, ...]] = [("", "seconds", "times as fast", "calls")]
    first = statistics.median(next(iter(seconds.values())))
    for name, those in seconds.items():
        median = statistics.median(those)
        rows.append(
            (name, f"{median:.3g}", f"{first / median:.0f}", "1" if len(those) == 1 else f"median of {len(those)}")
        )
    print(*aligned.lines(rows, range(1, 4)), sep="\n")


def _print_found(found: list[Found]) -> None:
    first = [("digit", "row")] + [(f"{each.digit}", f"{each.unusual[0]}") for each in found]
    print("The most unusual image of each digit, by OutlierDetector().fit(images of the digit):")
    print(*aligned.lines(list(zip(*first, strict=True)), range(1, len(first))), sep="\n")


def equality(peer: np.ndarray, *ours: np.ndarray) -> str:
    """Say how far log densities are from scikit-learn's."""
    differences = np.abs(np.subtract(ours, peer)).max(axis=0)
    filled = peer > peer.max() + np.log(_EMPTY)
    return (
        f"Where the density is above {_EMPTY:.0e} of its peak ({filled.mean():.0%} of the points), the log densities\n"
        f"differ by at most {differences[filled].max():.0e}; at the other points by up to {differences.max():.0e}."
    )


def unusual(scores: np.ndarray, digits: np.ndarray) -> list[Found]:
    """Compare the images of each digit by the density at the others of that digit."""
    import cukde

    found = []
    for digit in np.unique(digits):
        rows = np.flatnonzero(digits == digit)
        log_density = cukde.OutlierDetector().fit(scores[rows]).score_samples(scores[rows])
        order = rows[np.argsort(log_density)]
        found.append(Found(int(digit), int(order[-1]), order[:UNUSUAL]))
    return found


def _draw(
    images: np.ndarray,
    X: np.ndarray,
    log_density: np.ndarray,
    axes: np.ndarray,
    found: list[Found],
    seconds: dict[str, list[float]],
    path: Path,
) -> None:
    """Draw the map with a typical image of each digit, the unusual images, and the times."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 6.4), layout="constrained")
    parts: Any = figure.subfigures(1, 2, width_ratios=(1.25, 1))
    map_, right = parts
    upper, lower = right.subplots(2, 1, height_ratios=(1, 3))
    _map(map_.subplots(), images, X, log_density, axes, found)
    _times(upper, seconds)
    _images(lower, images, found)
    output.save_figure(figure, path)


def _map(
    plot: Any, images: np.ndarray, X: np.ndarray, log_density: np.ndarray, axes: np.ndarray, found: list[Found]
) -> None:
    from matplotlib.offsetbox import AnnotationBbox, OffsetImage

    plot.imshow(
        np.exp(log_density), origin="lower", extent=[*axes[0, [0, -1]], *axes[1, [0, -1]]], cmap="magma", aspect="auto"
    )
    for each in found:
        thumbnail = OffsetImage(images[each.typical].reshape(8, 8), cmap="gray_r", zoom=2.4)
        plot.add_artist(AnnotationBbox(thumbnail, X[each.typical], pad=0.1))
    plot.set_title(f"density of {len(X):,} handwritten digits on 2 principal axes")
    plot.set_axis_off()


def _images(plot: Any, images: np.ndarray, found: list[Found]) -> None:
    """Draw a column for each digit, with space below the typical image."""
    rows = [np.hstack([_framed(images[each.typical]) for each in found])]
    rows.append(np.zeros((3, rows[0].shape[1])))
    rows += [np.hstack([_framed(images[each.unusual[k]]) for each in found]) for k in range(UNUSUAL)]
    plot.imshow(np.vstack(rows), cmap="gray_r")
    plot.set_yticks([4.5, 33], ["typical", "unusual"], rotation=90, va="center")
    plot.tick_params(left=False)
    plot.set_xticks([])
    for side in plot.spines.values():
        side.set_visible(False)
    plot.set_title("OutlierDetector: the most unusual images of each digit")


def _framed(image: np.ndarray) -> np.ndarray:
    return np.pad(image.reshape(8, 8), 1)


def _times(plot: Any, seconds: dict[str, list[float]]) -> None:
    medians = {name: statistics.median(those) for name, those in seconds.items()}
    bars = plot.barh(list(medians), list(medians.values()), color=["#0072b2", *["#d55e00"] * (len(medians) - 1)])
    plot.bar_label(bars, [f"{value:.2g} s" for value in medians.values()], padding=4)
    plot.invert_yaxis()
    plot.margins(x=0.15)
    plot.set_xticks([])
    for side in ("top", "right", "bottom"):
        plot.spines[side].set_visible(False)
    first, ours = list(medians.values())[:2]
    plot.set_title(f"KernelDensity: the same map, {first / ours:.0f} times as fast")
