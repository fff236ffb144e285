"""The sources' own kernels by themselves: hardware counters, tiles, memory, and the largest size of one dimension.

python -m benchmarks.sources.kernels --record benchmarks/results/NAME.json

Of Flash-SD-KDE at 32,768 points in 16 dimensions: what Nsight Compute counts in its score kernel, and the time of that
kernel over tiles, warps and stages; what its ``kde`` and ``sd_kde`` take of memory at 131,072 points; and one call of
the SD-KDE of 4,194,304 points in one dimension by the kernels of its figures, beside all pairs by this library. Of the
piecewise polynomials: why warps of the branch-free kernels wait. Needs ``ncu`` and the right to read counters.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import re
import subprocess
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

import numpy as np

import cukde
from benchmarks.peers import reason
from benchmarks.perf import ncu
from benchmarks.record import target
from benchmarks.sources import line, runtime
from benchmarks.tools import records
from cukde import perf

N, D = 32_768, 16
MEMORY = 131_072, 16_384  # points, queries
LARGE = 2**22, 2**19  # of one dimension

# Of the score kernel: block_m, block_n, warps, stages.
SMALL, OWN = (64, 64), (64, 2048, 2, 2)
TILES = (
    *itertools.product((32, 64, 128, 256), (32, 64, 128, 256, 512, 1024, 2048), (1, 2, 4, 8), (2,)),
    *itertools.product((32, 64, 128, 256), (64, 2048), (2,), (1, 3, 4)),
)

_SECTIONS = "SpeedOfLight", "MemoryWorkloadAnalysis", "WarpStateStats"
_METRICS = (
    "gpu__time_duration.sum",
    "dram__bytes_read.sum",
    "dram__bytes_write.sum",
    "sm__inst_executed_pipe_tensor.sum",
    "smsp__inst_executed.sum",
)
_KEPT = re.compile(r"throughput|^dram__bytes|stalled|latency|^gpu__time_duration|inst_executed")
_STALLED = re.compile(r"average_warps_issue_stalled_(\w+?)_per_issue_active\.ratio$")
_LATENCY = "smsp__average_warp_latency_per_inst_issued.ratio"
_PIECES = (16, 2), (256, 3)  # with the degree
_POINTS = 2**26


def _flash() -> Callable[[], Any]:
    """Its score kernel, with its package's own tiles."""
    X, h = _data(N)
    return functools.partial(_scored, X, h, OWN)


def _branch_free(layout: str, pieces: int, degree: int) -> Callable[[], Any]:
    import cupy as cp

    from benchmarks.piecewise import study

    rng = np.random.default_rng(0)
    knots = np.linspace(-1, 1, pieces + 1)
    coefficients = study.coefficients_of(rng.standard_normal((degree + 1, pieces)), knots).astype("f4")
    of = cp.asarray(np.ascontiguousarray(coefficients.T if layout == "aos" else coefficients))
    x = 2 * cp.random.default_rng(0).random(_POINTS, np.float32) - 1
    variant = study.Variant("BRANCH_FREE", layout)
    return functools.partial(study.evaluate, variant, x, of, cp.asarray(knots.astype("f4")), cp.empty_like(x))


COUNTED: dict[str, tuple[Callable[[], Callable[[], Any]], str, dict[str, int]]] = {
    "Flash-SD-KDE, score": (_flash, "_empirical_sd_kde_kernel_nd", {"n": N, "d": D}),
    **{
        f"piecewise, branch-free {layout}, P = {pieces}": (
            functools.partial(_branch_free, layout, pieces, degree),
            "piecewise_variant",
            {"n": _POINTS, "P": pieces, "D": degree},
        )
        for layout in ("soa", "aos")
        for pieces, degree in _PIECES
    },
}
"""Calls, the kernel of each that is counted, and its sizes."""


def launch(name: str) -> None:
    """Make a call twice."""
    ncu.twice(COUNTED[name][0]())


def counted(name: str) -> dict[str, float]:
    """What Nsight Compute has of the second launch of a kernel."""
    command = ncu.command(
        *("benchmarks.sources.kernels", name, COUNTED[name][1]),
        *itertools.chain(*(("--section", section) for section in _SECTIONS)),
        *("--metrics", ",".join(_METRICS), "--launch-skip", "1", "--launch-count", "1"),
    )
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    return parsed(done.stdout, done.stderr)


def parsed(text: str, errors: str = "") -> dict[str, float]:
    """Read the names and the one launch of what ``ncu --csv --page raw`` printed."""
    names, (launched, *_) = ncu.table(text, len(_METRICS), errors)
    found = {}
    for metric, value in zip(names, launched, strict=True):
        with_digits = value.replace(",", "")
        if _KEPT.search(metric) and re.fullmatch(r"-?[\d.]+(e[-+]?\d+)?", with_digits):
            found[metric] = float(with_digits)
    return found


def counters() -> Iterator[dict[str, Any]]:
    """A row of counters for each kernel, or the reason why there is none."""
    for name, (_, kernel, shape) in COUNTED.items():
        row = _row(name, shape) | {"kernel": kernel}
        try:
            found = counted(name)
        except Exception as failed:  # whatever it is, the record says it
            yield row | {"reason": reason(failed)}
            continue
        latency = found.get(_LATENCY)
        stalls = {of[1]: found[of[0]] for of in map(_matched, found) if of}
        shares = {what: of / latency for what, of in stalls.items()} if latency else {}
        yield row | {"cycles_an_instruction": latency, "stalls": shares, "ncu": found}


