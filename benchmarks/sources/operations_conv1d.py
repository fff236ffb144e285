"""Depthwise convolution: the source's stages beside ours, PyTorch and a copy on a GPU, SciPy on the CPU; rooflines."""

from __future__ import annotations

import functools
import importlib
from typing import Any, NamedTuple

import numpy as np

import cukde
from benchmarks.conv1d import cases
from benchmarks.conv1d.study_cost import PATHS, SOURCE_SPEEDUP, SOURCE_STEP_SPEEDUP, VARIANTS
from benchmarks.figures import conv1d
from benchmarks.record import Case
from benchmarks.sources.kept import Kept, ours, peer, peers
from benchmarks.sources.section import Cell, Figure, Outcome, Series, Setting, Table
from cukde import perf

_LAST = VARIANTS[-1]
_OURS, _COPY, _SCIPY = "cukde", "copy", "SciPy correlate1d"
_WORDS = dict(zip(PATHS, ("forward", "input gradient", "weight gradient"), strict=True))
_ROOF_POINTS = 25


class Sizes(NamedTuple):
    """What is measured."""

    on_cpu: tuple[int, int, int]  # B, C, L
    long_on_cpu: tuple[tuple[int, int, int], int]  # with its taps
    taps: tuple[int, ...]
    torch_dtypes: tuple[str, ...]  # of rows beside PyTorch on a GPU
    every: bool  # more than the fewest taps beside PyTorch, and steps of training
    seconds: float


FULL = Sizes((8, 64, 2048), ((4, 32, 16384), 512), (4, 31), ("float32", "float16"), True, 0.2)
QUICK = Sizes((4, 64, 2048), ((1, 8, 8192), 256), (4, 31), ("float32",), False, 0.05)


def measured(setting: Setting) -> Outcome:
    """Rows, tables, figures, and what they say."""
    sizes = QUICK if setting.quick else FULL
    kept = Kept(sizes.seconds)
    parts = [_on_cpu(kept, sizes), _without(setting.no_gpu) if setting.no_gpu else _on_gpu(kept, sizes)]
    return Outcome.joined([Outcome(list(kept)), *parts])


# ------------------------------------------------------------------------------------------------------ rooflines


class _Point(NamedTuple):
    """A call under the roof: by the paper's count, two flops a tap and output, inputs and results moved once."""

    name: str  # of the series
    intensity: float  # flops a byte
    flops: float
    ms: float
    bound_ms: float
    binds: str


def _explained(name: str, call: functools.partial[Any], on: perf.Peaks, seconds: float, calls: int = 1) -> _Point:
    found = perf.explain(call, on=on, seconds=seconds, calls=calls)
    flops = found.cost.textbook_flops
    least = found.cost.textbook_bytes
    return _Point(name, flops / least, flops, found.times.median_ms, 1e3 * found.bound_seconds, found.binds)


def _roofline(points: list[_Point], on: perf.Peaks) -> Figure:
    """Measured and bound rates over intensity, below what memory and multiply-adds allow."""

    def series(name: str, of: list[_Point], ms: str) -> Series:
        rates = [1e-6 * point.flops / getattr(point, ms) for point in of]
        return Series(name, [point.intensity for point in of], list(rates))

    places = [point.intensity for point in points]
    roof = np.geomspace(min(places) / 2, 2 * max(places), _ROOF_POINTS)
    names = dict.fromkeys(point.name for point in points)
    measured = [series(name, [point for point in points if point.name == name], "ms") for name in names]
    mine = [point for point in points if point.name == _OURS]
    of_roof = [1e-9 * min(on.rate("fma"), float(x) * on.rate("memory")) for x in roof]
    return Figure(
        f"Roofline of depthwise convolution, {on.name}",
        "intensity, flop / byte",
        "Gflop / s",
        [
            Series("roof: memory, multiply-adds", [float(x) for x in roof], list(of_roof)),
            series("cukde, bound by the model", mine, "bound_ms"),
            *measured,
        ],
        kind="points",
        log_x=True,
        log_y=True,
        caption="Flops are two a tap and output, bytes each input and result once, as the paper counts. The bound is "
        "the time of what the model says binds, by itself, of the program that runs.",
    )


