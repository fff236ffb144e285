"""Hardware counters beside the model: the bytes, instructions and waits for banks that Nsight Compute counted.

python -m benchmarks.perf.counters --record benchmarks/results/NAME.json

Of three kernels of the library, and of every stage and path of the study of depthwise convolution at the sizes of
S4ConvD (``--only study`` for these alone). Needs ``ncu`` and the right to read counters; the library never does.
"""

from __future__ import annotations

import functools
import itertools
import subprocess
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from benchmarks import record
from benchmarks.conv1d import s4convd
from benchmarks.conv1d.study_cost import PATHS, VARIANTS
from benchmarks.perf import ncu
from cukde import perf
from cukde.core.cost.registry import called, counted

# What is counted, by Nsight Compute's names without their suffixes.
METRICS = {
    "dram__bytes_read": "device memory, read",
    "dram__bytes_write": "device memory, written",
    "lts__t_sectors_srcunit_tex": "sectors of 32 bytes between L1 and L2",
    "l1tex__t_sectors_pipe_lsu_mem_global_op_ld": "sectors that loads asked of L1",
    "l1tex__t_sectors_pipe_lsu_mem_global_op_ld_lookup_hit": "of them found there",
    "l1tex__data_pipe_lsu_wavefronts": "cycles of L1 and shared memory",
    "smsp__thread_inst_executed": "instructions of threads",
    "smsp__inst_executed": "instructions of warps",
    "smsp__inst_executed_pipe_xu": "of them on the unit of exponentials and conversions",
    "smsp__inst_executed_pipe_fma": "of them multiply-adds",
    "sm__inst_executed_pipe_tensor": "of them on tensor cores",
    "gpu__time_duration": "nanoseconds",
}
_SECTOR = 32
_WARP = 32
_WAVEFRONT = 128  # bytes of a cycle of L1 and shared memory, in the model


class Case(NamedTuple):
    """A call, the kernel of it that is counted, and its part of the cost."""

    make: Callable[[], Callable[[], Any]]
    kernel: str
    part: str
    tensor: tuple[perf.Unit, int] | None = None  # what an instruction of a warp multiplies, and its operations


def _kde() -> Callable[[], Any]:
    import cupy as cp

    import cukde

    rng = cp.random.default_rng(0)
    X, Y = (rng.standard_normal((n, 16)).astype("f4") for n in (131_072, 16_384))
    return functools.partial(cukde.kde, X, Y, 0.9, check_finite=False)


def _convolution() -> Callable[[], Any]:
    import cupy as cp

    import cukde

    rng = cp.random.default_rng(0)
    x, w = rng.standard_normal((64, 256, 2048)).astype("f4"), rng.standard_normal((256, 31)).astype("f4")
    return functools.partial(cukde.depthwise_conv1d, x, w)


def _kendall() -> Callable[[], Any]:
    import cupy as cp

    import cukde

    return functools.partial(cukde.kendall_matrix, cp.random.default_rng(0).standard_normal((1000, 1000)))


def _study(path: str, variant: str) -> Callable[[], Any]:
    import cupy as cp

    from benchmarks.conv1d import study

    rng, (batch, channels, length) = cp.random.default_rng(0), s4convd.SHAPE
    x, dy = (rng.standard_normal((batch, channels, length), "f4") for _ in range(2))
    w = rng.standard_normal((channels, s4convd.TAPS), "f4")
    arguments = {"forward": (x, w), "input_grad": (dy, w), "weight_grad": (x, dy, s4convd.TAPS)}[path]
    return functools.partial(getattr(study, path), variant, *arguments)


CASES = {
    "kde": Case(_kde, "kde_f16x2", "pass", ("tensor_f16", 2 * 16 * 8 * 16)),
    "depthwise_conv1d": Case(_convolution, "conv1d", "rows"),
    "kendall_matrix": Case(_kendall, "sign_products", "products", ("tensor_b1", 2 * 16 * 8 * 256)),
    **{
        f"study, {path}, {variant}": Case(functools.partial(_study, path, variant), f"conv1d_{path}", variant)
        for variant, path in itertools.product(VARIANTS, PATHS)
    },
}


