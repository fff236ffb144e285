"""Gradient of the weights of a depthwise convolution: launchers of ``kernels_cu/conv1d/weight_grad.cu`` and companions.

Blocks sum up parts of the batch and the outputs, and a second launch adds the parts up in a fixed order. How the work
is cut follows from its sizes alone, so that the sums are the same bits on every run.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import cupy as cp
import numpy as np

from cukde.conv1d.geometry import Geometry
from cukde.conv1d.plan import OUTPUTS_OF_FEW_TAPS, OUTPUTS_OF_TILE, OWN_OF_SHORT_ROWS, sums_kernel
from cukde.core import plan as core_plan
from cukde.core.gpu import compile as core_compile, device
from cukde.core.gpu.launch import BITS, Launch, Specialisation
from cukde.core.plan import Steering

# Taps of a block, of the kernels that keep the inputs of several outputs in registers. In float64 memory binds with
# sixteen sums too, and twice as many do not fit in shared memory.
_TAPS = {16: (4, 16, 32), 32: (4, 16, 32), 64: (16,)}
_TAPS_STRIDED = {16: (4, 16), 32: (4, 16), 64: (16,)}
_COST_OF_OUTPUT = 12  # beside its multiply-adds, in those: loads, shared memory, conversions

_CHUNK = 128  # of weight_grad_channels_last.cu
_THREADS, _THREADS_CHANNELS_LAST, _THREADS_OF_FINISH = 128, 256, 512

_TAPS_SHORT_ROWS = (4, 32)  # of a block

# Blocks that a launch is cut into where it is large enough, a few waves of a large device, and the outputs of a thread
# at most, which bound a chain of sums.
_BLOCKS = 2048
_MOST_OUTPUTS = 1024


class Part(NamedTuple):
    """How the sums of a channel are cut over blocks."""

    each: int  # units of work of a block
    splits: int


def weight_grad(x: Any, dy: Any, geometry: Geometry, bias: bool) -> tuple[Any, Any | None]:
    """Gradient of the weights, and of the bias where that is wanted.

    Parameters
    ----------
    x : array, shape geometry.shape(geometry.length)
        float16, float32 or float64, C-contiguous.
    dy : array, shape geometry.shape(geometry.outputs)
        Of the dtype of x, C-contiguous.

    Returns
    -------
    dw : array, shape (channels, taps)
        Of the dtype of x.
    db : array, shape (channels,), or None

    Notes
    -----
    Waits for nothing; two launches. x and dy are read from memory once, and where there are more than 32 taps or the
    stride is not 1 once more from the second cache for each block of taps. Memory beside the results is
    channels (taps + 1) numbers a part, of which there are as many as make about 2,048 blocks.

    Accuracy: sums in float32, or float64 of float64, are of at most 1,024 terms; they are added up in float64 and
    rounded once. Over 131,072 outputs of a channel, all terms positive, the worst relative error measured is 1.6e-7
    (float32) and 4.5e-16 (float64). A number that is not finite may make all taps of its channel NaN.
    """
    channels, taps = geometry.channels, geometry.taps
    dw, db = cp.empty((channels, taps), x.dtype), cp.empty(channels, x.dtype) if bias else None
    if channels == 0:
        return dw, db
    real = np.float64 if x.dtype == np.float64 else np.float32
    if geometry.batch == 0 or geometry.outputs <= 0:
        _finish(geometry, x.dtype, 0)(cp.empty(0, real), dw, db)
        return dw, db
    aligned = (device.address(x) | device.address(dy)) % 16 == 0
    splits, sums, finish = _launches(geometry, x.dtype, aligned, core_plan.asked())
    core_plan.note(sums.kernel.stem.removeprefix("conv1d/"))
    partial = cp.empty((splits, channels, taps + 1), real)
    sums(x, dy, partial)
    finish(partial, dw, db)
    return dw, db


@functools.lru_cache(maxsize=1024)  # it takes longer than the gradient of a small convolution
def _launches(g: Geometry, dtype: np.dtype, aligned: bool, asked: Steering | None) -> tuple[int, Launch, Launch]:
    """Parts that the sums are in, the launch that makes them, and the one that adds them up."""
    splits, sums = _SUMS[sums_kernel("weight_grad", g, BITS[dtype], aligned)](dtype, g)
    return splits, sums, _finish(g, dtype, splits)


def _finish(g: Geometry, dtype: np.dtype, splits: int) -> Launch:
    blocks = -(-g.channels * (g.taps + 1) // 32)
    return Launch(_finish_kernel(dtype), (blocks,), (_THREADS_OF_FINISH,), (splits, g.channels, g.taps, g.flip))


def _in_tiles(dtype: np.dtype, g: Geometry) -> tuple[int, Launch]:
    block_taps = _block_taps(_TAPS[BITS[dtype]], g.taps)
    groups = -(-g.taps // block_taps)
    outputs_of_tile = OUTPUTS_OF_TILE[BITS[dtype]]
    tiles = g.batch * -(-g.outputs // outputs_of_tile)
    warps = _THREADS // 32
    part = _part(tiles, g.channels * groups, warps, _THREADS * _MOST_OUTPUTS // outputs_of_tile)
    scalars = tiles, part.each, g.channels, g.length, g.outputs, g.taps, g.before
    grid = (part.splits * g.channels * groups,)
    return part.splits, Launch(_kernel("", dtype, block_taps), grid, (_THREADS,), scalars)


def _few_taps(dtype: np.dtype, g: Geometry) -> tuple[int, Launch]:
    tiles = g.batch * -(-g.outputs // OUTPUTS_OF_FEW_TAPS)
    # Half as many outputs a block as elsewhere: six blocks of a multiprocessor wait for memory at a time.
    part = _part(tiles, -(-g.channels // 2), _THREADS // 32, _THREADS * _MOST_OUTPUTS // OUTPUTS_OF_FEW_TAPS)
    scalars = tiles, part.each, g.channels, g.length, g.outputs, g.taps, g.before
    return part.splits, Launch(_kernel("_few_taps", dtype), (part.splits * g.channels,), (_THREADS,), scalars)


def _short_rows(dtype: np.dtype, g: Geometry) -> tuple[int, Launch]:
    block_taps = _block_taps(_TAPS_SHORT_ROWS, g.taps)
    groups = -(-g.taps // block_taps)
    lanes = -(-g.outputs // OWN_OF_SHORT_ROWS)
    rows, warps = 32 // lanes, _THREADS // 32
    # Rows of 16 bytes as they are staged: those that all outputs meet, which may begin anywhere in a vector, and of dy.
    rows_of_vector = 4 // dtype.itemsize
    rows_of_inputs = -(-(OWN_OF_SHORT_ROWS * lanes + block_taps + 2) // 4) + rows_of_vector - 1
    vectors = -(-rows_of_inputs // rows_of_vector), -(-4 * lanes // rows_of_vector)
    pitches = [count * rows_of_vector | 1 for count in vectors]
    part = _part(g.batch, g.channels * groups, warps * rows, warps * rows * _MOST_OUTPUTS // OWN_OF_SHORT_ROWS)
    shared_bytes = device.rounded_shared_bytes(16 * warps * rows * sum(pitches))
    scalars = (
        *(g.batch, part.each, g.channels, g.length, g.outputs, g.taps, g.before),
        *(rows, lanes, pitches[0], vectors[0], pitches[1], vectors[1]),
    )
    kernel = _kernel("_short_rows", dtype, block_taps, shared_bytes)
    return part.splits, Launch(kernel, (part.splits * g.channels * groups,), (_THREADS,), scalars)


def _strided(dtype: np.dtype, g: Geometry) -> tuple[int, Launch]:
    block_taps = _block_taps(_TAPS_STRIDED[BITS[dtype]], g.taps)
    groups = -(-g.taps // block_taps)
    outputs = g.batch * g.outputs
    part = _part(outputs, g.channels * groups, _THREADS, _THREADS * _MOST_OUTPUTS)
    counts = part.each, g.channels, g.length, g.outputs, g.taps, g.stride, g.dilation, g.before
    grid = (part.splits * g.channels * groups,)
    return part.splits, Launch(_kernel("_strided", dtype, block_taps), grid, (_THREADS,), (outputs, *counts))


def _channels_last(dtype: np.dtype, g: Geometry) -> tuple[int, Launch]:
    common = math.gcd(g.stride, g.dilation)
    tap_step, output_step = g.stride // common, g.dilation // common
    taps_of_residue = -(-g.taps // tap_step)
    block_taps = _block_taps(_TAPS[BITS[dtype]], taps_of_residue)
    groups = min(tap_step, g.taps) * -(-taps_of_residue // block_taps)
    width = min(32, 1 << (g.channels - 1).bit_length())  # neighbouring channels of a block
    bands = -(-g.channels // width)
    chain = -(-g.outputs // output_step)  # outputs that share inputs
    pieces = g.batch * min(output_step, g.outputs) * -(-chain // _CHUNK)
    slots = _THREADS_CHANNELS_LAST // width
    part = _part(pieces, bands * groups, slots, slots * (_MOST_OUTPUTS // min(chain, _CHUNK)))
    scalars = (
        *(pieces, part.each, g.channels, width, g.length, g.outputs, g.taps),
        *(tap_step, output_step, g.stride * output_step, g.stride, g.dilation, g.before),
    )
    grid = (part.splits * bands * groups,)
    return part.splits, Launch(_kernel("_channels_last", dtype, block_taps), grid, (_THREADS_CHANNELS_LAST,), scalars)


_SUMS = {
    "weight_grad": _in_tiles,
    "weight_grad_channels_last": _channels_last,
    "weight_grad_few_taps": _few_taps,
    "weight_grad_short_rows": _short_rows,
    "weight_grad_strided": _strided,
}


def _part(units: int, blocks_of_split: int, fewest: int, most: int) -> Part:
    """Cut units of work, in multiples of the fewest that fill a block, into about ``_BLOCKS`` blocks."""
    each = -(-units * blocks_of_split // _BLOCKS)
    each = min(max(-(-each // fewest) * fewest, fewest), most)
    return Part(each, -(-units // each))


def _block_taps(offered: tuple[int, ...], taps: int) -> int:
    """Taps of a block that take the least, all blocks together."""
    return min(offered, key=lambda count: -(-taps // count) * (count + _COST_OF_OUTPUT))


@core_compile.listed
def specialisations() -> Iterator[Specialisation]:
    """Every kernel of this module."""
    for dtype, bits in BITS.items():
        for taps in _TAPS[bits]:
            yield _kernel("", dtype, taps)
            yield _kernel("_channels_last", dtype, taps)
        for taps in _TAPS_STRIDED[bits]:
            yield _kernel("_strided", dtype, taps)
        for taps in _TAPS_SHORT_ROWS if bits < 64 else ():
            yield _kernel("_short_rows", dtype, taps)
        yield _finish_kernel(dtype)
    yield _kernel("_few_taps", np.dtype(np.float16))


# By the kernels' names after "conv1d_weight_grad".
_TYPES = {
    "": "3P 7i",
    "_channels_last": "3P 13i",
    "_few_taps": "3P 7i",
    "_short_rows": "3P 13i",
    "_strided": "3P q 8i",
}


def _kernel(which: str, dtype: np.dtype, taps: int | None = None, shared_bytes: int = 0) -> Specialisation:
    """A kernel that sums; ``taps`` of a block, where it is compiled for their number."""
    of_taps = {} if taps is None else {"TAPS": taps}
    defines = core_compile.macros(STORAGE=BITS[dtype], **of_taps)
    name = f"weight_grad{which}"
    return Specialisation(f"conv1d/{name}", f"conv1d_{name}", defines, _TYPES[which], shared_bytes)


def _finish_kernel(dtype: np.dtype) -> Specialisation:
    defines = core_compile.macros(STORAGE=BITS[dtype])
    return Specialisation("conv1d/weight_grad_finish", "finish_conv1d_weight_grad", defines, "3P 4i")
