"""Densities on a GPU over kinds of data, dimensions and bandwidths, and what options and Python add to a call.

    python -m benchmarks.density.bench_kinds --record benchmarks/results/NAME.json
    python -m benchmarks.density.bench_kinds kinds wide

Sections are named in ``SECTIONS``; each prints a line for a function and a number of dimensions, and its slowest cells.
Data are those of ``any_case.DATA``, bandwidths multiples of Silverman's. A time is that of calls from Python until the
device has nothing to do: the median of up to five, after one. ``over_limit`` is a time over that of the dense limit.

Errors are not taken here: ``bench_any`` does that, at random.
"""

from __future__ import annotations

import argparse
import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np

import cukde
from benchmarks import memory, record
from benchmarks.density import any_case
from benchmarks.density.any_case import Case
from benchmarks.density.bench_any import Runner, limit_ms

_SEED = 48
_TOGETHER = 16  # populations that threads draw
_WORST = 6


class Cells(NamedTuple):
    """Calls of some sizes: all kinds, numbers of dimensions, multiples of Silverman's bandwidth and functions."""

    n: int
    m: int
    dimensions: Sequence[int]
    factors: Sequence[float]
    functions: Sequence[str] = ("kde", "sd_kde")
    dtype: str = "float32"
    kinds: Sequence[str] = tuple(any_case.DATA)


SECTIONS: dict[str, Cells] = {
    "kinds": Cells(200_000, 20_000, (2, 6, 12, 24, 64, 128), (0.1, 0.3, 1, 3)),
    "wide": Cells(50_000, 5_000, (192, 384, 768), (0.25, 1)),
    "middle": Cells(32_768, 4_096, (16,), (0.25, 0.5, 1), ("sd_kde",)),
    "float64": Cells(100_000, 10_000, (2, 6, 16, 64), (0.3, 1), ("sd_kde",), "float64"),
    "large": Cells(1_048_576, 131_072, (16,), (0.5, 1), kinds=("clusters of unequal widths", "normal")),
    "three columns": Cells(10_000_000, 1_000_000, (2, 3), (1,), kinds=("normal",)),
}
OPTIONS: dict[str, dict[str, Any]] = {
    "unchecked": {"check_finite": False},
    "captured": {"check_finite": False},
    "weights": {},  # drawn
    "leave_one_out": {"leave_one_out": True},
    "deterministic": {"deterministic": True},
}


def populations(of: Cells) -> Iterator[tuple[str, int, tuple[Any, Any, float, dict[str, Any]]]]:
    """Kinds, dimensions, and data, queries and Silverman's bandwidth.

    Threads draw several, and rest while one is measured: they would hold Python's lock.
    """
    wanted = [*itertools.product(of.dimensions, of.kinds)]

    def drawn(of_kind: tuple[int, str]) -> Any:
        d, kind = of_kind
        return any_case.arrays(Case(_SEED, "kde", of.n, of.m, d, kind, 1.0, of.dtype, ""))

    with ThreadPoolExecutor(_TOGETHER) as threads:
        for start in range(0, len(wanted), _TOGETHER):
            some = wanted[start : start + _TOGETHER]
            for (d, kind), arrays in zip(some, [*threads.map(drawn, some)], strict=True):
                yield kind, d, arrays


def section(of: Cells, runner: Runner) -> list[dict[str, Any]]:
    """Rows of all cells."""
    rows = []
    for kind, d, (X, Y, silverman, _) in populations(of):
        X, Y = runner.xp.asarray(X), runner.xp.asarray(Y)
        for factor, op in itertools.product(of.factors, of.functions):
            call = functools.partial(getattr(cukde, op), X, Y, factor * silverman)
            first, times, _ = runner.timed(call)
            case = Case(_SEED, op, of.n, of.m, d, kind, factor, of.dtype, "")
            limit = limit_ms(case)
            row = _row(case) | {"first_ms": first, "limit_ms": limit} | times.row()
            rows.append(row | {"over_limit": times.median_ms / limit})
        del X, Y
        runner.backend.release_memory()
    return rows


