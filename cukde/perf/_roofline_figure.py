"""The picture of a roofline: panels of points under roofs of one kind, and the list of all points below them."""

from __future__ import annotations

import dataclasses
import math
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle
from matplotlib.ticker import EngFormatter, LogLocator, NullFormatter
from PIL import Image

from cukde.core.cost.cost import Unit
from cukde.core.cost.peaks import Peaks
from cukde.perf import _roofline_list, _text
from cukde.perf._roofline_points import RooflinePoint

Numbered = tuple[int, RooflinePoint]
_Panel = tuple[str, list[Numbered]]

_COLOURS = {
    "density": "#3b6fb6",
    "Kendall": "#d1662f",
    "piecewise": "#3a9a68",
    "convolution": "#8a5fb0",
    "other": "#7a7a7a",
}
_MARKS = {"density": "o", "Kendall": "s", "piecewise": "^", "convolution": "D", "other": "v"}
_TINTS = (0.12, 0.4)  # of a bar's rest, and of the bar
_DASHES = {"memory": "-", "cache": "--"}
_NOTE_OF_ALL = (
    "Operations of the unit that binds (of the unit that computes the longest, where memory or the cache binds) by the "
    "second and by the byte; a thin line leads to the point's own roof. Numbers are those of the list, written where "
    "there is room; what computes nothing stands in the list alone. A bar there is as long as the percent of the roof."
)
_INK, _NOTE, _EDGE, _FAINT = "#222222", "#666666", "#bbbbbb", "#ececec"

# Units whose operations are of one kind, and stand in one panel.
_PANELS = {
    "Threads": ("fma", "float64", "instruction", "scalar", "shared"),
    "Tensor cores and library products": ("tensor_", "gemm_"),
    "Exponentials": ("exponential",),
}
_MANY = 30  # points from which a panel is divided
_FEW = 6  # points from which a part becomes a panel

# Inches.
_WIDTHS = (10.0, 14.0, 18.0)  # of a figure, by the number of panels side by side
_PANEL = 5.3  # height, with its title and its axis
_LEFT, _RIGHT, _ABOVE, _BELOW = 0.75, 1.85, 0.45, 0.62  # around the axes; names of roofs stand at the right
_MARGIN = 0.25

# Points.
_NUMBER = 7.0  # of the numbers' font
_ROOF = 8.5  # of the roofs' names
_LISTED = (6.6, 9.0)  # of the list's font, least and most
_DPI = 120

_WIDTH_OF_FONT = 0.602  # of a character of the monospaced font, in its size
_BEFORE, _NUMBERS, _AFTER = 4, 30, 3  # characters of a column beside the sizes: the row's number; time to percent; gap
_WORDS = (110, 75, 56)  # most characters of a row's sizes in a list of one, two, three columns
_COLUMN = 14  # lines from which there is another column
_BLOCK = 24  # rows of an operation that stand together


def save(on: Peaks, points: Sequence[RooflinePoint], path: Path) -> None:
    """Draw the points and write a PNG."""
    with rc_context({"text.hinting": "no_hinting"}):  # without hints, which make characters wider than columns assume
        _write(figure_of(on, points), path)


def figure_of(on: Peaks, points: Sequence[RooflinePoint]) -> Figure:
    """Draw the points."""
    groups = _roofline_list.groups(points)
    panels = _panels([(number, point) for group in groups for number, _, point in group.rows])
    rows = _rows(list(panels.items()))
    width = _WIDTHS[max(map(len, rows), default=1) - 1]
    listing = _Listing.of(groups, width - 2 * _MARGIN)
    notes = textwrap.wrap(_NOTE_OF_ALL, int(12.7 * (width - 2 * _MARGIN)))
    top, key = 0.6 + 0.19 * len(notes), 0.45
    height = top + _PANEL * len(rows) + key + listing.height + _MARGIN
    figure = Figure(figsize=(width, height), dpi=_DPI, facecolor="white")
    at = _MARGIN / width
    figure.text(at, 1 - 0.45 / height, f"Roofline of {on.name}", fontsize=18, weight="bold", color=_INK)
    figure.text(at, 1 - 0.56 / height, "\n".join(notes), va="top", fontsize=9.5, linespacing=1.25, color=_NOTE)
    for i, row in enumerate(rows, 1):
        cell = width / len(row)
        for j, (title, numbered) in enumerate(row):
            left, bottom = cell * j + _LEFT, height - top - _PANEL * i + _BELOW
            size = (cell - _LEFT - _RIGHT, _PANEL - _ABOVE - _BELOW)
            axes = figure.add_axes((left / width, bottom / height, size[0] / width, size[1] / height))
            _panel(axes, title, numbered)
    _key(figure, points, (listing.height + _MARGIN + key / 2) / height)
    listing.draw(figure, listing.height + _MARGIN)
    return figure


