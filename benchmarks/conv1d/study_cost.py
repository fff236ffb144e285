"""Work of the source's stages of depthwise convolution: what ``kernels_cu/study/conv1d_study.cu`` issues and asks for.

Needs no CuPy. Assumptions, beside those of :mod:`cukde.conv1d.cost_gpu` and :mod:`benchmarks.conv1d.study_loads`:

- An access of a warp takes a cycle of its multiprocessor's first cache or shared memory for every different line or row
  whose numbers lie in one bank, of 32 with 4 bytes each. Sequences of L numbers are L apart, so that of 32 of them
  gcd(L, 32) are in one bank: NAIVE waits for 32 where L is a multiple of 32, the others for one. GPUs before Volta take
  four cycles for numbers side by side, and eight for 32 lines.
- A load before the beginning of a sequence is not made, where no thread of the warp has one after it.
- A sector of 32 bytes is asked of the second cache once by a block, whose warps are at the same place at about the same
  time, and stays in the first cache for what follows in it. Of a sequence that several blocks share each asks.
- Loads of a loop that is unrolled wait for memory together: of NAIVE's weight gradient 16 steps, of NAIVE_BY_ROW's the
  8 of a sector, of COALESCED's one. What is staged by two loops, or a loop and its rest, waits twice.
- Instructions are counted in builds for sm_90: a product with its loads, places and comparisons 9, by row 7.6, of
  weight gradients 7.6, 10.8 and 19, between arrays in shared memory 3.4 and 9, in registers 1; 60 to 200 a thread
  beside, the latter for the divisions of 64 bits of NAIVE_BY_ROW and WARP_TILED.
"""

from __future__ import annotations

import math
from typing import Any

from benchmarks.conv1d import study_loads as loads
from cukde.conv1d.cost_gpu import CACHE_LATENCY, MEMORY_LATENCY
from cukde.core import check as core_check
from cukde.perf import Counted, Part, Peaks, Unit

VARIANTS = ("naive", "naive-by-row", "coalesced", "blocked", "warp-tiled")
"""In the order of the source, each made of the one before; of its naive kernel two readings, by channel and by row."""

PATHS = ("forward", "input_grad", "weight_grad")

SOURCE_SPEEDUP, SOURCE_STEP_SPEEDUP = 3.26, 1.29
"""Of the last of its kernels over the first, and of a step of training with it: the paper's abstract, on a P100."""

_SOURCE = (
    "CUDA Kernel Optimization and Counter-Free Performance Analysis for Depthwise Convolution (arXiv 2604.25422); "
    "counted in kernels_cu/study/conv1d_study.cu"
)
_THREADS, _WARPS, _SEGMENT, _SECTOR, _ACCESS = 256, 8, 128, 32, 128
_FUSED, _SHARED_LOAD, _BARRIER = 4, 30, 50  # cycles: of a dependent multiply-add, of a load from shared memory, in all
_RESIDENT = 8  # blocks of a multiprocessor, by its 2,048 threads
_RESIDENT_WARP_TILED = 6  # of the weight gradient, by its 40 registers (sm_90)


