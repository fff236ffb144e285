"""Kendall's tau: the report's table beside times of its kernel and ours, SciPy and pandas."""

from __future__ import annotations

import importlib
from typing import Any, NamedTuple

import numpy as np

from benchmarks import peers
from benchmarks.kendall import cases
from benchmarks.sources.kept import Kept, ours, peer
from benchmarks.sources.section import Cell, Figure, Outcome, Series, Setting, Table
from cukde import perf

REPORT_COLUMNS, REPORT_SAMPLES = 5, 100  # na = nb and sampleSize, section 1 of the report
REPORT = {  # GPU: compute, memory and the whole of a launch in microseconds, the table of section 5
    "TITAN Black": (0.24, 5.89, 10.89),
    "TITAN X": (0.20, 5.88, 10.88),
    "TITAN V": (0.08, 3.03, 8.03),
    "RTX 2080 Ti": (0.09, 3.21, 8.21),
    "RTX 4070": (0.04, 3.93, 8.93),
}
_SOURCE, _PANDAS, _SCIPY = "source kernel", "pandas", "SciPy"
_CALLS = 50  # of the source's kernel in a row: what Python takes to launch one is hidden


class Sizes(NamedTuple):
    """What is measured, on the CPU and a GPU alike."""

    matrices: tuple[tuple[int, int], ...]  # columns, samples
    with_pandas: int  # pairs of columns at most that pandas is given: it takes them one by one
    pairs: tuple[int, ...]  # samples
    seconds: float


FULL = Sizes(((5, 100), (256, 1000), (64, 10_000), (1000, 1000)), 3000, (10_000, 100_000, 1_000_000), 0.2)
QUICK = Sizes(((5, 100), (32, 1000)), 3000, (10_000, 100_000), 0.05)


def measured(setting: Setting) -> Outcome:
    """Rows, the report's table, ours, and what they say."""
    sizes = QUICK if setting.quick else FULL
    kept = Kept(sizes.seconds)
    kernel = setting.no_gpu or _kernel_us(kept)
    report, findings = _report(kernel)
    matrices, of_matrices = _matrices(kept, sizes, setting.no_gpu)
    pairs, figure, of_pairs = _pairs(kept, sizes, setting.no_gpu)
    return Outcome(list(kept), [report, matrices, pairs], [figure], [*findings, *of_matrices, *of_pairs])


# ---------------------------------------------------------------------------------------------------- the report


def _kernel_us(kept: Kept) -> float:
    """Microseconds of the source's kernel at the report's sizes, of many launches in a row."""
    from benchmarks.kendall import study_pairs

    p, n = REPORT_COLUMNS, REPORT_SAMPLES
    A = cases.columns(n, p, False)
    rows = cases.on("gpu", np.ascontiguousarray(A.T, np.float32))
    error = cases.matrix_error(study_pairs.agreement(rows, rows), A)
    about = cases.row("study.kendall_pairs", "gpu", {"p": p, "q": p, "n": n}, error)
    found = kept(lambda: study_pairs.agreement(rows, rows), about, {}, calls=_CALLS)
    return 1e3 * float(ours(found))


def _report(kernel: float | str) -> tuple[Table, list[str]]:
    """The report's table, its rule and ours by the library's model, and the kernel measured where there is a GPU."""
    p, n = REPORT_COLUMNS, REPORT_SAMPLES
    rows: list[list[Cell]] = []
    apart = 0.0
    modelled: list[float] = []
    for gpu, (compute, memory, whole) in REPORT.items():
        rule = 1e6 * perf.predict("kendall_matrix", gpu, n=n, p=p, q=p).report_seconds
        own = _of_kernel(gpu)
        apart = max(apart, abs(rule - whole))
        modelled += [own] if isinstance(own, float) else []
        rows.append([gpu, compute, memory, whole, rule, own, "not at hand"])
    rule_here: Cell = None
    own_here: Cell = None
    name = "the GPU of this machine"
    if isinstance(kernel, float):
        here = cases.gpu_peaks()
        name = here.name
        rule_here = 1e6 * perf.predict("kendall_matrix", here, n=n, p=p, q=p).report_seconds
        own_here = _of_kernel(here)
    rows.append([name, None, None, None, rule_here, own_here, kernel])
    table = Table(
        f"The report's table: gpuKendall on {p} by {p} columns of {n} samples, one launch",
        [
            *("GPU", "report: compute, us", "report: memory, us", "report: in all, us"),
            *("its rule in cukde.perf, us", "our count, us", "measured, us"),
        ],
        rows,
        "The report predicts and measures nothing. Its rule is max(flops / peak, bytes / bandwidth) + 5 us. Our count "
        "is of what the compiled kernel executes, without its launch. Measured: a launch's part of "
        f"{_CALLS} in a row, threads in blocks of 16 by 16.",
    )
    findings = [
        f"The report's rule in cukde.perf gives its totals for all {len(REPORT)} GPUs to within {apart:.3f} us.",
        "As the report prints it, the kernel is launched with 32 by 32 threads but has room for 16 by 16 sums in "
        "shared memory: the rest write beyond it. It is measured with 16 by 16.",
    ]
    if modelled:
        traffic = [of[1] for of in REPORT.values()]
        findings.append(
            f"By our count its body takes {min(modelled):.2g} to {max(modelled):.2g} us on the report's GPUs, where "
            f"the report has {min(traffic):.3g} to {max(traffic):.3g} us of memory traffic: the cache serves it."
        )
    if isinstance(kernel, float):
        findings.append(
            f"Measured on {name}, one of many launches in a row takes {kernel:.3g} us, launch and all; the report's "
            f"rule gives {_number(rule_here)} us."
        )
    return table, findings


