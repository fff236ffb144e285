"""Figures and table of docs/choosing_evidence.md, made of the records of bench_rule_of_thumb and bench_bias_order.

python -m docs.figures.choosing

takes all benchmarks/results/rule_of_thumb_*.json and bias_order_*.json, draws docs/choosing_sets.svg and
docs/choosing_densities.svg, and writes what stands between the marks of the page. Of a case that several records have,
the one of most draws counts.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.bandwidth.normal_mixtures import family
from benchmarks.bandwidth.real_sets import SETS
from benchmarks.tools.records import read
from cukde.bandwidth import selection

ROOT = Path(__file__).resolve().parents[2]
RESULTS, DOCS = ROOT / "benchmarks" / "results", ROOT / "docs"
PAGE = DOCS / "choosing_evidence.md"
BEGIN = "<!-- made of records: begin (python -m docs.figures.choosing) -->"
END = "<!-- made of records: end -->"

STUDY, ORDERS = "rule_of_thumb_*.json", "bias_order_*.json"

SEVERAL_SCALES = 4.0  # how many times the widest component of a density is as wide as the narrowest, or more
LARGE = 10_000  # rows

ARMS = {
    "`select`": ("select", "folds"),
    "`kde`, `silverman`": ("kde", "reference"),
    "`kde`, `isj`": ("kde", "isj"),
    "`kde`, least squares": ("kde", "least_squares"),
    "`kde`, likelihood": ("kde", "likelihood"),
    "`sd_kde`, `sd`": ("sd", "reference"),
    "`sd_kde`, likelihood": ("sd", "likelihood"),
    "`sd_kde`, `steps=2`, folds": ("sd2", "folds"),
    "`positive_kde`, `positive`": ("positive", "reference"),
    "`positive_kde`, likelihood": ("positive", "likelihood"),
    "`kde`, `abramson`, `silverman`": ("abramson", "reference"),
    "`kde`, `abramson`, folds": ("abramson", "folds"),
}
"""Method and rule of each row of the table."""

ARMS_OF_SQUARES = {
    **ARMS,
    "`sd_kde`, least squares": ("sd", "least_squares"),
    "`positive_kde`, least squares": ("positive", "least_squares"),
    "`laplace_kde`, `laplace`": ("laplace", "reference"),
    "`laplace_kde`, least squares": ("laplace", "least_squares"),
}
"""Those whose squared errors are compared: densities that can be negative, too."""

_COLOURS = {
    "select": "black",
    "kde": "tab:gray",
    "sd": "tab:blue",
    "sd2": "tab:cyan",
    "positive": "tab:green",
    "laplace": "tab:orange",
    "abramson": "tab:red",
}
_MARKS = {"reference": "s", "isj": "^", "least_squares": "v", "likelihood": "o", "folds": "D"}


class Case(NamedTuple):
    """A density or a set, at one size."""

    name: str
    d: int
    n: int
    row: dict[str, Any]

    @property
    def is_real(self) -> bool:
        return self.name in {each.name for each in SETS}

    @property
    def has_several_scales(self) -> bool:
        (oracle,) = (one for one in family(self.d) if one.name == self.name)
        return bool(oracle.deviations.max() / oracle.deviations.min() >= SEVERAL_SCALES)

    def value(self, name: str, arm: tuple[str, str]) -> float:
        """Of an arm; NaN where there is none."""
        method, rule = arm
        return float(self.row["results"].get(method, {}).get(rule, {}).get(name, math.nan))

    def excess(self, arm: tuple[str, str]) -> float:
        """Nats that an arm loses against the best of all arms."""
        return self.value("loss", arm) - float(np.nanmin([self.value("loss", each) for each in ARMS.values()]))

    def squares(self, arm: tuple[str, str]) -> float:
        """Squared error of an arm over the least of all arms."""
        least = float(np.nanmin([self.value("ise", each) for each in ARMS_OF_SQUARES.values()]))
        return self.value("ise", arm) / least


def cases(runs: Sequence[dict[str, Any]]) -> list[Case]:
    """Those of the records, small ones first."""
    found: dict[tuple[str, int, int], Case] = {}
    for run in runs:
        for row in run["rows"]:
            if row["op"] == "rule_of_thumb":
                case = Case(row["density"], row["shape"]["d"], row["shape"]["n"], row)
                before = found.get(case[:3])
                if before is None or before.row["draws"] < row["draws"]:
                    found[case[:3]] = case
    return sorted(found.values(), key=lambda case: (case.n, case.d, case.name))


GROUPS: dict[str, Callable[[Case], bool]] = {
    "one scale, 1-D": lambda case: not case.is_real and case.d == 1 and not case.has_several_scales,
    "one scale, more": lambda case: not case.is_real and case.d > 1 and not case.has_several_scales,
    "several scales, 1-D": lambda case: not case.is_real and case.d == 1 and case.has_several_scales,
    "several scales, more": lambda case: not case.is_real and case.d > 1 and case.has_several_scales,
}
"""Of the known densities."""


def columns(of: Sequence[Case]) -> Iterator[tuple[str, list[Case]]]:
    """Of the table: groups of densities by size, and the real sets."""
    for name, belongs in GROUPS.items():
        for size, fits in (("few rows", lambda n: n < LARGE), ("many rows", lambda n: n >= LARGE)):
            group = [case for case in of if belongs(case) and fits(case.n)]
            if group:
                yield f"{name}, {size}", group
    real = [case for case in of if case.is_real]
    if real:
        yield "real sets", real


def table(of: Sequence[Case]) -> str:
    """Median and worst excess of each arm, the least median of a column in bold."""
    groups = list(columns(of))
    lines = ["| | " + " | ".join(name for name, _ in groups) + " |", "|---" * (len(groups) + 1) + "|"]
    excess = {
        name: [np.array([case.excess(arm) for case in group]) for _, group in groups] for name, arm in ARMS.items()
    }
    middle = {name: [_median(values) for values in by_group] for name, by_group in excess.items()}
    least = [np.nanmin([values[k] for values in middle.values()]) for k in range(len(groups))]
    for name, by_group in excess.items():
        if all(np.isnan(middle[name])):
            continue
        cells = []
        for values, median, best in zip(by_group, middle[name], least, strict=True):
            if math.isnan(median):
                cells.append("")
                continue
            text = f"{median:.3f} ({_worst(float(np.nanmax(values)))})"
            cells.append(f"**{text}**" if median == best else text)
        lines.append(f"| {name} | {' | '.join(cells)} |")
    by_hand = [_first(middle, k) for k in range(len(groups))]
    counts = [str(len(group)) for _, group in groups]
    return "\n".join([*lines, f"| **take by hand** | {' | '.join(by_hand)} |", f"| cases | {' | '.join(counts)} |"])


def _first(middle: dict[str, list[float]], k: int) -> str:
    """The arm of the least median of a column, but for the one that chooses."""
    known = {name: values[k] for name, values in middle.items() if name != "`select`" and not math.isnan(values[k])}
    return min(known, key=known.__getitem__)


def _median(values: np.ndarray) -> float:
    """Of the known ones; NaN where an arm is missing in half of the cases."""
    known = values[np.isfinite(values)]
    return float(np.median(known)) if 2 * len(known) > len(values) else math.nan


def _worst(value: float) -> str:
    return f"{value:.2f}" if value < 100 else f"{value:,.0f}"


def _milliseconds(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.2f}"


def findings(of: Sequence[Case], orders: Sequence[dict[str, Any]]) -> str:
    """Sentences with numbers."""
    real = [case for case in of if case.is_real]
    lines = []
    for name, group in (("real sets", real), ("known densities", [case for case in of if not case.is_real])):
        if not group:
            continue
        excess = [case.excess(ARMS["`select`"]) for case in group]
        took: dict[str, int] = {}
        for case in group:
            for method, count in case.row["took"].items():
                took[method] = took.get(method, 0) + count
        shares = ", ".join(f"{method} {count / sum(took.values()):.0%}" for method, count in sorted(took.items()))
        lines.append(
            f"- On {len(group)} cases of {name} `select` loses {np.median(excess):.3f} nats in the median and at most "
            f"{max(excess):.2f} against the best choice of the table in hindsight. It takes {shares} of the samples."
        )
    negative = [case.value("negative_mass", ("laplace", "reference")) for case in of if not case.is_real]
    negative = [value for value in negative if not math.isnan(value)]
    if negative:
        lines.append(
            "- The Laplace-corrected estimate, which has no likelihood, has a negative mass of "
            f"{np.median(negative):.1%} in the median and at most {max(negative):.0%} by its rule."
        )
    known = [case for case in of if not case.is_real]
    if known:
        ratios = {label: np.array([case.squares(arm) for case in known]) for label, arm in ARMS_OF_SQUARES.items()}
        middle = {label: median for label, values in ratios.items() if not math.isnan(median := _median(values))}
        parts = [
            f"{label} {middle[label]:.2f} ({np.nanmax(ratios[label]):.1f})" for label in sorted(middle, key=middle.get)
        ]
        lines.append(
            "- Squared errors over the least of all choices on the known densities, the median and the worst case: "
            f"{'; '.join(parts)}."
        )
    timed = [case for case in of if case.name == "normal, balls" and case.d == 4 and case.n <= LARGE]
    if timed:
        case = timed[-1]
        apart = {(method, "folds") for method in selection.CANDIDATES}  # whose time is that of the selection
        times = {label: case.value("choose_ms", arm) for label, arm in ARMS.items() if arm not in apart}
        parts = [f"{label} {_milliseconds(ms)} ms" for label, ms in times.items() if not math.isnan(ms)]
        lines.append(
            f"- Time to choose, {case.n:,} rows of 4 columns, {case.row['backend'].upper()}: {', '.join(parts)}."
        )
    exact = [row for row in orders if row.get("arm") == "infinite sample"]
    for order in sorted({row["theory"] for row in exact}):
        slopes = [row["slope"] for row in exact if row["theory"] == order]
        names = sorted({row["method"] for row in exact if row["theory"] == order})
        dimensions = ", ".join(map(str, sorted({row["shape"]["d"] for row in exact})))
        lines.append(
            f"- The bias of {', '.join(f'`{name}`' for name in names)} goes like h to the power {min(slopes):.2f} to "
            f"{max(slopes):.2f} in d = {dimensions}; theory says {order}."
        )
    return "\n".join(lines)


def made(folder: Path = RESULTS) -> str:
    """What stands between the marks of the page."""
    names = ", ".join(f"`{path.name}`" for pattern in (STUDY, ORDERS) for path in sorted(folder.glob(pattern)))
    of = cases(records(STUDY, folder))
    orders = [row for run in records(ORDERS, folder) for row in run["rows"]]
    return f"{BEGIN}\n\n{table(of)}\n\n{findings(of, orders)}\n\nRecords: {names}.\n\n{END}"


def written(page: str, between: str) -> str:
    """The page with what is between its marks."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return before + between + after


