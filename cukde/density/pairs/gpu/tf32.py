"""All pairs on the tensor cores in TF32 operands: the launcher of ``pairs_tf32.cuh``.

The float16 engine has the same significand at half the cost wherever the range allows, which the limit of the
spread sees to; this one is what it is measured against.
"""

from __future__ import annotations

import functools
from typing import Any

import cupy as cp
import numpy as np

from cukde.core.gpu import compile as core_compile
from cukde.core.gpu.launch import NULL, at_least, or_null
from cukde.density.pairs.gpu import finish
from cukde.density.pairs.gpu.operands import scale_of
from cukde.density.pairs.gpu.specialisation import OPERATION, Specialisation
from cukde.density.sums import Output, PartialSums


def specialise(output: Output, d: int, k: int) -> Specialisation:
    """Choose the kernel for points of ``d`` dimensions and ``k`` values."""
    columns = 0
    if output == "moments":
        columns = at_least(d, (16, 32, 64))
    elif output == "values":
        columns = at_least(k, (8, 64))
    return _specialisation(output, at_least(d, (16, 32)), columns)


@functools.cache
def _specialisation(output: Output, chunk: int, columns: int) -> Specialisation:
    name = f"{OPERATION[output]}_tf32"
    defines = (
        ("KERNEL", name),
        ("OUTPUT", output.upper()),
        ("TF32", "1"),
        ("CHUNK", str(chunk)),
        ("COLUMNS", str(columns)),
    )
    return Specialisation("tf32", name, defines, 128, columns)


def run(
    chosen: Specialisation, X: Any, Y: Any, h: float, output: Output, values: Any, log_weights: Any, centre: Any
) -> PartialSums:
    """Sum over all pairs; the spread is the caller's care."""
    n, d = X.shape
    scale = scale_of(h)
    x, x_norms = _operand(X, centre, scale)
    y, y_norms = (x, x_norms) if Y is None else _operand(Y, centre, scale)
    V = None
    k = 0
    if output == "moments":
        V, k = x, x.shape[1]
    elif output == "values":
        V, k = _rounded(finish.contiguous(values, np.dtype(np.float32))), values.shape[1]
    m = y.shape[0]
    out = finish.empty(m, k)
    splits = finish.splits(n, m, chosen.columns, out)
    core_compile.kernel(chosen.stem, chosen.name, chosen.defines)(
        (*splits.blocks, splits.parts),
        (chosen.threads,),
        (
            x,
            y,
            x_norms,
            y_norms,
            or_null(V),
            or_null(log_weights),
            splits.reference,
            splits.total,
            NULL if splits.moments is None else splits.moments,
            np.int64(n),
            np.int64(m),
            np.int32(x.shape[1]),
            np.int32(k),
            np.int64(splits.rows),
            np.float32(1 + d / 2),
        ),
    )
    sums = finish.merge(splits, out)
    if output != "moments":
        return sums
    # About the rounded query: the sums are those of the rounded points, exactly.
    moments = (sums.moments[:, :d] - sums.total[:, None] * y[:, :d]) / scale
    return sums._replace(moments=moments)


def _operand(points: Any, centre: Any, scale: float) -> tuple[Any, Any]:
    """Centred and scaled points, rounded to TF32, with columns padded to a multiple of 8; and -|z|^2/2."""
    n, d = points.shape
    z = cp.zeros((n, -(-d // 8) * 8), dtype=np.float32)
    z[:, :d] = (points - centre) * scale
    z = _rounded(z)
    norms = cp.square(z, dtype=np.float64).sum(axis=1) * -0.5
    return z, norms.astype(np.float32)


def _rounded(a: Any) -> Any:
    """Float32 numbers rounded to the 10 fraction bits of TF32, to nearest, ties away from zero."""
    bits = a.view(np.uint32)
    return ((bits + np.uint32(0x1000)) & np.uint32(0xFFFFE000)).view(np.float32)
