"""Piecewise polynomials: the source's variants beside ours and a copy on a GPU, SciPy's PPoly on the CPU."""

from __future__ import annotations

from typing import Any, NamedTuple

from benchmarks.figures import piecewise
from benchmarks.piecewise import cases, study
from benchmarks.sources.kept import Kept, ours, peer, peers
from benchmarks.sources.section import Cell, Figure, Outcome, Series, Setting, Table

_SCIPY, _CUPY = "SciPy", "CuPy PPoly"
_CPU_DTYPES = ("float64", "float32")


class Sizes(NamedTuple):
    """What is measured."""

    on_cpu: int  # points
    pieces: tuple[tuple[int, int], ...]  # with the degree
    random: tuple[int, int]  # of random knots
    of_variants: tuple[tuple[str, int, int], ...]  # dtype, pieces, degree; 2^26 points
    of_ppoly: tuple[tuple[int, int, str], ...]  # pieces, degree, knots
    seconds: float


_SOURCE_SIZES = ((16, 2), (64, 3), (256, 3))  # the slides' calls have P = 256; their figure does not say
FULL = Sizes(
    10_000_000,
    _SOURCE_SIZES,
    (256, 3),
    tuple((dtype, *of) for dtype in ("float32", "float16") for of in _SOURCE_SIZES),
    ((16, 2, "uniform"), (256, 3, "uniform"), (256, 3, "random")),
    0.2,
)
QUICK = Sizes(1_000_000, _SOURCE_SIZES, (256, 3), (("float32", 16, 2),), ((16, 2, "uniform"),), 0.05)


def measured(setting: Setting) -> Outcome:
    """Rows, tables, figures, and what they say."""
    sizes = QUICK if setting.quick else FULL
    kept = Kept(sizes.seconds)
    parts = [_on_cpu(kept, sizes), _without(setting.no_gpu) if setting.no_gpu else _on_gpu(kept, sizes)]
    return Outcome.joined([Outcome(list(kept)), *parts])


# ------------------------------------------------------------------------------------------------------- the CPU


def _on_cpu(kept: Kept, sizes: Sizes) -> Outcome:
    rows: list[list[Cell]] = []
    labels: list[str] = []
    speedups: dict[str, list[float | None]] = {dtype: [] for dtype in _CPU_DTYPES}
    given = [(*of, "uniform") for of in sizes.pieces] + [(*sizes.random, "random")]
    for pieces, degree, knots in given:
        labels.append(f"P = {pieces}, D = {degree}, {knots}")
        for dtype in _CPU_DTYPES:
            found = kept(*cases.polynomials(sizes.on_cpu, pieces, degree, knots, dtype))
            mine, theirs = ours(found), peer(found, _SCIPY)
            rows.append([pieces, degree, knots, dtype, mine, ours(found, "rel_err_max"), theirs])
            speedups[dtype].append(theirs / mine if isinstance(theirs, float) else None)
    table = Table(
        f"Piecewise polynomials at {sizes.on_cpu:,} random points on the CPU",
        ["pieces", "degree", "knots", "dtype", "cukde, ms", "its error", "SciPy PPoly, float64, ms"],
        rows,
        "Errors are a part of the sum of the terms' absolute values. SciPy has float64 alone, and one core.",
    )
    figure = Figure(
        "Piecewise polynomials on the CPU: how many times as long SciPy's PPoly takes",
        "pieces P, degree D, knots",
        "time of SciPy over that of cukde",
        [Series(dtype, labels, times) for dtype, times in speedups.items()],
        kind="bars",
    )
    all_times = [s for times in speedups.values() for s in times if s is not None]
    finding = f"On the CPU SciPy's PPoly takes {min(all_times):.2g} to {max(all_times):.2g} times as long as ours."
    return Outcome(tables=[table], figures=[figure], findings=[finding] if all_times else [])


# --------------------------------------------------------------------------------------------------------- a GPU


def _without(reason: str) -> Outcome:
    """The variants' table where no GPU works."""
    names = [*(variant.name for variant in study.SOURCE), "cukde"]
    return Outcome(
        tables=[Table("The source's variants on a GPU", ["variant", "time, ms"], [[name, reason] for name in names])],
        findings=[f"The source's variants of piecewise polynomials were not measured: {reason}."],
    )


