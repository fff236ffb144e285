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
from typing import Any

import cupy as cp

from cukde.conv1d.geometry import Geometry
from cukde.conv1d.plan import SHORT_GROUPS, TOEPLITZ_GROUPS, TOEPLITZ_WARPS, adjoint, cut_toeplitz
from cukde.core import plan as core_plan
from cukde.core.gpu import compile as core_compile, device
from cukde.core.gpu.launch import ACTIVATIONS, BITS, Launch, Specialisation

_THREADS = 32 * TOEPLITZ_WARPS  # of a block at most
_CHUNK = 17  # blocks of 32 taps whose inputs are in shared memory

# Blocks of a multiprocessor, which registers are made to suffice for: by bits and whether the device is one since 9.0,
# and of the kernel for few taps by blocks of taps.
_BLOCKS = {(16, False): 5, (16, True): 5, (32, False): 4, (32, True): 3}
_BLOCKS_OF_SHORT = {2: 5, 3: 4}


def forward(x: Any, w: Any, bias: Any | None, geometry: Geometry, activation: str | None) -> Any:
    """Return y = act(bias + sum), as :func:`cukde.conv1d.gpu.passes.forward`, for sizes that tensor cores serve."""
    y = cp.empty(geometry.shape(geometry.outputs), x.dtype)
    if y.size:
        aligned = device.address(x) % 16 == 0
        convolve = _launch(geometry, BITS[x.dtype], ACTIVATIONS[activation], aligned, _newer())
        core_plan.note(convolve.kernel.stem.removeprefix("conv1d/"))
        convolve(x, w, bias, y)
    return y


def input_grad(dy: Any, w: Any, geometry: Geometry) -> Any:
    """Return dx of dy, as :func:`cukde.conv1d.gpu.passes.input_grad`: a convolution with the taps reversed."""
    return forward(dy, w, None, adjoint(geometry), None)


@functools.lru_cache(maxsize=1024)  # it takes longer than a small convolution
def _launch(g: Geometry, bits: int, activation: int, aligned: bool, newer: bool) -> Launch:
    """The launch for rows whose input begins at a multiple of 16 bytes where it is ``aligned``."""
    cut = cut_toeplitz(g, bits, newer, aligned)
    kernel = _short_kernel(cut.tap_blocks) if cut.short else _long_kernel(bits, newer)
    row = g.length, g.outputs, g.taps, g.before, g.flip, activation
    scalars = *(g.batch,) * cut.short, g.channels, cut.segments, *row
    return Launch(kernel, (cut.blocks,), (32 * cut.warps,), scalars)


def _newer() -> bool:
    return device.capability() >= (9, 0)


@core_compile.specialised(_BLOCKS_OF_SHORT)
def _short_kernel(tap_blocks: int) -> Specialisation:
    blocks = _BLOCKS_OF_SHORT[tap_blocks]
    defines = core_compile.macros(
        STORAGE=16, THREADS=_THREADS, GROUPS=SHORT_GROUPS, TAP_BLOCKS=tap_blocks, BLOCKS=blocks
    )
    return Specialisation("conv1d/toeplitz_short", "conv1d_toeplitz_short", defines, "4P 3I 6i")


@core_compile.specialised(cases=lambda: _BLOCKS)
def _long_kernel(bits: int, newer: bool) -> Specialisation:
    groups, blocks = TOEPLITZ_GROUPS[bits, newer], _BLOCKS[bits, newer]
    defines = core_compile.macros(STORAGE=bits, THREADS=_THREADS, GROUPS=groups, CHUNK=_CHUNK, BLOCKS=blocks)
    return Specialisation("conv1d/toeplitz", "conv1d_toeplitz", defines, "4P 2I 6i")
