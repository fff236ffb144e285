"""The density by ``nvcuda::wmma`` in TF32: launcher of ``kernels_cu/study/density_wmma.cu``."""

from __future__ import annotations

import importlib.util
import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cupy as cp
import numpy as np

from cukde import perf
from cukde.core.gpu import compile as core_compile
from cukde.density.cost import calls as cost_calls, formulas as cost_formulas
from cukde.density.pairs.gpu import tf32
from cukde.density.pairs.gpu.operands import scale_of

STEM, NAME = "study/density_wmma", "kde_wmma"
MOST_DIMENSIONS = 64
_THREADS, _QUERIES = 128, 64  # of a block


def defines(depth: int) -> core_compile.Defines:
    """Macros of the kernel for operands of ``depth`` columns."""
    return (("DEPTH", str(depth)),)


def headers() -> Path | None:
    """A folder with ``<mma.h>`` and what that includes: of pip's CUDA wheels, else of a toolkit; None without one."""
    return next((folder for folder in _folders() if all((folder / h).is_file() for h in ("mma.h", "crt/mma.h"))), None)


def why_absent() -> str | None:
    """Why the kernel cannot be compiled here, or None where it can."""
    if headers() is not None:
        return None
    return "no folder has mma.h and crt/mma.h: install nvidia-cuda-runtime and nvidia-cuda-crt, or set CUDA_PATH"


@perf.declare(cost_formulas.density_wmma, cost_calls.of_wmma, name="study.density_wmma")
def kde(X: Any, Y: Any, h: float) -> Any:
    """Density of the data ``X``, (n, d) of float32, at the queries ``Y``: of at most 64 dimensions, no weights.

    The operands are those of the TF32 engine, centred at the mean, so that the kernels alone differ.
    """
    (n, d), m = X.shape, len(Y)
    if d > MOST_DIMENSIONS:
        raise ValueError(f"X must have at most {MOST_DIMENSIONS} columns; got shape {X.shape}")
    centre = X.mean(axis=0, dtype=np.float64)
    x, x_norms = tf32._operand(X, centre, scale_of(h))
    y, y_norms = tf32._operand(Y, centre, scale_of(h))
    total = cp.empty(m, np.float32)
    core_compile.kernel(STEM, NAME, defines(x.shape[1]), headers=headers())(
        (-(-m // _QUERIES),),
        (_THREADS,),
        (x, y, x_norms, y_norms, total, np.int64(n), np.int64(m)),
    )
    return total * np.float32(math.exp(-0.5 * d * math.log(2 * math.pi * h * h)) / n)


def _folders() -> Iterator[Path]:
    nvidia = importlib.util.find_spec("nvidia")
    for wheels in (nvidia and nvidia.submodule_search_locations) or ():
        yield from sorted(Path(wheels).glob("*/include"))
    if "CUDA_PATH" in os.environ:
        yield Path(os.environ["CUDA_PATH"]) / "include"
    yield Path("/usr/local/cuda/include")