def _on_gpu(kept: Kept, sizes: Sizes) -> Outcome:
    """The benchmarks of the variants and of CuPy's PPoly, their rows as the source has its figure."""
    from benchmarks.piecewise import bench_piecewise_gpu

    rows = [
        row
        for dtype, pieces, degree in sizes.of_variants
        for row in kept.of(bench_piecewise_gpu.bench_uniform, pieces, degree, "random", dtype)
    ]
    beside = [kept.of(bench_piecewise_gpu.bench_float64, *of, "random") for of in sizes.of_ppoly]
    return Outcome(
        tables=[_variants(rows), _beside_cupy(beside)],
        figures=[_figure(rows, dtype) for dtype in dict.fromkeys(dtype for dtype, *_ in sizes.of_variants)],
        findings=_of_variants(rows),
    )


def _times(rows: list[dict[str, Any]]) -> dict[str, dict[str, Cell]]:
    """By what was asked for, milliseconds by the name of the kernel, or the reason why there are none."""
    found: dict[str, dict[str, Cell]] = {}
    for row in rows:
        shape = row["shape"]
        times = found.setdefault(f"{row['dtype']}, P = {shape['P']}, D = {shape['D']}", {})
        for beside in peers([row]):
            times[beside["name"]] = beside.get("median_ms", beside.get("reason"))
        if "median_ms" in row:
            times |= {"cukde": row["median_ms"], "copy": row["bound_ms"]}
    return found


def _variants(rows: list[dict[str, Any]]) -> Table:
    times = _times(rows)
    names = sorted({name for of in times.values() for name in of}, key=piecewise.place)
    n = rows[0]["shape"]["n"]
    return Table(
        f"Piecewise polynomials on a GPU: {n:,} random points, uniform knots",
        ["variant", *(f"{what}, ms" for what in times)],
        [[name, *(of.get(name) for of in times.values())] for name in names],
        "AoS: the coefficients of a piece side by side. SoA: those of a degree. copy: reads and writes as many bytes.",
    )


def _figure(rows: list[dict[str, Any]], dtype: str) -> Figure:
    found = piecewise.speedups(rows, dtype)
    series = [Series(what, list(bars), list(bars.values())) for what, bars in found.items()]
    return Figure(
        f"Variants of piecewise polynomials, {dtype}: speedup over the base kernel",
        "kernel",
        f"speedup over {piecewise.BASE}",
        series,
        kind="bars",
        log_y=True,
        caption="P pieces of degree D. A copy of the same bytes is the most that memory allows.",
    )


def _of_variants(rows: list[dict[str, Any]]) -> list[str]:
    findings = [
        "The slides show their speedups in a picture without numbers: variants are compared with each other alone."
    ]
    for what, times in _times(rows).items():
        numbers = {name: ms for name, ms in times.items() if isinstance(ms, float)}
        theirs = {name: ms for name, ms in numbers.items() if name not in ("cukde", "copy")}
        if piecewise.BASE not in theirs or "cukde" not in numbers:
            continue
        best = min(theirs, key=lambda name: theirs[name])
        mine, copy = numbers["cukde"], numbers["copy"]
        findings.append(
            f"{what}: the best of the source's variants is {best}, {theirs[piecewise.BASE] / theirs[best]:.3g} "
            f"times as fast as the base kernel. Ours takes {mine:.3g} ms, the best variant {theirs[best] / mine:.3g} "
            f"times as long, a copy {copy / mine:.3g} times."
        )
    return findings


def _beside_cupy(calls: list[list[dict[str, Any]]]) -> Table:
    cells: list[list[Cell]] = []
    for rows in calls:
        shape = rows[0]["shape"]
        cells.append([shape["P"], shape["D"], shape["knots"], ours(rows), peer(rows, _CUPY), ours(rows, "bound_ms")])
    return Table(
        "Piecewise polynomials in float64 on a GPU, beside CuPy's",
        ["pieces", "degree", "knots", "cukde, ms", f"{_CUPY}, ms", "copy, ms"],
        cells,
    )