def _of_kernel(gpu: perf.Peaks | str) -> float | str:
    """Microseconds of the source's kernel, without its launch, or why there is no count: its launcher declares it."""
    try:
        importlib.import_module("benchmarks.kendall.study_pairs")
        p, n = REPORT_COLUMNS, REPORT_SAMPLES
        return 1e6 * sum(part.seconds for part in perf.predict("study.kendall_pairs", gpu, p=p, q=p, n=n).parts)
    except ImportError as error:
        return peers.reason(error)


def _number(cell: Cell) -> str:
    return f"{cell:.3g}" if isinstance(cell, float | int) else str(cell)


# ------------------------------------------------------------------------------------------------------ matrices


def _matrices(kept: Kept, sizes: Sizes, no_gpu: str | None) -> tuple[Table, list[str]]:
    rows: list[list[Cell]] = []
    findings = []
    slower: dict[str, float] = {}
    for p, n in sizes.matrices:
        for ties in (False, True):
            few = p * (p - 1) // 2 <= sizes.with_pandas
            on_cpu = kept(*cases.matrix("cpu", p, n, ties, (_PANDAS,) if few else ()))
            on_gpu = None if no_gpu else kept(*cases.matrix("gpu", p, n, ties, (_SOURCE,)))
            beside = peer(on_cpu, _PANDAS) if few else f"left out: {p * (p - 1) // 2:,} pairs of columns, one by one"
            if isinstance(beside, float):
                slower[f"{p:,} columns of {n:,}"] = beside / ours(on_cpu)
            of_gpu: list[Cell] = [no_gpu] * 4
            if on_gpu is not None:
                of_gpu = [
                    peer(on_gpu, _SOURCE),
                    peer(on_gpu, _SOURCE, "rel_err_max"),
                    ours(on_gpu),
                    on_gpu[0]["bound_ms"],
                ]
                findings += _of_matrix(on_gpu, p, n, ties)
            rows.append([p, n, _yes(ties), *of_gpu, ours(on_cpu), beside])
    table = Table(
        "Kendall's tau of all pairs of columns",
        [
            *("columns", "samples", "ties", "report's kernel, GPU, ms", "its error", "cukde, GPU, ms"),
            *("bound by int8 products, ms", "cukde, CPU, ms", "pandas, CPU, ms"),
        ],
        rows,
        f"Every result of ours is within {cases.TOLERANCE:g} of SciPy's tau-b. The report's kernel counts pairs that "
        "are tied in both columns for concordant, those tied in one for discordant: with ties that is another number.",
    )
    for what, times in slower.items():
        findings.append(f"{what} samples with ties on the CPU: pandas takes {times:.2g} times as long as ours.")
    return table, findings


def _of_matrix(rows: list[dict[str, Any]], p: int, n: int, ties: bool) -> list[str]:
    theirs, mine = peer(rows, _SOURCE), ours(rows)
    if not isinstance(theirs, float):
        return []
    what = f"{p:,} columns of {n:,} samples"
    if ties:
        error = peer(rows, _SOURCE, "rel_err_max")
        return [f"{what} with ties: the report's kernel is off tau-b by up to {error:.2g}."]
    return [
        f"{what}: the report's kernel takes {theirs:.3g} ms, {theirs / mine:.3g} times as long as ours, {mine:.3g} ms."
    ]


# --------------------------------------------------------------------------------------------------------- pairs


def _pairs(kept: Kept, sizes: Sizes, no_gpu: str | None) -> tuple[Table, Figure, list[str]]:
    rows: list[list[Cell]] = []
    for n in sizes.pairs:
        for ties in (False, True):
            on_cpu = kept(*cases.pair("cpu", n, ties, (_SCIPY, _PANDAS)))
            on_gpu: Cell = no_gpu or ours(kept(*cases.pair("gpu", n, ties)))
            rows.append([n, _yes(ties), peer(on_cpu, _SCIPY), peer(on_cpu, _PANDAS), ours(on_cpu), on_gpu])
    names = ["SciPy, CPU", "pandas, CPU", "cukde, CPU", "cukde, GPU"]
    table = Table("Kendall's tau of two samples", ["samples", "ties", *(f"{name}, ms" for name in names)], rows)
    distinct = [row for row in rows if row[1] == _yes(False)]
    series = [Series(name, list(sizes.pairs), [_time(row[2 + i]) for row in distinct]) for i, name in enumerate(names)]
    figure = Figure(
        "Kendall's tau of two samples without ties",
        "samples",
        "time, ms",
        [of for of in series if any(y is not None for y in of.y)],
        log_x=True,
        log_y=True,
        caption=f"No line of a GPU: {no_gpu}." if no_gpu else "",
    )
    n, scipy, own = sizes.pairs[-1], distinct[-1][2], distinct[-1][4]
    found = f"Two samples of {n:,} without ties: ours takes {_number(own)} ms on the CPU"
    if isinstance(scipy, float) and isinstance(own, float):
        found += f", SciPy {scipy:.3g} ms ({scipy / own:.2g} times as long)"
    if isinstance(on_gpu := distinct[-1][5], float):
        found += f"; on the GPU {on_gpu:.3g} ms"
    return table, figure, [found + "."]


def _yes(ties: bool) -> str:
    return "yes" if ties else "no"


def _time(cell: Cell) -> float | None:
    return cell if isinstance(cell, float) else None
