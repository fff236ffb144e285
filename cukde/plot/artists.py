"""The Matplotlib side of :mod:`cukde.plot`: axes, colours and artists. Nothing here computes on the data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import is_color_like, to_rgb
from matplotlib.patches import Patch
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter

from cukde.plot import legends
from cukde.plot.groups import shown_label
from cukde.plot.numbers import Curve, Histogram, Regions

# Okabe and Ito's colours, which the colour-blind can distinguish; dashes serve prints without colours.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_DASHES = ("-", "--", "-.", ":")
_INK = "#333333"
_CURVE = "cukde density"  # the group id of curves, by which those on the same axes are counted


def new_axes() -> Axes:
    """Return the axes of a new figure of pyplot."""
    from matplotlib import pyplot

    return pyplot.subplots(figsize=(6.4, 4.4), layout="constrained")[1]


def new_grid(d: int) -> np.ndarray:
    """Return the axes of a pair plot, (d, d), in a new figure."""
    from matplotlib import pyplot

    side = max(4.0, min(2.1 * d, 16.0))
    grid: np.ndarray = pyplot.subplots(d, d, figsize=(side, side), layout="constrained", squeeze=False)[1]
    return grid


def colours(value: Any, labels: Sequence[str | None], numbers: Sequence[int]) -> list[Any]:
    """Return the colours of groups, of one without a label if there are none, from a sequence or a mapping of them."""
    if value is None:
        return [COLOURS[number % len(COLOURS)] for number in numbers]
    if list(labels) == [None] or (is_color_like(value) and len(labels) == 1):
        out = [value]
    elif isinstance(value, Mapping):
        of_labels = {shown_label(key): each for key, each in value.items()}
        out = [of_labels.get(label or "") for label in labels]
    else:
        several = [] if isinstance(value, str) or not np.iterable(value) or is_color_like(value) else list(value)
        out = [several[number] if number < len(several) else None for number in numbers]
    if not all(is_color_like(each) for each in out):
        wanted = "a colour of Matplotlib's, as 'C1'"
        if list(labels) != [None]:
            wanted = (
                "a list of colours, one for each label of hue in their order, or a mapping with the keys "
                f"{', '.join(map(str, labels))}; a colour map has lists, as matplotlib.colormaps['Set2'].colors"
            )
        raise ValueError(f"color must be {wanted}; got {value!r}")
    return out


def draw_curve(
    axes: Axes, curve: Curve, label: str, level: float | None, colour: Any, *, intervals: bool = False
) -> None:
    """Draw a density over its band; curves on the same axes differ in dashes and, unless one is given, in colour."""
    number = sum(line.get_gid() == _CURVE for line in axes.lines)
    colour = COLOURS[number % len(COLOURS)] if colour is None else colour
    dashes = _DASHES[number % len(_DASHES)]
    label = legends.shown(label)
    (line,) = axes.plot(curve.x, curve.density, color=colour, linestyle=dashes, linewidth=1.8, label=label, gid=_CURVE)
    line.sticky_edges.y.append(0.0)
    if curve.band is not None and level is not None:
        kind = "intervals of the density (bias-corrected)" if intervals else "bootstrap band (variability, not bias)"
        explained = f"{100 * level:g}% {kind}"
        if explained in axes.get_legend_handles_labels()[1]:  # by another curve
            explained = "_nolegend_"
        axes.fill_between(curve.x, *curve.band, color=colour, alpha=0.25, linewidth=0, label=explained)


def draw_rug(axes: Axes, x: np.ndarray, label: str) -> None:
    """Mark rows along the lower edge, in the colour of the last curve."""
    colour = next(line.get_color() for line in reversed(axes.lines) if line.get_gid() == _CURVE)
    alpha = float(np.clip(60 / len(x), 0.15, 0.8))
    axes.plot(
        x, np.full(len(x), 0.02), "|", color=colour, alpha=alpha, markersize=9, markeredgewidth=0.8, label=label,
        transform=axes.get_xaxis_transform(),
    )  # fmt: skip


def finish_curve(axes: Axes, name: str, title: str | None, notes: Sequence[str], *, log: bool) -> None:
    """Name unnamed axes, and add a legend."""
    name = axes.get_xlabel() or name
    _name(axes, name, f"density (per {'decade' if log else 'unit'} of {name})")
    for note in notes:
        axes.add_line(legends.note(note))
    legends.add(axes, title=title)
    legend: Any = axes.get_legend()
    for handle in legend.legend_handles:  # opaque, so that it is visible in the legend
        if getattr(handle, "get_marker", lambda: "")() == "|":
            handle.set_alpha(1.0)


def check_scales(axes: Axes, log: Sequence[bool]) -> None:
    """Raise for axes whose scale is not that of the densities, of the first column and the second of two."""
    for name, axis, scaled in zip("xy", (axes.xaxis, axes.yaxis), log, strict=False):
        if axis.get_scale() == "log" and not scaled:
            raise ValueError(
                f"log_scale must be True for the {name} axis of ax, which is logarithmic: the density is then per "
                "decade, and areas are shares of the rows"
            )
        if scaled and axis.get_scale() != "log" and any(line.get_gid() == _CURVE for line in axes.lines):
            raise ValueError(f"log_scale must be False for the {name} axis of ax, which has densities per unit already")


def scaled(axes: Axes | None, log: Sequence[bool]) -> Axes:
    """Return axes, those of a new figure if there are none, that are logarithmic where the columns are."""
    axes = new_axes() if axes is None else axes
    set_scales(axes, log)
    return axes


def set_scales(axes: Axes, log: Sequence[bool]) -> None:
    """Make the first axis logarithmic, and the second of two."""
    for scaled, axis, change in zip(log, (axes.xaxis, axes.yaxis), (axes.set_xscale, axes.set_yscale), strict=False):
        if scaled and axis.get_scale() != "log":
            change("log")


def draw_regions(
    axes: Axes, regions: Regions, colour: Any, *, outside: bool = False, number: int | None = None
) -> None:
    """Fill the regions, smaller ones darker, and dot rows outside of them; ``number`` is that of a group."""
    levels, kept = np.unique(regions.levels, return_index=True)
    ink, dashes = (_INK, "solid") if number is None else (colour, _DASHES[number % len(_DASHES)])
    shades = region_shades(len(regions.levels), colour)
    top = max(float(regions.density.max()), float(levels[-1]) + abs(float(levels[-1])) * 1e-6)
    if outside:
        size = 5 if len(regions.outside) <= 100 else 2.5  # few must be visible, many distinct
        axes.plot(*regions.outside.T, ".", color=ink, alpha=0.6, markersize=size, markeredgewidth=0)
    # Of equal levels the darkest shade stays.
    last = np.append(kept[1:], len(regions.levels)) - 1
    axes.contourf(
        regions.x, regions.y, regions.density, levels=[*levels, top], colors=[shades[k] for k in last],
        alpha=1.0 if number is None else 0.5,
    )  # fmt: skip
    lines = levels[(levels > regions.density.min()) & (levels < regions.density.max())]
    if len(lines):  # a coarse grid may miss a peak
        width = 0.6 if number is None else 1.2
        axes.contour(
            regions.x, regions.y, regions.density, levels=lines, colors=[ink], linewidths=width, linestyles=dashes
        )
    axes.autoscale_view(tight=False)


def region_shades(count: int, colour: Any) -> list[tuple[float, ...]]:
    """Return mixtures of a colour with white, from light to dark."""
    lack = 1 - np.array(to_rgb(colour))
    return [tuple(1 - lack * share) for share in np.linspace(0.25 if count > 1 else 0.6, 0.95, count)]


def region_handles(masses: Sequence[float], groups: Sequence[str], of_groups: Sequence[Any]) -> list[Any]:
    """Return the entries of a legend of regions, and of groups if there are any; their colours are ``of_groups``."""
    of, colour = ("a group's rows", "#777777") if groups else ("the rows", of_groups[0])
    shades = region_shades(len(masses), colour)
    labels = map(legends.shown, groups)
    return [Patch(facecolor=own, alpha=0.6, label=label) for own, label in zip(of_groups, labels, strict=False)] + [
        Patch(facecolor=shade, edgecolor=_INK, linewidth=0.6, label=f"{100 * mass:g}% of {of}")
        for mass, shade in zip(masses, shades, strict=True)
    ]


def finish_regions(
    axes: Axes,
    names: Sequence[str],
    masses: Sequence[float],
    groups: Sequence[str],
    of_groups: Sequence[Any],
    title: str | None,
    outside: str | None,
    notes: Sequence[str],
) -> None:
    """Name unnamed axes, and add a legend."""
    _name(axes, *names)
    handles = region_handles(masses, groups, of_groups)
    if outside is not None:
        handles += axes.plot([], [], ".", color=_INK, markersize=5, label=outside)
    legends.add(axes, [*handles, *map(legends.note, notes)], title)


def draw_diagonal(axes: Axes, curve: Curve, colour: Any, number: int) -> None:
    """Draw the density of a column, or of a group of its rows, in a pair plot."""
    axes.fill_between(curve.x, curve.density, color=colour, alpha=0.25, linewidth=0)
    (line,) = axes.plot(
        curve.x, curve.density, color=colour, linewidth=1.3, linestyle=_DASHES[number % len(_DASHES)], gid=_CURVE
    )
    line.sticky_edges.y.append(0.0)


def write_tau(axes: Axes, taus: Sequence[float], of_groups: Sequence[Any]) -> None:
    """Write correlations in the middle of a panel: one, stronger ones darker and larger, or those of groups."""
    for k, tau in enumerate(taus):
        strength = 0.0 if np.isnan(tau) else abs(tau)
        alone = len(taus) == 1
        axes.text(
            0.5, 0.5 + 0.13 * (0.5 * (len(taus) - 1) - k), f"$\\tau = {tau:.2f}$", transform=axes.transAxes,
            ha="center", va="center", fontsize=8 + 5 * strength if alone else 8,
            color=str(0.45 * (1 - strength)) if alone else of_groups[k],
        )  # fmt: skip


def finish_pairs(
    grid: np.ndarray, names: Sequence[str], ends: Sequence[tuple[float, float]], log: Sequence[bool]
) -> None:
    """Name the outer axes, and give panels of a column its range; densities have no tick labels."""
    d, names = len(names), [legends.shown(name) for name in names]
    for (row, column), axes in np.ndenumerate(grid):
        axes.spines[["top", "right"]].set_visible(False)
        if column <= row:
            axes.set_xlim(*ends[column])
            _few_ticks(axes.xaxis, log[column])
        if column < row:
            axes.set_ylim(*ends[row])
            _few_ticks(axes.yaxis, log[row])
        axes.tick_params(labelsize=7, labelbottom=row == d - 1, labelleft=row > 0 and column == 0)
        if column >= row:
            axes.set_yticks([])
        if column > row:
            axes.set_xticks([])
            axes.spines[:].set_visible(False)
        if row == d - 1:
            axes.set_xlabel(names[column], fontsize=9)
        if column == 0:
            axes.set_ylabel(names[row] if row else "density", fontsize=9)


def _few_ticks(axis: Any, log: bool) -> None:
    axis.set_major_locator(LogLocator(numticks=4) if log else MaxNLocator(3, prune="both"))
    if log:
        axis.set_minor_formatter(NullFormatter())


def legend_of_pairs(
    grid: np.ndarray,
    masses: Sequence[float],
    groups: Sequence[str] = (),
    of_groups: Sequence[Any] = COLOURS,
    title: str | None = None,
    notes: Sequence[str] = (),
) -> None:
    """Add a legend of the regions above the panels of a new figure."""
    handles = [*region_handles(masses, groups, of_groups), *map(legends.note, notes)]
    grid[0, 0].figure.legend(
        handles=handles,
        title=title and legends.shown(title),
        loc="outside upper center",
        ncols=min(4, len(grid), len(handles)),
        frameon=False,
        fontsize=9,
    )


def note_on_pairs(grid: np.ndarray, notes: Sequence[str]) -> None:
    """Write notes above the panels of a figure of the caller's, which gets no legend."""
    if notes and not grid[0, 0].get_title(loc="left"):
        grid[0, 0].set_title("\n".join(map(legends.shown, notes)), loc="left", fontsize=7)


