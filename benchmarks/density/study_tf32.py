"""All pairs on the tensor cores in TF32 operands: the launcher of ``kernels_cu/study/density_tf32.cu``.

Passes of one float16 term have the same significand at half the cost wherever the range allows, which the limit of the
scaled squared radius sees to; they are measured against this one.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from typing import Any

import cupy as cp
import numpy as np

from cukde.core.gpu import compile as core_compile
from cukde.core.gpu.launch import FLOAT, Specialisation, at_least
from cukde.density.pairs.gpu import finish
from cukde.density.pairs.gpu.operands import scale_of
from cukde.density.pairs.gpu.specialisation import OPERATION, Compiled
from cukde.density.sums import Output, PartialSums, moment_columns

_THREADS = 128


@functools.lru_cache(maxsize=1024)
def specialise(output: Output, d: int, k: int) -> Compiled:
    """Choose the kernel for points of ``d`` dimensions and ``k`` values."""
    columns = 0
    if output == "moments":
        columns = at_least(d, (16, 32, 64))
    elif output == "laplace":
        columns = 1
    elif output == "values":
        columns = at_least(k, (8, 64))
    name = f"{OPERATION[output]}_tf32"
    defines = core_compile.macros(KERNEL=name, OUTPUT=output.upper(), CHUNK=at_least(d, (16, 32)), COLUMNS=columns)
    return Compiled(Specialisation("study/density_tf32", name, defines, "9P 2q 2i q f"), columns)


def specialisations() -> Iterator[Specialisation]:
    """Every kernel."""
    for output, d, k in itertools.product(OPERATION, (16, 32, 33), (1, 64)):
        yield specialise(output, d, k).kernel


def take(of: Any, output: Output, values: Any, *, ratio: bool) -> PartialSums:
    """Take a pass as those of the library do."""
    return run(of.X, of.Y, of.h, output, values, of.options.log_weights, of.options.centre)


def run(X: Any, Y: Any, h: float, output: Output, values: Any, log_weights: Any, centre: Any) -> PartialSums:
    """Sum over all pairs; the caller sees to the limit of the scaled squared radius."""
    n, d = X.shape
    chosen = specialise(output, d, moment_columns(output, d, values))
    scale = scale_of(h)
    x, x_norms = operand(X, centre, scale)
    y, y_norms = (x, x_norms) if Y is None else operand(Y, centre, scale)
    V = None
    k = 0
    if output == "moments":
        V, k = x, x.shape[1]
    elif output == "laplace":
        k = 1
    elif output == "values":
        V, k = rounded(finish.contiguous(values, FLOAT)), values.shape[1]
    m = y.shape[0]
    out = finish.empty(m, k)
    splits = finish.splits(n, m, chosen.columns, out)
    arrays = x, y, x_norms, y_norms, V, log_weights, *splits.sums
    chosen.kernel.launch(splits.grid, (_THREADS,), *arrays, n, m, x.shape[1], k, splits.rows, 1 + d / 2)
    sums = finish.merge(splits, out)
    if output != "moments":
        return sums
    # About the rounded query: the sums are those of the rounded points, exactly.
    moments = (sums.moments[:, :d] - sums.total[:, None] * y[:, :d]) / scale
    return sums._replace(moments=moments)


def operand(points: Any, centre: Any, scale: float) -> tuple[Any, Any]:
    """Centred and scaled points, rounded to TF32, with columns padded to a multiple of 8; and -|z|^2/2."""
    n, d = points.shape
    z = cp.zeros((n, -(-d // 8) * 8), dtype=np.float32)
    z[:, :d] = (points - centre) * scale
    z = rounded(z)
    norms = cp.square(z, dtype=np.float64).sum(axis=1) * -0.5
    return z, norms.astype(np.float32)


def rounded(a: Any) -> Any:
    """Float32 numbers rounded to the 10 fraction bits of TF32, to nearest, ties away from zero."""
    bits = a.view(np.uint32)
    return ((bits + np.uint32(0x1000)) & np.uint32(0xFFFFE000)).view(np.float32)