def forward(on: Peaks, *, variant: str, batch: int, channels: int, length: int, taps: int) -> Counted:
    """Count a stage of the convolution, or of its gradient by the input: the same sums with the taps reversed."""
    _check(on, variant, batch=batch, channels=channels, length=length, taps=taps)
    outputs = batch * channels * length
    least = 4.0 * (2 * outputs + channels * taps)
    warps = batch * channels * math.ceil(length / 32)
    side = loads.side_by_side(on)
    work: dict[Unit, float] = {"fma": 2.0 * outputs * taps}
    if variant == "naive":
        return _counted(_naive(on, batch, channels, length, taps, least, work), outputs, taps, least)
    if variant == "naive-by-row":
        warps = math.ceil(outputs / 32)
        work["instruction"] = 32.0 * warps * (200 + 7.6 * taps)
        work["shared"] = _ACCESS * warps * side * (loads.taps_met_by_row(length, taps) + taps + 1)
        requested = least + 4.0 * outputs * (taps - 1) / _THREADS
        cycles = MEMORY_LATENCY + _FUSED * taps
        part = Part(variant, least, work, requested, math.ceil(outputs / _THREADS), _RESIDENT, cycles, footprint=0)
    elif variant == "coalesced":
        work["instruction"] = 32.0 * warps * (60 + 9 * taps)
        work["shared"] = _ACCESS * warps * side * (loads.taps_met(length, taps, 32) + taps + 1)
        # Of 32 outputs, what they meet, in sectors: one more than it fills. A block's 8 rows share nothing.
        sectors = math.ceil(loads.inputs_met(length, taps, 32) / 8) + 1
        requested = least - 4.0 * outputs + warps * sectors * _SECTOR
        cycles = MEMORY_LATENCY + _FUSED * taps
        blocks = batch * math.ceil(channels / 8) * math.ceil(length / 32)
        part = Part("coalesced", least, work, requested, blocks, _RESIDENT, cycles, footprint=0)
    elif variant == "blocked":
        tile = min(_THREADS, 32 * math.ceil(length / 32))
        blocks = batch * channels * math.ceil(length / tile)
        work["instruction"] = blocks * tile * (70.0 + 3.4 * taps)
        staged = (tile + 2 * taps - 1) / tile  # of a thread: inputs, then taps
        # A staged input and a tap of each product; what is staged; the output.
        work["shared"] = _ACCESS * blocks * tile / 32 * (2.0 * taps + staged * (side + 1) + side)
        requested = least + 4 * outputs * (loads.inputs_met(length, taps, tile) / min(tile, length) - 1)
        # Inputs, those of the halo, then taps are staged; then a step after the other.
        cycles = 2 * MEMORY_LATENCY + CACHE_LATENCY + _BARRIER + _FUSED * taps
        part = Part("blocked", least, work, requested, blocks, 2048 // tile, cycles, footprint=0)
    else:
        segments, quads = batch * channels * math.ceil(length / _SEGMENT), math.ceil(taps / 4)
        staged = math.ceil((_SEGMENT + 4 * quads) / 32)
        work["fma"] = 2.0 * segments * _SEGMENT * 4 * quads  # of taps of zero too
        # Of a lane: divisions, what it stages, 16 products of a quad of taps, 4 outputs on their way to each other.
        work["instruction"] = 32.0 * segments * (200 + 10 * staged + 21 * quads + 30)
        of_taps, stored = math.ceil(taps / 32), math.ceil(min(length, _SEGMENT) / 32)
        loaded = math.ceil(min(length, _SEGMENT + taps) / 32) + of_taps
        # A quad's inputs take 4 cycles, its taps, the same for all lanes, one; outputs are written, read and stored.
        cycles_of = side * (loaded + stored) + staged + of_taps + 5 * quads + 4 + 4 + stored
        work["shared"] = float(_ACCESS * segments * cycles_of)
        requested = least + 4 * outputs * (loads.inputs_met(length, taps, _SEGMENT) / min(_SEGMENT, length) - 1)
        requested += 4.0 * segments * taps
        cycles = 2 * MEMORY_LATENCY + CACHE_LATENCY + 64 * quads
        part = Part("warp-tiled", least, work, requested, math.ceil(segments / _WARPS), _RESIDENT, cycles, footprint=0)
    return _counted(part, outputs, taps, least)


def weight_grad(on: Peaks, *, variant: str, batch: int, channels: int, length: int, taps: int) -> Counted:
    """Count a stage of the gradient by the taps: sums over batch and length."""
    _check(on, variant, batch=batch, channels=channels, length=length, taps=taps)
    outputs = batch * channels * length
    read = 8.0 * outputs
    least = read + 4.0 * channels * taps
    work: dict[Unit, float] = {"fma": 2.0 * outputs * taps}
    steps = batch * length  # of a sum
    side = loads.side_by_side(on)
    if variant == "naive":
        blocks = math.ceil(channels / 32) * math.ceil(taps / 8)
        products = math.ceil(channels / 32) * taps * steps  # of warps
        work["instruction"] = 32.0 * products * (7.6 + 50 / length)
        met = loads.taps_met(length, taps, 1) / taps  # part of the inputs that are there
        work["shared"] = _ACCESS * products * loads.scattered(on, length) * (1 + met)
        # One thread sums a tap: its steps are a chain, which waits for memory once for 16 of them.
        cycles = steps * (_FUSED + MEMORY_LATENCY / 16)
        part = Part("naive", least, work, math.ceil(taps / 8) * read, blocks, _RESIDENT, cycles, footprint=0)
        return _counted(part, outputs, taps, least)
    if variant == "naive-by-row":
        blocks = math.ceil(channels * taps / _THREADS)
        products = math.ceil(channels * taps / 32) * steps
        work["instruction"] = 32.0 * products * (10.8 + 30 / length)
        # Threads of a warp have neighbouring taps: the last of them meets the earliest output.
        met = max(0.0, 1 - (taps - loads.taps_met_by_row(taps, taps)) / length)
        work["shared"] = _ACCESS * products * side * (1 + met)
        cycles = steps * (_FUSED + (MEMORY_LATENCY + _SHARED_LOAD) / 8)
        requested = least + read * (blocks - 1) / channels  # a block shares a channel with the next
        part = Part(variant, least, work, requested, blocks, _RESIDENT, cycles, footprint=0)
        return _counted(part, outputs, taps, least)
    shared_latency = _latency(taps if variant == "coalesced" else math.ceil(taps / _taps_of_block(variant, taps)))
    tree = 2.0 * _THREADS + 8 * _THREADS * 4  # of a block: sums into shared memory, then 8 steps of halves
    if variant == "coalesced":
        blocks, sequences, of_sequence = taps * channels, math.ceil(batch / 8), math.ceil(length / 32)
        own = sequences * of_sequence  # steps of a thread
        reduction = blocks * tree
        work["instruction"] = blocks * _THREADS * sequences * (19.0 * of_sequence + 18) + reduction
        met = loads.taps_met(length, taps, 32) / taps
        work["shared"] = _ACCESS * blocks * _WARPS * own * side * (1 + met)
        cycles = own * shared_latency + 8 * _BARRIER
        part = Part("coalesced", least, work, taps * read, blocks, _RESIDENT, cycles, reduction, footprint=0)
    elif variant == "blocked":
        of_block = _taps_of_block(variant, taps)
        groups = math.ceil(taps / of_block)
        blocks, tiles = groups * channels, batch * math.ceil(length / _THREADS)
        points = min(_THREADS, length)
        own = math.ceil(of_block * points / _THREADS)  # products of a thread and a tile
        reduction = blocks * tree
        work["instruction"] = blocks * tiles * _THREADS * (60 + 9.0 * own) + reduction
        staged = math.ceil(points / 32) + math.ceil((points + of_block) / 32)
        work["shared"] = _ACCESS * blocks * tiles * (_WARPS * 2.0 * own + staged * (side + 1))
        # A tile waits for dy, for x and for x's halo, one after the other; then product by product.
        of_tile = 3 * shared_latency + 2 * _BARRIER + own * (_SHARED_LOAD + _FUSED)
        part = Part("blocked", least, work, groups * read, blocks, _RESIDENT, tiles * of_tile, reduction, footprint=0)
    else:
        of_block = _taps_of_block(variant, taps)
        groups = math.ceil(taps / of_block)
        blocks, tiles = groups * channels, batch * math.ceil(length / _SEGMENT)  # of a block
        work["fma"] = 2.0 * blocks * tiles * _SEGMENT * of_block
        shuffles = 32.0 * _WARPS * blocks * of_block * (5 * 2 + 2)
        reduction = shuffles + blocks * tree
        # Of a lane and a tile: 9 numbers are staged at 8 each, 32 products, and what goes round them.
        work["instruction"] = 32.0 * blocks * tiles * (9 * 8 + 4 * of_block + 40) + reduction
        loaded = math.ceil(min(length, _SEGMENT) / 32) + math.ceil(min(length, _SEGMENT + of_block) / 32)
        work["shared"] = _ACCESS * blocks * tiles * (loaded * side + 9 + 4 * 4.0)
        of_tile = 3 * shared_latency + 200
        part = Part(
            "warp-tiled",
            least,
            work,
            groups * read,
            blocks,
            _RESIDENT_WARP_TILED,
            math.ceil(tiles / _WARPS) * of_tile,
            reduction,
            footprint=0,
        )
    return _counted(part, outputs, taps, least)


def forward_sizes(variant: str, sequences: Any, w: Any) -> dict[str, Any]:
    """Sizes of a call of the study's ``forward`` or ``input_grad``."""
    batch, channels, length = sequences.shape
    return {"variant": variant, "batch": batch, "channels": channels, "length": length, "taps": w.shape[1]}


def weight_grad_sizes(variant: str, x: Any, dy: Any, taps: int) -> dict[str, Any]:
    """Sizes of a call of the study's ``weight_grad``."""
    batch, channels, length = x.shape
    return {"variant": variant, "batch": batch, "channels": channels, "length": length, "taps": taps}


FORMULAS = {"forward": forward, "input_grad": forward, "weight_grad": weight_grad}
"""By path."""


def _naive(on: Peaks, batch: int, channels: int, length: int, taps: int, least: float, work: dict[Unit, float]) -> Part:
    """A thread's neighbour has the next channel: every number of a warp is of a sector, and a line, of its own."""
    groups, sector = math.ceil(channels / 32), _SECTOR // 4
    warps = batch * groups * length
    work["instruction"] = 32.0 * warps * (60 + 9 * taps)
    # Inputs and outputs lie L apart, taps K.
    of_inputs = (loads.taps_met(length, taps, 1) + 1) * loads.scattered(on, length)
    work["shared"] = _ACCESS * warps * (of_inputs + taps * loads.scattered(on, taps))
    # A block's 8 outputs of a channel meet so many inputs, of one sector more than they fill; each is written alone.
    met = math.ceil(loads.inputs_met(length, taps, 8) / sector) + 1
    outputs = batch * channels * length
    requested = outputs / 8 * met * _SECTOR + outputs * _SECTOR
    cycles = MEMORY_LATENCY + _FUSED * taps
    blocks = batch * groups * math.ceil(length / 8)
    return Part("naive", least, work, requested, blocks, _RESIDENT, cycles, footprint=0)


def _latency(reads: int) -> float:
    """Cycles of a load, on average over so many blocks that read the same: the first from memory."""
    return CACHE_LATENCY + (MEMORY_LATENCY - CACHE_LATENCY) / max(reads, 1)


def _taps_of_block(variant: str, taps: int) -> int:
    if variant == "warp-tiled":
        return 8
    return min(32, 1 << ((2 * taps - 1).bit_length() - 1))


def _counted(part: Part, outputs: int, taps: int, least: float) -> Counted:
    return Counted((part,), _SOURCE, textbook_flops=2.0 * outputs * taps, textbook_bytes=least)


def _check(on: Peaks, variant: str, **sizes: int) -> None:
    if variant not in VARIANTS:
        raise ValueError(f"variant must be one of {', '.join(VARIANTS)}; got {variant!r}")
    for name, size in sizes.items():
        core_check.count(name, size)
    if on.backend != "gpu":
        raise ValueError(f"the study's kernels run on a GPU; got the peaks of {on.name}: name a GPU")
