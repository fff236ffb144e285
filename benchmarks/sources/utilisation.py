"""Section 2: how much of a processor SD-KDE makes use of, by the paper's count of operations and by our own bound."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import cukde
from benchmarks.perf import modelled
from benchmarks.sources import line, measured, runtime
from benchmarks.sources.rivals import Patience, on_gpu
from benchmarks.sources.section import Cell, Figure, Outcome, Section, Series, Setting, Table
from benchmarks.sources.summary import program
from benchmarks.sources.truth import Task, Truth
from cukde import perf
from cukde.core.cost.cost import Unit
from cukde.core.cost.registry import called, counted
from cukde.perf import _published
from cukde.perf._predict import predicted

# Flash-SD-KDE, table 1: milliseconds of 32,768 / 4,096 points in 16 dimensions.
PAPER_SIZE, PAPER_MS = (32_768, 4_096), 2.23


# Pairs of the data that a CPU sums in about a second, of 16 dimensions by products; differences take it longer.
_MOST_PAIRS = 2**32

# What our own bound is made of, as tables name it.
_UNITS = {
    "exponentials": ("exponential", "exponential_f64"),
    "tensor cores (CPU: BLAS)": ("tensor_f16", "tensor_tf32", "gemm_f32", "gemm_f64"),
    "issue": ("instruction", "fma", "float64", "scalar"),
}


class Sizes(NamedTuple):
    """What is run."""

    n: tuple[int, ...]
    n_1d: tuple[int, ...]
    seconds: float


class Case(NamedTuple):
    """One call."""

    task: Task
    backend: str
    precision: str


def sizes(setting: Setting) -> Sizes:
    """Those of figures 2 and 5 of the paper, and beyond."""
    if setting.quick:
        return Sizes((2048, 4096), (2048, 4096), 0.03)
    return Sizes(tuple(2048 << k for k in range(8)), tuple(4096 << 2 * k for k in range(5)), 0.15)


def run(setting: Setting) -> Outcome:
    """Measure, and hold the times against both counts."""
    of = sizes(setting)
    backends = ("cpu",) if setting.no_gpu else ("cpu", "gpu")
    # Rates that were kept may be of a day when the processor did something else.
    on = {backend: perf.measure_peaks(backend) for backend in backends}
    patience = Patience(1.0 if setting.quick else 3.0)
    rows: list[dict[str, Any]] = []
    for task in [runtime.drawn(n, n // 8, 0) for n in of.n] + [line.drawn(n, n // 8, 0) for n in of.n_1d]:
        rows += _rows(task, on, setting, of.seconds, patience)
    return outcome(rows, on, setting)


def _rows(
    task: Task, on: Mapping[str, perf.Peaks], setting: Setting, seconds: float, patience: Patience
) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    truth = Truth(task, gpu=setting.no_gpu is None)
    n, m = len(task.X), len(task.Y)
    modes = ("float32", "tf32") if task.d > 1 else ("float32", "ieee")
    for precision in modes[:1] if task.d > 1 else modes:
        if (task.d == 1 and precision == "float32") or n * n <= (_MOST_PAIRS if task.d > 1 else _MOST_PAIRS // 16):
            rows += _row(Case(task, "cpu", precision), truth, on["cpu"], seconds)
    if setting.no_gpu is not None:
        return rows + [measured.missing("sd_kde", task, "gpu", p, setting.no_gpu) for p in modes]
    there = task.on_gpu()
    for precision in modes:
        beside = {}
        if precision == modes[0]:
            flash = runtime.FLASH if task.d > 1 else line.FLASH
            beside = on_gpu("sd_kde", (flash,), there, truth, patience, n * n + n * m)
        found = _row(Case(there, "gpu", precision), truth, on["gpu"], seconds, beside)
        patience.note(found, n * n + n * m, f"n = {n:,}")
        rows += found
    return rows


def _row(
    case: Case, truth: Truth, on: perf.Peaks, seconds: float, beside: Mapping[str, Any] | None = None
) -> list[dict[str, Any]]:
    """Rows of a call with what the model says of it."""
    call = functools.partial(cukde.sd_kde, *case.task, precision=case.precision)
    operation, shapes = called(call, (), {})
    prediction = predicted(counted(operation, on, shapes), on)
    alone: dict[str, float] = {}
    for part in prediction.parts:
        for unit, taken in part.units.items():
            alone[unit] = alone.get(unit, 0.0) + 1e3 * taken
    n, m, d = len(case.task.X), len(case.task.Y), case.task.d
    return measured.variant(
        "sd_kde",
        call,
        case.task,
        truth,
        case.backend,
        seconds=seconds,
        precision=case.precision,
        beside=beside,
        paper_flops=perf.flash_flops(n, m, d),
        bound_ms=1e3 * prediction.bound,
        bound=prediction.binds,
        predicted_ms=1e3 * prediction.seconds,
        units_ms=alone,
    )


def outcome(rows: list[dict[str, Any]], on: Mapping[str, perf.Peaks], setting: Setting) -> Outcome:
    """Tables, figures and findings of rows."""
    peaks = [json.loads(json.dumps(modelled.peaks_row(of))) for of in on.values()]  # lists as they are read again
    tables = [_table(rows, on, d) for d in (runtime.D, 1)]
    figures = [_figure(rows, on, d) for d in (runtime.D, 1)]
    return Outcome(rows + peaks, tables, figures, _findings(rows, on, setting))


def own_peak(on: perf.Peaks, d: int) -> float:
    """The measured rate that the count is held against: TF32 of tensor cores in 16 dimensions, float32 otherwise."""
    return on.rate(_unit(on, d))


def published_peak(on: perf.Peaks, d: int) -> float | None:
    """The rate that the maker publishes for that device; None where the table has no such device."""
    published = _published.find(on.name) if on.backend == "gpu" else None
    return None if published is None else published.rates.get(_unit(on, d))


def _unit(on: perf.Peaks, d: int) -> Unit:
    return "tensor_tf32" if d > 1 and on.backend == "gpu" else "fma"


def _parts_of_peaks(ms: float, row: Mapping[str, Any], on: perf.Peaks, d: int) -> list[Cell]:
    """Rate by the paper's count, and what part it is of the measured and of the published peak."""
    published = published_peak(on, d)
    measured_part = _percent(ms, row, own_peak(on, d))
    published_part = None if published is None else _percent(ms, row, published)
    return [own_peak(on, d) * measured_part / 1e14, measured_part, published_part]


