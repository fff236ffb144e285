"""Legends that cover nothing: at the top of the axes, whose upper limit is raised above what is drawn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.mathtext import MathTextParser

_MOST = 0.8  # of the height that a legend may take
_FEW = 3  # entries that are in one column


def note(text: str) -> Line2D:
    """Return an entry of text alone."""
    return Line2D([], [], linestyle="none", label=shown(text))


def shown(text: str) -> str:
    """Return text with dollar signs that are no formula of Matplotlib's as they are written."""
    if text.count("$") > 1:
        try:
            MathTextParser("path").parse(text)
        except ValueError:
            return text.replace("$", r"\$")
    return text


def add(axes: Axes, handles: Sequence[Any] | None = None, title: str | None = None) -> float:
    """Add a legend and room for it, and return the share of the height that is its.

    Axes whose limit the caller has set keep it; Matplotlib then chooses the place.
    """
    handles = axes.get_legend_handles_labels()[0] if handles is None else handles
    options: dict[str, Any] = {
        "handles": handles,
        "title": title and shown(title),
        "frameon": False,
        "fontsize": "small",
    }
    if not axes.get_autoscaley_on():
        axes.legend(loc="best", **options)
        return 0.0
    axes.legend(loc="upper right", **options)
    figure: Any = axes.figure.canvas.figure  # also of axes in a subfigure
    if figure.get_layout_engine() is not None:
        figure.draw_without_rendering()  # gives the axes their size
    height, extent = axes.get_window_extent().height, _placed(axes, options)
    share = min(_MOST, (axes.get_window_extent().y1 - extent.y0) / height + 0.01)
    scale = axes.yaxis.get_transform()
    low, high = scale.transform(axes.get_ylim())
    (top,) = scale.inverted().transform([low + (high - low) / (1 - share)])
    axes.set_ylim(top=top, auto=None)  # until the next curve
    return share


def _placed(axes: Axes, options: dict[str, Any]) -> Any:
    """Return the extent of a legend of as many columns as there is room for."""
    most = 1 if len(options["handles"]) <= _FEW else 3
    for columns in range(most, 0, -1):
        extent = axes.legend(loc="upper right", ncols=columns, **options).get_window_extent()
        if extent.width < axes.get_window_extent().width:
            break
    return extent
