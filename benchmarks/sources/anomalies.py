"""Section 7: anomalies in real data, found by densities and by scikit-learn's detectors: AUROC and time."""

from __future__ import annotations

import functools
import warnings
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

import cukde
from benchmarks import peers, record
from benchmarks.sources import datasets, detectors
from benchmarks.sources.datasets import Labelled, Set, Split
from benchmarks.sources.detectors import DENSITIES, RIVALS, Density, Rival
from benchmarks.sources.section import Cell, Figure, Outcome, Section, Series, Setting, Table


class Sizes(NamedTuple):
    """How much of each set is taken; None: all of it."""

    fitted: int | None
    scored: int | None
    slow_fitted: int  # of the rivals that are slow
    slow_scored: int
    cross_validated: int  # rows
    densities: int  # the first so many
    splits: int
    checked: int  # rows, against float64
    seconds: float  # of a measurement


# A sample of 1,500 rows has no constant column where the whole has none.
QUICK = Sizes(5_000, 2_000, 1_000, 1_000, 1_500, densities=4, splits=2, checked=20, seconds=0)
FULL = Sizes(None, None, 10_000, 10_000, 4_000, densities=5, splits=10, checked=50, seconds=0.2)
WITHOUT_GPU = FULL._replace(fitted=50_000, scored=20_000)  # minutes on two cores, not an hour

MANY = 100_000
"""Rows beyond which densities other than KDE by its rule run on the GPU alone, where there is one."""

STEPS = ("fit", "score_samples")

_COLUMNS = ["method", "bandwidth", "rows fitted", "rows scored", "AUROC", "± of splits", "worst error"]
_TIMES = ["fit, CPU, ms", "score, CPU, ms", "fit, GPU, ms", "score, GPU, ms"]


@dataclass
class Line:
    """What was found of a detector on a set."""

    name: str
    bandwidth: str
    fitted: int  # rows
    scored: int
    areas: list[float]  # AUROC, a number a split
    error: float | None = None  # of densities, relative
    times: dict[tuple[str, str], Cell] = field(default_factory=dict)  # ms, or the reason for none, by step and backend
    negative: float = 0.0  # part of the scored rows that have a negative density
    at_end: int = 0  # splits on which cross-validation chose an end of its range

    @property
    def mean(self) -> float:
        """AUROC."""
        return float(np.mean(self.areas))

    @property
    def spread(self) -> float:
        """Its deviation over the splits."""
        return float(np.std(self.areas, ddof=1))

    def cells(self) -> list[Cell]:
        """A row of a table."""
        times = [self.times.get((step, backend)) for backend in ("cpu", "gpu") for step in STEPS]
        return [self.name, self.bandwidth, self.fitted, self.scored, self.mean, self.spread, self.error, *times]


@dataclass
class Found:
    """What was found on a set."""

    set: Set
    data: Labelled
    first: Split
    lines: list[Line]
    rows: list[dict[str, Any]]
    log_densities: np.ndarray  # of the first split's scored rows, by KDE


def measured(each: Set, data: Labelled, sizes: Sizes, no_gpu: str | None) -> Found:
    """Fit and score every detector on the same splits; times are of the first one.

    Where a GPU works the AUROC of densities is that of its scores; those of the CPU differ by no more than both are
    checked for.
    """
    splits = [
        datasets.split(data, each.anomalies(data.labels, seed), seed, sizes.fitted, sizes.scored)
        for seed in range(min(each.splits, sizes.splits))
    ]
    lines, rows = [], []
    rivals = [_Fitted(rival, splits, sizes) for rival in RIVALS]
    for density in DENSITIES[: sizes.densities]:
        line, of_density = _density(density, splits, sizes, no_gpu, rivals if density is DENSITIES[0] else [])
        lines.append(line)
        about = {"set": each.name, "method": density.method, "bandwidth": density.bandwidth}
        rows += [row | about | {"auroc": line.mean, "auroc_deviation": line.spread} for row in of_density]
    log_p = DENSITIES[0].fit(splits[0].fitted, sizes.cross_validated).score_samples(splits[0].scored)
    return Found(each, data, splits[0], lines + [rival.line for rival in rivals], rows, log_p)


