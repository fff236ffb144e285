"""Depthwise convolution on the GPU: direct sums, launchers of ``kernels_cu/conv1d/rows.cu`` and its companions.

A call is one launch, and waits for nothing. Sums are in float32, of float64 in float64; each result is rounded once.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from typing import Any

import cupy as cp
import numpy as np

from cukde.conv1d import plan as conv1d_plan
from cukde.conv1d.geometry import Geometry
from cukde.conv1d.plan import LANES, OWN_CHANNELS_LAST, SHORT_ROWS_THREADS, TILE
from cukde.core import plan as core_plan
from cukde.core.gpu import compile as core_compile, device
from cukde.core.gpu.launch import ACTIVATIONS, BITS, Launch, Specialisation
from cukde.core.plan import Steering

# Of rows.cu, by bits: threads of a block, and blocks of a multiprocessor, which leave it the registers that it takes.
_ROWS = {16: (128, 8), 32: (64, 16), 64: (64, 12)}

_SHORT_ROWS_BLOCKS = 7  # of short_rows.cu on a multiprocessor

# Of channels_last.cu, by bits and by whether it has vectors: outputs of a thread, blocks of a multiprocessor.
_CHANNELS_LAST = {(bits, True): (own, 5 if bits == 64 else 4) for bits, own in OWN_CHANNELS_LAST.items()}
_CHANNELS_LAST |= {(16, False): (8, 8), (32, False): (8, 8), (64, False): (4, 8)}
_CHANNELS_LAST_THREADS = 128

_THREADS = 256  # of the kernels for any stride
_OWN = 4  # outputs of a thread of strided.cu


def forward(x: Any, w: Any, bias: Any | None, geometry: Geometry, activation: str | None) -> Any:
    """Return y = act(bias + sum), as :func:`cukde.conv1d.gpu.passes.forward`."""
    y = cp.empty(geometry.shape(geometry.outputs), x.dtype)
    if y.size:
        aligned = (device.address(x) | device.address(y)) % 16 == 0
        convolve = launch(geometry, x.dtype, aligned, activation, core_plan.asked())
        core_plan.note(convolve.kernel.stem.removeprefix("conv1d/"))
        convolve(x, w, bias, y)
    return y


def input_grad(dy: Any, w: Any, geometry: Geometry) -> Any:
    """Gradient by x, of ``geometry.shape(geometry.length)``; of stride 1 it is a convolution of ``dy`` itself."""
    if geometry.stride == 1:
        return forward(dy, w, None, conv1d_plan.adjoint(geometry), None)
    dx = cp.empty(geometry.shape(geometry.length), dy.dtype)
    if dx.size:
        core_plan.note("strided_input_grad")
        _gathering(geometry, dy.dtype)(dy, w, dx)
    return dx


@core_compile.listed
def specialisations() -> Iterator[Specialisation]:
    """Every kernel of this module."""
    for dtype, bits in BITS.items():
        yield from (_rows_kernel(dtype), _strided_kernel(dtype), _strided_kernel(dtype, "_input_grad"))
        yield from (_channels_last_kernel(dtype, vectors) for vectors in (True, False))
        if bits < 64:
            yield from (_kernel("few_taps", "4P 10i", dtype), _short_rows_kernel(dtype))


@functools.lru_cache(maxsize=1024)  # it takes longer than a small convolution
def launch(g: Geometry, dtype: np.dtype, aligned: bool, activation: str | None, asked: Steering | None) -> Launch:
    """The launch that convolves arrays of these sizes, ``aligned`` to 16 bytes or not; it takes x, w, bias and y."""
    if g.channels == 1:  # both layouts are the same
        g = g._replace(channels_last=False)
    bits = BITS[dtype]
    chosen = conv1d_plan.sums_kernel("forward", g, bits, aligned)
    last = g.flip, ACTIVATIONS[activation]
    grid: tuple[int, ...]
    counts: tuple[int, ...] = g.batch, g.channels, g.length, g.outputs, g.before, g.taps
    if chosen == "few_taps":
        cut = conv1d_plan.cut_few_taps(g, bits)
        scalars = *counts, cut.along, cut.lane_bits, *last
        return Launch(_kernel("few_taps", "4P 10i", dtype), cut.grid, cut.block, scalars)
    if chosen == "rows":
        grid = -(-g.outputs // TILE[bits]), g.channels, g.batch
        return Launch(_rows_kernel(dtype), grid, (_ROWS[bits][0],), (*counts[2:], *last))
    if chosen == "short_rows":
        side = conv1d_plan.cut_short_rows(g, bits)
        assert side is not None
        kernel = _short_rows_kernel(dtype, device.rounded_shared_bytes(side.bytes))
        staged = side.first_tap, side.taps, side.pitch, side.vectors
        return Launch(kernel, side.grid, side.block, (*counts, *staged, *last))
    if chosen == "channels_last":
        width = 16 // dtype.itemsize
        vectors = g.channels % width == 0 and aligned
        per_thread, _ = _CHANNELS_LAST[bits, vectors]
        windows = -(-g.outputs // (per_thread * g.dilation)) * g.dilation
        groups = g.channels // width if vectors else g.channels
        grid, block = _cover(groups, g.batch * windows, _CHANNELS_LAST_THREADS)
        of_rows = -(-groups // block[0]), g.length, g.outputs, g.before, g.dilation, g.taps
        scalars = g.batch, g.channels, windows, *of_rows, *last
        return Launch(_channels_last_kernel(dtype, vectors), grid, block, scalars)
    grid, block = _places(g, g.outputs, _OWN)
    scalars = *counts[:-1], g.stride, g.dilation, g.taps, g.channels_last, *last
    return Launch(_strided_kernel(dtype), grid, block, scalars)


@functools.lru_cache(maxsize=1024)
def _gathering(g: Geometry, dtype: np.dtype) -> Launch:
    """The launch of gradients by x of any stride."""
    common = math.gcd(g.stride, g.dilation)
    period, back = g.stride // common, g.dilation // common
    grid, block = _places(g, g.length, 1)
    scalars = (
        *(g.batch, g.channels, g.outputs, g.length, g.before, g.stride, g.dilation, period, back),
        *(pow(back, -1, period), g.taps, g.channels_last, g.flip),
    )
    return Launch(_strided_kernel(dtype, "_input_grad"), grid, block, scalars)


def _places(g: Geometry, positions: int, per_thread: int) -> tuple[tuple[int], tuple[int, int]]:
    """Grid and block of ``places.cuh``."""
    if g.channels_last:
        return _cover(g.channels, g.batch * -(-positions // per_thread), _THREADS)
    return _cover(-(-positions // per_thread), g.batch * g.channels, _THREADS, _THREADS)


def _cover(contiguous: int, others: int, threads: int, lanes: int = LANES) -> tuple[tuple[int], tuple[int, int]]:
    """Blocks with up to ``lanes`` threads along what is contiguous and the rest along all others."""
    lanes = min(lanes, 1 << (contiguous - 1).bit_length())
    return (-(-contiguous // lanes) * -(-others // (threads // lanes)),), (lanes, threads // lanes)


def _kernel(stem: str, types: str, dtype: np.dtype, shared_bytes: int = 0, **macros: int) -> Specialisation:
    name = "conv1d" if stem == "rows" else f"conv1d_{stem}"
    defines = core_compile.macros(STORAGE=BITS[dtype], **macros)
    return Specialisation(f"conv1d/{stem}", name, defines, types, shared_bytes)


def _rows_kernel(dtype: np.dtype) -> Specialisation:
    threads, blocks = _ROWS[BITS[dtype]]
    return _kernel("rows", "4P 6i", dtype, THREADS=threads, BLOCKS=blocks)


def _short_rows_kernel(dtype: np.dtype, shared_bytes: int = 0) -> Specialisation:
    macros = {"THREADS": SHORT_ROWS_THREADS, "BLOCKS": _SHORT_ROWS_BLOCKS}
    return _kernel("short_rows", "4P 12i", dtype, shared_bytes, **macros)


def _channels_last_kernel(dtype: np.dtype, vectors: bool) -> Specialisation:
    own, blocks = _CHANNELS_LAST[BITS[dtype], vectors]
    channels = 16 // dtype.itemsize if vectors else 1
    macros = {"CHANNELS": channels, "OWN": own, "THREADS": _CHANNELS_LAST_THREADS, "BLOCKS": blocks}
    return _kernel("channels_last", "4P 3q 8i", dtype, **macros)


def _strided_kernel(dtype: np.dtype, of: str = "") -> Specialisation:
    return _kernel(f"strided{of}", "3P 10q 3i" if of else "4P 7q 4i", dtype, THREADS=_THREADS)
