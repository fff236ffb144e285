"""The numbers of docs/embeddings.md and docs/embeddings_evidence.md: tables and sentences, of the record.

python -m benchmarks.density.embeddings_page
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.density.bench_embeddings import LOOKED_AT, MODES, NORMAL, NORMAL_ROWS, NUMBERS_OF_AXES
from benchmarks.density.embedding_detectors import DETECTORS
from benchmarks.density.embeddings import DIMENSIONS, SETS
from benchmarks.tools import records

_ROOT = Path(__file__).parents[2]
PAGE = _ROOT / "docs" / "embeddings.md"
RECORD = _ROOT / "benchmarks" / "results" / "embeddings_cpu.json"
FIGURE = _ROOT / "docs" / "embeddings.svg"
PARTS = {
    PAGE: ("densities", "cross_validation", "axes", "alarms"),
    PAGE.with_name("embeddings_evidence.md"): ("table", "detectors", "likelihood", "bounds"),
}
"""What stands between marks of a page, each made by the method of that name."""

_TIMED = "nine digits"
_HALF = 0.5  # of a density
_BOUNDING = 32  # axes
_OURS, _NORMAL = "KDE of axes and rest", "normal axes and rest"
_ALL, _RULE, _NEAREST = "KDE, cross-validated", "KDE, its rule", "nearest neighbour"
_ALARMS = {_OURS: "the density", "the rest alone": "the rest"}
_RIVALS = (_NEAREST, "LocalOutlierFactor", "IsolationForest")


class Numbers:
    """Rows of a record, as the page says them."""

    def __init__(self, run: dict[str, Any]) -> None:
        """Take a record of bench_embeddings."""
        self._rows = run["rows"]

    def row(self, op: str, of: str, d: int | None = None, k: int | None = None) -> dict[str, Any]:
        """The only row of that operation, set and size."""
        found = [
            row
            for row in self._rows
            if (row["op"], row["shape"]["set"], row["shape"]["d"], row["shape"].get("k")) == (op, of, d, k)
        ]
        if len(found) != 1:
            raise LookupError(f"expected a row {op!r} of {of}, d = {d}, k = {k} in the record; got {len(found)}")
        return found[0]

    def each(self, op: str, name: str) -> list[float]:
        """A number of every set and dimension."""
        return [self.row(op, of.name, d)[name] for of in SETS for d in DIMENSIONS]

    def table(self) -> str:
        """AUROC of every detector at 1,024 columns, and a time."""
        head = ["detector", *(of.name for of in SETS), f"ms, {_TIMED}"]
        lines = [_line(head), "|" + "---|" * len(head)]
        for detector in DETECTORS:
            rows = [self.row(detector.name, of.name, LOOKED_AT) for of in SETS]
            cells = [f"{row['auroc']:.3f} ({row['auroc_q1']:.3f} to {row['auroc_q3']:.3f})" for row in rows]
            timed = self.row(detector.name, _TIMED, LOOKED_AT)["median_ms"]
            lines.append(_line([detector.name, *cells, f"{timed:,.0f}"]))
        return "\n".join(lines)

    def densities(self) -> str:
        """What becomes of densities in all columns."""
        own = min(self.each(_RULE, "own_share") + self.each(_ALL, "own_share"))
        moved = max(self.each("SD-KDE, its rule", "moved"))
        negative = self.each("Laplace, its rule", "without_log")
        modes = [self.row("modes", of.name, MODES) for of in SETS]
        counted = _listed(
            f"{row['modes']:,} modes in {row['shape']['n']:,} rows ({row['shape']['set']})" for row in modes
        )
        lines = [
            f"A row's own kernel gives {_floor(own)} or more of the density there, by rule or cross-validation.",
            f"With {MODES} columns and Silverman's rule, `modes` finds {counted}.",
            f"`debias` moves half of the rows by {_at_most(moved)} bandwidths or less, so `sd_kde` is nearly `kde`.",
            f"`laplace_kde` is negative at {_percents(negative)} of the queries, so it has no logarithm there.",
        ]
        return "\n".join(f"- {line}" for line in lines)

    def cross_validation(self) -> str:
        """What a bandwidth by likelihood makes of them."""
        apart = max(abs(a - b) for a, b in zip(self.each(_ALL, "auroc"), self.each(_NEAREST, "auroc"), strict=True))
        share = _floor(min(self.each(_ALL, "nearest_share")))
        return (
            f"The row nearest to a query gives {share} or more of the density there. "
            f"The AUROC of KDE differs from that of the distance to the nearest neighbour by at most {_at_most(apart)}."
        )

    def detectors(self) -> str:
        """How far the AUROC of axes and rest is ahead."""
        lines = []
        for of in SETS:
            ahead = {
                rival: [self.row(_OURS, of.name, d)["auroc"] - self.row(rival, of.name, d)["auroc"] for d in DIMENSIONS]
                for rival in _RIVALS
            }
            lines.append(f"- {of.name}: {'; '.join(f'{_signed(gain)} over {rival}' for rival, gain in ahead.items())}")
        pairs = zip(self.each("SD-KDE of axes and rest", "auroc"), self.each(_OURS, "auroc"), strict=True)
        most = max(abs(a - b) for a, b in pairs)
        return "\n".join([*lines, f"- SD-KDE of axes and rest differs from KDE in AUROC by at most {_at_most(most)}"])

    def likelihood(self) -> str:
        """How far the log density of axes and rest is ahead."""
        lines = []
        for of in SETS:
            ours, normal, *others = (
                [self.row(name, of.name, d)["log_density"] for d in DIMENSIONS]
                for name in (_OURS, _NORMAL, _ALL, _RULE)
            )
            over_all = [a - max(both) for a, *both in zip(ours, *others, strict=True)]
            over_normal = [a - b for a, b in zip(ours, normal, strict=True)]
            lines.append(
                f"- {of.name}: {_signed(over_all, '+,.0f')} nats a row over the better KDE of all columns; "
                f"{_signed(over_normal, '+,.0f')} over normal axes and rest"
            )
        return "\n".join(lines)

    def alarms(self) -> str:
        """What levels are worth."""
        by_fitted, by_kept = (
            _listed(f"{_percents(self.each(op, f'false_alarms{of}'))} by {what}" for op, what in _ALARMS.items())
            for of in ("_by_fitted_rows", "")
        )
        return (
            f"Levels for 5% of false alarms, taken from the fitted rows, give {by_fitted}. "
            f"Levels taken from a held-out fifth of the rows give {by_kept}."
        )

    def axes(self) -> str:
        """Of how many axes a density has a shape."""
        few = {
            of.name: [
                row["shape"]["k"]
                for row in self._rows
                if (row["op"], row["shape"]["set"]) == ("so many axes", of.name) and row["own_share"] < _HALF
            ]
            for of in SETS
        }
        normal = max(d for d in NUMBERS_OF_AXES if self.row("own share", NORMAL, d)["own_share"] < _HALF)
        return (
            "Of 1, 2, 4, 8, ... axes, the largest number at which a row's own kernel gives less than half of the "
            f"density is {_listed(f'{max(k)} ({name})' for name, k in few.items())}. "
            f"For {NORMAL_ROWS:,} rows of independent normal columns it is {normal}."
        )

    def bounds(self) -> str:
        """What axes prove of the density of all columns."""
        rows = [self.row("so many axes", of.name, LOOKED_AT, _BOUNDING) for of in SETS]
        widths = _listed(f"{row['width']:,.0f}" for row in rows)
        certain = _listed(f"{int(100 * row['certain'])}% ({row['shape']['set']})" for row in rows)
        return (
            f"With {_BOUNDING} axes of {LOOKED_AT:,} columns, the median distance between the bounds is {widths} nats. "
            f"They prove which of the two has the higher density for {certain} of the pairs of an ordinary row and an "
            "anomaly."
        )


def page_with(text: str, parts: Iterable[str], numbers: Numbers) -> str:
    """Return a page with other numbers between its marks."""
    for part in parts:
        begin, end = f"<!-- {part}: begin -->", f"<!-- {part}: end -->"
        before, rest = text.split(begin)
        text = f"{before}{begin}\n\n{getattr(numbers, part)()}\n\n{end}{rest.split(end)[1]}"
    return text


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _listed(parts: Iterable[str]) -> str:
    *first, last = parts
    return f"{', '.join(first)} and {last}"


def _signed(numbers: Iterable[float], form: str = "+.3f") -> str:
    return _listed(f"{number:{form}}".replace("-0.000", "0.000") for number in numbers)


def _floor(share: float) -> str:
    """A share near 1, which is no less than said."""
    return f"{int(1000 * share) / 1000:.3f}"


def _at_most(number: float) -> str:
    """A small number of one digit, which is no more than said."""
    digit = 10.0 ** np.floor(np.log10(number)) if number else 1.0
    return f"{np.ceil(number / digit) * digit:.1g}"


def _percents(numbers: list[float]) -> str:
    return f"{100 * min(numbers):.0f} to {100 * max(numbers):.0f}%"


if __name__ == "__main__":
    for page, parts in PARTS.items():
        text = page_with(page.read_text(encoding="utf-8"), parts, Numbers(records.read(RECORD)))
        page.write_text(text, encoding="utf-8")
