"""The demo in one picture: the map, the time of its calls, how far their results are apart, and the methods."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from cukde.cli.demo_map import EMPTY, Map
from cukde.cli.demo_methods import METHODS, Comparison
from cukde.cli.demo_report import speed
from cukde.cli.output import save_figure

_PEER, _OURS, _OTHER = "#8a8a8a", "#3b6fb6", "#d1662f"
_INK, _NOTE = "#222222", "#666666"
_TICKS = (-10, -1, -0.1, -0.01, 0, 0.01, 0.1, 1, 10)
_IMAGE = 0.04  # width of an image on the map, as a share of its own


def save(measured: Map, comparisons: Sequence[Comparison], path: Path) -> None:
    """Draw the results and write a PNG."""
    figure = Figure(figsize=(13, 8), facecolor="white")
    panels: dict[str, Any] = figure.subplot_mosaic(
        [["map", "time"], ["map", "difference"], ["map", "methods"]],
        width_ratios=[1.6, 1],
        height_ratios=[0.6, 1, 1],
        gridspec_kw={"left": 0.055, "right": 0.975, "top": 0.91, "bottom": 0.075, "hspace": 0.7, "wspace": 0.35},
    )
    _map(panels["map"], measured)
    _time(panels["time"], measured)
    _difference(panels["difference"], measured)
    _methods(panels["methods"], comparisons)
    save_figure(figure, path)


def _title(axes: Axes, text: str, note: str) -> None:
    axes.set_title(text, loc="left", fontsize=13, fontweight="bold", color=_INK, pad=24)
    axes.annotate(note, (0, 1), (0, 6), "axes fraction", "offset points", fontsize=10, color=_NOTE)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color("#bbbbbb")
    axes.tick_params(colors="#555555", length=0, labelsize=10)


def _map(axes: Axes, measured: Map) -> None:
    """Draw the density in colours and some digits where they lie."""
    (left, bottom), (right, top) = measured.Y[0], measured.Y[-1]
    extent = (left, right, bottom, top)
    density = np.exp(measured.ours[0].log_density).reshape(math.isqrt(len(measured.Y)), -1)
    axes.imshow(density, origin="lower", extent=extent, cmap="Blues", interpolation="bilinear")
    half = _IMAGE * (right - left) / 2
    shown: list[np.ndarray] = []
    for image, place in zip(measured.images.reshape(-1, 8, 8), measured.X, strict=True):
        if all(np.hypot(*(place - other)) > 2.2 * half for other in shown):
            shown.append(place)
            ink = np.zeros((8, 8, 4))
            ink[..., 3] = image / image.max()
            x, y = place
            axes.imshow(ink, extent=(x - half, x + half, y - half, y + half), interpolation="nearest", zorder=2)
    axes.set_anchor("N")
    axes.set_xlim(extent[:2])
    axes.set_ylim(extent[2:])
    _title(
        axes, "A density of handwritten digits",
        f"{len(measured.X):,} images of 64 pixels on their 2 principal axes, some of them shown; darker: denser",
    )  # fmt: skip
    axes.set_xlabel("first principal axis", color="#555555")
    axes.set_ylabel("second principal axis", color="#555555")


def _time(axes: Axes, measured: Map) -> None:
    """Draw median seconds as bars, with the range of the calls."""
    timed = [measured.peer, *measured.ours]
    for row, each in enumerate(timed):
        seconds = statistics.median(each.seconds)
        axes.barh(row, seconds, height=0.6, color=_OURS if row else _PEER)
        axes.plot([min(each.seconds), max(each.seconds)], [row, row], color=_INK, lw=1.2)
        text = f"{seconds:.3g} s" + (f": {speed(measured, each):.0f} times as fast" if row else "")
        axes.annotate(text, (max(each.seconds), row), (6, 0), textcoords="offset points", va="center", color=_INK)
    axes.set_xlim(0, 1.3 * max(measured.peer.seconds))
    axes.set_ylim(len(timed) - 0.5, -0.5)
    axes.set_yticks(range(len(timed)), [each.name for each in timed])
    calls = len(measured.peer.seconds)
    _title(axes, "Time of this map", f"seconds for {len(measured.Y):,} points; median and range of {calls} calls")


def _difference(axes: Axes, measured: Map) -> None:
    """Draw every point of the map by its density and the difference of the two results."""
    difference = np.maximum(measured.differences, 1e-16)  # 0 has no place on the axis
    share = np.exp(measured.peer.log_density - measured.peer.log_density.max())
    axes.plot(share, difference, ".", ms=2, alpha=0.15, color=_OURS, rasterized=True, mew=0)
    axes.axvline(EMPTY, color=_NOTE, lw=1, ls=":")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_ylabel("difference", color="#555555")
    axes.set_xlabel(f"density, share of its peak (dotted: {EMPTY:.0e})", color="#555555")
    _title(axes, "The same answer", "log densities by cukde and scikit-learn, at each point")


def _methods(axes: Axes, comparisons: Sequence[Comparison]) -> None:
    """Draw the leads over KDE with two standard errors."""
    for place, (comparison, colour) in enumerate(zip(comparisons, (_OURS, _OTHER), strict=False)):
        rows = np.arange(1, len(METHODS)) + 0.3 * place - 0.15
        leads, errors = np.transpose([comparison.lead(method) for method in METHODS[1:]])
        axes.errorbar(
            leads, rows, xerr=2 * errors, fmt="o", ms=5, capsize=3, color=colour,
            label=f"on {comparison.dimensions} axes",
        )  # fmt: skip
    axes.axvline(0, color=_NOTE, lw=1)
    axes.set_xscale("symlog", linthresh=0.01)
    axes.margins(x=0.1)
    axes.set_xticks([tick for tick in _TICKS if axes.get_xlim()[0] <= tick <= axes.get_xlim()[1]])
    axes.xaxis.set_major_formatter("{x:g}")
    axes.set_ylim(len(METHODS) - 0.5, 0.5)
    axes.set_yticks(range(1, len(METHODS)), METHODS[1:])
    axes.set_xlabel("lead over kde, nats a digit", color="#555555")
    axes.legend(frameon=False, loc="upper left")
    _title(axes, "Methods against kde", "log density of held-out digits, with two standard errors")
