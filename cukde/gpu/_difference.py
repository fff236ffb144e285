"""All pairs by differences, on the ordinary cores: the launcher of ``pairs_by_difference.cuh``.

It serves what the tensor cores cannot: any precision, dimension and spread. Beside the float16 and float64 engines
it is launched as their stand-in and returns at once where it is not needed.
"""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import numpy as np

from cukde import _compile
from cukde._partial import Output, PartialSums
from cukde.gpu import _results
from cukde.gpu._operands import LOG2_E, or_null
from cukde.gpu._specialisation import C_TYPE, DOUBLE, FLOAT, OPERATION, Specialisation, at_least


class Guard(NamedTuple):
    """What an engine leaves to the difference kernel; see ``wanted`` in the kernel's source."""

    spread: Any | None  # (1,) float32, or None: within the limit
    limit: float
    fast_total: Any | None  # (splits, m) float32: queries whose totals are all below `least` are done again
    least: float


_ALWAYS = Guard(None, 0.0, None, 0.0)


def specialise(output: Output, precision: str, storage: np.dtype, d: int, k: int) -> Specialisation:
    """Choose the kernel: ``storage`` is the dtype of the points, ``k`` the number of columns of the values."""
    real = DOUBLE if precision == "float64" else FLOAT
    chunk = at_least(d, (4, 8) if real == DOUBLE else (4, 16))
    stored = FLOAT if storage == FLOAT and real == FLOAT else DOUBLE
    columns = 0
    if output == "moments":
        columns = at_least(d, (4, 16, 32, 64))
    elif output == "values":
        columns = at_least(k, (1, 16, 64))
    return _specialisation(output, real, stored, chunk, columns)


@functools.cache
def _specialisation(output: Output, real: np.dtype, storage: np.dtype, chunk: int, columns: int) -> Specialisation:
    name = f"{OPERATION[output]}_{'f64' if real == DOUBLE else 'ieee'}"
    defines = (
        ("KERNEL", name),
        ("OUTPUT", output.upper()),
        ("REAL", C_TYPE[real]),
        ("STORAGE", C_TYPE[storage]),
        ("CHUNK", str(chunk)),
        ("COLUMNS", str(columns)),
    )
    return Specialisation("difference", name, defines, 256, columns, real, storage)


def launch(
    precision: str,
    X: Any,
    Y: Any | None,
    h: float,
    output: Output,
    values: Any,
    log_weights: Any,
    *,
    out: PartialSums,
    guard: Guard = _ALWAYS,
    one_split: bool = False,
    splits: _results.Splits | None = None,
) -> _results.Splits:
    """Launch the kernel and return what its splits left; where there is one, it is ``out`` itself.

    ``splits`` are those of another engine, in whose place the kernel then writes.
    """
    n, d = X.shape
    k = d if output == "moments" else 0 if values is None else values.shape[1]
    chosen = specialise(output, precision, X.dtype, d, k)
    X = X.astype(chosen.storage, copy=False)
    Y = X if Y is None else Y.astype(chosen.storage, copy=False)
    V = None if values is None else _results.contiguous(values, chosen.real)
    m = Y.shape[0]
    # Squared distances of points many large bandwidths apart leave the range of float32. A power of two brings
    # h below 2 and changes no bit of the coordinates; a small h has no such trouble.
    unit = 2.0 ** -max(0, math.frexp(h)[1] - 1)
    scale = LOG2_E / (2 * (h * unit) ** 2)
    if splits is None:
        splits = _results.splits(n, m, chosen.columns, out, one_split=one_split)
    else:
        splits = splits._replace(blocks=_results.blocks(m, k, chosen.columns))
    _compile.kernel(chosen.stem, chosen.name, chosen.defines)(
        (*splits.blocks, splits.parts),
        (chosen.threads,),
        (
            X,
            Y,
            or_null(V),
            or_null(log_weights),
            or_null(guard.spread),
            or_null(guard.fast_total),
            splits.reference,
            splits.total,
            or_null(splits.moments),
            np.int64(n),
            np.int64(m),
            np.int32(d),
            np.int32(k),
            np.int64(splits.rows),
            np.int32(0 if guard.fast_total is None else guard.fast_total.shape[0]),
            chosen.storage.type(unit),
            chosen.real.type(scale),
            np.float32(guard.limit),
            np.float32(guard.least),
        ),
    )
    return splits