def _rows(panels: list[_Panel]) -> list[list[_Panel]]:
    """Rows of at most three panels, the wider ones first."""
    count = math.ceil(len(panels) / 3)
    ends = [len(panels) * (row + 1) // count for row in range(count)]
    return [panels[start:end] for start, end in zip([0, *ends], ends, strict=False)]


def _panels(points: Sequence[Numbered]) -> dict[str, list[Numbered]]:
    """Points by the kind of the unit; many of them by library and study, and by whether memory binds."""
    panels: dict[str, list[Numbered]] = {}
    for title, units in _PANELS.items():
        alike = [(number, point) for number, point in points if point.unit.startswith(units)]
        halves = _divided({title: alike}, lambda point: point.study, ("library", "study"))
        by_memory = ("not memory-bound", "memory-bound")
        panels |= _divided(halves, lambda point: point.binds in ("memory", "cache"), by_memory)
    return {title: numbered for title, numbered in panels.items() if numbered}


def _divided(
    panels: Mapping[str, list[Numbered]], by: Callable[[RooflinePoint], bool], names: tuple[str, str]
) -> dict[str, list[Numbered]]:
    """Divide full panels where neither part has few points."""
    divided: dict[str, list[Numbered]] = {}
    for title, numbered in panels.items():
        parts = [[(number, point) for number, point in numbered if by(point) == side] for side in (False, True)]
        if len(numbered) > _MANY and min(map(len, parts)) >= _FEW:
            joined = ", " if ":" in title else ": "
            divided |= {f"{title}{joined}{name}": part for name, part in zip(names, parts, strict=True)}
        else:
            divided[title] = numbered
    return divided


def _panel(axes: Axes, title: str, points: Sequence[Numbered]) -> None:
    axes.set_xscale("log")
    axes.set_yscale("log")
    drawn = [point for _, point in points]
    ridges = [point.peak / point.bandwidth for point in drawn]
    peaks = {point.unit: point.peak for point in drawn}
    bandwidths = {point.slope: point.bandwidth for point in drawn}
    right = max([*(point.intensity * 2 for point in drawn if point.bytes), *(ridge * 6 for ridge in ridges)])
    at = {number: (min(point.intensity, right / 1.5), point.rate) for number, point in points}  # at the edge: no bytes
    # The slope, with its name along it, has at least a decade of the width, and a quarter.
    left = min([*(x / 2 for x, _ in at.values()), *(min(r / 10, r * (r / right) ** (1 / 3)) for r in ridges)])
    axes.set_xlim(left, right)
    highest = max([*peaks.values(), *(point.rate for point in drawn)])
    axes.set_ylim(min([highest / 30, *(point.rate / 2 for point in drawn)]), highest * 2)
    for unit, peak in peaks.items():
        start = min(peak / point.bandwidth for point in drawn if point.unit == unit)
        axes.plot([start, right], [peak, peak], color=_INK, lw=1.3, zorder=1)
    _names(axes, peaks)
    taken = _slopes(axes, bandwidths, max(peaks.values()))
    for number, point in points:
        colour, (x, y), mark = _COLOURS[point.family], at[number], _MARKS[point.family]
        axes.plot([x, x], [y, point.roof], color=colour, lw=0.6, alpha=0.35, zorder=2)
        axes.plot(
            x, y, mark, ms=6.2 if mark in "^v" else 5.2, mfc="white" if point.study else colour,
            mec=colour if point.study else "white", mew=1.2 if point.study else 0.5, zorder=3,
        )  # fmt: skip
    colours = {number: _COLOURS[point.family] for number, point in points}
    _numbers(axes, at, colours, [*taken, *_flat(axes, peaks.values())])
    few = axes.get_ylim()[1] / axes.get_ylim()[0] < 200
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if few else (1,)))
    axes.yaxis.set_major_formatter(EngFormatter())
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_minor_formatter(NullFormatter())
    axes.set_title(title, loc="left", fontsize=12.5, fontweight="bold", color=_INK)
    axes.grid(which="major", color=_FAINT, lw=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(which="both", colors="#555555", length=0, labelsize=9)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(_EDGE)
    noun = "exp" if title.startswith("Exponentials") else "op"
    axes.set_xlabel(f"intensity, {noun}/B", color="#555555")
    axes.set_ylabel(f"{noun}/s", color="#555555")


def _names(axes: Axes, peaks: Mapping[Unit, float]) -> None:
    """Name the flat roofs right of the axes, where no points are, and move names of near roofs apart."""
    right = axes.get_xlim()[1]
    step = 1.35 * _ROOF
    ordered = sorted(peaks.items(), key=lambda item: item[1])
    heights = [_place(axes, right, peak)[1] for _, peak in ordered]
    names = _apart(heights, step)
    for (unit, peak), height, name in zip(ordered, heights, names, strict=True):
        axes.annotate(
            f"{unit} {_text.si(peak, _text.noun(unit) + '/s')}", (right, peak), (14, name - height),
            textcoords="offset points", ha="left", va="center", fontsize=_ROOF, color=_INK, annotation_clip=False,
            arrowprops={"arrowstyle": "-", "lw": 0.6, "color": _EDGE, "shrinkA": 1, "shrinkB": 1},
        )  # fmt: skip


def _apart(heights: Sequence[float], step: float) -> list[float]:
    """Move ascending heights as little as puts ``step`` between them; those that touch stay around their mean."""
    runs: list[list[float]] = []
    for height in heights:
        runs.append([height])
        while len(runs) > 1 and _centre(runs[-1]) - _centre(runs[-2]) < step * (len(runs[-1]) + len(runs[-2])) / 2:
            runs[-2:] = [runs[-2] + runs[-1]]
    return [_centre(run) + step * (i - (len(run) - 1) / 2) for run in runs for i in range(len(run))]


def _centre(run: Sequence[float]) -> float:
    return sum(run) / len(run)


def _slopes(axes: Axes, bandwidths: Mapping[Unit, float], highest: float) -> list[tuple[float, ...]]:
    """Draw the roofs of bandwidths up to the highest peak, with names along the upper one; return the covered boxes."""
    low, bottom = axes.get_xlim()[0], axes.get_ylim()[0]
    taken: list[tuple[float, ...]] = []
    ordered = sorted(bandwidths.items(), key=lambda item: item[1])
    for slope, bandwidth in ordered:
        start, end = max(low, bottom / bandwidth), highest / bandwidth
        axes.plot([start, end], [start * bandwidth, highest], color=_INK, lw=1.3, ls=_DASHES[slope], zorder=1)
        (x0, y0), (x1, y1) = _place(axes, start, start * bandwidth), _place(axes, end, highest)
        steps = np.linspace(0, 1, max(2, round(math.hypot(x1 - x0, y1 - y0) / 3)))
        taken += [_box(x0 + t * (x1 - x0), y0 + t * (y1 - y0), 0.8, 0.8) for t in steps]
    angle = math.atan2(y1 - y0, x1 - x0)  # of the upper one, which comes last
    styles = {"-": " (solid)", "--": " (dashed)"} if len(bandwidths) > 1 else {"-": "", "--": ""}
    names = [f"{slope} {_text.si(bandwidth, 'B/s')}{styles[_DASHES[slope]]}" for slope, bandwidth in ordered]
    long, half = 0.56 * _ROOF * max(map(len, names)), 0.65 * _ROOF * len(names)
    across = half + 3  # from the slope to the middle of the names
    # They stand in the middle of the slope, or higher where they would cover the axis.
    clear = (_place(axes, low, bottom)[0] - x0 + 4 + (across + half) * math.sin(angle)) / math.cos(angle)
    up = max(math.hypot(x1 - x0, y1 - y0) / 2, long / 2 + clear)
    x = x0 + up * math.cos(angle) - across * math.sin(angle)
    y = y0 + up * math.sin(angle) + across * math.cos(angle)
    axes.annotate(
        "\n".join(names), (x, y), xycoords="figure points", ha="center", va="center", rotation=math.degrees(angle),
        rotation_mode="anchor", fontsize=_ROOF, linespacing=1.1, color=_INK,
    )  # fmt: skip
    along = np.linspace(-0.5, 0.5, 30) * long
    return taken + [_box(x + t * math.cos(angle), y + t * math.sin(angle), half, half) for t in along]


def _flat(axes: Axes, peaks: Iterable[float]) -> list[tuple[float, ...]]:
    """Boxes of the flat roofs."""
    low, high = axes.get_xlim()
    ends = ((_place(axes, low, peak), _place(axes, high, peak)) for peak in peaks)
    return [(x0, y - 0.8, x1, y + 0.8) for (x0, y), (x1, _) in ends]


def _place(axes: Axes, x: float, y: float) -> tuple[float, float]:
    """The place of a point, in points of print from the corner of the figure."""
    right, up = axes.transData.transform((x, y)) * 72 / axes.figure.dpi
    return float(right), float(up)


def _box(x: float, y: float, wide: float, high: float) -> tuple[float, ...]:
    """A box with these half widths: left, low, right, top."""
    return x - wide, y - high, x + wide, y + high


def _numbers(
    axes: Axes,
    places: Mapping[int, tuple[float, float]],
    colours: Mapping[int, str],
    lines: Sequence[tuple[float, ...]],
) -> None:
    """Write the number of each point where it touches no number, mark or roof, if there is such a place."""
    at = {number: _place(axes, *place) for number, place in places.items()}
    marks = np.array([_box(x, y, 3, 3) for x, y in at.values()])
    centres = np.array(list(at.values()))
    taken = np.vstack([marks, *([np.array(lines)] if lines else [])])
    # Points with most neighbours come last: where some get no number, the list has them, too.
    crowd = {number: int((np.abs(centres - place).max(axis=1) < 14).sum()) for number, place in at.items()}
    for number in sorted(at, key=lambda number: (crowd[number], number)):
        x, y = at[number]
        wide, high = 0.3 * _NUMBER * len(str(number)) + 0.5, 0.4 * _NUMBER
        for dx, dy in _around(wide, high):
            left, low, right, top = box = _box(x + dx, y + dy, wide, high)
            if not ((left < taken[:, 2]) & (taken[:, 0] < right) & (low < taken[:, 3]) & (taken[:, 1] < top)).any():
                taken = np.vstack([taken, box])
                axes.annotate(
                    str(number), at[number], (x + dx, y + dy), xycoords="figure points", textcoords="figure points",
                    fontsize=_NUMBER, ha="center", va="center", color=colours[number], zorder=4,
                )  # fmt: skip
                break


def _around(wide: float, high: float) -> Iterator[tuple[float, float]]:
    """Yield places beside a mark for a box with these half widths, the nearest first."""
    for gap in (3.6, 5.5):
        for x, y in ((1.0, 0.0), (-1, 0), (0, 1), (0, -1), (1, 1), (1, -1), (-1, 1), (-1, -1)):
            yield x * (wide + gap), y * (high + gap)
        for x, y in ((1, 0.5), (1, -0.5), (-1, 0.5), (-1, -0.5)):
            yield x * (wide + gap), y * (high + gap)


def _key(figure: Figure, points: Sequence[RooflinePoint], y: float) -> None:
    """Explain colours and marks."""
    kinds = dict.fromkeys((point.family, point.study) for point in points)
    ordered = sorted(kinds, key=lambda kind: (kind[1], list(_COLOURS).index(kind[0])))
    marks = [
        Line2D([], [], ls="", marker=_MARKS[family], ms=7, color=_COLOURS[family], mfc="white" if study else None,
               mew=1.2, label=f"{family}, study" if study else family)
        for family, study in ordered
    ]  # fmt: skip
    figure.legend(
        handles=marks, loc="center left", bbox_to_anchor=(_MARGIN / figure.get_figwidth(), y), ncols=len(marks),
        frameon=False, fontsize=10, labelcolor=_INK, handletextpad=0.1, borderpad=0, borderaxespad=0,
    )  # fmt: skip


@dataclass(frozen=True)
class _Column:
    """A column of the list: its lines, and the characters for the sizes of its rows."""

    lines: list[_roofline_list.Line]
    words: int

    @classmethod
    def of(cls, blocks: Sequence[list[_roofline_list.Line]]) -> _Column:
        lines = [line for block in blocks for line in block]
        rows = max(len(line.text) for line in lines if line.point is not None or line.text.startswith(" "))
        return cls(lines, max(rows, *(len(line.text) - _NUMBERS + 1 for line in lines)) + 1)


@dataclass(frozen=True)
class _Listing:
    """The list of all points.

    Attributes
    ----------
    columns : list of _Column
    font : float
        Points.
    """

    columns: list[_Column]
    font: float

    @classmethod
    def of(cls, groups: Sequence[_roofline_list.Group], width: float) -> _Listing:
        """Set the list in as many columns as it fills and the width, in inches, has room for."""
        for count in (3, 2, 1):
            words = _WORDS[count - 1]
            blocks = [block for group in groups for block in _blocks(group, words)]
            if sum(map(len, blocks)) <= _COLUMN * (count - 1):
                continue
            columns = [_Column.of(part) for part in _parted(blocks, count)]
            font = 72 * width / (_WIDTH_OF_FONT * sum(_BEFORE + column.words + _NUMBERS + _AFTER for column in columns))
            if font >= _LISTED[0]:
                break
        return cls(columns, min(font, _LISTED[1]))

    @property
    def line(self) -> float:
        """Inches of a line."""
        return 1.6 * self.font / 72

    @property
    def height(self) -> float:
        """Inches, with the line of the columns' names."""
        return self.line * (max(len(column.lines) for column in self.columns) + 1.5)

    def draw(self, figure: Figure, top: float) -> None:
        """Write the lines below a height, in inches."""
        wide, high = figure.get_size_inches()
        character = self.font * _WIDTH_OF_FONT / 72

        def write(x: float, y: float, text: str, colour: str = _INK, weight: str = "normal") -> None:
            figure.text(x / wide, y / high, text, fontsize=self.font, family="monospace", color=colour, weight=weight)

        def bar(x: float, y: float, long: float, colour: str, alpha: float) -> None:
            corner = (x / wide, (y - 0.28 * self.line) / high)
            size = (long / wide, 0.86 * self.line / high)
            figure.add_artist(Rectangle(corner, *size, color=colour, alpha=alpha, lw=0))

        x = _MARGIN
        for column in self.columns:
            numbers = x + (_BEFORE + column.words) * character
            write(numbers, top - self.line, f"{'time':>8}  {'binds':<15}{'roof':>5}", _NOTE)
            for i, line in enumerate(column.lines):
                y = top - self.line * (i + 2.3)
                write(x + _BEFORE * character, y, line.name, weight="bold")
                write(x + (_BEFORE + len(line.name)) * character, y, line.text[len(line.name) :])
                if line.point is None:
                    continue
                colour = _COLOURS[line.point.family]
                start, long = numbers + 9.7 * character, 20.6 * character
                reached = long * min(line.point.percent / 100, 1.0)
                bar(start, y, reached, colour, _TINTS[1])
                bar(start + reached, y, long - reached, colour, _TINTS[0])
                write(x, y, f"{line.number:>3}", colour, "bold")
                time = _text.si(line.point.seconds, "s")
                write(numbers, y, f"{time:>8}  {line.point.binds:<15}{line.point.percent:>4.0f}%")
            x += (_BEFORE + column.words + _NUMBERS + _AFTER) * character


def _blocks(group: _roofline_list.Group, words: int) -> Iterator[list[_roofline_list.Line]]:
    """Yield blocks of an operation's lines that stand together; each block of a long one repeats the heading."""
    for start in range(0, len(group.rows), _BLOCK):
        part = dataclasses.replace(group, rows=group.rows[start : start + _BLOCK])
        yield list(_roofline_list.lines(part, words, words + _NUMBERS - 1))


def _parted(blocks: Sequence[list[Any]], count: int) -> list[list[list[Any]]]:
    """Divide blocks of lines, in their order, into at most so many columns, the longest as short as possible."""
    longest = max(max(map(len, blocks)), math.ceil(sum(map(len, blocks)) / count))
    while True:
        columns: list[list[list[Any]]] = [[]]
        for block in blocks:
            if columns[-1] and sum(map(len, columns[-1])) + len(block) > longest:
                columns.append([])
            columns[-1].append(block)
        if len(columns) <= count:
            return columns
        longest += 1


def _write(figure: Figure, path: Path) -> None:
    """Write a PNG of these colours alone: a third of the size of one with all colours."""
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    palette = Image.new("P", (1, 1))
    palette.putpalette(_palette())
    picture = Image.fromarray(np.asarray(canvas.buffer_rgba())).convert("RGB")
    picture.quantize(palette=palette, dither=Image.Dither.NONE).save(path, format="png", optimize=True)


def _palette() -> list[int]:
    """Red, green and blue of the colours, of their mixtures with white, and of mixtures of ink with the bars."""
    white, ink = np.array([1.0, 1.0, 1.0]), np.array(to_rgb(_INK))
    mixtures = []
    for colour in (ink, *map(np.array, map(to_rgb, _COLOURS.values()))):
        mixtures += [white + (colour - white) * share for share in np.linspace(0, 1, 21)]
    for colour in map(np.array, map(to_rgb, _COLOURS.values())):
        for tint in _TINTS:
            bar = white + (colour - white) * tint
            mixtures += [bar + (ink - bar) * share for share in np.linspace(0, 1, 12)[:-1]]
    return [round(255 * float(value)) for mixture in mixtures for value in mixture]
