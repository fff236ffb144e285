"""The demo on the terminal: two tables, and sentences about equality and about who is ahead."""

from __future__ import annotations

import math
import shutil
import statistics
import textwrap
from collections.abc import Iterator, Sequence

import numpy as np

from cukde.cli.demo_map import EMPTY, Map, Timed
from cukde.cli.demo_methods import FOLDS, METHODS, Comparison
from cukde.core import aligned

_WORST = 100  # points, at which both results are checked
_WIDEST = 100  # columns of the terminal that sentences take


def show_map(measured: Map) -> None:
    """Print the times of scikit-learn and cukde, and how far their results are apart."""
    n, m = len(measured.X), len(measured.Y)
    print(
        f"Log density of {n:,} handwritten digits on 2 principal axes, at {m:,} points:\n"
        f"KernelDensity(bandwidth={measured.h:.2f}).fit(X).score_samples(Y), {len(measured.peer.seconds)} times each\n"
    )
    rows: list[tuple[str, ...]] = [("", "median seconds", "lowest", "highest", "times as fast")]
    for each in (measured.peer, *measured.ours):
        seconds = (statistics.median(each.seconds), min(each.seconds), max(each.seconds))
        rows.append((each.name, *(f"{value:.3g}" for value in seconds), f"{speed(measured, each):.0f}"))
    _print_table(rows)
    _print_text(equality(measured))
    print()


def speed(measured: Map, each: Timed) -> float:
    """Return scikit-learn's median time over another one's."""
    return statistics.median(measured.peer.seconds) / statistics.median(each.seconds)


def equality(measured: Map) -> str:
    """Say how far the results are apart, and whose digits are right where they are farthest."""
    differences, filled = measured.differences, measured.filled
    within = differences[filled].max()
    digits = math.floor(-math.log10(max(within, np.finfo(float).eps)))
    worst = np.argsort(differences)[-_WORST:]
    peer, ours = measured.errors(worst)
    return (
        f"Same answer: where the density is above {EMPTY:.0e} of its peak ({filled.mean():.0%} of the points), the log "
        f"densities differ by at most {within:.0e}, so {digits} digits of the density agree. At the other points they "
        f"differ by up to {differences.max():.0e}. A plain float64 sum at the {len(worst)} points with the largest "
        f"differences shows the errors: up to {peer:.0e} for scikit-learn and {ours:.0e} for cukde."
    )


def show_methods(comparisons: Sequence[Comparison]) -> None:
    """Print the methods' mean log densities at held-out rows, and who is ahead of KDE, behind it or level."""
    rows = len(comparisons[0].log_density["kde"])
    print(f"Which method predicts best? Mean log density of {rows} held-out digits, in nats:\n")
    titles = (title for each in comparisons for title in (f"{each.dimensions} axes", "lead over kde"))
    table: list[tuple[str, ...]] = [("method", *titles)]
    table += [(method, *(cell for each in comparisons for cell in cells(each, method))) for method in METHODS]
    _print_table(table)
    _print_text(" ".join(verdicts(comparisons)))


def cells(comparison: Comparison, method: str) -> tuple[str, str]:
    """Return a method's mean log density and its lead, with the standard error, as the table shows them."""
    log_density = comparison.log_density[method]
    if negative := int(np.isnan(log_density).sum()):
        return "none", f"negative at {negative}"
    lead, error = comparison.lead(method)
    return f"{log_density.mean():.3f}", "" if method == "kde" else f"{lead:+.3f} ± {error:.3f}"


def verdicts(comparisons: Sequence[Comparison]) -> Iterator[str]:
    """Yield a sentence for each comparison, then what the numbers mean."""
    for each in comparisons:
        standings: dict[str, list[str]] = {"ahead": [], "level": [], "behind": []}
        for method in METHODS[1:]:
            standings[each.verdict(method)].append(method)
        clauses = [
            f"{' and '.join(methods)} {'is' if len(methods) == 1 else 'are'} {word}"
            for word, methods in standings.items()
            if methods
        ]
        yield f"On {each.dimensions} axes, compared with kde: {'; '.join(clauses)}."
    yield (
        "A lead of 0.01 means that densities at new digits are 1% higher. A lead within two standard errors (±) is "
        f"level. Bandwidths are chosen by {FOLDS}-fold cross-validation of the other digits; for laplace, only from "
        "those with which no density is negative."
    )


def _print_table(rows: Sequence[Sequence[str]]) -> None:
    """Print a table whose first row is its head and whose first column has the names."""
    head, *lines = aligned.lines(rows, range(1, len(rows[0])))
    print(head, "-" * max(map(len, (head, *lines))), *lines, "", sep="\n")


def _print_text(text: str) -> None:
    print(textwrap.fill(text, min(shutil.get_terminal_size().columns, _WIDEST), break_on_hyphens=False))