class _Fitted:
    """A rival's AUROC, and what its times are taken of."""

    def __init__(self, rival: Rival, splits: list[Split], sizes: Sizes) -> None:
        n, m = (sizes.slow_fitted, sizes.slow_scored) if rival.slow else (None, None)
        fits = [rival.make(seed).fit(s.fitted[:n]) for seed, s in enumerate(splits)]
        scored = zip(fits, splits, strict=True)
        areas = [detectors.area(of.score_samples(s.scored[:m]), s.anomaly[:m]) for of, s in scored]
        self.rival, self.fitted, self.X, self.Y = rival, fits[0], splits[0].fitted[:n], splits[0].scored[:m]
        self.line = Line(f"scikit-learn {rival.name}", _bandwidth_of(rival), len(self.X), len(self.Y), areas)
        self.part = len(self.Y) / len(splits[0].scored)
        self.label = self.line.name + (f" of {len(self.X):,} rows" if len(self.X) < len(splits[0].fitted) else "")

    def fit(self) -> tuple[Any, None]:
        """As a peer."""
        return functools.partial(self.rival.make(0).fit, self.X), None

    def score_samples(self) -> tuple[Any, None] | tuple[Any, None, float]:
        """As a peer; of a part of the queries where it is slow."""
        call = functools.partial(self.fitted.score_samples, self.Y)
        return (call, None) if self.part == 1 else (call, None, self.part)


def _bandwidth_of(rival: Rival) -> str:
    return f"{rival.make(0).bandwidth:g}, the default" if rival.name == "KernelDensity" else ""


def _density(
    density: Density, splits: list[Split], sizes: Sizes, no_gpu: str | None, rivals: list[_Fitted]
) -> tuple[Line, list[dict[str, Any]]]:
    """A density's line and rows; the rivals are timed beside it, and their lines are given their times."""
    first = splits[0]
    line = Line(f"cukde {density.name}", density.bandwidth, len(first.fitted), len(first.scored), [])
    rows = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", cukde.BandwidthRangeWarning)
        for backend in _backends(density, len(first.fitted), no_gpu):
            X, Y = (detectors.there(A, backend) for A in (first.fitted, first.scored))
            fitted = density.fit(X, sizes.cross_validated)
            error = detectors.check(fitted, first.fitted, first.scored[: sizes.checked], backend)
            line.error = max(error, line.error or 0)
            (n, d), m = X.shape, len(Y)
            calls = {
                "fit": (functools.partial(density.fit, X, sizes.cross_validated), {"n": n, "d": d}),
                "score_samples": (functools.partial(fitted.score_samples, Y), {"n": n, "m": m, "d": d}),
            }
            for step, (call, shape) in calls.items():
                peers = {r.label: getattr(r, step)() for r in rivals} if backend == "cpu" else {}
                row = _row(density, backend, step, shape, error)
                of_step = record.compared(call, row, peers, seconds=sizes.seconds)
                line.times[step, backend] = of_step[0]["median_ms"]
                for rival in rivals if backend == "cpu" else []:
                    peer = next(
                        r["peer"] for r in of_step if r.get("peer", {"name": ""})["name"].startswith(rival.label)
                    )
                    rival.line.times[step, backend] = peer.get("median_ms", peer.get("reason"))
                    peer |= {"auroc": rival.line.mean, "auroc_deviation": rival.line.spread}
                rows += of_step
    left_out = {"cpu": f"not timed: KDE alone beyond {MANY:,} rows", "gpu": no_gpu}
    for backend, why in left_out.items():
        line.times |= {(step, backend): why for step in STEPS if (step, backend) not in line.times}
    _score_all(density, splits, sizes, "cpu" if no_gpu else "gpu", line)
    return line, rows


def _backends(density: Density, n: int, no_gpu: str | None) -> tuple[str, ...]:
    """Where a density is checked and timed."""
    if no_gpu is not None:
        return ("cpu",)
    return ("gpu",) if density is not DENSITIES[0] and n > MANY else ("cpu", "gpu")


