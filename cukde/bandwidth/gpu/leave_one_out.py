"""Leave-one-out sums for many bandwidths on the GPU, each pair's exponential taken once: ``leave_one_out.cu``."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import cupy as cp
import numpy as np

from cukde.core.gpu import compile as core_compile, device
from cukde.core.gpu.launch import C_TYPE, DOUBLE, FLOAT, Specialisation
from cukde.density.pairs.gpu import operands

_WARPS = 4
_ROW_LANES, _COLUMN_LANES = 8, 4

# Dimensions staged at a time.
_CHUNK = 8

# Most tiles of a block: their sums of a row are added up in the type of the data, and more would hardly be faster. It
# has fewer where a multiprocessor would not run so many blocks after one another in each of its places: the last ones
# run alone.
_MOST_TILES = 32
_BLOCKS_IN_TURN = 8
_MOST_BLOCKS_ALONG_Y = 65535


@dataclass(frozen=True)
class _Form:
    """What the kernel is made of for a type, as its macros say, and the range of its sums."""

    side: int  # a thread has side x side pairs
    bandwidths: int  # most of a block
    blocks: int  # of a multiprocessor
    shift: int  # sums are 2^shift times as large as they would be
    lost: int  # 2^lost bounds what a pair's underflow takes from a sum
    kept: int  # bits of a sum that may be lost to underflow at most: 2^-kept of it

    @property
    def rows(self) -> int:
        """Rows of a block."""
        return _WARPS * _ROW_LANES * self.side

    @property
    def columns(self) -> int:
        """Columns of a tile."""
        return _COLUMN_LANES * self.side


# An exponential, its product with a weight, and the sum so far are each lost where they are below the smallest normal
# number; 2^-kept is below a tenth of the error that is allowed.
_FORMS = {
    FLOAT: _Form(side=8, bandwidths=24, blocks=4, shift=90, lost=-124, kept=21),
    DOUBLE: _Form(side=4, bandwidths=16, blocks=3, shift=960, lost=-1019, kept=45),
}


def symmetric(X: Any, scales: np.ndarray, weights: Any | None) -> tuple[Any, Any]:
    """Return ``log sum_{i != j} w_i exp(-scales[b] |x_i - x_j|^2)`` and which of the sums are too small for this pass.

    On the current device and stream; nothing waits for the result. Sums of pairs are added up in no fixed order, in
    double precision beyond a tile's: two runs differ by a few of its units in the last place.

    Parameters
    ----------
    X : array, shape (n, d)
        The data, float32 or float64, C-contiguous; n >= 2. Their type is that of the arithmetic of pairs.
    scales : ndarray, shape (B,)
        Positive, float64, on the host. In float32 the largest may be up to 1e36 times the smallest.
    weights : array, shape (n,), optional
        Float64, positive, summing to 1; None are 1/n each.

    Returns
    -------
    logs : array, shape (B, n)
        Float64, finite.
    unsettled : array, shape (B, n)
        Bool: a sum so small that terms of it may have been out of range; its logarithm means nothing. It is where
        for each other point scale r^2 exceeds log(w / max w) + 110, in float64 + 1200, or nearly so.

    Notes
    -----
    It takes B n (n - 1) / 2 exponentials, in float32 of 4.6 instructions each, and the distances once for every 24
    bandwidths, in float64 for every 16. Memory is that of the results.
    """
    (n, d), real = X.shape, X.dtype
    form = _FORMS[real]
    unit, factors = in_range(scales, real)
    total = cp.zeros((len(scales), n))
    relative, log_of_one, missing = _relative(weights, n, form, real)
    cut = _cut(n, len(scales), form, device.multiprocessors())
    arrays = X, cp.asarray(factors), relative, total
    _kernel(real).launch(cut.grid, (32 * _WARPS,), *arrays, n, d, len(scales), cut.bandwidths, cut.tiles, unit)
    unsettled = total < missing * 2.0**form.kept
    logs = cp.log(cp.maximum(total, np.finfo(np.float64).tiny, out=total), out=total)
    logs += log_of_one - form.shift * math.log(2)
    return logs, unsettled


def in_range(scales: np.ndarray, real: np.dtype) -> tuple[float, np.ndarray]:
    """A power of two for coordinates, and what their squared distances are multiplied by: about 1 in the middle."""
    limits = np.finfo(real)
    bits = np.log2([scales.min(), scales.max()]).sum() / 4
    exponent = int(np.clip(np.rint(bits), limits.minexp, limits.maxexp - 1))
    factors = np.ldexp(scales * operands.LOG2_E, -2 * exponent)
    return 2.0**exponent, np.clip(factors, limits.tiny, limits.max).astype(real)


def _relative(weights: Any | None, n: int, form: _Form, real: np.dtype) -> tuple[Any | None, Any, Any]:
    """Weights relative to the largest, its logarithm, and a bound of what is lost from a sum."""
    underflow = n * 2.0**form.lost
    if weights is None:
        return None, -math.log(n), underflow
    largest = weights.max()
    relative = weights / largest
    too_small = cp.where(relative < float(np.finfo(real).tiny), relative, 0).sum()
    return relative.astype(real), cp.log(largest), underflow + too_small * 2.0**form.shift


@dataclass(frozen=True)
class _Cut:
    """How the work is cut into blocks."""

    grid: tuple[int, int, int]
    bandwidths: int  # of a block
    tiles: int


@functools.lru_cache(maxsize=1024)
def _cut(n: int, bandwidths: int, form: _Form, multiprocessors: int) -> _Cut:
    """Strips of walks, each walk through the tiles of the k-th row block and of the k-th from the last."""
    passes = -(-bandwidths // form.bandwidths)
    row_blocks = -(-n // form.rows)
    walks = -(-row_blocks // 2)
    tiles = 2 * -(-n // form.columns) - (row_blocks - 1) * (form.rows // form.columns)
    target_blocks = _BLOCKS_IN_TURN * form.blocks * multiprocessors
    strip = max(1, min(_MOST_TILES, walks * tiles * passes // target_blocks), -(-tiles // _MOST_BLOCKS_ALONG_Y))
    return _Cut((walks, -(-tiles // strip), passes), -(-bandwidths // passes), strip)


@core_compile.listed
def specialisations() -> Iterator[Specialisation]:
    """Every kernel of this module."""
    return map(_kernel, _FORMS)


@functools.cache
def _kernel(real: np.dtype) -> Specialisation:
    form = _FORMS[real]
    name = f"leave_one_out_{'f64' if real == DOUBLE else 'ieee'}"
    defines = core_compile.macros(
        KERNEL=name,
        REAL=C_TYPE[real],
        SIDE=form.side,
        SHIFT=form.shift,
        CHUNK=_CHUNK,
        MOST_BANDWIDTHS=form.bandwidths,
        BLOCKS=form.blocks,
    )
    return Specialisation("bandwidth/leave_one_out", name, defines, f"4P q 4i {real.char}")
