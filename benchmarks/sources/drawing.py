"""Figures by Matplotlib as SVG, on a light ground: lines, points and bars that differ without colours too."""

from __future__ import annotations

import io
import itertools
import math
import re
import textwrap
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from benchmarks.sources import formats
from benchmarks.sources.section import Figure, Series

# Okabe and Ito's, which people who see few colours tell apart, without the yellow.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#000000", "#56B4E9", "#E69F00", "#7F7F7F", "#8C564B")
_DASHES: tuple[Any, ...] = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)))
_MARKERS = ("o", "s", "^", "D", "v", "P", "X")
_HATCHES = ("", "//", "..", "\\\\", "xx", "--", "++")

_STYLE = {
    "svg.fonttype": "path",  # the same wherever it is looked at
    "svg.hashsalt": "cukde",
    "hatch.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.6,
    "font.size": 10,
}
_MANY_POINTS = 3000  # drawn as an image within the SVG
_LABELLED = 32  # bars: beyond, their numbers would be in each other's way
_LEAST, _MOST = 1e-3, 2e7  # of a logarithmic axis whose numbers are written out
_WIDE = 12  # bars: up to so many are as wide as their numbers


def svg(figure: Figure) -> str | None:
    """Draw a figure; None where no series has a value."""
    import matplotlib.style
    from matplotlib.figure import Figure as Canvas

    # By their places in the figure: a series looks the same whichever others have values.
    series = {place: each for place, each in enumerate(figure.series) if not all(map(_missing, each.y))}
    if not series:
        return None
    with matplotlib.style.context(["default", _STYLE]):
        canvas = Canvas(figsize=(7.4, 4.6), layout="constrained")
        axes = canvas.subplots()
        {"lines": _lines, "points": _lines, "bars": _bars}[figure.kind](axes, figure, series)
        handles, names = axes.get_legend_handles_labels()
        if len(names) > 1 or (names and figure.kind == "lines"):
            columns = max(1, min(4, len(names), 96 // (max(map(len, names)) + 8)))
            canvas.set_figheight(canvas.get_figheight() + 0.2 * (math.ceil(len(names) / columns) - 1))
            canvas.legend(handles, names, loc="outside lower center", ncols=columns, frameon=False, handlelength=3.2)
        file = io.StringIO()
        nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
        canvas.savefig(file, format="svg", dpi=200, facecolor="white", metadata=nothing)
    return file.getvalue()


def undrawn(figure: Figure) -> list[str]:
    """Series without a value."""
    return [each.name for each in figure.series if all(map(_missing, each.y))]


def inline(drawn: str, name: str) -> str:
    """An SVG file as a part of a page: without its head, its ids begun with a name that no other figure has."""
    body = drawn[drawn.index("<svg") :]
    body = re.sub(r'\bid="', f'id="{name}-', body)
    body = re.sub(r'href="#', f'href="#{name}-', body)
    return body.replace("url(#", f"url(#{name}-").strip()


def _lines(axes: Any, figure: Figure, series: Mapping[int, Series]) -> None:
    """Lines with markers and bands, or points with bars of errors."""
    places = _places(series.values())
    for index, each in series.items():
        x = [places.get(at, at) if places else at for at in each.x]
        y = list(map(_number, each.y))
        style = {
            "color": _COLOURS[index % len(_COLOURS)],
            "marker": _MARKERS[index % len(_MARKERS)],
            "markersize": 5,
            "label": _plain(each.name),
            "rasterized": len(x) > _MANY_POINTS,
        }
        line = {"linestyle": _DASHES[index % len(_DASHES)], "linewidth": 1.6}
        if figure.kind == "lines":
            axes.plot(x, y, **style, **line)
            if each.low is not None and each.high is not None:
                ends = (list(map(_number, each.low)), list(map(_number, each.high)))
                axes.fill_between(x, *ends, color=style["color"], alpha=0.18, linewidth=0)
        else:
            axes.errorbar(x, y, yerr=_beyond(each), linestyle="none", capsize=2, elinewidth=1, **style)
    axes.set(xlabel=_wrapped(figure.x_label, 80), ylabel=_wrapped(figure.y_label, 40))
    if places:
        axes.set_xticks(range(len(places)), [_wrapped(name) for name in places])
    elif figure.log_x:
        powers = all(math.log2(at).is_integer() for each in series.values() for at in each.x if at > 0)
        _logarithmic(axes, "x", 2 if powers else 10)
    if figure.log_y:
        _logarithmic(axes, "y")


def _bars(axes: Any, figure: Figure, series: Mapping[int, Series]) -> None:
    """Groups of bars, lying where the names of the groups are long; a missing one leaves its place empty."""
    groups = list(dict.fromkeys(itertools.chain.from_iterable(each.x for each in figure.series)))
    names = [formats.number(group) if isinstance(group, int | float) else str(group) for group in groups]
    lying = sum(map(len, names)) > 60
    width = 0.8 / len(series)
    bar_count = len(groups) * len(series)
    labelled = bar_count <= _LABELLED
    for place, (index, each) in enumerate(series.items()):
        there = [k for k, y in enumerate(each.y) if not _missing(y)]
        at = [groups.index(each.x[k]) + (place - (len(series) - 1) / 2) * width for k in there]
        y = [each.y[k] for k in there]
        style = {
            "color": _COLOURS[index % len(_COLOURS)],
            "hatch": _HATCHES[index % len(_HATCHES)],
            "edgecolor": "white",
            "label": _plain(each.name),
            "ecolor": "#444444",
            "capsize": 2,
        }
        errors = _beyond(each, there)
        bars = axes.barh(at, y, width, xerr=errors, **style) if lying else axes.bar(at, y, width, yerr=errors, **style)
        if labelled:
            axes.bar_label(
                bars,
                list(map(formats.number, y)),
                padding=2,
                fontsize=7,
                rotation=0 if lying or bar_count <= _WIDE else 90,
            )
    if lying:
        axes.set_yticks(range(len(groups)), [_wrapped(name, 40) for name in names])
        axes.invert_yaxis()
        axes.set(xlabel=_wrapped(figure.y_label, 60), ylabel=_wrapped(figure.x_label, 40))
        axes.grid(visible=False, axis="y")
        axes.figure.set_figheight(max(3.4, 1.6 + 0.26 * len(groups) * (len(series) + 0.6)))
    else:
        axes.set_xticks(range(len(groups)), list(map(_wrapped, names)))
        axes.set(xlabel=_wrapped(figure.x_label, 80), ylabel=_wrapped(figure.y_label, 40))
        axes.grid(visible=False, axis="x")
    if figure.log_y:
        _logarithmic(axes, "x" if lying else "y")
    if labelled:  # room for the numbers
        axes.margins(**{"x" if lying else "y": 0.18})


def _logarithmic(axes: Any, name: str, base: int = 10) -> None:
    """Make an axis logarithmic, with numbers as people write them where they are neither tiny nor huge."""
    from matplotlib import ticker

    class Numbers(ticker.LogFormatterSciNotation):
        def __call__(self, x: float, pos: int | None = None) -> str:
            text = super().__call__(x, pos)  # empty where ticks stand too close for a text
            low, high = sorted(self.axis.get_view_interval())
            return f"{x:,.12g}" if text and low >= _LEAST and high <= _MOST else text

    getattr(axes, f"set_{name}scale")("log", base=base)
    axis = getattr(axes, f"{name}axis")
    axis.set_major_formatter(Numbers(base))
    # On less than a power and a half of the base, numbers between the powers have a text, too.
    axis.set_minor_formatter(Numbers(base, labelOnlyBase=False, minor_thresholds=(1.5, 0.6)))


def _places(series: Collection[Series]) -> dict[Any, int]:
    """Where names stand on an axis; nothing for numbers."""
    found = list(dict.fromkeys(itertools.chain.from_iterable(each.x for each in series)))
    return {} if all(isinstance(at, int | float) for at in found) else {at: place for place, at in enumerate(found)}


def _beyond(series: Series, places: Sequence[int] | None = None) -> Any:
    """How far the ends of a band are from its values, those at some places or all."""
    if series.low is None or series.high is None:
        return None
    wanted = range(len(series.y)) if places is None else places
    values = [(_number(series.low[at]), _number(series.y[at]), _number(series.high[at])) for at in wanted]
    return [[max(0.0, y - low) for low, y, _ in values], [max(0.0, high - y) for _, y, high in values]]


def _missing(value: float | None) -> bool:
    return value is None or not math.isfinite(value)


def _number(value: float | None) -> float:
    return math.nan if value is None or _missing(value) else value


def _plain(text: str) -> str:
    """A text that is no formula to Matplotlib, without the backquotes of code."""
    return text.replace("`", "").replace("$", r"\$")


def _wrapped(name: Any, width: int = 14) -> str:
    return _plain("\n".join(textwrap.wrap(str(name), width)))
