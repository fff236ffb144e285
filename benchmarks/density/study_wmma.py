"""Density and score by ``nvcuda::wmma`` in TF32: launchers of ``kernels_cu/study/density_wmma.cu``."""

from __future__ import annotations

import importlib.util
import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, NamedTuple

import cupy as cp
import numpy as np

from benchmarks.density import study_tf32
from cukde import perf
from cukde.core.cost import elementwise
from cukde.core.gpu import compile as core_compile
from cukde.core.gpu.launch import Signature
from cukde.density.cost.flash import flash_density_flops, flash_pass_bytes, flash_score_flops
from cukde.density.pairs.gpu.operands import scale_of
from cukde.perf import Counted, Part, Peaks, Unit

STEM = "study/density_wmma"
MOST_DIMENSIONS = 64
_WARPS, _TILE = 4, 64  # of a block; its queries, and the data rows that it stages at a time

Output = Literal["sum", "moments"]
NAMES: dict[Output, str] = {"sum": "kde_wmma_tf32", "moments": "score_wmma_tf32"}
_SIGNATURE = Signature("6P 2q")

# What a lane holds of a fragment has to pass through shared memory, where loads wait for stores and for barriers: that
# is what the study is about. Bytes of a pair: its product written and read, norms of both points; beside them a
# fragment's numbers, read for 16 queries. Of moments its power written and read, too.
_SHARED, _SHARED_OF_POWERS = 2 * 4 + 4 + 2, 2 * 4
# Cycles that a block takes for a tile, a part whatever the dimensions and one for each: measured on an H200 of the
# density of 16 dimensions, 131,072 points at 16,384 queries, two blocks to a multiprocessor, 5.95 ms; how they divide
# is assumed. The score has not been measured: a column of its second product is taken for one of the first.
_CYCLES_OF_TILE, _CYCLES_OF_DIMENSION = 2700, 170
# Blocks of a multiprocessor, by their registers and shared memory at 16 dimensions (NVRTC, sm_90).
_RESIDENT: dict[Output, int] = {"sum": 8, "moments": 7}
_SOURCE = (
    "counted from kernels_cu/study/density_wmma.cu, an exponential and the products of its exponent a pair; "
    "textbook: Flash-SD-KDE, section 3.1 and appendix A"
)


def defines(output: Output, depth: int) -> core_compile.Defines:
    """Macros of the kernel for operands of ``depth`` columns."""
    return (("KERNEL", NAMES[output]), ("OUTPUT", output.upper()), ("DEPTH", str(depth)))


def headers() -> Path | None:
    """A folder with ``<mma.h>`` and what that includes: of pip's CUDA wheels, else of a toolkit; None without one."""
    return next((folder for folder in _folders() if all((folder / h).is_file() for h in ("mma.h", "crt/mma.h"))), None)


def why_absent() -> str | None:
    """Why the kernel cannot be compiled here, or None where it can."""
    if headers() is not None:
        return None
    return "no folder has mma.h and crt/mma.h: install nvidia-cuda-runtime and nvidia-cuda-crt, or set CUDA_PATH"


def cost(on: Peaks, *, n: int, m: int, d: int) -> Counted:
    """Count the density."""
    after = elementwise.passes("density", on, m, 8.0 * m)
    textbook = flash_density_flops(n, m, d), flash_pass_bytes(n, m, d, moments=False)
    return Counted((*_parts(on, "sum", n, m, d), after), _SOURCE, float(n) * m, *textbook)


def score_cost(on: Peaks, *, n: int, m: int, d: int) -> Counted:
    """Count the score: beside the density a product of the powers with the points, of columns rounded up to 16."""
    after = elementwise.passes("scale", on, 3.0 * m * d, 28.0 * m * d, launches=3)
    textbook = flash_score_flops(n, m, d), flash_pass_bytes(n, m, d, moments=True)
    return Counted((*_parts(on, "moments", n, m, d), after), _SOURCE, float(n) * m, *textbook)


def _sizes(X: Any, Y: Any, h: Any = None) -> dict[str, int]:
    return {"n": X.shape[0], "m": Y.shape[0], "d": X.shape[1]}


