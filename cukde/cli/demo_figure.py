"""The demo in one picture, with its numbers printed in it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from cukde.cli.demo_task import DIMENSIONS, GRID, Outcome, Task
from cukde.cli.output import save_figure

_COLOURS = {"KDE": "#3b6fb6", "SD-KDE": "#d1662f", "Laplace": "#3a9a68"}
_PEER = "#8a8a8a"
_INK, _NOTE, _FAINT = "#222222", "#666666", "#e4e4e4"
_TASK = f"scikit-learn's 1,797 images of 64 pixels, projected on {DIMENSIONS} principal axes of the training rows"
_SHOWN = 12  # digits at either end of the ranking


def save(task: Task, outcomes: Sequence[Outcome], path: Path) -> None:
    """Draw the outcomes and write a PNG; ``task`` is the one with all digits."""
    figure = Figure(figsize=(13, 9.6), facecolor="white")
    panels: dict[str, Any] = figure.subplot_mosaic(
        [["auroc", "auroc"], ["likelihood", "time"], ["digits", "digits"]],
        height_ratios=[1.1, 1.5, 0.5],
        gridspec_kw={"left": 0.115, "right": 0.965, "top": 0.85, "bottom": 0.03, "hspace": 0.52, "wspace": 0.32},
    )
    figure.text(0.02, 0.955, "Three densities of handwritten digits", fontsize=20, fontweight="bold", color=_INK)
    figure.text(
        0.02, 0.926, f"{_TASK}; bandwidths cross-validated within those rows", fontsize=11, color=_NOTE
    )  # fmt: skip
    on_cpu = [outcome for outcome in outcomes if outcome.method.device == "CPU"]
    _auroc(panels["auroc"], on_cpu)
    _likelihood(panels["likelihood"], [outcome for outcome in on_cpu if outcome.log_density is not None])
    _time(panels["time"], outcomes)
    _digits(panels["digits"], task, next(o for o in outcomes if o.method.name == "SD-KDE"))
    save_figure(figure, path)


def _colour(outcome: Outcome) -> str:
    return _COLOURS.get(outcome.method.name, _PEER)


def _title(axes: Axes, text: str, note: str) -> None:
    axes.set_title(text, loc="left", fontsize=13, fontweight="bold", color=_INK, pad=24)
    axes.annotate(note, (0, 1), (0, 7), "axes fraction", "offset points", fontsize=10, color=_NOTE)


def _plain(axes: Axes) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color("#bbbbbb")
    axes.tick_params(colors="#555555", length=0, labelsize=10)


def _auroc(axes: Axes, outcomes: Sequence[Outcome]) -> None:
    """Draw a cell for each method and left-out digit, better ones darker and the best of a column in bold."""
    table = np.array([[*outcome.auroc, np.mean(outcome.auroc)] for outcome in outcomes])
    columns = [*range(10), 10.4]  # the mean stands apart
    low = min(0.95, table.min())
    for (row, column), value in np.ndenumerate(table):
        shade = (value - low) / (1 - low)
        x = columns[column]
        axes.barh(row, 0.94, left=x - 0.47, height=0.86, color="#1f5a8a", alpha=0.08 + 0.85 * shade)
        best = round(value, 3) == round(table[:, column].max(), 3)
        axes.text(
            x, row, f"{value:.3f}", ha="center", va="center", fontsize=11,
            fontweight="bold" if best else "normal", color="white" if shade > 0.5 else _INK,
        )  # fmt: skip
    _plain(axes)
    axes.spines[:].set_visible(False)
    axes.set_xlim(-0.55, 10.95)
    axes.set_ylim(len(outcomes) - 0.5, -0.5)
    axes.set_xticks(columns, [*map(str, range(10)), "mean"], fontsize=11)
    axes.set_yticks(range(len(outcomes)), [outcome.method.label for outcome in outcomes], fontsize=11)
    _title(
        axes, "Finding a digit that the training rows do not have: AUROC",
        "by the digit left out, all its rows against held-out rows of the others; 0.5: guessing; bold: best",
    )  # fmt: skip


def _likelihood(axes: Axes, outcomes: Sequence[Outcome]) -> None:
    """Draw the cross-validation curves, and print the held-out result at the bandwidth they chose."""
    for size, outcome in zip((13, 9, 5), outcomes, strict=True):  # dots of falling size: they may coincide
        assert outcome.log_density is not None
        chosen = outcome.multiples[0]
        axes.plot(
            GRID, outcome.curve, color=_colour(outcome), lw=2, ls="-" if outcome.method.twin is None else ":",
            label=f"{outcome.method.label}: {outcome.log_density.mean():.3f} at {chosen:.2f}",
        )  # fmt: skip
        axes.plot(chosen, np.interp(chosen, GRID, outcome.curve), color=_colour(outcome), marker="o", ms=size)
    _plain(axes)
    axes.grid(color=_FAINT)
    axes.set_xlabel("bandwidth, multiples of Silverman's rule", color="#555555")
    axes.set_ylabel("nats a row", color="#555555")
    axes.margins(y=0.1)
    axes.set_ylim(top=axes.get_ylim()[1] + 2)  # room for the legend
    axes.legend(frameon=False, fontsize=11, loc="upper right", labelcolor=_INK)
    _title(
        axes, "Log-likelihood of rows not fitted on",
        "lines: cross-validation; dots: the bandwidth chosen; numbers: held-out rows",
    )  # fmt: skip


def _time(axes: Axes, outcomes: Sequence[Outcome]) -> None:
    """Draw seconds as bars."""
    seconds = [outcome.seconds for outcome in outcomes]
    axes.barh(range(len(outcomes)), seconds, height=0.62, color=[_colour(outcome) for outcome in outcomes])
    for row, value in enumerate(seconds):
        axes.annotate(
            f"{value:.2f} s", (value, row), (6, 0), textcoords="offset points", va="center", fontsize=12,
            color=_INK, fontweight="bold" if value == min(seconds) else "normal",
        )  # fmt: skip
    _plain(axes)
    axes.set_xlim(0, 1.18 * max(seconds))
    axes.set_ylim(len(outcomes) - 0.45, -0.55)
    axes.set_yticks(range(len(outcomes)), [outcome.method.label for outcome in outcomes], fontsize=11)
    axes.set_xlabel("seconds", color="#555555")
    _title(axes, "Time of the whole task", "cross-validation, fit and scores of eleven tasks; one run")


def _digits(axes: Axes, task: Task, outcome: Outcome) -> None:
    """Show the held-out images with the lowest and the highest density."""
    assert outcome.log_density is not None
    order = np.argsort(outcome.log_density)
    images = task.images.reshape(-1, 8, 8)
    framed = np.pad(images, ((0, 0), (1, 1), (1, 1)))
    gap = np.zeros((10, 12))
    low, high = (np.hstack(list(framed[rows])) for rows in (order[:_SHOWN], order[: -_SHOWN - 1 : -1]))
    axes.imshow(np.hstack([low, gap, high]), cmap="Greys", interpolation="nearest")
    axes.set_axis_off()
    _title(
        axes, "What the density calls unusual (left) and usual (right)",
        f"the {_SHOWN} held-out images of lowest and of highest density under {outcome.method.label}",
    )  # fmt: skip