# ------------------------------------------------------------------------------------------------------- the CPU


def _on_cpu(kept: Kept, sizes: Sizes) -> Outcome:
    on = perf.peaks("cpu")
    rows: list[list[Cell]] = []
    points = []
    slower = []

    def row(case: Case, path: str, taps: int, names: tuple[str, ...], point: _Point) -> None:
        found = kept(case.call, case.row | {"bound_ms": point.bound_ms, "bound": point.binds}, case.peers)
        mine = ours(found)
        beside: Cell = next((peer(found, name) for name in names), "SciPy has none")
        slower.extend([beside / mine] if isinstance(beside, float) else [])
        of = case.row["shape"]
        shape = " x ".join(f"{of[name]:,}" for name in ("batch", "channels", "length"))
        error = ours(found, "rel_err_max")
        rows.append([path, shape, taps, mine, error, beside, point.intensity, point.bound_ms, point.binds])
        points.append(point)

    for taps in sizes.taps:
        x, w = cases.data(sizes.on_cpu, taps, "float32")
        calls = {
            "forward": functools.partial(cukde.depthwise_conv1d, x, w),
            "input_grad": functools.partial(cukde.depthwise_conv1d_input_grad, x, w),
            "weight_grad": functools.partial(cukde.depthwise_conv1d_weight_grad, x, np.roll(x, 5, axis=0), taps),
        }
        for path, call in calls.items():
            case = getattr(cases, path)(sizes.on_cpu, taps, "float32")
            names = (_SCIPY,) if path == "forward" else ()
            row(case, _WORDS[path], taps, names, _explained(_OURS, call, on, sizes.seconds))
    shape, taps = sizes.long_on_cpu
    x, w = cases.data(shape, taps, "float32")
    point = _explained(_OURS, functools.partial(cukde.depthwise_conv1d, x, w), on, sizes.seconds)
    row(cases.long_taps(shape, taps, "float32"), _WORDS["forward"], taps, ("SciPy oaconvolve",), point)

    table = Table(
        "Causal depthwise convolution on the CPU, float32",
        [
            *("path", "batch x channels x length", "taps", "cukde, ms", "its error", "SciPy, ms"),
            *("intensity, flop / byte", "bound by the model, ms", "what binds"),
        ],
        rows,
        "SciPy: correlate1d, channel by channel; of the most taps, oaconvolve. Errors are a part of the sum of the "
        "terms' absolute values.",
    )
    reached = [point.bound_ms / point.ms for point in points]
    findings = [
        f"On the CPU ours reaches {min(reached):.0%} to {max(reached):.0%} of the bound that the model gives it."
    ]
    if slower:
        findings.append(f"There SciPy takes {min(slower):.2g} to {max(slower):.2g} times as long as ours, forward.")
    return Outcome(tables=[table], figures=[_roofline(points, on)], findings=findings)


# --------------------------------------------------------------------------------------------------------- a GPU


def _without(reason: str) -> Outcome:
    """The stages' table where no GPU works."""
    return Outcome(
        tables=[Table("The source's stages on a GPU", ["stage", "time, ms"], [[stage, reason] for stage in VARIANTS])],
        findings=[
            f"The source's stages of depthwise convolution were not measured: {reason}. The paper has {SOURCE_SPEEDUP} "
            f"times for the {_LAST} kernel over the naive one, {SOURCE_STEP_SPEEDUP} times for a step of training."
        ],
    )