def _score_all(density: Density, splits: list[Split], sizes: Sizes, backend: str, line: Line) -> None:
    """AUROC on each of the splits."""
    negative = []
    for s in splits:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", cukde.BandwidthRangeWarning)
            fitted = density.fit(detectors.there(s.fitted, backend), sizes.cross_validated)
        line.at_end += any(issubclass(w.category, cukde.BandwidthRangeWarning) for w in caught)
        log_p = fitted.score_samples(detectors.there(s.scored, backend))
        line.areas.append(detectors.area(log_p, s.anomaly))
        negative.append(float((log_p != log_p).mean()))
    line.negative = float(np.mean(negative))


def _row(density: Density, backend: str, step: str, shape: dict[str, int], error: float) -> dict[str, Any]:
    """What rows of a record say beside times."""
    return {
        "op": f"KernelDensity.{step}",
        "backend": backend,
        "shape": shape,
        "dtype": "float32",
        "precision": "float32",
        "rel_err_max": error,
    }


def table(found: Found) -> Table:
    """What each detector did on a set."""
    n, d = found.first.fitted.shape
    m, anomalies = len(found.first.scored), int(found.first.anomaly.sum())
    note = (
        f"{n:,} ordinary rows of {d} columns fitted, {m:,} scored ({anomalies:,} anomalies), "
        f"{len(found.lines[0].areas)} splits. Fits of densities include the choice of the bandwidth. Errors are "
        "relative to the density, Laplace's to the sum of absolute terms."
    )
    if any(line.scored < m for line in found.lines):
        note += f" Where fewer rows are scored, the time is scaled up to {m:,}."
    return Table(f"Anomalies: {found.set.name}", [*_COLUMNS, *_TIMES], [line.cells() for line in found.lines], note)


def sets_table(found: list[Found], missing: dict[str, str]) -> Table:
    """What the sets are."""
    rows: list[list[Cell]] = []
    have = {each.set.name: each for each in found}
    for each in datasets.SETS:
        if each.name in missing:
            rows.append([each.name, None, None, None, each.what, each.dropped, missing[each.name]])
            continue
        data = have[each.name].data
        shares = [each.anomalies(data.labels, seed).mean() for seed in range(len(have[each.name].lines[0].areas))]
        rows.append([each.name, *data.X.shape, float(np.mean(shares)), each.what, each.dropped, None])
    columns = ["set", "rows", "columns", "share of anomalies", "an anomaly is", "left out", "missing"]
    return Table("Anomalies: the sets", columns, rows, _SETS_NOTE)


_SETS_NOTE = (
    "Detectors are fitted to four fifths of the ordinary rows, standardised by them, and score the rest and the "
    "anomalies. Flights of one hour share its weather and lie in both parts."
)


def areas_figure(found: list[Found]) -> Figure:
    """AUROC of each detector on each set."""
    names = [each.set.name for each in found]
    series = []
    for k, line in enumerate(found[0].lines):
        areas = [each.lines[k].areas for each in found]
        series.append(Series(line.name, names, [*map(_mean, areas)], [*map(min, areas)], [*map(max, areas)]))
    caption = "Bands are from the least to the greatest of the splits. 0.5 is what guesses have."
    return Figure("Anomalies: AUROC", "set", "AUROC", series, "bars", caption=caption)


def _mean(values: list[float]) -> float:
    return float(np.mean(values))


def _total(line: Line, backend: str) -> float | None:
    """Milliseconds to fit and score; None where one of them was not timed."""
    parts = [line.times.get((step, backend)) for step in STEPS]
    numbers = [float(part) for part in parts if isinstance(part, int | float)]
    return sum(numbers) if len(numbers) == len(STEPS) else None


def times_figure(found: Found) -> Figure:
    """AUROC against time on one set, a point a detector and where it ran."""
    series = [
        Series(f"{line.name}, {backend.upper()}", [total], [line.mean])
        for line in found.lines
        for backend in ("cpu", "gpu")
        if (total := _total(line, backend)) is not None
    ]
    caption = f"To score {len(found.first.scored):,} rows; the time of detectors that score fewer is scaled up."
    title = f"Anomalies: AUROC against time, {found.set.name}"
    return Figure(title, "fit and score, ms", "AUROC", series, "points", log_x=True, caption=caption)


