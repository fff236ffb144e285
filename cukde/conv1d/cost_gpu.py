"""Work of a depthwise convolution's kernels on a GPU: which of them runs, and what it issues, moves and waits for.

Instructions are counted in builds for sm_90 of the sources in ``kernels_cu/conv1d/``: loops from their machine code,
the rest from comments of the sources. Unless a comment says otherwise they are those of an output, beside those of its
taps. The model was compared with the rows of ``benchmarks/results/conv1d_h200.json``, which have no kernels for any
stride and none for short rows.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from cukde.conv1d import plan
from cukde.conv1d.geometry import Geometry
from cukde.conv1d.plan import TILE, Pass
from cukde.core.cost import elementwise
from cukde.core.cost.cost import Part, Unit
from cukde.core.cost.peaks import Peaks
from cukde.core.plan import consulted

# Cycles of a load from memory, and from the cache before it, where many loads wait. A single load of Hopper takes 480
# and 260 (arXiv 2402.13499). Under load a tile of the study's blocked weight gradient shows the figure for memory: it
# waits for three loads in a row and takes 2,530 cycles (conv1d_h200.json).
MEMORY_LATENCY, CACHE_LATENCY = 800, 300

# Part of the rate of instructions that kernels_cu/conv1d/channels_last.cu reaches with its 16 warps on a
# multiprocessor, fitted to the record's rows of layout BLC. What the warps wait for is unchecked.
_CHANNELS_LAST = 0.4

# The same for its weight gradient. Half of its instructions compute places with integers, at half the rate of float32
# on compute capability 9.0 (CUDA C++ Programming Guide).
_WEIGHTS_CHANNELS_LAST = 0.7

# Part of the rate of tensor cores that a chain of two or four dependent products reaches with ten warps.
_PRODUCTS = 0.7

_WARPS_OF_TILE = {16: 4, 32: 2, 64: 2}  # of a block of kernels_cu/conv1d/rows.cu


def parts(direction: Pass, g: Geometry, bits: int, activation: str | None, bias: bool, on: Peaks) -> tuple[Part, ...]:
    """Kernels of a pass, in their order; none for an empty result."""
    if g.batch == 0 or g.channels == 0:
        return ()
    kernel = consulted(plan.on_gpu(direction, np.dtype(f"f{bits // 8}"), g, on.capability)).first(plan.ALIGNED)
    if kernel == "fft":
        return _by_transforms(direction, g, bits, activation, on)
    if direction == "weight_grad":
        return _of_weights(g, bits, bias, kernel)
    if kernel == "strided_input_grad":
        return (_gathered(g, bits),)
    if direction == "input_grad":  # a convolution of dy
        g = plan.adjoint(g)
    part = _on_tensor_cores(g, bits, on) if kernel.startswith("toeplitz") else _directly(g, bits, kernel)
    return (_activated(part, g, activation),)


def _least(g: Geometry, bits: int) -> int:
    """Bytes of inputs, outputs and taps."""
    return bits // 8 * (g.batch * g.channels * (g.length + g.outputs) + g.channels * g.taps)


def _real(bits: int) -> Unit:
    """The unit that multiplies and adds; float16 is taken as float32."""
    return "float64" if bits == 64 else "fma"


# ------------------------------------------------------------------------------------------------ direct sums


def _directly(g: Geometry, bits: int, kernel: str) -> Part:
    outputs = g.batch * g.channels * g.outputs
    size, least = bits // 8, _least(g, bits)
    work = {_real(bits): 2.0 * outputs * g.taps}
    if kernel == "few_taps":
        # 11 for 4 taps in all, by shuffles of packed words, without shared memory.
        work["instruction"] = outputs * (g.taps + (7 if bits == 16 else 10))
        return Part("few taps", least, work, blocks=math.ceil(outputs / (8 * 512 * 32 // bits)), resident=4)
    if kernel == "rows":
        # For a block of 4 taps (2 in float64) a thread loads a row of inputs and, like all threads, a row of taps, and
        # asks whether it was the last: 8 instructions beside 64 multiply-adds, or 7 beside 16.
        row = 2 if bits == 64 else 4
        own = 4 * row
        beside = {16: 20, 32: 12, 64: 20}[bits]  # staging with a halo, conversions, and outputs through shared memory
        work["instruction"] = outputs * (beside + g.taps * (1 + (7 if bits == 64 else 8) / (own * row)))
        rows_of_taps = math.ceil(g.taps / row)
        work["shared"] = outputs / own * (rows_of_taps * 20 + (16 + 3) * 16)
        blocks = g.batch * g.channels * math.ceil(g.outputs / TILE[bits])
        cycles = MEMORY_LATENCY + CACHE_LATENCY + 4 * g.taps * own / 4
        return Part("rows", least, work, blocks=blocks, resident=32 // _WARPS_OF_TILE[bits], cycles=cycles)
    if kernel == "short_rows":
        # 75 for 31 taps, 67 in float16; taps that meet only zeros are passed over.
        met = _met(g)
        work = {"fma": 2.0 * g.batch * g.channels * met}
        work["instruction"] = outputs * (32 if bits == 16 else 40) + 1.1 * g.batch * g.channels * met
        return Part("short rows", least, work, blocks=math.ceil(outputs / 2048), resident=7)
    if kernel == "channels_last":
        return _channels_last(g, bits, outputs, least, work)
    # A thread has 4 outputs; each product takes a load of x and two comparisons.
    work["instruction"] = outputs * (30 + 7.5 * g.taps)
    work["shared"] = outputs * g.taps * size * min(g.stride, 32)  # one line of the first cache for so many taps
    requested = least * max(1.0, min(g.taps * g.dilation, 4 * g.stride) / (4 * g.stride))
    return Part("any stride", least, work, requested, math.ceil(outputs / 1024), 4, footprint=0)


def _met(g: Geometry) -> float:
    """Products of a row whose input is inside the row."""
    total = 0
    for k in range(g.taps):
        first, last = max(0, g.before - k), min(g.outputs, g.length + g.before - k)
        total += max(0, last - first)
    return total


def _channels_last(g: Geometry, bits: int, outputs: int, least: float, work: dict[Unit, float]) -> Part:
    """A window of ``own`` outputs of neighbouring channels slides over x in registers."""
    vectors = g.channels % (128 // bits) == 0
    own = plan.OWN_CHANNELS_LAST[bits] if vectors else 4 if bits == 64 else 8
    wide = 128 // bits if vectors else 1
    # A tap beside its products: loads of taps and of an input, moves, conversions from float16, comparisons of places.
    beside = {16: 26, 32: 34, 64: 18}[bits] if vectors else 23
    of_thread = 150 + 6 * (own + 4) + 3 * own * wide
    work["instruction"] = outputs / (own * wide) * (of_thread + g.taps * (own * wide + beside))
    work["shared"] = outputs / (own * wide) * g.taps * (16 + bits // 8 * wide * (32 // bits if bits < 32 else 1))
    lanes = min(32, 1 << (math.ceil(g.channels / wide) - 1).bit_length())
    met = own * (128 // lanes)  # outputs of a block along the sequence, which share what their windows meet
    x = bits // 8 * g.batch * g.channels * g.length
    blocks = math.ceil(outputs / (128 * own * wide))
    requested = least + x * (g.taps - 1) / met
    # Windows beside each other are blocks next to each other.
    return Part("channels last", least, work, requested, blocks, 4, footprint=0, efficiency=_CHANNELS_LAST)


def _gathered(g: Geometry, bits: int) -> Part:
    """Gradient by the inputs for any stride: a thread takes an input, and goes over the taps that meet it."""
    inputs = g.batch * g.channels * g.length
    met = g.taps / g.stride  # of an input, on average
    least = _least(g, bits)
    # Places in 64 bits: some 150 instructions with the divisions, and 25 for each tap.
    work: dict[Unit, float] = {_real(bits): 2.0 * inputs * met, "instruction": inputs * (150 + 25 * met)}
    return Part("any stride", least, work, blocks=math.ceil(inputs / 256), resident=6)


def _activated(part: Part, g: Geometry, activation: str | None) -> Part:
    """Add an activation of every output."""
    if activation is None:
        return part
    outputs = g.batch * g.channels * g.outputs
    # silu: e^-z and a quotient without a branch. gelu: erfcf, mostly an exponential and a polynomial.
    instructions = {"silu": 10, "gelu": 45}[activation]
    more: dict[Unit, float] = {
        "instruction": part.work["instruction"] + instructions * outputs,
        "exponential": float(outputs),
    }
    return dataclasses.replace(part, work={**part.work, **more})


# ---------------------------------------------------------------------------------------------- tensor cores


def _on_tensor_cores(g: Geometry, bits: int, on: Peaks) -> Part:
    """Products of Toeplitz matrices of the taps and inputs; float32, in two float16 terms, takes three."""
    cut = plan.cut_toeplitz(g, bits, on.capability >= (9, 0))
    products = 3 if bits == 32 else 1
    outputs = cut.blocks * cut.warps * cut.groups * plan.GROUP  # including those beyond the ends of rows
    least = _least(g, bits)
    per_group = 4 * products * cut.tap_blocks  # tensor instructions, of a warp and 256 outputs
    work: dict[Unit, float] = {"tensor_f16": 2.0 * outputs * 32 * cut.tap_blocks * products}
    if cut.short:
        # Shuffles of inputs that later blocks of taps meet, traces of values that are not finite, and stores of
        # outputs.
        work["instruction"] = outputs * 32 / 256 * (per_group + 8 * (cut.tap_blocks - 1) + 45)
        return Part("tensor cores, few taps", least, work, blocks=cut.blocks, resident=5)
    # Two blocks of taps at a time: 13 loads of 16 bytes a lane for four groups and each term. Sums of float32 are
    # rounded to nearest. float32 also takes scales of numbers and their terms, and tests of every output.
    terms = 2 if bits == 32 else 1
    loads = terms * (2 * 4 + cut.groups + 1) / (2 * cut.groups)  # of a group and a block of taps
    additions = 8 if bits == 32 else 0
    beside = 45 if bits == 32 else 20
    work["instruction"] = outputs * (beside + 32 / 256 * (per_group + cut.tap_blocks * (loads + additions + 1)))
    work["shared"] = outputs / 256 * 512 * (cut.tap_blocks * loads + 2 * terms)
    # A block waits for x, in float32 for the largest numbers, for its taps, and for its products one by one.
    cycles = MEMORY_LATENCY + (600 if bits == 32 else 0) + CACHE_LATENCY + 33 * per_group / 2 * cut.groups / 2
    # A block takes 44 KiB of shared memory, or 30 in float16, of the 227 KiB of a multiprocessor.
    resident = 5 if bits == 32 else 7
    return Part("tensor cores", least, work, blocks=cut.blocks, resident=resident, cycles=cycles, efficiency=_PRODUCTS)


# ------------------------------------------------------------------------------------- gradient of the weights


def _of_weights(g: Geometry, bits: int, bias: bool, kernel: str) -> tuple[Part, ...]:
    cut = plan.cut_weights(kernel, g, bits)
    outputs, size, real = g.batch * g.channels * g.outputs, bits // 8, max(bits // 8, 4)
    columns = g.channels * (g.taps + 1)
    vector = 128 // bits
    # Products of a block, with the sum of dy, and with sums that are dropped where loads are of whole vectors.
    products = cut.block_taps + 1
    # Other instructions: 150, or 240 with conversions, for each tile of 16 outputs of a lane. Where channels are last:
    # 32 for an output of a batch of 8 and 47 of a batch of 4, and those of a piece of 128. For any stride: 25, and 7 a
    # tap.
    if kernel == "weight_grad":
        products += vector - 1
        beside = {16: 240 / 16, 32: 150 / 16, 64: 150 / 8}[bits]
    elif kernel == "weight_grad_few_taps":
        beside = 6.0
    elif kernel == "weight_grad_short_rows":
        products += 3
        beside = (1080 - 560) / 16 if cut.block_taps == 32 else (610 - 112) / 16
    elif kernel == "weight_grad_channels_last":
        beside = 32.0 + 2 if cut.block_taps <= 4 else 47.0 + 9 if cut.block_taps == 32 or bits == 64 else 32.0 + 5
    else:
        beside = 25 + 7.0 * cut.block_taps
    last = kernel == "weight_grad_channels_last"
    threads = plan.WEIGHT_THREADS_CHANNELS_LAST if last else plan.WEIGHT_THREADS
    # 31 shuffles and additions for 32 sums of a warp, with two selections each; then sums over warps, in float64.
    reduction = cut.blocks * threads * 4.0 * products + columns * cut.splits * 8.0
    read = size * g.batch * g.channels * (g.length + g.outputs)
    partial = real * columns * cut.splits
    work: dict[Unit, float] = {
        _real(bits): 2.0 * outputs * cut.groups * products,
        "instruction": outputs * cut.groups * (products + beside) + reduction,
    }
    if kernel in ("weight_grad", "weight_grad_short_rows"):
        # A lane writes x and dy to shared memory, and reads what its outputs meet.
        own = 8 if bits == 64 else 16
        met = real * (own + products)
        work["shared"] = outputs / own * cut.groups * (2 * real * own + met + real * own)
    elif kernel == "weight_grad_strided":
        work["shared"] = outputs * cut.groups * (1 + cut.block_taps) * size * min(g.stride, 32)
    # Groups of a split's taps are blocks next to each other.
    sum_up = Part(
        "sums of blocks",
        read + partial,
        work,
        cut.groups * read + partial,
        cut.blocks,
        {"weight_grad_channels_last": 2, "weight_grad_few_taps": 6}.get(kernel, 4),
        reduction=reduction,
        footprint=0,
        efficiency=_WEIGHTS_CHANNELS_LAST if last else 1.0,
    )
    added = cut.splits * columns
    finish = Part(
        "sums of parts",
        partial + size * (g.channels * g.taps + g.channels * bias),
        {"float64": float(added), "instruction": 6.0 * added},
        blocks=math.ceil(columns / 32),
        resident=4,
        cycles=CACHE_LATENCY * math.ceil(cut.splits / 64) + CACHE_LATENCY,
        reduction=6.0 * added,
    )
    return sum_up, finish


# --------------------------------------------------------------------------------------- Fourier transforms


def _by_transforms(direction: Pass, g: Geometry, bits: int, activation: str | None, on: Peaks) -> tuple[Part, ...]:
    """Passes over memory by whole rows: CuPy's elementwise kernels, and cuFFT's transforms, three for a long row.

    Bytes are counted for each place of a padded row. A spectrum has one number of twice the size for two places.
    """
    size, wide = bits // 8, min(8, bits // 4)
    n = plan.places(direction, g)
    rows, taps_rows = g.batch * g.channels, g.channels
    steps = 3 if n > 2**13 else 2  # passes of a transform: 8,192 numbers fit in shared memory
    there = wide * (3 + 2 * steps)  # zeros, a copy into them, and the transform
    back = wide * (4 + 2 * steps)  # a copy, as cuFFT overwrites its input, the transform, and the division by n
    widened = size + wide if size < wide else 0
    blocks = math.ceil(rows * n * wide * 5 / 2**28)  # of rows whose arrays are there at a time
    work = 2.5 * n * math.log2(n)  # operations of a real transform (FFTW's count)
    number = _real(8 * wide)
    wider = float(size < wide)  # whether numbers are converted
    # Bytes, numbers that CuPy's kernels go through, operations, and launches for a block of rows.
    stages: list[tuple[str, float, float, float, int]]
    if direction == "weight_grad":
        given = rows * (g.length + g.outputs)
        stages = [
            ("to spectra", rows * 2 * n * there + widened * given, (1 + wider) * given, 2 * rows * work, 8),
            ("products", rows * n * wide * 5.0, rows * n, 5.0 * rows * n, 3),
            ("to weights", taps_rows * n * back, taps_rows * (n + 2 * g.taps), taps_rows * work, 8),
        ]
    else:
        given, many = (g.length, g.outputs) if direction == "forward" else (g.outputs, g.length)
        to_spectra = (rows + taps_rows) * n * there + taps_rows * n * 2 * wide
        copied = (1 + wider) * (rows * given + taps_rows * g.taps) + taps_rows * n / 2
        ends = rows * (widened * given + many * (3 * wide + size))
        stages = [
            ("to spectra", to_spectra, copied, (rows + taps_rows) * work, 9),
            ("products", rows * n * wide * 3.0, rows * n / 2, 3.0 * rows * n, 1),
            ("to rows", rows * n * back + ends, rows * (n + 2.0 * many), rows * work, 7),
        ]
        if activation is not None:
            steps = {"silu": 4, "gelu": 5}[activation]
            numbers = steps * float(rows * many)
            stages.append(("activation", 2.0 * wide * numbers, numbers, numbers, steps))
    return tuple(
        elementwise.passes(name, on, numbers, traffic, launches=launches * blocks, work={number: operations})
        for name, traffic, numbers, operations, launches in stages
    )
