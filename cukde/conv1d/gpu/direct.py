"""Depthwise convolution on the GPU: direct sums, launchers of ``kernels_cu/conv1d/rows.cu`` and its companions.

A call is one launch, and waits for nothing. Sums are in float32, of float64 in float64; each result is rounded once.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

import cupy as cp
import numpy as np

from cukde.conv1d.geometry import Geometry
from cukde.core.gpu import compile as core_compile, device
from cukde.core.gpu.launch import ACTIVATIONS, BITS, Launch, Specialisation

Engine = Literal["few_taps", "rows", "short_rows", "channels_last", "strided"]


# Of rows.cu, by bits: threads of a block, and blocks of a multiprocessor, which leave it the registers that it takes.
_ROWS = {16: (128, 8), 32: (64, 16), 64: (64, 12)}

# Of few_taps.cu: taps that it is compiled for, and slabs and most warps of a block.
_FEW_TAPS, _SLABS, _MOST_WARPS = 4, 4, 8
_MOST_ROWS = 2**31 - 1  # which it counts in 32 bits

# Of short_rows.cu, by bits: blocks of a multiprocessor. Threads of a block at most, and shared memory.
_SHORT_ROWS = {16: 7, 32: 7}
_SHORT_ROWS_THREADS, _SHORT_ROWS_BYTES = 128, 48 * 1024  # which every device has
_FEWEST_SHORT_ROWS = 4  # of a channel: neighbouring threads have neighbouring rows

# Of channels_last.cu, by bits and by whether it has vectors: outputs of a thread, blocks of a multiprocessor.
_CHANNELS_LAST = {
    **{(16, True): (4, 4), (32, True): (8, 4), (64, True): (4, 5)},
    **{(16, False): (8, 8), (32, False): (8, 8), (64, False): (4, 8)},
}
_CHANNELS_LAST_THREADS = 128

_THREADS = 256  # of the kernels for any stride
_OWN = 4  # outputs of a thread of strided.cu
_LANES = 32  # threads along what is contiguous, at most, where the others lie along something else

_SHARE_OF_TILE = 4  # rows shorter than this part of a tile leave more of its threads idle than its registers save
_MOST_BLOCKS_ASIDE = 65535  # of the second and third dimension of a grid
_MOST_POSITIONS = 2**29  # of a padded row and of what taps reach, which kernels of stride 1 count in 32 bits


def forward(x: Any, w: Any, bias: Any | None, geometry: Geometry, activation: str | None) -> Any:
    """Return y = act(bias + sum), as :func:`cukde.conv1d.gpu.passes.forward`."""
    y = cp.empty(geometry.shape(geometry.outputs), x.dtype)
    _convolve(x, w, bias, y, geometry, activation)
    return y


def input_grad(dy: Any, w: Any, geometry: Geometry) -> Any:
    """Gradient by x, of ``geometry.shape(geometry.length)``; of stride 1 it is a convolution of ``dy`` itself."""
    dx = cp.empty(geometry.shape(geometry.length), dy.dtype)
    if geometry.stride == 1:
        _convolve(dy, w, None, dx, _adjoint(geometry), None)
    elif dx.size:
        _gathering(geometry, dy.dtype)(dy, w, dx)
    return dx


@core_compile.listed
def specialisations() -> Iterator[Specialisation]:
    """Every kernel of this module."""
    for dtype in BITS:
        if dtype != np.float64:
            yield _few_taps_kernel(dtype)
            yield _short_rows_kernel(dtype)
        yield _rows_kernel(dtype)
        for vectors in (True, False):
            yield _channels_last_kernel(dtype, vectors)
        yield _strided_kernel(dtype, "conv1d_strided")
        yield _strided_kernel(dtype, "conv1d_strided_input_grad")


def engine(geometry: Geometry, dtype: Any, aligned: bool = True) -> Engine:
    """Which kernel convolves: the one place where that is chosen.

    Where arrays are ``aligned`` to 16 bytes, ``few_taps.cu`` takes 11 instructions an output, of float16 and 4
    taps. ``rows.cu`` takes 24, and is slower than memory. In float32 it keeps up with memory from a whole tile on,
    and leaves threads idle where rows are shorter: of these ``short_rows.cu`` has several in a block. What is
    left is summed with a load of x for every product.
    """
    g, bits = geometry, BITS[np.dtype(dtype)]
    positions = g.length + abs(g.before) + abs(g.after) + g.reach
    if g.stride > 1 or positions > _MOST_POSITIONS:
        return "strided"
    if g.channels_last:
        per_thread, _ = _CHANNELS_LAST[bits, True]
        return "channels_last" if g.outputs >= per_thread * g.dilation else "strided"
    if aligned and g.dilation == 1 and _has_few_taps(g, bits) and (bits == 16 or g.outputs < _tile(bits)):
        return "few_taps"
    if g.dilation > 1:
        return "strided"
    if g.outputs >= _tile(bits) // _SHARE_OF_TILE:
        return "rows" if max(g.batch, g.channels) <= _MOST_BLOCKS_ASIDE else "strided"
    return "short_rows" if bits in _SHORT_ROWS and _cut_short_rows(g, bits) else "strided"


@functools.lru_cache(maxsize=1024)
def _adjoint(g: Geometry) -> Geometry:
    """The convolution of stride 1 that takes gradients by y to gradients by x."""
    return g._replace(length=g.outputs, before=g.reach - g.before, after=g.reach - g.after, flip=not g.flip)


def _convolve(x: Any, w: Any, bias: Any | None, y: Any, g: Geometry, activation: str | None) -> None:
    if y.size == 0:
        return
    aligned = (device.address(x) | device.address(y)) % 16 == 0
    launch(g, x.dtype, aligned, activation)(x, w, bias, y)


@functools.lru_cache(maxsize=1024)  # it takes longer than a small convolution
def launch(g: Geometry, dtype: np.dtype, aligned: bool, activation: str | None) -> Launch:
    """The launch that convolves arrays of these sizes, ``aligned`` to 16 bytes or not; it takes x, w, bias and y."""
    if g.channels == 1:  # both layouts are the same
        g = g._replace(channels_last=False)
    bits, chosen = BITS[dtype], engine(g, dtype, aligned)
    last = g.flip, ACTIVATIONS[activation]
    grid: tuple[int, ...]
    if chosen == "few_taps":
        cut = _cut_few_taps(g, bits)
        counts = g.batch, g.channels, g.length, g.outputs, g.before, g.taps
        return Launch(_few_taps_kernel(dtype), cut.grid, cut.block, (*counts, cut.along, cut.lane_bits, *last))
    if chosen == "rows":
        grid = -(-g.outputs // _tile(bits)), g.channels, g.batch
        return Launch(_rows_kernel(dtype), grid, (_ROWS[bits][0],), (g.length, g.outputs, g.before, g.taps, *last))
    if chosen == "short_rows":
        side = _cut_short_rows(g, bits)
        assert side is not None
        counts = g.batch, g.channels, g.length, g.outputs, g.before, g.taps
        staged = side.first_tap, side.taps, side.pitch, side.vectors
        kernel = _short_rows_kernel(dtype, side.shared_bytes)
        return Launch(kernel, side.grid, side.block, (*counts, *staged, *last))
    if chosen == "channels_last":
        width = 16 // dtype.itemsize
        vectors = g.channels % width == 0 and aligned
        per_thread, _ = _CHANNELS_LAST[bits, vectors]
        windows = -(-g.outputs // (per_thread * g.dilation)) * g.dilation
        groups = g.channels // width if vectors else g.channels
        grid, block = _cover(groups, g.batch * windows, _CHANNELS_LAST_THREADS)
        counts = -(-groups // block[0]), g.length, g.outputs, g.before, g.dilation, g.taps
        scalars = g.batch, g.channels, windows, *counts, *last
        return Launch(_channels_last_kernel(dtype, vectors), grid, block, scalars)
    grid, block = _places(g, g.outputs, _OWN)
    counts = g.batch, g.channels, g.length, g.outputs, g.before, g.stride
    scalars = *counts, g.dilation, g.taps, g.channels_last, *last
    return Launch(_strided_kernel(dtype, "conv1d_strided"), grid, block, scalars)


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
    return Launch(_strided_kernel(dtype, "conv1d_strided_input_grad"), grid, block, scalars)


def _has_few_taps(g: Geometry, bits: int) -> bool:
    """Whether few_taps.cu can convolve rows of this stride and dilation."""
    width = 128 // bits
    if bits == 64 or g.taps > _FEW_TAPS or not 0 <= g.before < g.taps or g.length % width or g.outputs % width:
        return False
    _, *aside = _cut_few_taps(g, bits).grid
    return max(aside) <= _MOST_BLOCKS_ASIDE and g.batch * g.channels <= _MOST_ROWS


class _Cut(NamedTuple):
    """How few_taps.cu cuts rows over warps."""

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    along: int  # slabs of a warp that lie in one row
    lane_bits: int  # binary logarithm of the lanes of a row


def _cut_few_taps(g: Geometry, bits: int) -> _Cut:
    vectors = max(g.length, g.outputs) * bits // 128
    slabs = -(-vectors // _LANES)
    along = slabs if slabs <= 2 else _SLABS
    lane_bits = (min(vectors, _LANES) - 1).bit_length()
    warps_of_row, bands = -(-slabs // along), -(-g.channels // (_LANES >> lane_bits))
    blocks = -(-warps_of_row // _MOST_WARPS)
    warps = -(-warps_of_row // blocks)
    beside = min(_MOST_WARPS // warps, bands)
    items = _SLABS // along
    return _Cut((blocks, -(-bands // beside), -(-g.batch // items)), (_LANES, warps, beside), along, lane_bits)


class _SideBySide(NamedTuple):
    """How short_rows.cu has rows in shared memory."""

    grid: tuple[int]
    block: tuple[int, int]
    first_tap: int  # of those that meet an input
    taps: int
    pitch: int  # in rows of 16 bytes, from a row of the input to the next
    vectors: int  # of an input's row that are staged, with the zeros beside
    shared_bytes: int


def _cut_short_rows(g: Geometry, bits: int) -> _SideBySide | None:
    """Nothing where there are too few rows, or too few fit in shared memory."""
    first_tap = max(g.before - g.outputs + 1, 0)
    taps = max(min(g.before + g.length, g.taps) - first_tap, 0)
    threads, tap_rows, rows_of_vector = -(-g.outputs // 16), -(-taps // 4), 32 // bits
    # Four rows of outputs a thread, those that further taps meet, and as many as a vector has, within which they begin.
    vectors = -(-(4 * threads + tap_rows + rows_of_vector) // rows_of_vector)
    pitch = vectors * rows_of_vector | 1
    most = min(_SHORT_ROWS_THREADS // threads, (_SHORT_ROWS_BYTES // 16 - tap_rows) // pitch)
    if min(most, g.batch) < _FEWEST_SHORT_ROWS:
        return None
    # A warp of one place of 32 rows, or threads of one place of eight, which meet all banks.
    step = next(count for count in (_LANES, 8, _FEWEST_SHORT_ROWS) if count <= most)
    rows = min(most // step * step, -(-g.batch // _FEWEST_SHORT_ROWS) * _FEWEST_SHORT_ROWS)
    blocks = g.channels * -(-g.batch // rows)
    if max(blocks, g.batch) > _MOST_ROWS:
        return None
    shared_bytes = device.rounded_shared_bytes(16 * (rows * pitch + tap_rows))
    return _SideBySide((blocks,), (rows, threads), first_tap, taps, pitch, vectors, shared_bytes)


def _places(g: Geometry, positions: int, per_thread: int) -> tuple[tuple[int], tuple[int, int]]:
    """Grid and block of ``places.cuh``."""
    if g.channels_last:
        return _cover(g.channels, g.batch * -(-positions // per_thread), _THREADS)
    return _cover(-(-positions // per_thread), g.batch * g.channels, _THREADS, _THREADS)


def _cover(contiguous: int, others: int, threads: int, lanes: int = _LANES) -> tuple[tuple[int], tuple[int, int]]:
    """Blocks with up to ``lanes`` threads along what is contiguous and the rest along all others."""
    lanes = min(lanes, 1 << (contiguous - 1).bit_length())
    return (-(-contiguous // lanes) * -(-others // (threads // lanes)),), (lanes, threads // lanes)


def _tile(bits: int) -> int:
    """Outputs of a block of rows.cu: 16 a thread, of float64 8."""
    return _ROWS[bits][0] * (8 if bits == 64 else 16)


def _few_taps_kernel(dtype: np.dtype) -> Specialisation:
    return Specialisation("conv1d/few_taps", "conv1d_few_taps", core_compile.macros(STORAGE=BITS[dtype]), "4P 10i")


def _rows_kernel(dtype: np.dtype) -> Specialisation:
    threads, blocks = _ROWS[BITS[dtype]]
    defines = core_compile.macros(STORAGE=BITS[dtype], THREADS=threads, BLOCKS=blocks)
    return Specialisation("conv1d/rows", "conv1d", defines, "4P 6i")


def _short_rows_kernel(dtype: np.dtype, shared_bytes: int = 0) -> Specialisation:
    bits = BITS[dtype]
    defines = core_compile.macros(STORAGE=bits, THREADS=_SHORT_ROWS_THREADS, BLOCKS=_SHORT_ROWS[bits])
    return Specialisation("conv1d/short_rows", "conv1d_short_rows", defines, "4P 12i", shared_bytes)


def _channels_last_kernel(dtype: np.dtype, vectors: bool) -> Specialisation:
    per_thread, blocks = _CHANNELS_LAST[BITS[dtype], vectors]
    defines = core_compile.macros(
        STORAGE=BITS[dtype],
        CHANNELS=16 // dtype.itemsize if vectors else 1,
        OWN=per_thread,
        THREADS=_CHANNELS_LAST_THREADS,
        BLOCKS=blocks,
    )
    return Specialisation("conv1d/channels_last", "conv1d_channels_last", defines, "4P 3q 8i")


def _strided_kernel(dtype: np.dtype, name: str) -> Specialisation:
    defines = core_compile.macros(STORAGE=BITS[dtype], THREADS=_THREADS)
    return Specialisation(f"conv1d/{name.removeprefix('conv1d_')}", name, defines, _STRIDED_TYPES[name])


_STRIDED_TYPES = {"conv1d_strided": "4P 7q 4i", "conv1d_strided_input_grad": "3P 10q 3i"}