_BINS = 40


def densities_figure(found: Found) -> Figure:
    """How log densities of the two kinds of rows lie: what makes an AUROC."""
    low, high = np.quantile(found.log_densities, [0.02, 1])
    edges = np.linspace(low, high, _BINS + 1)
    centres = [float(c) for c in (edges[1:] + edges[:-1]) / 2]
    series = []
    for name, of_kind in (("ordinary", ~found.first.anomaly), ("anomalies", found.first.anomaly)):
        counts, _ = np.histogram(np.maximum(found.log_densities[of_kind], low), edges)
        series.append(Series(name, centres, [float(share) for share in counts / of_kind.sum()]))
    caption = "KDE at its rule, first split. The first bin has the lower ones too, 2% of all rows."
    title = f"Anomalies: log densities of {found.set.name}"
    return Figure(title, "log density, nats", "share of the rows of a kind", series, caption=caption)


def findings(found: Found) -> list[str]:
    """Sentences with the numbers of a set."""
    lines = {line.name: line for line in found.lines}
    kde = lines["cukde KDE"]
    ahead = []
    for rival in RIVALS:
        theirs = lines[f"scikit-learn {rival.name}"]
        of = f", bandwidth {theirs.bandwidth}" if theirs.bandwidth else ""
        ahead.append(f"{rival.name}'s {theirs.mean:.3f}{of} ({_verdict(kde.areas, theirs.areas)})")
    said = [f"On {found.set.name} the AUROC of KDE is {kde.mean:.3f}, beside {', '.join(ahead)}."]
    for method in ("SD-KDE", "Laplace"):
        line = lines[f"cukde {method}"]
        change = np.subtract(line.areas, kde.areas)
        text = f"{method} changes KDE's AUROC on {found.set.name} by {change.mean():+.3f}"
        if line.negative:
            text += (
                f"; {line.negative:.1%} of the scored rows have a negative density and rank as one, below the others"
            )
        said.append(f"{text}.")
    said += [
        f"Cross-validation of {line.name} on {found.set.name} chose an end of its range on {line.at_end} of "
        f"{len(line.areas)} splits."
        for line in found.lines
        if line.at_end
    ]
    return said


def _times(found: Found) -> str:
    """How long the densities and the rivals take on a set."""
    parts: list[str] = []
    for line in found.lines:
        sample = f" fitted to {line.fitted:,} rows" if line.fitted < len(found.first.fitted) else ""
        parts += [
            f"{line.name}{sample} {total:,.4g} ms ({backend.upper()})"
            for backend in ("cpu", "gpu")
            if (total := _total(line, backend)) is not None
        ]
    n, m = len(found.first.fitted), len(found.first.scored)
    return f"To fit {n:,} rows of {found.set.name} and score {m:,} takes {', '.join(parts)}."


def _verdict(of_kde: list[float], theirs: list[float]) -> str:
    """On how many splits KDE is ahead, and on how many behind."""
    gains = np.subtract(of_kde, theirs)
    return f"KDE is ahead on {(gains > 0).sum()} and behind on {(gains < 0).sum()} of {len(gains)} splits"


def run(setting: Setting) -> Outcome:
    """Go through the sets; of one that is missing the reason is kept."""
    found, missing = [], {}
    sizes = QUICK if setting.quick else FULL if setting.no_gpu is None else WITHOUT_GPU
    for each in datasets.SETS:
        try:
            data = each.load()
        except ImportError as absent:
            missing[each.name] = peers.reason(absent)
        else:
            found.append(measured(each, data, sizes, setting.no_gpu))
    return Outcome(
        [row for each in found for row in each.rows],
        [sets_table(found, missing), *map(table, found)],
        [areas_figure(found), times_figure(found[-1]), densities_figure(found[-1])],
        [text for each in found for text in findings(each)]
        + [_times(found[-1])]
        + [f"Nothing was measured on {name}: {why}" for name, why in missing.items()],
    )


SECTION = Section(7, "Anomalies in real data", "our own: no source has it", run)