def draw_histogram(axes: Axes, histogram: Histogram, label: str, colour: Any, number: int) -> None:
    """Draw a histogram of one kind of rows, filled and with an outline that is visible over others.

    Marks at the edges tell of rows beyond them.
    """
    dashes, edges, label = _DASHES[number % len(_DASHES)], histogram.edges, legends.shown(label)
    axes.stairs(histogram.counts, edges, fill=True, color=colour, alpha=0.3, linewidth=0)
    axes.stairs(histogram.counts, edges, color=colour, linewidth=1.4, linestyle=dashes, label=label)
    for marker, edge, beyond in (("<", edges[0], histogram.below), (">", edges[-1], histogram.above)):
        if beyond is not None:
            axes.plot(
                [edge], [0.04 + 0.06 * number], marker, color=colour, clip_on=False, label=legends.shown(beyond),
                transform=axes.get_xaxis_transform(),
            )  # fmt: skip


def finish_histogram(
    axes: Axes, threshold: float, label: str, title: str | None, notes: Sequence[str], *, log: bool
) -> None:
    """Mark the threshold, name unnamed axes, and add a legend."""
    _name(axes, "log density", "rows in a bin")
    most = max(1.0, axes.dataLim.y1)
    if log:
        axes.set_yscale("log")
    axes.set_ylim(0.5 if log else 0, most, auto=True)
    line = axes.axvline(threshold, color=_INK, linewidth=1.4, linestyle=(0, (4, 2)), label=label)
    for note in notes:
        axes.add_line(legends.note(note))
    line.set_ydata([0, 1 - legends.add(axes, title=title)])


def _name(axes: Axes, x: str, y: str) -> None:
    """Name unnamed axes, and leave out the two sides that have no ticks."""
    axes.spines[["top", "right"]].set_visible(False)
    if not axes.get_xlabel():
        axes.set_xlabel(legends.shown(x))
    if not axes.get_ylabel():
        axes.set_ylabel(legends.shown(y))
