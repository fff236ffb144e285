"""All pairs by differences, on the CUDA cores: the launcher of ``difference.cuh``.

It serves what the tensor cores cannot: any precision, dimension and scaled squared radius. Beside other engines it is
launched as their stand-in and returns at once where it is not needed.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import cupy as cp
import numpy as np

from cukde.core.gpu import compile as core_compile
from cukde.core.gpu.launch import C_TYPE, DOUBLE, FLOAT, Specialisation, at_least
from cukde.density.pairs.gpu import finish
from cukde.density.pairs.gpu.arguments import Arguments
from cukde.density.pairs.gpu.operands import LOG2_E
from cukde.density.pairs.gpu.specialisation import OPERATION, Compiled
from cukde.density.sums import Output, PartialSums, moment_columns


class Guard(NamedTuple):
    """What an engine leaves to the difference kernel; see ``wanted`` in the kernel's source."""

    fast_total: Any  # (splits, m) float32: queries whose totals are all below `least` are done again
    least: float


_OPERATION: dict[Output, str] = {**OPERATION, "laplace_moments": "laplace_moments"}  # the last is of no other engine

_THREADS = 256
_FEW_DIMENSIONS = 64

# What the kernel is told of the members of a stack: arrays of scales and of units, and the stride of the queries; and
# of the data rows: an array of scales, whether moments are of gradients, whether each is left out of its own sum.
_Members = tuple[Any | None, Any | None, int]
_Rows = tuple[Any | None, bool, bool]
_ONE, _ALIKE = (None, None, 0), (None, False, False)


@functools.lru_cache(maxsize=1024)
def specialise(output: Output, precision: str, storage: np.dtype, d: int, k: int) -> Compiled:
    """Choose the kernel: ``storage`` is the dtype of the points, ``k`` the number of columns of the values."""
    real = DOUBLE if precision == "float64" else FLOAT
    chunk = at_least(d, (4, 8) if real == DOUBLE else (4, 16))
    stored = FLOAT if storage == FLOAT and real == FLOAT else DOUBLE
    columns = 0
    if output in ("moments", "laplace_moments"):
        columns = at_least(d, (4, 16, 32, 64))
    elif output == "laplace":
        columns = 1
    elif output == "values":
        columns = at_least(k, (1, 16, 64))
    name = f"{_OPERATION[output]}_{'f64' if real == DOUBLE else 'ieee'}"
    defines = core_compile.macros(
        KERNEL=name,
        OUTPUT=output.upper(),
        REAL=C_TYPE[real],
        STORAGE=C_TYPE[stored],
        CHUNK=chunk,
        COLUMNS=columns,
    )
    types = f"8P 2q 2i q i {stored.char} {real.char} f 2P q P 2i"
    return Compiled(Specialisation("density/pairs", name, defines, types), columns, real, stored)


@core_compile.listed
def specialisations() -> Iterator[Specialisation]:
    """Every kernel of this module."""
    arithmetic = ("ieee", FLOAT), ("ieee", DOUBLE), ("float64", DOUBLE)
    for output, d, k in itertools.product(_OPERATION, (4, 8, 16, 32, 33), (1, 16, 64)):
        yield from (specialise(output, precision, storage, d, k).kernel for precision, storage in arithmetic)