def _matched(metric: str) -> tuple[str, str] | None:
    of = _STALLED.search(metric)
    return (metric, of[1]) if of else None


def tiles() -> Iterator[dict[str, Any]]:
    """Times of the score kernel of Flash-SD-KDE over its launch parameters, or why one does not run."""
    with ProcessPoolExecutor(12, mp_context=get_context("spawn")) as pool:  # compiles what is timed below
        list(pool.map(_compiled, TILES))
    X, h = _data(N)
    exact = _scored(X, h, OWN)[0]
    for setting in sorted(TILES):
        row = _row("Flash-SD-KDE, tiles", {"n": N, "d": D} | _named(setting))
        try:
            call = functools.partial(_scored, X, h, setting)
            off = float((abs(call()[0] - exact) / exact).max())
            yield row | {"off": off} | perf.measure(call, gpu=True, seconds=0.03, most=10).row()
        except Exception as failed:
            yield row | {"reason": reason(failed)}


def _named(setting: tuple[int, int, int, int]) -> dict[str, int]:
    return dict(zip(("block_m", "block_n", "warps", "stages"), setting, strict=True))


def _compiled(setting: tuple[int, int, int, int]) -> None:
    """Leave a kernel in Triton's cache."""
    try:
        _scored(*_data(N), setting)
    except Exception:  # the timed call says what it is
        return


@functools.cache
def _data(n: int) -> tuple[Any, float]:
    X, _, h = runtime.drawn(n, n // 8, 0)
    import torch

    return torch.from_numpy(np.ascontiguousarray(X, np.float32)).cuda(), h


def _scored(X: Any, h: float, setting: tuple[int, int, int, int]) -> Any:
    from kernels.flash_sd_kde.empirical import emp_score_16d_flash_sd_kde

    block_m, block_n, warps, stages = setting
    return emp_score_16d_flash_sd_kde(
        X, h, block_m=block_m, block_n=block_n, num_warps=warps, num_stages=stages, synchronize=False
    )


def memory() -> Iterator[dict[str, Any]]:
    """What Flash-SD-KDE takes beside its inputs, of PyTorch's allocator, in MB of 2^20 bytes."""
    import torch

    from benchmarks.peers import flash

    n, m = MEMORY
    of = runtime.drawn(n, m, 0).on_gpu()
    for op in ("kde", "sd_kde"):
        call = functools.partial(getattr(flash, op), *of)
        call()  # tunes and compiles
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        call()
        torch.cuda.synchronize()
        peak = (torch.cuda.max_memory_allocated() - before) / 2**20
        yield _row(f"Flash-SD-KDE, memory of {op}", {"n": n, "m": m, "d": D}) | {"peak_mb": peak}


def large() -> Iterator[dict[str, Any]]:
    """One call of SD-KDE in one dimension: Flash-SD-KDE, and this library's transform and all pairs."""
    import cupy as cp

    from benchmarks.peers import flash

    n, m = LARGE
    few = line.drawn(n // 64, m // 64, 0).on_gpu()
    of = line.drawn(n, m, 0).on_gpu()
    programs: dict[str, Callable[..., Any]] = {
        "cukde, transform": cukde.sd_kde,
        "cukde, all pairs": functools.partial(cukde.sd_kde, precision="ieee"),
        f"{line.FLASH}, the paper's kernels": flash.paper_sd_kde,  # which tunes nothing: that would take minutes
    }
    first = cukde.sd_kde(*(a.astype("f8") if isinstance(a, cp.ndarray) else a for a in of))
    for name, call in programs.items():
        row = _row("sd_kde", {"n": n, "m": m, "d": 1}) | {"program": name}
        try:
            call(*few)
            began, ended = cp.cuda.Event(), cp.cuda.Event()
            began.record()
            got = call(*of)
            cp.cuda.Device().synchronize()
            ended.record()
            ended.synchronize()
            off = float((abs(got - first) / first).max())
            yield row | {"off": off} | perf.Times.of([cp.cuda.get_elapsed_time(began, ended)]).row()
        except Exception as failed:
            yield row | {"reason": reason(failed)}


def _row(op: str, shape: dict[str, Any]) -> dict[str, Any]:
    return {"op": op, "backend": "gpu", "shape": shape, "dtype": "float32", "precision": "float32"}


PARTS = {"counters": counters, "memory": memory, "tiles": tiles, "large": large}


def text(row: dict[str, Any]) -> str:
    """A row for people."""
    shape = " ".join(f"{name}={value}" for name, value in row["shape"].items())
    names = ("program", "median_ms", "off", "peak_mb", "cycles_an_instruction", "stalls", "reason")
    return f"{row['op']} {shape}: " + ", ".join(f"{name} {row[name]}" for name in names if name in row)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sources.kernels", description=__doc__)
    parser.add_argument("--record", type=target, help="write the rows to this JSON file")
    parser.add_argument("--only", nargs="*", choices=PARTS, default=[*PARTS], help="parts to measure; default: all")
    parser.add_argument("--launch", choices=COUNTED, help="only make the calls of a kernel that is counted")
    wanted = parser.parse_args(arguments)
    if wanted.launch:
        launch(wanted.launch)
        return
    rows: list[dict[str, Any]] = []
    for part in wanted.only:
        for row in PARTS[part]():
            print(text(row), flush=True)
            rows.append(row)
        if wanted.record:  # after each part: none is lost for another
            records.write(wanted.record, rows)


if __name__ == "__main__":
    main()
