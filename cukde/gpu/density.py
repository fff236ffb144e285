"""Launcher of ``kernels_cu/density.cu``: which kernel, over how many blocks, and what its results mean."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import cupy as cp
import numpy as np

from cukde import _compile
from cukde._partial import Output, PartialSums, merge
from cukde.gpu import _device

_LOG2_E = math.log2(math.e)

# Largest squared distance to the centre, in bandwidths, up to which TF32 is taken. TF32 keeps 11 bits, so a
# point that far out is known to 2^-12 of its distance, and the exponent of a pair r bandwidths apart is off by
# about r sqrt(spread) 2^-12: 3e-2 for r = 4 at this spread, the percent that TF32 is meant for. The float32
# accumulators add spread 2^-24.5, 3e-5 here. Beyond it, differences are taken instead.
TF32_SPREAD = 700.0

# Blocks a multiprocessor should have before the data are no longer split over more of them.
_BLOCKS_PER_MULTIPROCESSOR = 4

# Data tiles a split has at least: below it, merging costs more than the split gains.
_TILES_PER_SPLIT = 4

_FLOAT, _DOUBLE = np.dtype(np.float32), np.dtype(np.float64)
_C_TYPE = {_FLOAT: "float", _DOUBLE: "double"}

_OPERATION: dict[Output, str] = {
    "sum": "kde",
    "moments": "score",
    "laplace": "laplace",
    "values": "kernel_sum",
}


@dataclass(frozen=True)
class Specialisation:
    """One compilation of ``density.cu``: its kernel and the tiles that the kernel works in."""

    engine: Literal["difference", "tf32"]
    name: str
    defines: _compile.Defines
    threads: int  # of a block
    tile: int  # queries of a block, and data rows of a tile
    columns: int  # of the moments, a block; 0 where there are none
    real: np.dtype  # of the arithmetic
    storage: np.dtype  # of points
    stem: str = "density"


def specialise(
    output: Output,
    precision: str,
    storage: np.dtype,
    d: int,
    k: int,
    spread: float | None,
    capability: tuple[int, int],
) -> Specialisation:
    """Choose the kernel of a pass.

    ``k`` is the number of columns of the moments or values (ignored for other outputs), ``spread`` the
    largest squared distance to the centre in bandwidths (None: unknown, so nothing is assumed).
    """
    if precision == "tf32" and capability >= (8, 0) and spread is not None and spread <= TF32_SPREAD:
        return _tf32(output, _at_least(d, (16, 32)), _tf32_columns(output, d, k))
    real = _DOUBLE if precision == "float64" else _FLOAT
    chunk = _at_least(d, (4, 8) if real == _DOUBLE else (4, 16))
    stored = _FLOAT if storage == _FLOAT and real == _FLOAT else _DOUBLE
    return _difference(output, real, stored, chunk, _columns(output, d, k))


def specialisations() -> Iterator[Specialisation]:
    """Every kernel that :func:`specialise` can choose, once."""
    chosen = (
        specialise(output, precision, np.dtype(storage), d, k, 0.0, (8, 0))
        for output in _OPERATION
        for precision, storage in (
            ("ieee", np.float32),
            ("ieee", np.float64),
            ("float64", np.float64),
            ("tf32", np.float32),
        )
        for d in (1, 4, 8, 16, 32, 33)
        for k in ((1, 16, 64) if output == "values" else (d,))
    )
    return iter(dict.fromkeys(chosen))


def _at_least(size: int, choices: tuple[int, ...]) -> int:
    """The smallest choice that holds ``size``, or the largest choice where none does."""
    return next((choice for choice in choices if size <= choice), choices[-1])


def _columns(output: Output, d: int, k: int) -> int:
    if output == "moments":
        return _at_least(d, (4, 16, 32, 64))
    return _at_least(k, (1, 16, 64)) if output == "values" else 0


def _tf32_columns(output: Output, d: int, k: int) -> int:
    if output == "moments":
        return _at_least(d, (16, 32, 64))
    return _at_least(k, (8, 64)) if output == "values" else 0


@functools.cache
def _difference(output: Output, real: np.dtype, storage: np.dtype, chunk: int, columns: int) -> Specialisation:
    name = f"{_OPERATION[output]}_{'f64' if real == np.float64 else 'ieee'}"
    types = (("REAL", _C_TYPE[real]), ("STORAGE", _C_TYPE[storage]))
    defines = (*types, *_defines(name, output, chunk, columns))
    return Specialisation("difference", name, defines, 256, 64, columns, real, storage)


@functools.cache
def _tf32(output: Output, chunk: int, columns: int) -> Specialisation:
    name = f"{_OPERATION[output]}_tf32"
    defines = (("TF32", "1"), *_defines(name, output, chunk, columns))
    return Specialisation("tf32", name, defines, 128, 64, columns, _FLOAT, _FLOAT)


def _defines(name: str, output: Output, chunk: int, columns: int) -> _compile.Defines:
    return (("KERNEL", name), ("OUTPUT", output.upper()), ("CHUNK", str(chunk)), ("COLUMNS", str(columns)))


def partial_sums(
    X: Any,
    Y: Any | None,
    h: float,
    output: Output,
    *,
    values: Any = None,
    log_weights: Any = None,
    precision: str,
    centre: Any = None,
    spread: float | None = None,
    deterministic: bool = False,
) -> PartialSums:
    """Sum over all data rows for each query, on the current device and stream; nothing waits for the result.

    Parameters
    ----------
    X : array, shape (n, d)
        Data, float32 or float64, C-contiguous.
    Y : array, shape (m, d), optional
        Queries, likewise; None are the data themselves.
    h : float
        Bandwidth, in the units of ``X``.
    output : {"sum", "moments", "laplace", "values"}
        What to sum; see :class:`cukde._partial.PartialSums`.
    values : array, shape (n, k)
        For output "values".
    log_weights : array, shape (n,), optional
        Float64; -1e30 stands for the logarithm of zero.
    precision : {"float32", "tf32", "ieee", "float64"}
        Arithmetic of the pairs. float64 arrays in float32 arithmetic keep 48 bits of each coordinate.
    centre : array, shape (d,), optional
        Where TF32 takes points from; default the mean of ``X``.
    spread : float, optional
        Largest squared distance to the centre, in bandwidths; TF32 is taken only where it is known.
    deterministic : bool
        Always fulfilled: every sum has one order.

    Notes
    -----
    Memory beside the result: the merging of splits, at most 64 rows for each block that the device runs at
    a time; for TF32, operands of the size of X and Y.
    """
    d = X.shape[1]
    m = X.shape[0] if Y is None else Y.shape[0]
    k = {"moments": d, "values": 0 if values is None else values.shape[1]}.get(output, 0)
    if m == 0:
        moments = cp.empty((0, k)) if k else None
        return PartialSums(cp.empty((0,)), cp.empty((0,)), moments)
    queries = X if Y is None else Y
    storage = np.promote_types(X.dtype, queries.dtype)
    chosen = specialise(output, precision, storage, d, k, spread, _device.capability())
    run = _by_tf32 if chosen.engine == "tf32" else _by_differences
    return run(chosen, X, Y, h, output, values, log_weights, centre)


def _by_differences(
    chosen: Specialisation, X: Any, Y: Any, h: float, output: Output, values: Any, log_weights: Any, centre: Any
) -> PartialSums:
    (n, d), m = X.shape, (X if Y is None else Y).shape[0]
    X = X.astype(chosen.storage, copy=False)
    Y = X if Y is None else Y.astype(chosen.storage, copy=False)
    V = _NULL if values is None else cp.ascontiguousarray(values, dtype=chosen.real)
    k = d if output == "moments" else 0 if values is None else values.shape[1]
    # Squared distances of points many large bandwidths apart leave the range of float32. A power of two brings
    # h below 2 and changes no bit of the coordinates; a small h has no such trouble.
    unit = 2.0 ** -max(0, math.frexp(h)[1] - 1)
    scale = _LOG2_E / (2 * (h * unit) ** 2)
    out = _Results(chosen, n, m, k)
    out.launch(
        (X, Y, V, _NULL if log_weights is None else log_weights, *out.arrays),
        (
            np.int64(n),
            np.int64(m),
            np.int32(d),
            np.int32(k),
            np.int64(out.rows),
            chosen.storage.type(unit),
            chosen.real.type(scale),
        ),
    )
    return out.merged()


def _by_tf32(
    chosen: Specialisation, X: Any, Y: Any, h: float, output: Output, values: Any, log_weights: Any, centre: Any
) -> PartialSums:
    n, d = X.shape
    if centre is None:
        centre = X.mean(axis=0, dtype=np.float64)
    scale = math.sqrt(_LOG2_E) / h
    x, x_norms = _tf32_operand(X, centre, scale)
    y, y_norms = (x, x_norms) if Y is None else _tf32_operand(Y, centre, scale)
    V = _NULL
    k = 0
    if output == "moments":
        V, k = x, x.shape[1]
    elif output == "values":
        V, k = _tf32_rounded(cp.ascontiguousarray(values, dtype=np.float32)), values.shape[1]
    m = y.shape[0]
    out = _Results(chosen, n, m, k)
    out.launch(
        (x, y, x_norms, y_norms, V, _NULL if log_weights is None else log_weights, *out.arrays),
        (np.int64(n), np.int64(m), np.int32(x.shape[1]), np.int32(k), np.int64(out.rows), np.float32(1 + d / 2)),
    )
    sums = out.merged()
    if output != "moments":
        return sums
    # About the rounded query: the sums are those of the rounded points, exactly.
    moments = (sums.moments[:, :d] - sums.total[:, None] * y[:, :d]) / scale
    return sums._replace(moments=moments)


def _tf32_operand(points: Any, centre: Any, scale: float) -> tuple[Any, Any]:
    """Centred and scaled points, rounded to TF32, with columns padded to a multiple of 8; and -|z|^2/2."""
    n, d = points.shape
    z = cp.zeros((n, -(-d // 8) * 8), dtype=np.float32)
    z[:, :d] = (points - centre) * scale
    z = _tf32_rounded(z)
    norms = cp.square(z, dtype=np.float64).sum(axis=1) * -0.5
    return z, norms.astype(np.float32)


def _tf32_rounded(a: Any) -> Any:
    """Float32 numbers rounded to the 10 fraction bits of TF32, to nearest, ties away from zero."""
    bits = a.view(np.uint32)
    return ((bits + np.uint32(0x1000)) & np.uint32(0xFFFFE000)).view(np.float32)


_NULL = np.uint64(0)  # a null pointer among a kernel's arguments


class _Results:
    """Where the blocks of one launch write: a row of (m,) results for each split of the data."""

    def __init__(self, chosen: Specialisation, n: int, m: int, k: int) -> None:
        self._chosen = chosen
        tiles = -(-n // chosen.tile)
        self._blocks = -(-m // chosen.tile), -(-k // chosen.columns) if k else 1
        wanted = _BLOCKS_PER_MULTIPROCESSOR * _device.multiprocessors() // math.prod(self._blocks)
        tiles_of_split = -(-tiles // max(1, min(wanted, tiles // _TILES_PER_SPLIT)))
        self._splits = -(-tiles // tiles_of_split)
        self.rows = tiles_of_split * chosen.tile
        self._reference = cp.empty((self._splits, m))
        self._total = cp.empty((self._splits, m))
        self._moments = cp.empty((self._splits, m, k)) if k else None

    @property
    def arrays(self) -> tuple[Any, Any, Any]:
        """The kernel's output arguments."""
        return self._reference, self._total, _NULL if self._moments is None else self._moments

    def launch(self, arrays: tuple[Any, ...], scalars: tuple[Any, ...]) -> None:
        """Launch over queries, columns and splits."""
        kernel = _compile.kernel(self._chosen.stem, self._chosen.name, self._chosen.defines)
        kernel((*self._blocks, self._splits), (self._chosen.threads,), (*arrays, *scalars))

    def merged(self) -> PartialSums:
        """The sums over all splits."""
        splits = [
            PartialSums(self._reference[s], self._total[s], None if self._moments is None else self._moments[s])
            for s in range(self._splits)
        ]
        return merge(splits, cp)
