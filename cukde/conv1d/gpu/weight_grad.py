"""Gradient of the weights of a depthwise convolution: launchers of ``kernels_cu/conv1d/weight_grad.cu`` and companions.

Blocks sum up parts of the batch and the outputs, and a second launch adds the parts up in a fixed order. How the work
is cut follows from its sizes alone, so that the sums are the same bits on every run.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import cupy as cp
import numpy as np

from cukde.conv1d.geometry import Geometry
from cukde.conv1d.plan import (
    OWN_OF_SHORT_ROWS,
    WEIGHT_TAPS_SHORT_ROWS,
    WEIGHT_THREADS,
    WEIGHT_THREADS_CHANNELS_LAST,
    cut_weights,
    steps_of_weights,
    sums_kernel,
)
from cukde.core import plan as core_plan
from cukde.core.gpu import compile as core_compile, device
from cukde.core.gpu.launch import BITS, Launch, Specialisation
from cukde.core.plan import Steering

_THREADS_OF_FINISH = 512


def weight_grad(x: Any, dy: Any, geometry: Geometry, bias: bool) -> tuple[Any, Any | None]:
    """Gradient of the weights, and of the bias where that is wanted; of contiguous arrays of the sizes of ``geometry``.

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
    name = sums_kernel("weight_grad", g, BITS[dtype], aligned)
    cut = cut_weights(name, g, BITS[dtype])
    threads, shared_bytes = WEIGHT_THREADS, 0
    scalars: tuple[int, ...] = cut.units, cut.each, g.channels, g.length, g.outputs, g.taps
    if name == "weight_grad_channels_last":
        threads, (tap_step, output_step, width) = WEIGHT_THREADS_CHANNELS_LAST, steps_of_weights(g)
        steps = tap_step, output_step, g.stride * output_step, g.stride, g.dilation
        scalars = *scalars[:3], width, *scalars[3:], *steps, g.before
    elif name == "weight_grad_strided":
        scalars = *scalars, g.stride, g.dilation, g.before
    else:
        scalars = *scalars, g.before
    if name == "weight_grad_short_rows":
        lanes, rows_of_vector = -(-g.outputs // OWN_OF_SHORT_ROWS), 4 // dtype.itemsize
        rows = 32 // lanes
        # Rows of 16 bytes as they are staged: those that all outputs meet, which may begin anywhere in a vector, and
        # those of dy.
        rows_of_inputs = -(-(OWN_OF_SHORT_ROWS * lanes + cut.block_taps + 2) // 4) + rows_of_vector - 1
        vectors = -(-rows_of_inputs // rows_of_vector), -(-4 * lanes // rows_of_vector)
        pitches = [count * rows_of_vector | 1 for count in vectors]
        shared_bytes = device.rounded_shared_bytes(threads // 32 * rows * 16 * sum(pitches))
        scalars = *scalars, rows, lanes, pitches[0], vectors[0], pitches[1], vectors[1]
    sums = Launch(_kernel(name, dtype, cut.block_taps, shared_bytes), (cut.blocks,), (threads,), scalars)
    return cut.splits, sums, _finish(g, dtype, cut.splits)


def _finish(g: Geometry, dtype: np.dtype, splits: int) -> Launch:
    blocks = -(-g.channels * (g.taps + 1) // 32)
    return Launch(_finish_kernel(dtype), (blocks,), (_THREADS_OF_FINISH,), (splits, g.channels, g.taps, g.flip))


@core_compile.listed
def specialisations() -> Iterator[Specialisation]:
    """Every kernel of this module."""
    for dtype, bits in BITS.items():
        for taps in (16,) if bits == 64 else (4, 16, 32):
            yield _kernel("weight_grad", dtype, taps)
            yield _kernel("weight_grad_channels_last", dtype, taps)
            if taps < 32:
                yield _kernel("weight_grad_strided", dtype, taps)
        for taps in WEIGHT_TAPS_SHORT_ROWS if bits < 64 else ():
            yield _kernel("weight_grad_short_rows", dtype, taps)
        yield _finish_kernel(dtype)
    yield _kernel("weight_grad_few_taps", np.dtype(np.float16), 0)


_TYPES = {
    "weight_grad": "3P 7i",
    "weight_grad_channels_last": "3P 13i",
    "weight_grad_few_taps": "3P 7i",
    "weight_grad_short_rows": "3P 13i",
    "weight_grad_strided": "3P q 8i",
}


def _kernel(name: str, dtype: np.dtype, taps: int, shared_bytes: int = 0) -> Specialisation:
    """A kernel that sums; but for few taps compiled for ``taps`` of a block."""
    of_taps = {} if name == "weight_grad_few_taps" else {"TAPS": taps}
    defines = core_compile.macros(STORAGE=BITS[dtype], **of_taps)
    return Specialisation(f"conv1d/{name}", f"conv1d_{name}", defines, _TYPES[name], shared_bytes)


def _finish_kernel(dtype: np.dtype) -> Specialisation:
    defines = core_compile.macros(STORAGE=BITS[dtype])
    return Specialisation("conv1d/weight_grad_finish", "finish_conv1d_weight_grad", defines, "3P 4i")