def launch(name: str) -> None:
    """Make the call of a case, twice."""
    ncu.twice(CASES[name].make())


def counted_by_ncu(name: str) -> dict[str, float]:
    """Sums of the counters over the launches of a case's kernel in its second call."""
    metrics = ",".join(f"{metric}.sum" for metric in METRICS)
    return parsed(_output(ncu.command("benchmarks.perf.counters", name, CASES[name].kernel, "--metrics", metrics)))


def parsed(text: str) -> dict[str, float]:
    """Read what ``ncu --csv --page raw`` printed: the second half of the launches, added up."""
    names, launches = ncu.table(text, len(METRICS) // 2)
    found: dict[str, float] = {"launches": len(launches) // 2}
    for column, name in enumerate(names):
        metric = name.removesuffix(".sum")
        if metric in METRICS and name != metric:
            found[metric] = sum(float(row[column].replace(",", "")) for row in launches[len(launches) // 2 :])
    return found


def row(name: str, counters: dict[str, float], on: perf.Peaks, call: Callable[[], Any]) -> dict[str, Any]:
    """The counters of a case beside its part of the cost."""
    operation, sizes = called(call, (), {})
    part = next(part for part in counted(operation, on, sizes).parts if part.name == CASES[name].part)
    model = {
        "device memory, bytes": part.bytes,
        "between L1 and L2, bytes": part.asked,
        **{f"{unit}, operations": count for unit, count in part.work.items()},
    }
    seen = {
        "device memory, bytes": counters["dram__bytes_read"] + counters["dram__bytes_write"],
        "between L1 and L2, bytes": _SECTOR * counters["lts__t_sectors_srcunit_tex"],
        "instruction, operations": counters["smsp__thread_inst_executed"],
        "exponential, operations": _WARP * counters["smsp__inst_executed_pipe_xu"],
        "shared, operations": _WAVEFRONT * counters["l1tex__data_pipe_lsu_wavefronts"],
    }
    if CASES[name].tensor is not None:
        unit, operations = CASES[name].tensor
        seen[f"{unit}, operations"] = operations * counters["sm__inst_executed_pipe_tensor"]
    return {
        "op": operation.name,
        "backend": "gpu",
        "shape": {key: value for key, value in sizes.items() if key not in ("dtype", "precision")},
        "dtype": str(sizes.get("dtype")),
        "precision": str(sizes.get("precision") or sizes.get("dtype")),
        "part": part.name,
        "model": model,
        "counters": seen,
        "L1 hit rate": counters["l1tex__t_sectors_pipe_lsu_mem_global_op_ld_lookup_hit"]
        / max(1.0, counters["l1tex__t_sectors_pipe_lsu_mem_global_op_ld"]),
        "ncu": counters,
    }


def line(r: dict[str, Any]) -> str:
    """One row for people."""
    both = [
        f"{what}: model {r['model'][what]:.4g}, counted {count:.4g} ({count / r['model'][what]:.2f})"
        for what, count in r["counters"].items()
        if r["model"].get(what)
    ]
    return f"{r['op']}, {r['part']}: " + "; ".join([*both, f"{r['L1 hit rate']:.0%} of its loads found in L1"])


def _output(command: Sequence[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=240)
    if done.returncode:
        raise RuntimeError(f"{command[0]} failed: {(done.stdout + done.stderr).strip()[-500:]}")
    return done.stdout


def main(arguments: Sequence[str] | None = None) -> None:
    parser = record.arguments("perf.counters", __doc__)
    parser.add_argument("--only", default="", help="cases whose names begin so; default: all")
    parser.add_argument("--launch", choices=CASES, help="only make the calls of a case")
    wanted = parser.parse_args(arguments)
    if wanted.launch:
        launch(wanted.launch)
        return
    on, chosen = perf.peaks(), [name for name in CASES if name.startswith(wanted.only)]
    record.kept((row(name, counted_by_ncu(name), on, CASES[name].make()) for name in chosen), wanted.record, line)


if __name__ == "__main__":
    main()
