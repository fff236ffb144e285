"""Section 2: how much of a processor SD-KDE makes use of, by the paper's count of operations and by our own bound."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from typing import Any, NamedTuple

import cukde
from benchmarks.perf import modelled
from benchmarks.sources import line, measured, runtime
from benchmarks.sources.rivals import Patience, on_gpu
from benchmarks.sources.section import Outcome, Section, Setting
from benchmarks.sources.truth import Task, Truth
from cukde import perf
from cukde.core.cost.registry import called, counted
from cukde.perf._predict import predicted

# Pairs of the data that a CPU sums in about a second, of 16 dimensions by products; differences take it longer.
_MOST_PAIRS = 2**32


class Sizes(NamedTuple):
    """What is run."""

    n: tuple[int, ...]
    n_1d: tuple[int, ...]
    seconds: float


def sizes(setting: Setting) -> Sizes:
    """Those of figures 2 and 5 of the paper, and beyond."""
    if setting.quick:
        return Sizes((2048, 4096), (2048, 4096), 0.03)
    return Sizes(tuple(2048 << k for k in range(8)), tuple(4096 << 2 * k for k in range(5)), 0.15)


def run(setting: Setting) -> Outcome:
    """Measure, with what the model says of each call; and the rates of the processors, which the counts go by."""
    of = sizes(setting)
    backends = ("cpu",) if setting.no_gpu else ("cpu", "gpu")
    # Rates that were kept may be of a day when the processor did something else.
    on = {backend: perf.measure_peaks(backend) for backend in backends}
    patience = Patience(1.0 if setting.quick else 3.0)
    rows: list[dict[str, Any]] = []
    for task in [runtime.drawn(n, n // 8, 0) for n in of.n] + [line.drawn(n, n // 8, 0) for n in of.n_1d]:
        rows += _rows(task, on, setting, of.seconds, patience)
    peaks = [json.loads(json.dumps(modelled.peaks_row(each))) for each in on.values()]  # lists as they are read again
    return Outcome(rows + peaks)


def _rows(
    task: Task, on: Mapping[str, perf.Peaks], setting: Setting, seconds: float, patience: Patience
) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    truth = Truth(task, gpu=setting.no_gpu is None)
    n, m = len(task.X), len(task.Y)
    modes = ("float32", "tf32") if task.d > 1 else ("float32", "ieee")
    for precision in modes[:1] if task.d > 1 else modes:
        if (task.d == 1 and precision == "float32") or n * n <= (_MOST_PAIRS if task.d > 1 else _MOST_PAIRS // 16):
            rows += _row(task, "cpu", precision, truth, on["cpu"], seconds)
    if setting.no_gpu is not None:
        return rows
    there, work = task.on_gpu(), n * n + n * m
    flash = runtime.FLASH if task.d > 1 else line.FLASH
    beside = on_gpu("sd_kde", (flash,), there, truth, patience, work)
    found = _row(there, "gpu", modes[0], truth, on["gpu"], seconds, beside)
    patience.note(found, work, f"n = {n:,}")
    return rows + found + _row(there, "gpu", modes[1], truth, on["gpu"], seconds)


def _row(
    task: Task,
    backend: str,
    precision: str,
    truth: Truth,
    on: perf.Peaks,
    seconds: float,
    beside: Mapping[str, Any] | None = None,
) -> list[dict[str, Any]]:
    """Rows of a call with what the model says of it."""
    call = functools.partial(cukde.sd_kde, *task, precision=precision)
    operation, shapes = called(call, (), {})
    prediction = predicted(counted(operation, on, shapes), on)
    alone: dict[str, float] = {}
    for part in prediction.parts:
        for unit, taken in part.units.items():
            alone[unit] = alone.get(unit, 0.0) + 1e3 * taken
    return measured.variant(
        "sd_kde",
        call,
        task,
        truth,
        backend,
        seconds=seconds,
        precision=precision,
        beside=beside,
        paper_flops=perf.flash_flops(len(task.X), len(task.Y), task.d),
        bound_ms=1e3 * prediction.bound,
        bound=prediction.binds,
        predicted_ms=1e3 * prediction.seconds,
        units_ms=alone,
    )


SECTION = Section(
    2,
    "Utilisation by the paper's count of operations and by our own bound",
    "Flash-SD-KDE, figures 2, 4 and 5, section 3.1 and appendix A",
    run,
)
