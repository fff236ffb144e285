"""Section 8: Kendall's tau, piecewise polynomials and depthwise convolution beside the kernels of their sources."""

from __future__ import annotations

import functools
import importlib
from typing import Any, NamedTuple

import numpy as np

import cukde
from benchmarks import peers
from benchmarks.conv1d import cases as conv1d
from benchmarks.conv1d.study_cost import PATHS, VARIANTS
from benchmarks.kendall import cases as kendall
from benchmarks.piecewise import cases as piecewise
from benchmarks.sources.section import Cell, Kept, Outcome, Section, Setting, Table
from cukde import perf

REPORT_COLUMNS, REPORT_SAMPLES = 5, 100  # na = nb and sampleSize, section 1 of the report
REPORT = {  # GPU: compute, memory and the whole of a launch in microseconds, the table of section 5
    "TITAN Black": (0.24, 5.89, 10.89),
    "TITAN X": (0.20, 5.88, 10.88),
    "TITAN V": (0.08, 3.03, 8.03),
    "RTX 2080 Ti": (0.09, 3.21, 8.21),
    "RTX 4070": (0.04, 3.93, 8.93),
}
_CALLS = 50  # of the source's kernel in a row: what Python takes to launch one is hidden
_WITH_PANDAS = 3000  # pairs of columns at most: it takes them one by one
_SOURCE_SIZES = ((16, 2), (64, 3), (256, 3))  # pieces and degree; the slides' calls have P = 256


class Sizes(NamedTuple):
    """What is measured."""

    matrices: tuple[tuple[int, int], ...]  # columns, samples
    pairs: tuple[int, ...]  # samples
    points: int  # of polynomials, on the CPU
    pieces: tuple[tuple[int, int], ...]  # with the degree
    of_variants: tuple[tuple[str, int, int], ...]  # dtype, pieces, degree; 2^26 points
    of_ppoly: tuple[tuple[int, int, str], ...]  # pieces, degree, knots
    rows: tuple[int, int, int]  # of convolution on the CPU: B, C, L
    long_rows: tuple[tuple[int, int, int], int]  # with its taps
    taps: tuple[int, ...]
    torch_dtypes: tuple[str, ...]  # of rows beside PyTorch on a GPU
    every: bool  # more than the fewest taps beside PyTorch, and steps of training
    seconds: float


FULL = Sizes(
    ((5, 100), (256, 1000), (64, 10_000), (1000, 1000)),
    (10_000, 100_000, 1_000_000),
    10_000_000,
    _SOURCE_SIZES,
    tuple((dtype, *of) for dtype in ("float32", "float16") for of in _SOURCE_SIZES),
    ((16, 2, "uniform"), (256, 3, "uniform"), (256, 3, "random")),
    (8, 64, 2048),
    ((4, 32, 16384), 512),
    (4, 31),
    ("float32", "float16"),
    True,
    0.2,
)
QUICK = FULL._replace(
    matrices=((5, 100), (32, 1000)),
    pairs=(10_000, 100_000),
    points=1_000_000,
    of_variants=(("float32", 16, 2),),
    of_ppoly=((16, 2, "uniform"),),
    rows=(4, 64, 2048),
    long_rows=((1, 8, 8192), 256),
    torch_dtypes=("float32",),
    every=False,
    seconds=0.05,
)


def run(setting: Setting) -> Outcome:
    """Measure the three families."""
    sizes = QUICK if setting.quick else FULL
    kept = Kept(sizes.seconds)
    report = _report(setting.no_gpu or _kernel_us(kept))
    _kendall(kept, sizes, setting.no_gpu)
    _piecewise(kept, sizes, setting.no_gpu)
    _conv1d(kept, sizes, setting.no_gpu)
    return Outcome(list(kept), [report])


SECTION = Section(
    8,
    "Kendall's tau, piecewise polynomials, depthwise convolution",
    "the gpuKendall report's table of section 5; the speedup figure of torchPACE's slides; figures 8 to 10 of the "
    "depthwise convolution paper (arXiv 2604.25422)",
    run,
)


def _kernel_us(kept: Kept) -> float:
    """Microseconds of the source's kernel at the report's sizes, of many launches in a row."""
    from benchmarks.kendall import study_pairs

    p, n = REPORT_COLUMNS, REPORT_SAMPLES
    A = kendall.columns(n, p, False)
    rows = kendall.on("gpu", np.ascontiguousarray(A.T, np.float32))
    error = kendall.matrix_error(study_pairs.agreement(rows, rows), A)
    about = kendall.row("study.kendall_pairs", "gpu", {"p": p, "q": p, "n": n}, error)
    (found,) = kept(lambda: study_pairs.agreement(rows, rows), about, {}, calls=_CALLS)
    return 1e3 * float(found["median_ms"])