def _percent(ms: float, row: Mapping[str, Any], peak: float) -> float:
    shape = row["shape"]
    return 100 * perf.flash_utilisation(ms / 1e3, shape["n"], shape["m"], shape["d"], peak)


def _table(rows: Sequence[dict[str, Any]], on: Mapping[str, perf.Peaks], d: int) -> Table:
    """A row for each of our own calls and each of Flash-SD-KDE's."""
    cells: list[list[Cell]] = []
    for row in _of(rows, d):
        shape, blank = row["shape"], [None] * 10
        start: list[Cell] = [_name(row, d), shape["n"], shape["m"]]
        if "reason" in row:
            cells.append([*start, row["reason"], *blank])
            continue
        if "median_ms" in row:
            units = row["units_ms"]
            parts = [max(units.get(unit, 0.0) for unit in of) for of in _UNITS.values()]
            ms = row["median_ms"]
            cells.append(
                [
                    *start,
                    ms,
                    *_parts_of_peaks(ms, row, on[row["backend"]], d),
                    *parts,
                    row["bound"],
                    row["bound_ms"],
                    100 * row["bound_ms"] / ms,
                    row["predicted_ms"],
                ]
            )
        if "peer" in row:
            peer = row["peer"]
            start[0] = peer["name"]
            if "reason" in peer:
                cells.append([*start, peer["reason"], *blank])
            else:
                ms = peer["median_ms"]
                cells.append([*start, ms, *_parts_of_peaks(ms, row, on[row["backend"]], d), *blank[3:]])
    columns = ["program", "n", "m", "time, ms", "TFLOP/s", "% of the measured peak", "% of the published peak"]
    columns += [
        *(f"{name} alone, ms" for name in _UNITS),
        "what binds",
        "our bound, ms",
        "% of our bound",
        "predicted, ms",
    ]
    rates = "; ".join(_said(of, d) for of in on.values())
    count = "4 d n^2 + 12 n^2 + 2 d m n + 12 m n" if d > 1 else "16 n^2 + 14 m n"
    unit = "TF32 of tensor cores by mma.sync" if d > 1 else "float32"
    note = f"Operations by the paper: {count}, an exponential as 8. Peaks, on a GPU of {unit}: {rates}."
    if d == 1:
        note += " The transform visits O(n + m) boxes: by a count of all pairs its utilisation has no upper end."
    return Table(f"Utilisation of SD-KDE in {_dimensions(d)}", columns, cells, note)


def _said(of: perf.Peaks, d: int) -> str:
    published = published_peak(of, d)
    beside = "" if published is None else f"; published {published / 1e12:.4g}"
    return f"{of.name}: {own_peak(of, d) / 1e12:.4g} TFLOP/s, {of.source}{beside}"


def _dimensions(d: int) -> str:
    return "one dimension" if d == 1 else f"{d} dimensions"