def _on_gpu(kept: Kept, sizes: Sizes) -> Outcome:
    """The benchmarks of the stages, of the library beside PyTorch, and of steps of training."""
    bench = importlib.import_module("benchmarks.conv1d.bench_conv1d_gpu")
    study = [row for taps in sizes.taps for path in (*PATHS, "all") for row in kept.of(bench.bench_study, taps, path)]
    s4convd = [row for path in (*PATHS, "all") for row in kept.of(bench.bench_study_s4convd, path)]
    library = []
    for dtype in sizes.torch_dtypes:
        for path in PATHS:
            taps_of_row = sizes.taps if sizes.every else sizes.taps[:1]
            library += [kept.of(bench.bench_short, dtype, taps, "BCL", path) for taps in taps_of_row]
            library += [kept.of(bench.bench_long, dtype, path)] if sizes.every else []
    convolutions = (*VARIANTS, _OURS) if sizes.every else ()
    steps = [row for convolution in convolutions for row in kept.of(bench.bench_training_step, convolution)]
    on = perf.peaks()
    figures = [_speedups(of, taps) for taps, of in conv1d.speedups([*study, *s4convd]).items()]
    return Outcome(
        tables=[_stages(study), _stages(s4convd), _library(library), *([_steps(steps)] if steps else [])],
        figures=[*figures, _roofline(_points(study, on, sizes), on)],
        findings=[*_of_stages(study), *_of_stages(s4convd), *_of_steps(steps)],
    )


def _by_path(study: list[dict[str, Any]]) -> dict[tuple[int, str], dict[str, Cell]]:
    """Milliseconds by taps and path, and by stage; or why there are none."""
    times: dict[tuple[int, str], dict[str, Cell]] = {}
    for row in study:
        path = row["op"].removeprefix("study, ")
        of = times.setdefault((row["shape"]["K"], path), {})
        for beside in peers([row]):
            of[beside["name"]] = beside.get("median_ms", beside.get("reason"))
        if "median_ms" in row:
            of |= {row["variant"]: row["median_ms"], _COPY: row["bound_ms"]}
    return times


def _stages(study: list[dict[str, Any]]) -> Table:
    shape = " x ".join(f"{study[0]['shape'][letter]:,}" for letter in "BCL")
    names = (*VARIANTS, _OURS, _COPY)
    return Table(
        f"The source's stages on a GPU: {shape}, float32",
        ["taps", "path", *(f"{name}, ms" for name in names)],
        [
            [taps, _WORDS.get(path, path), *(of.get(name) for name in names)]
            for (taps, path), of in _by_path(study).items()
        ],
        "all: the three paths in turn. naive: neighbouring threads have neighbouring channels; naive-by-row: outputs "
        "that are neighbours in memory. copy: reads and writes as many bytes as the path must.",
    )


def _speedups(of: dict[str, dict[str, float]], taps: int) -> Figure:
    paths = list(of)
    stages = dict.fromkeys(name for bars in of.values() for name in bars)
    return Figure(
        f"Stages of depthwise convolution, {taps} taps: speedup over the naive kernel",
        "path",
        "speedup over naive",
        [Series(name, [_WORDS.get(p, p) for p in paths], [of[p].get(name) for p in paths]) for name in stages],
        kind="bars",
        log_y=True,
        caption=f"The paper has {SOURCE_SPEEDUP} for the {_LAST} kernel on all paths, on a P100.",
    )


def _library(calls: list[list[dict[str, Any]]]) -> Table:
    cells: list[list[Cell]] = []
    for rows in calls:
        row = rows[0]
        shape = " x ".join(f"{row['shape'][letter]:,}" for letter in "BCL")
        about = [_WORDS[row["op"]], shape, row["shape"]["K"], row["dtype"], ours(rows), ours(rows, "rel_err_max")]
        for beside in peers(rows):
            times = [beside["name"], beside.get("median_ms", beside.get("reason")), ours(rows, "bound_ms")]
            cells.append([*about, *times])
    return Table(
        "Causal depthwise convolution on a GPU beside PyTorch",
        [
            *("path", "batch x channels x length", "taps", "dtype", "cukde, ms", "its error"),
            *("rival", "its time, ms", "copy, ms"),
        ],
        cells,
    )