def options(runner: Runner) -> list[dict[str, Any]]:
    """Calls with options over the plain call; of a captured call the replay is timed, which has no host's part."""
    import cupy as cp

    rows = []
    for n, kind, factor, op in itertools.product(
        (10_000, 50_000, 200_000), ("normal", "clusters of unequal widths"), (0.25, 1), ("kde", "sd_kde")
    ):
        m, d = n // 10, 12
        X, Y, silverman, _ = any_case.arrays(Case(_SEED, op, n, m, d, kind, 1.0, "float32", ""))
        X, Y, h = cp.asarray(X), cp.asarray(Y), factor * silverman
        function = getattr(cukde, op)
        plain = runner.timed(functools.partial(function, X, Y, h))[1].median_ms
        for name, given in OPTIONS.items():
            given, queries, beside = dict(given), Y, plain
            if name == "weights":
                given["weights"] = cp.asarray(np.random.default_rng(_SEED).exponential(size=n), "f4")
            if name == "leave_one_out":
                if n > 50_000:  # the pairs of the plain call would be others
                    continue
                queries, beside = X, runner.timed(functools.partial(function, X, X, h))[1].median_ms
            call: Callable[[], Any] = functools.partial(function, X, queries, h, **given)
            if name == "captured":
                call = _captured(call)
            taken = runner.timed(call)[1]
            row = _row(Case(_SEED, op, n, len(queries), d, kind, factor, "float32", name)) | taken.row()
            rows.append(row | {"plain_ms": beside, "over_plain": taken.median_ms / beside})
    return rows


def _captured(call: Callable[[], Any]) -> Callable[[], Any]:
    import cupy as cp

    stream = cp.cuda.Stream(non_blocking=True)
    with stream:
        call()
        stream.synchronize()
        stream.begin_capture()
        kept = call()
        graph = stream.end_capture()

    def replay() -> Any:
        graph.launch(cp.cuda.get_current_stream())
        return kept

    return replay


def _memory(runner: Runner) -> list[dict[str, Any]]:
    rows = []
    for name in ("large", "three columns"):
        of = SECTIONS[name]
        for kind, d, (X, Y, h, _) in populations(of):
            X, Y = runner.xp.asarray(X), runner.xp.asarray(Y)
            for op in of.functions:
                taken = memory.peak_mb(functools.partial(getattr(cukde, op), X, Y, h))
                rows.append(_row(Case(_SEED, op, of.n, of.m, d, kind, 1.0, of.dtype, "")) | {"memory_mb": taken})
                print(f"{op} {of.n:,}/{of.m:,} d={d} {kind}: {taken:.0f} MB", flush=True)
            del X, Y
            runner.backend.release_memory()
    return rows


def _row(of: Case) -> dict[str, Any]:
    shape = {name: value for name, value in of._asdict().items() if name not in ("op", "dtype")}
    return {"op": of.op, "backend": "gpu", "shape": shape, "dtype": of.dtype, "precision": of.dtype}


def _cell(row: dict[str, Any]) -> str:
    of = row["shape"]
    text = f"{row['op']} {of['n']:,}/{of['m']:,} d={of['d']} {of['data']} x{of['factor']:g} {of['option']}"
    text += f": {row['median_ms']:.3f} ms"
    if "over_limit" in row:
        text += f", {row['over_limit']:.1f} times the limit"
    return text + (f", {row['over_plain']:.2f} times the plain call" if "over_plain" in row else "")


def summary(rows: Sequence[dict[str, Any]], figure: str, worst: int) -> list[str]:
    """A line for each function, number of dimensions and option, and so many of the worst cells."""
    groups: dict[Any, list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault((row["op"], row["shape"]["d"], row["shape"]["option"]), []).append(row)
    lines = []
    for (op, d, option), cells in groups.items():
        q = np.quantile([row[figure] for row in cells], (0.5, 0.9, 1))
        lines.append(f"{op} d={d} {option}: {figure} median {q[0]:.3g}, nine tenths {q[1]:.3g}, worst {q[2]:.3g}")
        lines += [f"    {_cell(row)}" for row in sorted(cells, key=lambda row: -row[figure])[:worst]]
    return lines


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.density.bench_kinds", description=__doc__)
    names = [*SECTIONS, "options", "memory"]
    parser.add_argument("sections", nargs="*", help="of " + ", ".join(names))
    parser.add_argument("--dimensions", type=int, nargs="*", default=(), help="only these, where a section has them")
    parser.add_argument("--cells", action="store_true", help="print all cells")
    parser.add_argument("--record", type=record.target, default=None)
    chosen = parser.parse_args(arguments)
    session, runner, rows = record.Session(chosen.record), Runner("gpu"), []
    for name in chosen.sections or names:
        print(f"== {name}", flush=True)
        if name == "memory":
            rows += _memory(runner)
            continue
        if name == "options":
            found = options(runner)
        else:
            of = SECTIONS[name]
            some = [d for d in of.dimensions if d in chosen.dimensions]
            found = section(of._replace(dimensions=some or of.dimensions), runner)
        figures = {"options": "over_plain", "float64": "over_limit"}
        print(
            *summary(found, figures.get(name, "median_ms"), len(found) if chosen.cells else _WORST),
            sep="\n",
            flush=True,
        )
        rows += found
    session.write(rows)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
