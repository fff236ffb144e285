"""Leave-one-out sums for many bandwidths on the GPU, each pair's exponential taken once: ``leave_one_out.cu``.

Of many points, put in an order of neighbours, a first launch takes the pairs near each other in that order. What it
sums is a lower bound of every sum, and says from which exponent on a pair may be left out of the sums of both of its
points, for each bandwidth and each tile of points. A second launch takes all other distances, and in each part of a
warp's tile exponentials of those bandwidths only for which some pair is below that.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import cupy as cp
import numpy as np

from cukde.core.gpu import compile as core_compile, device
from cukde.core.gpu.launch import C_TYPE, DOUBLE, FLOAT, Specialisation
from cukde.density.pairs.gpu import operands
from cukde.density.pairs.gpu.skipping import frame as skipping_frame, points as skipping_points
from cukde.density.plan import shape as plan_shape

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

# Tiles of a row block that the first launch takes, its own 8 among them. On an H200 100,000 normal points of 4
# dimensions and 64 bandwidths, 1/4 to 2 of the reference rule's, take 42.9 ms; with 8 or 128 they take 44.9.
_NEAR = 32
_ALL = 2**31 - 1  # tiles


@dataclass(frozen=True)
class _Form:
    """What the kernel is made of for a type, as its macros say, and the range of its sums."""

    side: int  # a thread has side x side pairs
    bandwidths: int  # most of a block
    blocks: int  # of a multiprocessor
    parts: tuple[int, int]  # of a warp's rows, and of the columns of its tile, which may be left out by themselves
    shift: int  # sums are 2^shift times as large as they would be
    lost: int  # 2^lost bounds what a pair's underflow takes from a sum
    kept: int  # bits of a sum that may be lost to underflow at most: 2^-kept of it
    many: float  # exponentials from which on points are put in order: they take some 5 ms of an H200, the order 1

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
    FLOAT: _Form(side=8, bandwidths=24, blocks=4, parts=(4, 1), shift=90, lost=-124, kept=21, many=2e10),
    DOUBLE: _Form(side=4, bandwidths=16, blocks=3, parts=(1, 1), shift=960, lost=-1019, kept=45, many=4e9),
}


def symmetric(X: Any, scales: np.ndarray, weights: Any | None) -> tuple[Any, Any]:
    """Return ``log sum_{i != j} w_i exp(-scales[b] |x_i - x_j|^2)`` and which of the sums are too small for this pass.

    On the current device and stream. Nothing waits for the result; from some ten thousands of points on, a sample of
    the data is waited for. Sums of pairs are added up in no fixed order, in double precision beyond a tile's: two runs
    differ by a few of its units in the last place, and where pairs are left out, by less than what may be.

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
    It takes B n (n - 1) / 2 exponentials, in float32 of 6 instructions each, and the distances once for every 24
    bandwidths, in float64 for every 16. Where those are 2e10 exponentials or more, in float64 4e9, in up to 128
    dimensions, it leaves out what is together at most 1e-5, in float64 1e-13, of what is kept in every sum. Memory is
    that of the results, then three times that.
    """
    n, real = len(X), X.dtype
    form = _FORMS[real]
    unit, factors = in_range(scales, real)
    relative, log_of_one, missing = _relative(weights, n, form, real)
    pairs = _Pairs(X, relative, cp.asarray(factors), unit)
    total = _in_order(pairs, form) if _leaves_out(X.shape, len(scales), form) else _of_all(pairs, form)
    unsettled = total < missing * 2.0**form.kept
    logs = cp.log(cp.maximum(total, np.finfo(np.float64).tiny, out=total), out=total)
    logs += log_of_one - form.shift * math.log(2)
    return logs, unsettled


class _Pairs(NamedTuple):
    """What the kernel computes its pairs from."""

    X: Any
    weights: Any | None  # relative to the largest, of the type of X
    factors: Any
    unit: float

    def add(self, total: Any, form: _Form, bits: Any | None, first: int, until: int) -> None:
        """Add the sums of the tiles from ``first`` on, of each row block, up to ``until``."""
        (n, d), count = self.X.shape, len(self.factors)
        cut = _cut(n, count, form, device.multiprocessors(), first, until)
        arrays = self.X, self.factors, self.weights, bits, total
        counts = n, d, count, cut.bandwidths, cut.tiles, first, until
        _kernel(self.X.dtype).launch(cut.grid, (32 * _WARPS,), *arrays, *counts, self.unit)


def _of_all(pairs: _Pairs, form: _Form) -> Any:
    """The sums over all pairs, (B, n)."""
    total = cp.zeros((len(pairs.factors), len(pairs.X)))
    pairs.add(total, form, None, 0, _ALL)
    return total


def _leaves_out(shape: tuple[int, int], bandwidths: int, form: _Form) -> bool:
    """Whether pairs are left out: where all take much longer than an order of the points."""
    n, d = shape
    return d <= skipping_points.MOST_DIMENSIONS and 0.5 * n * n * bandwidths >= form.many


def _in_order(pairs: _Pairs, form: _Form) -> Any:
    """The sums, (B, n), without what is too small to matter; waits for a sample of the data."""
    n = len(pairs.X)
    with np.errstate(over="ignore", invalid="ignore"):  # points whose squares overflow lie anywhere in the order
        frame = skipping_frame.frame(skipping_frame.sample(pairs.X))
    order = skipping_points.order_of(pairs.X, frame)
    ordered = pairs._replace(X=pairs.X[order], weights=None if pairs.weights is None else pairs.weights[order])
    total = cp.zeros((len(pairs.factors), n))
    ordered.add(total, form, None, 0, _NEAR)
    if n > _NEAR * form.columns:
        ordered.add(total, form, _bits(total, ordered, form), _NEAR, _ALL)
    places = cp.empty_like(order)
    places[order] = cp.arange(n)
    return total[:, places]


def _bits(total: Any, pairs: _Pairs, form: _Form) -> Any:
    """Exponents in bits, (tiles, B), from which on pairs may be left out, of sums so far.

    All that is left out of a sum is at most 2^(shift - bits) times all weights: the tolerance times the tile's least
    sum. Pairs of less than 2^lost are left out of any: so much of each may be lost to underflow, too.
    """
    count, n = total.shape
    tiles = -(-n // form.rows) * (form.rows // form.columns)
    padded = cp.full((count, tiles * form.columns), np.inf)
    padded[:, :n] = total
    least = padded.reshape(count, tiles, form.columns).min(axis=2)
    all_weights = n if pairs.weights is None else pairs.weights.sum(dtype=np.float64)
    allowed = cp.maximum(plan_shape.TOLERANCE[pairs.X.dtype.name] * least, np.finfo(np.float64).tiny)
    bits = cp.minimum(form.shift + cp.log2(all_weights) - cp.log2(allowed), form.shift - form.lost)
    return cp.ascontiguousarray(bits.T, dtype=pairs.X.dtype)


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
def _cut(n: int, bandwidths: int, form: _Form, multiprocessors: int, first: int = 0, until: int = _ALL) -> _Cut:
    """Strips of walks, each walk through the tiles of the k-th row block and of the k-th from the last.

    Of a row block those from ``first`` up to ``until`` are taken: with its own all of them, or none.
    """
    passes = -(-bandwidths // form.bandwidths)
    row_blocks = -(-n // form.rows)
    walks = -(-row_blocks // 2)
    most = -(-n // form.columns)
    if row_blocks > 1 and first == 0:  # those of the last row block are added, the same for each walk
        most = 2 * most - (row_blocks - 1) * (form.rows // form.columns)
    tiles = max(1, min(most - first, 2 * (until - first)))
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
        ROW_PARTS=form.parts[0],
        COLUMN_PARTS=form.parts[1],
        SHIFT=form.shift,
        CHUNK=_CHUNK,
        MOST_BANDWIDTHS=form.bandwidths,
        BLOCKS=form.blocks,
    )
    return Specialisation("bandwidth/leave_one_out", name, defines, f"5P q 6i {real.char}")