def _report(kernel: float | str) -> Table:
    """The report's table, its rule and ours by the library's model, and the kernel measured where there is a GPU.

    Its rule is max(flops / peak, bytes / bandwidth) + 5 us. Our count is of what the compiled kernel executes, without
    its launch. Measured is a launch's part of many in a row, threads in blocks of 16 by 16: as printed, with 32 by 32,
    it writes beyond its shared memory.
    """
    p, n = REPORT_COLUMNS, REPORT_SAMPLES

    def modelled(gpu: perf.Peaks | str) -> list[Cell]:
        rule = 1e6 * perf.predict("kendall_matrix", gpu, n=n, p=p, q=p).report_seconds
        try:
            importlib.import_module("benchmarks.kendall.study_pairs")  # whose launcher declares the kernel
            parts = perf.predict("study.kendall_pairs", gpu, p=p, q=p, n=n).parts
        except ImportError as error:
            return [rule, peers.reason(error)]
        return [rule, 1e6 * sum(part.seconds for part in parts)]

    rows: list[list[Cell]] = [[gpu, *times, *modelled(gpu), "not at hand"] for gpu, times in REPORT.items()]
    if isinstance(kernel, float):
        here = kendall.gpu_peaks()
        rows.append([here.name, None, None, None, *modelled(here), kernel])
    else:
        rows.append(["the GPU of this machine", None, None, None, None, None, kernel])
    columns = ["GPU", "report: compute, us", "report: memory, us", "report: in all, us"]
    columns += ["its rule in cukde.perf, us", "our count, us", "measured, us"]
    return Table(f"The report's table: gpuKendall on {p} by {p} columns of {n} samples, one launch", columns, rows)


def _kendall(kept: Kept, sizes: Sizes, no_gpu: str | None) -> None:
    """Matrices beside pandas and the report's kernel, pairs beside SciPy and pandas."""
    for p, n in sizes.matrices:
        for ties in (False, True):
            few = p * (p - 1) // 2 <= _WITH_PANDAS
            kept(*kendall.matrix("cpu", p, n, ties, ("pandas",) if few else ()))
            if not no_gpu:
                kept(*kendall.matrix("gpu", p, n, ties, ("source kernel",)))
    for n in sizes.pairs:
        for ties in (False, True):
            kept(*kendall.pair("cpu", n, ties, ("SciPy", "pandas")))
            if not no_gpu:
                kept(*kendall.pair("gpu", n, ties))


def _piecewise(kept: Kept, sizes: Sizes, no_gpu: str | None) -> None:
    """Beside SciPy's PPoly on the CPU; beside the source's variants and CuPy's PPoly on a GPU."""
    for pieces, degree, knots in [(*of, "uniform") for of in sizes.pieces] + [(*sizes.pieces[-1], "random")]:
        for dtype in ("float64", "float32"):
            kept(*piecewise.polynomials(sizes.points, pieces, degree, knots, dtype))
    if no_gpu:
        return
    bench = importlib.import_module("benchmarks.piecewise.bench_piecewise_gpu")
    for dtype, pieces, degree in sizes.of_variants:
        bench.bench_uniform(kept, pieces, degree, "random", dtype)
    for of in sizes.of_ppoly:
        bench.bench_float64(kept, *of, "random")


def _conv1d(kept: Kept, sizes: Sizes, no_gpu: str | None) -> None:
    """Beside SciPy on the CPU, with the bound by the model; beside the source's stages and PyTorch on a GPU."""
    on = perf.peaks("cpu")
    for taps in sizes.taps:
        x, w = conv1d.data(sizes.rows, taps, "float32")
        calls = {
            "forward": functools.partial(cukde.depthwise_conv1d, x, w),
            "input_grad": functools.partial(cukde.depthwise_conv1d_input_grad, x, w),
            "weight_grad": functools.partial(cukde.depthwise_conv1d_weight_grad, x, np.roll(x, 5, axis=0), taps),
        }
        for path, call in calls.items():
            case = getattr(conv1d, path)(sizes.rows, taps, "float32")
            kept(case.call, case.row | _bound(call, on, sizes.seconds), case.peers)
    shape, taps = sizes.long_rows
    x, w = conv1d.data(shape, taps, "float32")
    case = conv1d.long_taps(shape, taps, "float32")
    bound = _bound(functools.partial(cukde.depthwise_conv1d, x, w), on, sizes.seconds)
    kept(case.call, case.row | bound, case.peers)
    if no_gpu:
        return
    bench = importlib.import_module("benchmarks.conv1d.bench_conv1d_gpu")
    for path in (*PATHS, "all"):
        for taps in sizes.taps:
            bench.bench_study(kept, taps, path)
        bench.bench_study_s4convd(kept, path)
    for dtype in sizes.torch_dtypes:
        for path in PATHS:
            for taps in sizes.taps if sizes.every else sizes.taps[:1]:
                bench.bench_short(kept, dtype, taps, "BCL", path)
            if sizes.every:
                bench.bench_long(kept, dtype, path)
    for convolution in (*VARIANTS, "cukde") if sizes.every else ():
        bench.bench_training_step(kept, convolution)


def _bound(call: functools.partial[Any], on: perf.Peaks, seconds: float) -> dict[str, Any]:
    found = perf.explain(call, on=on, seconds=seconds)
    return {"bound_ms": 1e3 * found.bound_seconds, "bound": found.binds}