def _of(rows: Sequence[dict[str, Any]], d: int) -> list[dict[str, Any]]:
    """Rows of some dimensions; reasons of rivals come by themselves."""
    return [row for row in rows if row["shape"].get("d") == d]


def _name(row: Mapping[str, Any], d: int) -> str:
    """In one dimension the default is the transform, where it pays, and "ieee" takes all pairs."""
    if d > 1:
        return program(row)
    return f"cukde, {row['backend'].upper()}, {'all pairs' if row['precision'] == 'ieee' else 'transform'}"


def _figure(rows: Sequence[dict[str, Any]], on: Mapping[str, perf.Peaks], d: int) -> Figure:
    lines: dict[str, tuple[list[int], list[float | None]]] = {}
    for row in _of(rows, d):
        parts = [(_name(row, d), row), (row.get("peer", {}).get("name"), row.get("peer", {}))]
        for name, part in parts:
            if "median_ms" in part:
                xs, ys = lines.setdefault(name, ([], []))
                xs.append(row["shape"]["n"])
                ys.append(_percent(part["median_ms"], row, own_peak(on[row["backend"]], d)))
                if part is row:
                    xs, ys = lines.setdefault(f"{name}: our bound", ([], []))
                    xs.append(row["shape"]["n"])
                    ys.append(100 * row["bound_ms"] / row["median_ms"])
    missing = next((row["reason"] for row in _of(rows, d) if "reason" in row), None)
    return Figure(
        f"Utilisation of SD-KDE in {_dimensions(d)}",
        "data points n",
        "% of the processor's peak by the paper's count; % of our bound",
        [Series(name, list(xs), ys) for name, (xs, ys) in lines.items()],
        log_x=True,
        log_y=d == 1,  # of the transform it has no upper end
        caption="m = n / 8." + (f" Without a GPU: {missing}." if missing else ""),
    )


def _of_bound(row: Mapping[str, Any]) -> str:
    percent = 100 * row["bound_ms"] / row["median_ms"]
    more = ", whose model counts more than the call does" if percent > 105 else ""
    return f"{percent:.0f}% of our bound ({row['bound']}){more}"


def _findings(rows: Sequence[dict[str, Any]], on: Mapping[str, perf.Peaks], setting: Setting) -> list[str]:
    out = []
    backend = "cpu" if setting.no_gpu else "gpu"
    for d in (runtime.D, 1):
        timed = [row for row in _of(rows, d) if "median_ms" in row and row["backend"] == backend]
        row = max((row for row in timed if row["precision"] == "float32"), key=lambda row: row["shape"]["n"])
        percent = _percent(row["median_ms"], row, own_peak(on[backend], d))
        fewer = " (it takes fewer operations than that count)" if percent > 100 else ""
        out.append(
            f"In {_dimensions(d)} SD-KDE of n = {row['shape']['n']:,} on the {backend.upper()} reaches {percent:.3g}% "
            f"of the peak by the paper's count of operations{fewer}, and {_of_bound(row)}."
        )
    pairs = [row for row in _of(rows, 1) if "median_ms" in row and row["precision"] == "ieee"]
    for row in pairs[-1:]:
        part = _percent(row["median_ms"], row, own_peak(on[row["backend"]], 1))
        out.append(
            f"All pairs in one dimension, n = {row['shape']['n']:,} on the {row['backend'].upper()}: {part:.3g}% of "
            f"the peak by the paper's count, {_of_bound(row)}."
        )
    paper = 100 * perf.flash_utilisation(PAPER_MS / 1e3, *PAPER_SIZE)
    said = f"The paper's table 1 ({PAPER_MS} ms at n = {PAPER_SIZE[0]:,}) is {paper:.0f}% of an RTX A6000 by its count"
    flash = [
        row
        for row in _of(rows, runtime.D)
        if row.get("peer", {}).get("name") == runtime.FLASH
        and "median_ms" in row["peer"]
        and (row["shape"]["n"], row["shape"]["m"]) == PAPER_SIZE
    ]
    if not flash:
        return [*out, f"{said}; {setting.no_gpu or 'Flash-SD-KDE was not measured at that size here'}."]
    here = _percent(flash[0]["peer"]["median_ms"], flash[0], own_peak(on["gpu"], runtime.D))
    word = "about the same part" if paper / 1.5 <= here <= 1.5 * paper else "another part"
    return [*out, f"{said}. Here Flash-SD-KDE reaches {here:.0f}% of this GPU's tensor cores (TF32), {word}."]


SECTION = Section(
    2,
    "Utilisation by the paper's count of operations and by our own bound",
    "Flash-SD-KDE, figures 2, 4 and 5, section 3.1 and appendix A",
    run,
)
