"""Section 5: how many queries a call should have, what tensor cores are worth, and what a whole matrix would take."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

import cukde
from benchmarks import memory, peers
from benchmarks.density import variants
from benchmarks.peers import whole_matrix
from benchmarks.sources import measured, runtime
from benchmarks.sources.rivals import Patience, on_gpu
from benchmarks.sources.section import Cell, Figure, Outcome, Section, Series, Setting, Table
from benchmarks.sources.summary import Key, Summary, line, summaries, table, told
from benchmarks.sources.truth import Task, Truth

OPS = ("kde", "sd_kde")
RIVALS = ("Flash-SD-KDE, TF32", "CuPy")
PROGRAMS = (runtime.CPU, runtime.GPU, *RIVALS)
WHOLE = "whole matrix"

# Flash-SD-KDE, section 4.1: part of the time of SD-KDE of 32,768 / 4,096 points that is the score's.
PAPER_SCORE, PAPER_SIZE = 0.95, (32_768, 4_096)
# Section 3: what tensor cores multiply over the float32 units, "5-10x".
PAPER_TENSOR = 5, 10


class Sizes(NamedTuple):
    """What is run."""

    n: int
    m: tuple[int, ...]
    ablation: tuple[int, int]  # on the CPU
    ablation_gpu: tuple[int, int]
    matrices: tuple[int, ...]  # n of the matrices, an eighth as many queries; on the CPU those that fit in a GB
    seconds: float
    patience: float  # of a rival's call


def sizes(setting: Setting) -> Sizes:
    """One query to 131,072; the ablation at the size of benchmarks/density/bench_ablation.py."""
    on_gpu = 65_536, 8_192
    if setting.quick:
        return Sizes(2048, (1, 64, 4096), (4096, 512), on_gpu, (2048, 8192), 0.03, 0.3)
    matrices = 8192, 32_768, 131_072, 1_048_576
    return Sizes(32_768, tuple(1 << k for k in range(18)), (16_384, 2_048), on_gpu, matrices, 0.1, 3.0)


def run(setting: Setting) -> Outcome:
    """Measure the three parts."""
    of = sizes(setting)
    batches = _batches(of, setting)
    engines = _engines(of, setting)
    matrices = _matrices(of, setting)
    parts = [
        _outcome_of_batches(batches, setting),
        _outcome_of_engines(engines),
        _outcome_of_matrices(matrices, setting),
    ]
    return Outcome.joined(parts)


def _batches(of: Sizes, setting: Setting) -> list[dict[str, Any]]:
    whole = runtime.drawn(of.n, of.m[-1], 0)
    truth = Truth(whole, gpu=setting.no_gpu is None)  # of the first queries, which every batch begins with
    patience = Patience(of.patience)
    rows: list[dict[str, Any]] = []
    for m in of.m:
        task = whole._replace(Y=whole.Y[:m])
        for op in OPS:
            rows += measured.density(op, task, truth, "cpu", seconds=of.seconds)
            if setting.no_gpu is not None:
                rows.append(measured.missing(op, task, "gpu", "float32", setting.no_gpu))
                continue
            there, work, size = task.on_gpu(), float(of.n * m + (of.n**2 if op == "sd_kde" else 0)), f"m = {m:,}"
            beside = on_gpu(op, RIVALS, there, truth, patience, work)
            found = measured.density(op, there, truth, "gpu", seconds=of.seconds, beside=beside)
            patience.note(found, work, size)
            rows += found
    return rows


def _outcome_of_batches(rows: list[dict[str, Any]], setting: Setting) -> Outcome:
    found = summaries(rows)
    if setting.no_gpu is not None:
        found |= {key._replace(program=name): Summary(reason=setting.no_gpu) for key in list(found) for name in RIVALS}
    at = [(op, n, m) for op in OPS for n, m in dict.fromkeys((key.n, key.m) for key in found)]
    tables = [
        table("Batches of queries, ms a call", found, at, PROGRAMS, lambda key, s: s.ms),
        table("Worst relative error of the batches", found, at, PROGRAMS, lambda key, s: s.error),
    ]
    figures = []
    for op in OPS:
        lines = [
            line(name, found, [Key(*size, name) for size in at if size[0] == op], lambda key: key.m)
            for name in PROGRAMS
        ]
        figures.append(
            Figure(
                f"{op} of n = {at[0][1]:,} points in 16 dimensions, by the number of queries",
                "queries m of a call",
                "time of a call, ms",
                lines,
                log_x=True,
                log_y=True,
                caption=f"Without a GPU: {setting.no_gpu}." if setting.no_gpu else "",
            )
        )
    return Outcome(rows, tables, figures, _findings_of_batches(found, setting))


def _findings_of_batches(found: Mapping[Key, Summary], setting: Setting) -> list[str]:
    ours = runtime.CPU if setting.no_gpu else runtime.GPU
    out = []
    for op in OPS:
        times = {key.m: s.ms for key, s in found.items() if (key.op, key.program) == (op, ours) and s.ms}
        most = max(times)
        each = times[most] / most
        enough = min((m for m, ms in times.items() if ms / m <= 2 * each), default=most)
        out.append(
            f"{op} of n = {next(iter(found)).n:,} on {ours}: 1 query takes {told(times[1])} ms, {most:,} take "
            f"{told(times[most])} ms, {1e3 * each:.3g} us a query; a query takes at most twice that from {enough:,} on."
        )
    shares = {
        (key.n, key.m): 1 - kde.ms / s.ms
        for key, s in found.items()
        if (key.op, key.program) == ("sd_kde", ours) and s.ms and (kde := found[key._replace(op="kde")]).ms
    }
    n, m = PAPER_SIZE if PAPER_SIZE in shares else max(shares)
    share = f"{shares[n, m]:.0%}"
    said = f"At n = {n:,}, m = {m:,} debiasing takes {share} of SD-KDE on {ours}"
    if (n, m) == PAPER_SIZE:
        same = abs(shares[n, m] - PAPER_SCORE) <= 0.05
        said += f"; the paper has roughly {PAPER_SCORE:.0%} there, {'about the same' if same else 'another part'}"
    out.append(f"{said}.")
    return out


class Engine(NamedTuple):
    """A way to the same numbers."""

    called: str  # in rows, where the precision stands
    precision: str
    how: str
    within: Callable[[], AbstractContextManager[None]] = contextlib.nullcontext


_CPU_ENGINES = (
    Engine("float32", "float32", "products by BLAS"),
    Engine("ieee", "ieee", "squared differences"),
)
_GPU_ENGINES = (
    Engine("float32", "float32", "two float16 terms"),
    Engine("tf32", "tf32", "one float16 term"),
    Engine("tf32 (TF32 operands)", "tf32", "TF32 operands", variants.tf32_operands),
    Engine("ieee", "ieee", "squared differences"),
)
_WMMA = Engine("tf32 (wmma study)", "tf32", "nvcuda::wmma, TF32")
_GPU_OPS, _WMMA_OPS = (*OPS, "score"), ("kde", "score")  # SD-KDE is a score, whose products are two, and a density


def _engines(of: Sizes, setting: Setting) -> list[dict[str, Any]]:
    task = runtime.drawn(*of.ablation, 0)
    rows = _of_engines(OPS, task, Truth(task, gpu=setting.no_gpu is None), "cpu", _CPU_ENGINES, of.seconds)
    task = runtime.drawn(*of.ablation_gpu, 0) if setting.no_gpu is None else task
    if setting.no_gpu is not None:
        missing = [(op, e) for op in _GPU_OPS for e in _GPU_ENGINES] + [(op, _WMMA) for op in _WMMA_OPS]
        return rows + [measured.missing(op, task, "gpu", e.called, setting.no_gpu, how=e.how) for op, e in missing]
    there, truth = task.on_gpu(), Truth(task, gpu=True)
    rows += _of_engines(_GPU_OPS, there, truth, "gpu", _GPU_ENGINES, of.seconds)
    return rows + _of_wmma(there, truth, of.seconds)


def _of_engines(
    ops: Sequence[str], task: Task, truth: Truth, backend: str, engines: Sequence[Engine], seconds: float
) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for op in ops:
        for engine in engines:
            call = functools.partial(getattr(cukde, op), *task, precision=engine.precision)
            with engine.within():
                rows += _of_engine(op, engine, call, task, truth, backend, seconds)
    return rows


def _of_wmma(task: Task, truth: Truth, seconds: float) -> list[dict[str, Any]]:
    from benchmarks.density import study_wmma  # needs CuPy

    absent = study_wmma.why_absent()
    rows: list[dict[str, Any]] = []
    for op in _WMMA_OPS:
        if absent is None:
            call = functools.partial(getattr(study_wmma, op), *task)
            rows += _of_engine(op, _WMMA, call, task, truth, "gpu", seconds)
        else:
            rows.append(measured.missing(op, task, "gpu", _WMMA.called, absent, how=_WMMA.how))
    return rows


def _of_engine(
    op: str, engine: Engine, call: Callable[[], Any], task: Task, truth: Truth, backend: str, seconds: float
) -> list[dict[str, Any]]:
    return measured.variant(
        op,
        call,
        task,
        truth,
        backend,
        seconds=seconds,
        precision=engine.precision,
        called=engine.called,
        how=engine.how,
    )


def _outcome_of_engines(rows: list[dict[str, Any]]) -> Outcome:
    cells: list[list[Cell]] = []
    findings = []
    base = {(r["op"], r["backend"]): r["median_ms"] for r in rows if r["precision"] == "ieee" and "median_ms" in r}
    for row in rows:
        shape = row["shape"]
        start: list[Cell] = [row["op"], row["backend"], shape["n"], shape["m"], row["precision"], row["how"]]
        if "reason" in row:
            cells.append([*start, row["reason"], None, None])
            continue
        times = base[row["op"], row["backend"]] / row["median_ms"]
        cells.append([*start, row["median_ms"], times, row["rel_err_max"]])
        if row["precision"] in ("float32", "tf32"):
            how = f"tensor cores with {row['how']} of a number" if row["backend"] == "gpu" else row["how"]
            said = (
                f"{row['op']} of n = {shape['n']:,} on the {row['backend'].upper()}: {how} take {times:.1f} times "
                f"less than squared differences, with an error of {row['rel_err_max']:.1e}."
            )
            if row["backend"] == "gpu" and row["precision"] == "float32":
                least, most = PAPER_TENSOR
                where = "within" if least <= times <= most else "below" if times < least else "above"
                said += (
                    f" The paper has {least} to {most} times for the products alone; the whole call is {where} that."
                )
            findings.append(said)
    columns = ["operation", "backend", "n", "m", "precision", "engine", "time, ms", "times faster than differences"]
    note = (
        "Errors beside float64 over all pairs, at the checked queries; of a score in units of 1/h, over the mean "
        "distance, in h, of the data that count. On a GPU all but squared differences multiply on tensor cores, wmma "
        "in kernels of the study."
    )
    return Outcome(rows, [Table("Engines", [*columns, "worst relative error"], cells, note)], [], findings)


def _matrices(of: Sizes, setting: Setting) -> list[dict[str, Any]]:
    """KDE as it is, which streams, and by a matrix of all kernel values; with the memory of each."""
    rows: list[dict[str, Any]] = []
    for n in of.matrices:
        task = runtime.drawn(n, n // 8, 0)
        truth = Truth(task, gpu=setting.no_gpu is None)
        if 4 * n * (n // 8) <= 2**30:  # of the CPU, whose time is short
            rows += _of_matrix(task, truth, "cpu", of.seconds, memory.host_peak_mb)
        if setting.no_gpu is None:
            rows += _of_matrix(task.on_gpu(), truth, "gpu", of.seconds, memory.peak_mb)
        else:
            rows += [measured.missing("kde", task, "gpu", p, setting.no_gpu) for p in ("float32", WHOLE)]
    return rows


def _of_matrix(
    task: Task, truth: Truth, backend: str, seconds: float, peak: Callable[[Callable[[], Any]], float]
) -> list[dict[str, Any]]:
    ours = functools.partial(cukde.kde, *task)
    used = peak(ours) + (_kept_mb() if backend == "cpu" else 0.0)
    rows = measured.density("kde", task, truth, backend, seconds=seconds, peak_mb=used)
    whole = functools.partial(whole_matrix.kde, *task)
    try:
        used = peak(whole)
    except Exception as failed:  # of memory: the matrix of the largest size fits nowhere
        return [*rows, measured.missing("kde", task, backend, WHOLE, peers.reason(failed))]
    return rows + measured.variant(
        "kde",
        whole,
        task,
        truth,
        backend,
        seconds=seconds,
        precision="float32",
        called=WHOLE,
        rival=True,
        peak_mb=used,
    )


def _kept_mb() -> float:
    """The tiles that threads of the CPU keep from one call to the next."""
    from cukde.core.cpu import threads  # which load Numba
    from cukde.density.pairs.cpu import query_blocks

    return threads.count() * query_blocks._TILE_BYTES / 2**20


def _outcome_of_matrices(rows: list[dict[str, Any]], setting: Setting) -> Outcome:
    cells: list[list[Cell]] = []
    for row in rows:
        shape = row["shape"]
        name = WHOLE if row["precision"] == WHOLE else "streaming (cukde)"
        start: list[Cell] = [row["backend"], shape["n"], shape["m"], name]
        if "reason" in row:
            cells.append([*start, row["reason"], None, None, None])
        else:
            size = 4 * shape["n"] * shape["m"] / 2**20
            cells.append([*start, row["median_ms"], row["peak_mb"], size, row["rel_err_max"]])
    columns = [
        "backend",
        "n",
        "m",
        "kernel values",
        "time, ms",
        "peak memory, MB",
        "matrix, MB",
        "worst relative error",
    ]
    note = (
        "Of KDE in 16 dimensions, in MB of 2^20 bytes beside the inputs: on a GPU what a memory pool of its own comes "
        "to, on the CPU what NumPy and Python hold at a time."
    )
    lines = []
    for name, precision in (("streaming", "float32"), (WHOLE, WHOLE)):
        for backend in ("cpu", "gpu"):
            of = [r for r in rows if (r["precision"], r["backend"]) == (precision, backend) and "peak_mb" in r]
            if of:
                lines.append(_series(f"{name}, {backend.upper()}", of))
    figure = Figure(
        "Peak memory of KDE, m = n / 8",
        "data points n",
        "peak memory beside the inputs, MB",
        lines,
        log_x=True,
        log_y=True,
        caption=f"Without a GPU: {setting.no_gpu}." if setting.no_gpu else "",
    )
    return Outcome(rows, [Table("Streaming and a whole matrix", columns, cells, note)], [figure], _of_memory(rows))


def _series(name: str, rows: Sequence[Mapping[str, Any]]) -> Series:
    return Series(name, [row["shape"]["n"] for row in rows], [row["peak_mb"] for row in rows])


def _of_memory(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """A sentence for each backend at the largest size that both ways have, and one of what does not fit."""
    out = []
    for backend in ("cpu", "gpu"):
        of = {(r["shape"]["n"], r["precision"]): r for r in rows if r["backend"] == backend}
        both = [n for n, name in of if name == WHOLE and "median_ms" in of[n, WHOLE]]
        if both:
            n = max(both)
            ours, whole = of[n, "float32"], of[n, WHOLE]
            out.append(
                f"KDE of n = {n:,} on the {backend.upper()} takes {told(ours['peak_mb'])} MB and "
                f"{told(ours['median_ms'])} ms streaming; a whole matrix "
                f"{told(whole['peak_mb'])} MB and {told(whole['median_ms'])} ms."
            )
        out += [
            f"A whole matrix of n = {n:,} does not fit on the {backend.upper()}: {row['reason'].rstrip('.')}."
            for (n, name), row in of.items()
            if name == WHOLE and "reason" in row and "median_ms" in of[n, "float32"]
        ]
    return out


SECTION = Section(
    5,
    "Batches of queries, tensor cores, streaming",
    "Flash-SD-KDE, sections 3 and 4.1: tensor-core tiling and streaming accumulation",
    run,
)
