"""Depthwise convolution on the tensor cores: launcher of ``toeplitz.cu`` and ``toeplitz_short.cu``.

For stride 1, dilation 1, layout "BCL", float16 and float32, from compute capability 8.0 on. float16 is multiplied
exactly and added up in float32; float32 goes in two float16 terms, three products a pair, each chunk of taps and window
of inputs with powers of two of its own, so that any magnitude is served. What float16 cannot tell from zero beside the
largest number of a window, and what is not finite, is found by the kernel and summed from the definition.

Accuracy is relative to the sum of absolute terms.

float16: 2^-18 before the one rounding of the result, whatever the number of taps. A chain of tensor-core sums has at
most 34 steps, each of which cuts off at most 2^-23 of the largest term. Chains are added up in float32 to nearest.

float32: 1e-6. Each factor of a product adds at most 2^-23; the product of the lower terms, which is left out, at most
2^-22; chains of four steps, 3e-7; then sums in float32 of nine chains, and of those. The host emulation cuts nothing
off: its worst error is 2.8e-7, up to 3,000 taps of one sign or of both. Denormal numbers count as zeros.

Outputs whose block of float32 meets an infinity are summed from the definition, which is slow. So are those of float16
whose segment of a row meets anything that is not finite.

Cost: 32 ceil((K + 62) / 32) multiply-adds an output at most, three times that for float32. For 256 outputs and 32 taps
that is 4 tensor instructions of 16 x 8 x 16, 27 cycles of one of an SM's four units at the rate that was measured on an
H200, or 12 and 80 cycles for float32. Meanwhile shared memory, which the four units share, is read for 13 cycles, or 26
with four groups a warp (36 with two). With few taps memory binds.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any, NamedTuple

import cupy as cp

from cukde.conv1d.geometry import Geometry
from cukde.conv1d.plan import GROUP, MOST_SLIP, ROW, toeplitz_kernel
from cukde.core import plan as core_plan
from cukde.core.gpu import compile as core_compile, device
from cukde.core.gpu.launch import ACTIVATIONS, BITS, Launch, Specialisation


class _Shape(NamedTuple):
    """Of a block of the kernel for any number of taps."""

    warps: int  # at most
    groups: int  # of a warp
    chunk: int  # blocks of 32 taps whose inputs are in shared memory
    blocks: int  # of a multiprocessor: what registers are made to suffice for


# By bits, and whether the device is one since 9.0: with more groups a warp reads less of shared memory for each
# product, but for float32 compilers find enough registers there alone.
_SHAPES = {
    (16, False): _Shape(4, 4, 17, 5),
    (16, True): _Shape(4, 4, 17, 5),
    (32, False): _Shape(4, 2, 17, 4),
    (32, True): _Shape(4, 4, 17, 3),
}


class _ShortShape(NamedTuple):
    """Of a block of the kernel for few taps."""

    warps: int  # at most
    groups: int  # of a warp
    blocks: int  # of a multiprocessor


_SHORT_SHAPES = {2: _ShortShape(4, 8, 5), 3: _ShortShape(4, 8, 4)}  # by blocks of taps


def forward(x: Any, w: Any, bias: Any | None, geometry: Geometry, activation: str | None) -> Any:
    """Return y = act(bias + sum), as :func:`cukde.conv1d.gpu.passes.forward`, for sizes that tensor cores serve."""
    return _convolved(x, w, bias, geometry.outputs, geometry.before, geometry.flip, ACTIVATIONS[activation])


def input_grad(dy: Any, w: Any, geometry: Geometry) -> Any:
    """Return dx of dy, as :func:`cukde.conv1d.gpu.passes.input_grad`: a convolution with the taps reversed."""
    before = geometry.reach - geometry.before
    return _convolved(dy, w, None, geometry.length, before, not geometry.flip, ACTIVATIONS[None])


def _convolved(x: Any, w: Any, bias: Any | None, outputs: int, before: int, flip: bool, activation: int) -> Any:
    """act(bias + sum_k v[k] x[o + k - before]) for 0 <= o < outputs, with v the taps, in the other order with flip."""
    batch, channels, length = x.shape
    y = cp.empty((batch, channels, outputs), x.dtype)
    if y.size == 0:
        return y
    bits = BITS[x.dtype]
    aligned, row = device.address(x) % 16 == 0, (length, outputs, w.shape[1], before, flip, activation)
    convolve = _launch(batch, channels, row, bits, aligned, _shape(bits))
    core_plan.note(convolve.kernel.stem.removeprefix("conv1d/"))
    convolve(x, w, bias, y)
    return y


@functools.lru_cache(maxsize=1024)  # it takes longer than a small convolution
def _launch(
    batch: int, channels: int, row: tuple[int, int, int, int, bool, int], bits: int, aligned: bool, shape: _Shape
) -> Launch:
    """What :func:`_convolved` does with rows, whose input begins at a multiple of 16 bytes where it is ``aligned``."""
    length, outputs, taps, before, _, _ = row
    # A row of y that is not aligned is cut where it is: up to a vector before its first number.
    vector = 128 // bits
    reached = outputs if outputs % vector == 0 else outputs + vector - 1
    if toeplitz_kernel(bits, taps) == "toeplitz_short":
        slip = -before % vector if aligned and length % vector == outputs % vector == 0 else MOST_SLIP
        tap_blocks = max(2, (taps + 30 + slip) // ROW + 1)
        short = _SHORT_SHAPES[tap_blocks]
        segments = -(-reached // (short.groups * GROUP))
        warps = min(short.warps, batch * segments)
        grid = (channels * -(-batch * segments // warps),)
        return Launch(_short_kernel(tap_blocks), grid, (32 * warps,), (batch, channels, segments, *row))
    warps = min(shape.warps, -(-reached // (shape.groups * GROUP)))
    segments = -(-reached // (warps * shape.groups * GROUP))
    grid = (batch * channels * segments,)
    return Launch(_long_kernel(bits, shape), grid, (32 * warps,), (channels, segments, *row))


@core_compile.listed
def specialisations() -> Iterator[Specialisation]:
    """Every kernel of this module."""
    for tap_blocks in _SHORT_SHAPES:
        yield _short_kernel(tap_blocks)
    for bits, shape in dict.fromkeys((bits, shape) for (bits, _), shape in _SHAPES.items()):
        yield _long_kernel(bits, shape)


def _shape(bits: int) -> _Shape:
    return _SHAPES[bits, device.capability() >= (9, 0)]


def _short_kernel(tap_blocks: int) -> Specialisation:
    shape = _SHORT_SHAPES[tap_blocks]
    threads = 32 * shape.warps
    defines = core_compile.macros(
        STORAGE=16, THREADS=threads, GROUPS=shape.groups, TAP_BLOCKS=tap_blocks, BLOCKS=shape.blocks
    )
    return Specialisation("conv1d/toeplitz_short", "conv1d_toeplitz_short", defines, "4P 3I 6i")


def _long_kernel(bits: int, shape: _Shape) -> Specialisation:
    threads = 32 * shape.warps
    defines = core_compile.macros(
        STORAGE=bits, THREADS=threads, GROUPS=shape.groups, CHUNK=shape.chunk, BLOCKS=shape.blocks
    )
    return Specialisation("conv1d/toeplitz", "conv1d_toeplitz", defines, "4P 2I 6i")