def _steps(rows: list[dict[str, Any]]) -> Table:
    naive = rows[0]["median_ms"]
    return Table(
        "A step of training of the S4-like classifier, by its convolutions",
        ["convolution", "step, ms", "convolutions, ms", "their part", "speedup over naive", "a step by itself, ms"],
        [
            [
                row["shape"]["convolution"],
                *(row[name] for name in ("median_ms", "convolution_ms", "convolution_share")),
                naive / row["median_ms"],
                row.get("alone_ms"),
            ]
            for row in rows
        ],
        "Steps are queued: a time is of several in a row, and a step by itself also waits for Python. "
        f"The paper's step is {SOURCE_STEP_SPEEDUP} times as fast with the {_LAST} kernel as with the naive one.",
    )


def _points(study: list[dict[str, Any]], on: perf.Peaks, sizes: Sizes) -> list[_Point]:
    """The stages by the study's own analysis, and the library's three paths by the model of its kernels."""
    analysis = importlib.import_module("benchmarks.conv1d.study_analysis")
    bench = importlib.import_module("benchmarks.conv1d.bench_conv1d_gpu")
    times, shape = analysis.recorded(study)
    points = [
        _Point(row["shape"]["variant"], row["intensity"], row["flops"], row["median_ms"], row["bound_ms"], row["bound"])
        for row in analysis.analysed(times, shape, on)
    ]
    for taps in sizes.taps:
        of = bench._data(shape, taps, "float32", "BCL")
        x, dy = of.x[0], of.dy[0]
        for call in (
            functools.partial(cukde.depthwise_conv1d, x, of.w),
            functools.partial(cukde.depthwise_conv1d_input_grad, dy, of.w),
            functools.partial(cukde.depthwise_conv1d_weight_grad, x, dy, taps),
        ):
            points.append(_explained(_OURS, call, on, sizes.seconds, bench.CALLS))
    return points


def _of_stages(study: list[dict[str, Any]]) -> list[str]:
    findings = []
    times = _by_path(study)
    for taps, of in conv1d.speedups(study).items():
        whole = of.get("all", {})
        if not {_LAST, _OURS} <= whole.keys():
            continue
        by_path = ", ".join(f"{_WORDS[path]} {of[path][_LAST]:.3g}" for path in PATHS if _LAST in of.get(path, {}))
        findings.append(
            f"{taps} taps, three paths in turn: the {_LAST} kernel is {whole[_LAST]:.3g} times as fast as the naive "
            f"one (the paper: {SOURCE_SPEEDUP}, on a P100), ours {whole[_OURS]:.3g}, a copy {whole[_COPY]:.3g} times. "
            f"The {_LAST} kernel path by path: {by_path}."
        )
    for taps in dict.fromkeys(taps for taps, _ in times):
        three = [times.get((taps, path), {}).get(_LAST) for path in PATHS]
        mine, last = (times.get((taps, "weight_grad"), {}).get(name) for name in (_OURS, _LAST))
        if isinstance(last, float) and isinstance(mine, float) and all(isinstance(ms, float) for ms in three):
            share = last / sum(ms for ms in three if isinstance(ms, float))
            findings.append(
                f"{taps} taps: the gradient of the weights takes {share:.0%} of the {_LAST} kernels' time on the three "
                f"paths (the paper: the primary bottleneck): {last:.3g} ms, {last / mine:.3g} times as long as ours."
            )
    return findings


def _of_steps(rows: list[dict[str, Any]]) -> list[str]:
    steps = {row["shape"]["convolution"]: row["median_ms"] for row in rows if "median_ms" in row}
    if not {VARIANTS[0], _LAST, _OURS} <= steps.keys():
        return []
    naive = steps[VARIANTS[0]]
    return [
        f"A step of training is {naive / steps[_LAST]:.3g} times as fast with the {_LAST} kernel as with the naive one "
        f"(the paper: {SOURCE_STEP_SPEEDUP}), with ours {naive / steps[_OURS]:.3g} times."
    ]
