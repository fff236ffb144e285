"""Section 5: how many queries a call should have, what tensor cores are worth, and what a whole matrix would take."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

import cukde
from benchmarks import memory, peers
from benchmarks.density import variants
from benchmarks.peers import whole_matrix
from benchmarks.sources import measured, runtime
from benchmarks.sources.rivals import Patience
from benchmarks.sources.section import Outcome, Section, Setting
from benchmarks.sources.truth import Task, Truth

OPS = ("kde", "sd_kde")
RIVALS = ("Flash-SD-KDE, TF32", "CuPy")
WHOLE = "whole matrix"


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
    """One query to 131,072; the ablation at the size of ``ablation_h200.json``."""
    on_gpu = 65_536, 8_192
    if setting.quick:
        return Sizes(2048, (1, 64, 4096), (4096, 512), on_gpu, (2048, 8192), 0.03, 0.3)
    matrices = 8192, 32_768, 131_072, 1_048_576
    return Sizes(32_768, tuple(1 << k for k in range(18)), (16_384, 2_048), on_gpu, matrices, 0.1, 3.0)


def run(setting: Setting) -> Outcome:
    """Measure the three parts."""
    of = sizes(setting)
    return Outcome(_batches(of, setting) + _engines(of, setting) + _matrices(of, setting))


def _batches(of: Sizes, setting: Setting) -> list[dict[str, Any]]:
    whole = runtime.drawn(of.n, of.m[-1], 0)
    truth = Truth(whole, gpu=setting.no_gpu is None)  # of the first queries, which every batch begins with
    patience = Patience(of.patience)
    rows: list[dict[str, Any]] = []
    for m in of.m:
        task = whole._replace(Y=whole.Y[:m])
        for op in OPS:
            rows += measured.density(op, task, truth, "cpu", seconds=of.seconds)
            if setting.no_gpu is None:
                rows += measured.raced(op, RIVALS, task.on_gpu(), truth, patience, seconds=of.seconds)
    return rows


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


def _engines(of: Sizes, setting: Setting) -> list[dict[str, Any]]:
    task = runtime.drawn(*of.ablation, 0)
    rows = _of_engines(OPS, task, Truth(task, gpu=setting.no_gpu is None), "cpu", _CPU_ENGINES, of.seconds)
    if setting.no_gpu is not None:
        return rows
    from benchmarks.density import study_wmma  # needs CuPy

    task = runtime.drawn(*of.ablation_gpu, 0)
    there, truth = task.on_gpu(), Truth(task, gpu=True)
    rows += _of_engines((*OPS, "score"), there, truth, "gpu", _GPU_ENGINES, of.seconds)
    absent = study_wmma.why_absent()
    for op in ("kde", "score"):  # SD-KDE is a score, whose products are two, and a density
        if absent is None:
            call = functools.partial(getattr(study_wmma, op), *there)
            rows += _of_engine(op, _WMMA, call, there, truth, "gpu", of.seconds)
        else:
            rows.append(measured.missing(op, there, "gpu", _WMMA.called, absent, how=_WMMA.how))
    return rows


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


def _of_engine(
    op: str, engine: Engine, call: Callable[[], Any], task: Task, truth: Truth, backend: str, seconds: float
) -> list[dict[str, Any]]:
    how: dict[str, Any] = {"precision": engine.precision, "called": engine.called, "how": engine.how}
    return measured.variant(op, call, task, truth, backend, seconds=seconds, **how)


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
    how: dict[str, Any] = {"precision": "float32", "called": WHOLE, "rival": True, "peak_mb": used}
    return rows + measured.variant("kde", whole, task, truth, backend, seconds=seconds, **how)


def _kept_mb() -> float:
    """The tiles that threads of the CPU keep from one call to the next."""
    from cukde.core.cpu import threads  # which load Numba
    from cukde.density.pairs.cpu import query_blocks

    return threads.count() * query_blocks._TILE_BYTES / 2**20


SECTION = Section(
    5,
    "Batches of queries, tensor cores, streaming",
    "Flash-SD-KDE, sections 3 and 4.1: tensor-core tiling and streaming accumulation",
    run,
)
