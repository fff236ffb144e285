"""The demo on the terminal: tables, and sentences about who won, lost or tied."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Iterator, Sequence

import numpy as np

from cukde.cli.demo_task import FOLDS, GRID, Outcome
from cukde.core import aligned

_TIE_IN_TIME = 1.2  # a smaller ratio of single runs is not significant
_TIE_IN_ERRORS = 2.0  # standard errors of the mean paired difference


def show(outcomes: Sequence[Outcome]) -> None:
    """Print everything measured."""
    for title, rows in (
        ("Handwritten digits in 16 dimensions", _summary(outcomes)),
        ("AUROC by the digit left out; * the best", _by_digit(outcomes)),
    ):
        print(title, *aligned.lines(rows, range(1, len(rows[0]))), sep="\n", end="\n\n")
    width = shutil.get_terminal_size().columns
    for sentence in sentences(outcomes):
        print(textwrap.fill(f"* {sentence}", width, subsequent_indent="  "))


def distinct(outcomes: Sequence[Outcome]) -> list[Outcome]:
    """Return the outcomes of different estimators, without scikit-learn's and the GPU's repeats."""
    return [outcome for outcome in outcomes if outcome.method.twin is None]


def sentences(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """Yield the methods of measurement, then the verdicts."""
    yield (
        f"Bandwidth: {FOLDS}-fold cross-validation within the training rows over {len(GRID)} multiples "
        f"({GRID[0]:g} to {GRID[-1]:g}) of Silverman's rule, by held-out log-likelihood. Laplace, which may "
        "be negative, is first asked for positive values at held-out rows, then for their mean log."
    )
    yield (
        "Seconds: cross-validation, fit and scoring of eleven tasks (all digits in; each left out), one run; "
        "loading, projection and compilation are not in it."
    )
    yield from cautions(outcomes)
    yield likelihood_verdict(distinct(outcomes))
    yield auroc_verdict(distinct(outcomes))
    yield time_verdict(outcomes)
    yield from checks(outcomes)


def cautions(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """Yield warnings of bandwidths at an end of the grid, as better ones may lie outside."""
    for outcome in outcomes:
        at_an_end = sum(multiple in (GRID[0], GRID[-1]) for multiple in outcome.multiples)
        if at_an_end:
            yield f"Caution: {outcome.method.label} chose an end of the grid in {at_an_end} of 11 tasks."


def likelihood_verdict(outcomes: Sequence[Outcome]) -> str:
    """Compare densities by their log densities at the same held-out rows."""
    figures = {o.method.label: o.log_density for o in outcomes if o.log_density is not None}
    return "Log-likelihood: " + _verdict(figures, ".3f", " nats a row")


def auroc_verdict(outcomes: Sequence[Outcome]) -> str:
    """Compare the AUROC of the same ten left-out digits."""
    return "AUROC: " + _verdict({o.method.label: np.array(o.auroc) for o in outcomes}, ".4f", " in the mean")


def time_verdict(outcomes: Sequence[Outcome]) -> str:
    """Compare the seconds."""
    best, *others = sorted(outcomes, key=lambda outcome: outcome.seconds)
    ratios = [(other.method.label, other.seconds / best.seconds) for other in others]
    tied = any(ratio < _TIE_IN_TIME for _, ratio in ratios)
    standings = [
        f"{name} {'ties' if ratio < _TIE_IN_TIME else 'loses'}, {ratio:.2g} times as long" for name, ratio in ratios
    ]
    return (
        f"Time: {best.method.label} {'leads in a tie' if tied else 'wins'} with {best.seconds:.2f} s; "
        + "; ".join(standings)
        + "."
    )


def checks(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """Yield the errors of KDE and of the repeats of an estimator, by scikit-learn and on the GPU."""
    errors = [
        f"{outcome.method.label} {' and '.join(f'{error:.0e}' for error in outcome.errors)}"
        for outcome in outcomes
        if outcome.errors is not None
    ]
    yield (
        "Check: largest error of a held-out row's log density, against a plain float64 sum, at the bandwidth "
        f"chosen and at the smallest of the grid: {', '.join(errors)}."
    )
    originals = {outcome.method.name: outcome.auroc for outcome in distinct(outcomes)}
    apart = []
    for outcome in outcomes:
        if outcome.method.twin is not None:
            difference = np.abs(np.subtract(outcome.auroc, originals[outcome.method.twin])).max()
            apart.append(f"{outcome.method.label} {difference:.0e}")
    yield f"Check: largest difference in AUROC from cukde's same estimator on the CPU: {', '.join(apart)}."


def _verdict(figures: dict[str, np.ndarray], form: str, unit: str) -> str:
    """Rank methods by the mean of paired figures; a lead within two standard errors is a tie."""
    best, *others = sorted(figures, key=lambda name: -figures[name].mean())
    standings, tied = [], False
    for name in others:
        lead = figures[best] - figures[name]
        error = lead.std(ddof=1) / len(lead) ** 0.5
        tie = bool(lead.mean() <= _TIE_IN_ERRORS * error)
        tied |= tie
        gap = f"{lead.mean():{form}} behind (standard error {error:{form}})"
        standings.append(f"{name} {'ties' if tie else 'loses'}, {gap}")
    head = f"{best} {'leads in a tie' if tied else 'wins'} with {figures[best].mean():{form}}{unit}; "
    return head + "; ".join(standings) + "."


def _summary(outcomes: Sequence[Outcome]) -> list[list[str]]:
    return [
        ["", "log-likelihood,", "AUROC,", "bandwidth,", ""],
        ["Method", "nats a row", "mean of ten", "x Silverman", "seconds"],
        *(
            [
                outcome.method.label,
                "no density" if outcome.log_density is None else f"{outcome.log_density.mean():.3f}",
                f"{np.mean(outcome.auroc):.4f}",
                f"{outcome.multiples[0]:.2f}",
                f"{outcome.seconds:.2f}",
            ]
            for outcome in outcomes
        ),
    ]


def _by_digit(outcomes: Sequence[Outcome]) -> list[list[str]]:
    shown = [outcome for outcome in outcomes if outcome.method.device == "CPU"]
    values = {str(digit): [outcome.auroc[digit] for outcome in shown] for digit in range(10)}
    values["mean"] = [float(np.mean(outcome.auroc)) for outcome in shown]
    rows = [["Digit", *(outcome.method.label for outcome in shown)]]
    for name, of in values.items():
        best = f"{max(of):.4f}"
        rows.append([name, *(f"{'*' * (cell == best)} {cell}" for cell in (f"{value:.4f}" for value in of))])
    return rows