@perf.declare(cost, _sizes, name="study.density_wmma")
def kde(X: Any, Y: Any, h: float) -> Any:
    """Density of the data ``X``, (n, d) of float32, at the queries ``Y``: of at most 64 dimensions, no weights.

    The operands are those of :mod:`study_tf32`, centred at the mean, so that the kernels alone differ.
    """
    n, d = X.shape
    total = _summed("sum", X, Y, h).total
    return total * np.float32(math.exp(-0.5 * d * math.log(2 * math.pi * h * h)) / n)


@perf.declare(score_cost, _sizes, name="study.score_wmma")
def score(X: Any, Y: Any, h: float) -> Any:
    """Gradients of the log density, (m, d), of the same arguments; NaN where every kernel is below 2^-126."""
    d = X.shape[1]
    sums = _summed("moments", X, Y, h)
    # About the rounded query: the sums are those of the rounded points, exactly.
    shift = sums.moments[:, :d] / sums.total[:, None] - sums.queries[:, :d]
    return shift * np.float32(1 / (scale_of(h) * h * h))


class _Sums(NamedTuple):
    """Of each query; points and moments in the units of the operands, (m, DEPTH)."""

    total: Any  # (m,)
    moments: Any | None
    queries: Any


def _summed(output: Output, X: Any, Y: Any, h: float) -> _Sums:
    if X.shape[1] > MOST_DIMENSIONS:
        raise ValueError(f"X must have at most {MOST_DIMENSIONS} columns; got shape {X.shape}")
    centre = X.mean(axis=0, dtype=np.float64)
    x, x_norms = study_tf32.operand(X, centre, scale_of(h))
    y, y_norms = study_tf32.operand(Y, centre, scale_of(h))
    n, (m, depth) = len(x), y.shape
    total = cp.empty(m, np.float32)
    moments = cp.empty((m, depth), np.float32) if output == "moments" else None
    kernel = core_compile.kernel(STEM, NAMES[output], defines(output, depth), headers=headers())
    arrays = x, y, x_norms, y_norms, total, moments
    _SIGNATURE.launch(kernel, (-(-m // _TILE),), (32 * _WARPS,), (*arrays, n, m))
    return _Sums(total, moments, y)


def _parts(on: Peaks, output: Output, n: int, m: int, d: int) -> tuple[Part, Part]:
    """Making the operands, and the kernel."""
    depth, pairs = -(-d // 8) * 8, float(n) * m
    columns = -(-d // 16) * 16 if output == "moments" else 0  # of the second product
    # A warp's 16 x 16 pairs: by 8 dimensions the loads of a fragment, its rounding and two products, then stores; of a
    # pair a load, two additions, the exponential, a sum; staging takes a thread 14 instructions a number.
    instructions = (depth / 8 * (4 + 4 + 2) + 8) / 8 + 5 + max(depth, columns) / _TILE * 14
    if columns:
        # By 8 of the data a fragment of powers, and by 16 columns what the first product has; of four such tiles their
        # sums are added. Of a pair its power is rounded and stored.
        instructions += (2 * (4 + columns / 16 * (4 + 4 + 2)) + columns / 16 * 8 / 4) / 8 + 2
    work: dict[Unit, float] = {
        "exponential": pairs,
        "tensor_tf32": 2.0 * (depth + columns) * pairs,
        "instruction": instructions * pairs,
        "shared": (_SHARED + depth / 4 + (_SHARED_OF_POWERS + columns / 4 if columns else 0)) * pairs,
    }
    points = 4.0 * (depth + 1) * (n + m)
    sums = 4.0 * m * (1 + (depth if columns else 0))
    blocks, resident = -(-m // _TILE), _RESIDENT[output]
    passed = Part(
        "pass",
        points + sums,
        work,
        points + sums + blocks * 4.0 * (depth + 1) * n,
        footprint=4.0 * on.multiprocessors * resident * _TILE * (depth + 1),
        blocks=float(blocks),
        resident=resident,
        cycles=-(-n // _TILE) * (_CYCLES_OF_TILE + _CYCLES_OF_DIMENSION * (depth + columns)),
        reduction=pairs,
    )
    return Part("prepare", 8.0 * d * (n + m) + points, launches=16), passed


def _folders() -> Iterator[Path]:
    nvidia = importlib.util.find_spec("nvidia")
    for wheels in (nvidia and nvidia.submodule_search_locations) or ():
        yield from sorted(Path(wheels).glob("*/include"))
    if "CUDA_PATH" in os.environ:
        yield Path(os.environ["CUDA_PATH"]) / "include"
    yield Path("/usr/local/cuda/include")