def draw_sets(of: Sequence[Case], to: Path) -> None:
    """Excess of each arm on each real set."""
    from matplotlib.figure import Figure

    real = [case for case in of if case.is_real]
    figure = Figure(figsize=(8, 0.42 * len(real) + 1.8), layout="constrained")
    axes = figure.subplots()
    for label, arm in ARMS.items():
        excess = np.array([case.excess(arm) for case in real])
        if np.isfinite(excess).any():
            style = {"color": _COLOURS[arm[0]], "marker": _MARKS[arm[1]], "facecolors": _face(arm)}
            axes.scatter(np.maximum(excess, 0), range(len(real)), s=30, label=label.replace("`", ""), **style)
    axes.set_xscale("symlog", linthresh=0.01)
    axes.set_xlim(left=-0.002)
    axes.set_yticks(range(len(real)), [f"{case.name}\n{case.n:,} x {case.d}" for case in real], fontsize=7)
    axes.set_xlabel("nats lost against the best, rows left out")
    axes.grid(alpha=0.3)
    figure.legend(loc="outside lower center", fontsize=7, ncols=4)
    _save(figure, to)


def draw_densities(of: Sequence[Case], to: Path) -> None:
    """Excess, and squared errors over those of KDE by Silverman's rule, against the number of rows."""
    from matplotlib.figure import Figure

    known = [case for case in of if not case.is_real]
    figure = Figure(figsize=(12, 6.4), layout="constrained")
    panels = figure.subplots(2, len(GROUPS), sharex=True)
    for (name, belongs), pair in zip(GROUPS.items(), panels.T, strict=True):
        group = [case for case in known if belongs(case)]
        sizes = sorted({case.n for case in group})
        for label, arm in ARMS_OF_SQUARES.items():
            losses = [_median(np.array([case.excess(arm) for case in group if case.n == n])) for n in sizes]
            ratios = [_median(np.array([_ratio(case, arm) for case in group if case.n == n])) for n in sizes]
            style = {
                "color": _COLOURS[arm[0]],
                "marker": _MARKS[arm[1]],
                "markerfacecolor": _face(arm),
                "markersize": 4,
            }
            for axes, values in zip(pair, (losses, ratios), strict=True):
                if np.isfinite(values).any():
                    axes.plot(sizes, values, linewidth=1, label=label.replace("`", ""), **style)
        pair[0].set_title(name, fontsize=10)
        pair[0].set_yscale("symlog", linthresh=0.01)
        pair[1].set_yscale("log")
        pair[1].set_xscale("log")
        pair[1].set_xlabel("rows")
        for axes in pair:
            axes.grid(alpha=0.3)
    panels[0, 0].set_ylabel("nats lost against the best")
    panels[1, 0].set_ylabel("squared error over that of KDE, silverman")
    handles, labels = panels[1, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", fontsize=7, ncols=5)
    _save(figure, to)


def _ratio(case: Case, arm: tuple[str, str]) -> float:
    return case.value("ise", arm) / case.value("ise", ("kde", "reference"))


def _face(arm: tuple[str, str]) -> str:
    """Reference rules are hollow."""
    return "none" if arm[1] in ("reference", "isj") else _COLOURS[arm[0]]


def _save(figure: Any, to: Path) -> None:
    from matplotlib import rc_context

    with rc_context({"svg.hashsalt": "cukde"}):
        figure.savefig(to, metadata={"Date": None})


def records(pattern: str, folder: Path = RESULTS) -> list[dict[str, Any]]:
    return [read(path) for path in sorted(folder.glob(pattern))]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m docs.figures.choosing", description=__doc__)
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder of the records")
    wanted = parser.parse_args()
    of, between = cases(records(STUDY, wanted.results)), made(wanted.results)
    draw_sets(of, DOCS / "choosing_sets.svg")
    draw_densities(of, DOCS / "choosing_densities.svg")
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8"), between), encoding="utf-8")
    print(between)


if __name__ == "__main__":
    main()