def take(of: Arguments, output: Output, values: Any | None = None, *, ratio: bool = False) -> finish.Splits:
    """Take a pass, whose splits are still to be merged."""
    out = finish.empty(of.m, moment_columns(output, of.X.shape[1], values))
    operands = of.X, of.Y, of.h, output, values, of.options.log_weights
    return launch(of.options.precision, *operands, out=out, own_out=of.options.own_out)


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
    local_factors: Any | None = None,
    of_gradient: bool = False,
    own_out: bool = False,
    guard: Guard | None = None,
    one_split: bool = False,
    memory: Sequence[Any] | None = None,
) -> finish.Splits:
    """Launch the kernel and return what its splits left; where there is one, it is ``out`` itself.

    With local factors, float64, moments are those of the gradient where that is asked for; see
    :class:`cukde.density.sums.PartialSums`. With ``own_out`` row i is left out of the sums of query i. ``memory`` is
    for the splits, as many as :func:`parts` says.
    """
    n, d = X.shape
    k = moment_columns(output, d, values)
    chosen = specialise(output, precision, X.dtype, d, k)
    X = _stored(X, chosen.storage)
    Y = X if Y is None else _stored(Y, chosen.storage)
    V = None if values is None else finish.contiguous(values, chosen.real)
    m = Y.shape[0]
    # Squared distances of points many large bandwidths apart leave the range of float32. A power of two brings
    # h below 2 and changes no bit of the coordinates; a small h has no such trouble.
    unit = 2.0 ** -max(0, math.frexp(h)[1] - 1)
    splits = finish.splits(n, m, chosen.columns, out, tiles=_tiles(d), one_split=one_split, memory=memory)
    scale = _scale(h, unit)
    scales = None if local_factors is None else (scale / local_factors**2).astype(chosen.real)
    of_rows = scales, of_gradient and scales is not None, own_out
    _run(chosen, X, Y, V, log_weights, splits, m, k, unit, scale, guard=guard, of_rows=of_rows)
    return splits


@functools.lru_cache(maxsize=1024)
def parts(
    precision: str, storage: np.dtype, n: int, m: int, d: int, output: Output, k: int, multiprocessors: int
) -> int:
    """Number of the splits of a launch, of ``k`` columns of moments or values."""
    return finish.parts(n, m, k, specialise(output, precision, storage, d, k).columns, _tiles(d), multiprocessors)


def _tiles(d: int) -> int:
    """Data tiles of a split, at least: of many dimensions one takes longer than what merges it."""
    return finish.TILES_PER_SPLIT if d <= _FEW_DIMENSIONS else 1


def launch_stack(
    precision: str, X: Any, Y: Any, h: np.ndarray, output: Output, log_weights: Any, *, out: PartialSums
) -> None:
    """Launch the kernel on members of a stack, in one launch, a member a split of the data; ``out`` takes their sums.

    ``X`` (b, n, d) are at most 65,535 members; ``Y`` (b, m, d), or (1, m, d) shared by all, has the same dtype. ``h``
    (b,) is on the host, and ``log_weights`` (b, n) are float64. ``out`` is of (b, m) queries.
    """
    b, n, d = X.shape
    m = Y.shape[1]
    k = moment_columns(output, d, None)
    chosen = specialise(output, precision, X.dtype, d, k)
    X, Y = _stored(X, chosen.storage), _stored(Y, chosen.storage)
    splits = finish.Splits(finish.blocks(m, k, chosen.columns), b, n, *out)
    unit = 2.0 ** -np.maximum(0, np.frexp(h)[1] - 1)
    members = (
        cp.asarray(_scale(h, unit).astype(chosen.real)),
        cp.asarray(unit.astype(chosen.storage)),
        m * d if len(Y) > 1 else 0,
    )
    _run(chosen, X.reshape(-1, d), Y, None, log_weights, splits, m, k, 1.0, 0.0, members=members)


def _stored(A: Any, dtype: np.dtype) -> Any:
    return A if A.dtype == dtype else A.astype(dtype)


def _scale(h: Any, unit: Any) -> Any:
    return LOG2_E / (2 * (h * unit) ** 2)


def _run(
    chosen: Compiled,
    X: Any,
    Y: Any,
    V: Any,
    log_weights: Any,
    splits: finish.Splits,
    m: int,
    k: int,
    unit: float,
    scale: float,
    *,
    guard: Guard | None = None,
    members: _Members = _ONE,
    of_rows: _Rows = _ALIKE,
) -> None:
    n, d = X.shape
    fast_total, least = (None, 0.0) if guard is None else guard
    arrays = X, Y, V, log_weights, fast_total, *splits.sums
    scalars = n, m, d, k, splits.rows, 0 if fast_total is None else fast_total.shape[0], unit, scale, least
    chosen.kernel.launch(splits.grid, (_THREADS,), *arrays, *scalars, *members, *of_rows)
