"""The picture of a roofline: panels of numbered points under roofs of one kind, above the list of all points."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import EngFormatter, LogLocator, NullFormatter

from cukde.core.cost.cost import Unit
from cukde.perf import _text
from cukde.perf._roofline_points import RooflinePoint

_COLOURS = {
    "density": "#3b6fb6",
    "Kendall": "#d1662f",
    "piecewise": "#3a9a68",
    "convolution": "#8a5fb0",
    "other": "#7a7a7a",
}
_MARKS = {"density": "o", "Kendall": "s", "piecewise": "^", "convolution": "D", "other": "v"}
_DASHES = {"memory": "-", "cache": "--"}
_INK, _FAINT = "#222222", "#ececec"

# Units whose operations are of one kind, and stand in one panel.
_PANELS = {
    "Threads": ("fma", "float64", "instruction", "scalar", "shared"),
    "Tensor cores and library products": ("tensor_", "gemm_"),
    "Exponentials": ("exponential",),
}

# Inches.
_LEAST, _PANEL, _HEIGHT = 9.0, 6.2, 5.3  # of the figure, least; of a panel
_LEFT, _RIGHT, _ABOVE, _BELOW = 0.75, 1.9, 1.0, 0.65  # around the axes; names of roofs stand at the right
_LINE = 0.12  # of the list
_FONT = 7.2  # of the list, in points


def save(title: str, points: Sequence[tuple[int, RooflinePoint]], listed: Sequence[str], path: Path) -> None:
    """Draw points with their numbers, and the lines of the list, and write a PNG."""
    figure_of(title, points, listed).savefig(path, format="png")


def figure_of(title: str, points: Sequence[tuple[int, RooflinePoint]], listed: Sequence[str]) -> Figure:
    """Draw points with their numbers, and the lines of the list."""
    panels = {name: [each for each in points if each[1].unit.startswith(units)] for name, units in _PANELS.items()}
    panels = {name: those for name, those in panels.items() if those}
    width = max(_LEAST, _PANEL * len(panels))
    below = _LINE * (len(listed) + 2)
    height = below + (_HEIGHT if panels else 0.6)
    figure = Figure(figsize=(width, height), dpi=120, facecolor="white")
    figure.text(0.25 / width, 1 - 0.45 / height, title, fontsize=16, weight="bold", color=_INK)
    left = 0.0
    for name, those in panels.items():
        size = (width / len(panels) - _LEFT - _RIGHT, _HEIGHT - _ABOVE - _BELOW)
        place = ((left + _LEFT) / width, (below + _BELOW) / height, size[0] / width, size[1] / height)
        _panel(figure.add_axes(place), name, those)
        left += width / len(panels)
    figure.text(
        0.25 / width, (below - _LINE) / height, "\n".join(listed), va="top", family="monospace", fontsize=_FONT,
        linespacing=1.2, color=_INK,
    )  # fmt: skip
    return figure


def _panel(axes: Axes, title: str, points: Sequence[tuple[int, RooflinePoint]]) -> None:
    axes.set_xscale("log")
    axes.set_yscale("log")
    drawn = [point for _, point in points]
    ridges = [point.peak / point.bandwidth for point in drawn]
    right = max([*(2 * point.intensity for point in drawn if point.bytes), *(6 * ridge for ridge in ridges)])
    at = {number: (min(point.intensity, right / 1.5), point.rate) for number, point in points}  # at the edge: no bytes
    left = min([*(x / 2 for x, _ in at.values()), *(ridge / 10 for ridge in ridges)])
    highest = max([*(point.peak for point in drawn), *(point.rate for point in drawn)])
    lowest = min([highest / 30, *(point.rate / 2 for point in drawn)])
    axes.set_xlim(left, right)
    axes.set_ylim(lowest, 2 * highest)
    for slope, bandwidth in {point.slope: point.bandwidth for point in drawn}.items():
        axes.plot([left, highest / bandwidth], [left * bandwidth, highest], color=_INK, lw=1.3, ls=_DASHES[slope])
    peaks = {point.unit: point.peak for point in drawn}
    for unit, peak in peaks.items():
        start = min(point.peak / point.bandwidth for point in drawn if point.unit == unit)
        axes.plot([start, right], [peak, peak], color=_INK, lw=1.3)
    _names(axes, peaks)
    for number, point in points:
        (x, y), colour = at[number], _COLOURS[point.family]
        axes.plot([x, x], [y, point.roof], color=colour, lw=0.6, alpha=0.35)
        filled = "white" if point.study else colour
        axes.plot(x, y, _MARKS[point.family], ms=5.5, mfc=filled, mec=colour, zorder=3)
        axes.annotate(str(number), (x, y), (4, 3), textcoords="offset points", fontsize=7, color=colour, zorder=4)
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if 2 * highest < 200 * lowest else (1,)))
    axes.yaxis.set_major_formatter(EngFormatter())
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_minor_formatter(NullFormatter())
    axes.set_title(title, loc="left", fontsize=12.5, fontweight="bold", color=_INK)
    axes.grid(which="major", color=_FAINT, lw=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    noun = "exp" if title == "Exponentials" else "op"
    axes.set_xlabel(f"intensity, {noun}/B")
    axes.set_ylabel(f"{noun}/s")
    slopes = {f"{point.slope} {_text.si(point.bandwidth, 'B/s')}": _DASHES[point.slope] for point in drawn}
    families = dict.fromkeys((point.family, point.study) for point in drawn)
    key = [Line2D([], [], color=_INK, ls=dashes, label=name) for name, dashes in slopes.items()]
    key += [
        Line2D(
            [], [], ls="", marker=_MARKS[family], mec=_COLOURS[family], mfc="white" if study else _COLOURS[family],
            label=f"{family}, study" if study else family,
        )
        for family, study in families
    ]  # fmt: skip
    axes.legend(handles=key, fontsize=8, frameon=False)


def _names(axes: Axes, peaks: Mapping[Unit, float]) -> None:
    """Name the flat roofs right of the axes, names of near ones apart."""
    right = axes.get_xlim()[1]
    last = float("-inf")
    for unit, peak in sorted(peaks.items(), key=lambda item: item[1]):
        height = axes.transData.transform((right, peak))[1] * 72 / axes.figure.dpi
        last = max(height, last + 12)
        axes.annotate(
            f"{unit} {_text.si(peak, _text.noun(unit) + '/s')}", (right, peak), (8, last - height),
            textcoords="offset points", va="center", fontsize=8.5, color=_INK, annotation_clip=False,
        )  # fmt: skip
