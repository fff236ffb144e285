"""Which kernel takes a depthwise convolution: the plans of both backends, their thresholds, and the times behind them.

Microseconds on an H200 by outputs (rows, length) and taps, from ``python -m benchmarks.conv1d.crossover``::

                            (16384, 2048)                 (2048, 4096)           (128, 65536)
                            4      31     128    2048     31     512    4096     512    16384
    float16, direct         35     67     184    2685     19     179    1382     179    5511
      tensor cores          36     36     67     372      10     29     178      29     692
      Fourier               1525   1530   1417   1977     399    407    543      581    627
    float32, direct         67     73     185    2720     22     184    1402     185    5594
      tensor cores          131    131    163    1114     33     74     511      74     1988
      Fourier               2189   2185   1939   2959     569    587    897      865    968
    float64, direct         130    144    446    6470     41     422    3302     423    13200
      Fourier               2000   1999   1745   2753     523    539    833      814    913
    weights, float16        36     73     259                    260
      float32               65     73     256                    246
      float64               127    206    696

On a GPU the kernel of least estimated cost comes first.

Sums of products, direct or on tensor cores: each output takes the maximum of several linear functions of the number of
taps, the first of which is the time of memory. On tensor cores a short row takes as long as several groups of outputs:
rows (131072, 64) of float16 and 31 taps take 84 us, the time of 600 outputs in each row.

Fourier transforms, in float64 for float32: a time for each place of a padded row, and one for the calls. The transform
of a whole row is less accurate than sums, see ``conv1d/gpu/fft.py``, and must be faster by a margin.

This module needs neither a GPU nor CuPy, since the performance model uses it too.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

import numpy as np

from cukde.conv1d.geometry import Geometry
from cukde.core.dtypes import arithmetic
from cukde.core.plan import Candidate, Plan, forced

EXACT_TAPS = 512
"""The most taps for which errors in float64 are relative to an output's own terms, as those of transforms are not."""

Pass = Literal["forward", "input_grad", "weight_grad"]
Engine = Literal["direct", "toeplitz", "fft"]

# Conditions on the data, and reasons that several kernels have.
ALIGNED = "arrays begin at multiples of 16 bytes"
FINITE = "numbers are finite and do not overflow; a chunk that has others is summed directly"
_BLC, _ANY_STRIDE = "layout BLC", "a stride above 1"
_INEXACT = f"float64 of at most {EXACT_TAPS} taps: errors would be relative to whole rows"


class _Line(NamedTuple):
    """Picoseconds for each output, linear in the number of taps."""

    start: float
    tap: float = 0

    def __call__(self, taps: int) -> float:
        return self.start + self.tap * taps


# By the bits of the dtype.
_DIRECT = {
    16: (_Line(1.05), _Line(0.85, 0.038)),
    32: (_Line(2.0), _Line(0.5, 0.0395)),
    64: (_Line(3.9), _Line(0.7, 0.094)),
}
_WEIGHTS = {
    16: (_Line(1.05), _Line(0.45, 0.0585)),
    32: (_Line(1.95), _Line(0.4, 0.0565)),
    64: (_Line(3.8), _Line(1.6, 0.147)),
}
# By taps including the zeros that fill their blocks.
_TOEPLITZ = {
    16: (_Line(1.3, 0.0047),),
    32: (_Line(3.3, 0.0103), _Line(0.2, 0.0159)),
}
# float16 has CUDA kernels of its own for few taps, direct and on tensor cores.
_MORE_TAPS = _Line(1.35)
_SHORT_TOEPLITZ = _Line(1.15)
# For float16 rows whose length is not a multiple of the vector length.
_RAGGED, _RAGGED_TOEPLITZ = _Line(3.4), _Line(2.2)
_LEAST_OUTPUTS = 600  # in a row on tensor cores; shorter rows take as long
_FOURIER = {16: 40.0, 32: 64.0, 64: 58.0}  # picoseconds for each place, padding and copies included
_FOURIER_CALLS = 1.5e8  # a dozen launches from Python, in picoseconds
_LEAST_GAIN = 1.5

# Devices whose float64 is half as fast as float32. On others it is a sixty-fourth, most of which memory hides in
# transforms.
_FAST_DOUBLES = ((6, 0), (7, 0), (8, 0), (9, 0), (10, 0))
_SLOWER_SUMS, _SLOWER_TRANSFORMS = 32, 4


# The CUDA kernels on tensor cores, toeplitz.cuh: outputs that share a block of taps, outputs of a matrix product, most
# places by which taps slip for alignment, and most taps of the kernel for few taps, in its three blocks.
ROW = 32
GROUP = 8 * ROW
MOST_SLIP = 7
MOST_SHORT_TAPS = 3 * ROW - 1 - 30 - MOST_SLIP
# Warps of a block at most, and groups of a warp, by bits and whether the device is one since 9.0: with more groups it
# reads less of shared memory for each product, but for float32 compilers find enough registers there alone.
TOEPLITZ_WARPS, SHORT_GROUPS = 4, 8
TOEPLITZ_GROUPS = {(16, False): 4, (16, True): 4, (32, False): 2, (32, True): 4}
_MOST_BLOCKS = 2**31 - 1  # of a grid
_MOST_REACHED = 2**30  # places in a row, which these kernels count in int32


# Of direct sums, rows.cu: outputs of a block, by bits; rows shorter than this part of them leave more threads idle than
# its registers save.
TILE = {16: 2048, 32: 1024, 64: 512}
_SHARE_OF_TILE = 4
FEW_TAPS = 4  # that few_taps.cu and weight_grad_few_taps.cu are compiled for
OWN_CHANNELS_LAST = {16: 4, 32: 8, 64: 4}  # outputs of a thread of channels_last.cu with vectors
MOST_BLOCKS_ASIDE = 65535  # of the second and third dimension of a grid
MOST_ROWS = 2**31 - 1  # which few_taps.cu and short_rows.cu count in 32 bits
_MOST_POSITIONS = 2**29  # of a padded row and of what taps reach, which kernels of stride 1 count in 32 bits

# Of few_taps.cu: slabs and most warps of a block. Of short_rows.cu: threads of a block and its shared memory, and rows
# of a channel at least, as neighbouring threads have neighbouring rows.
LANES, SLABS, _MOST_WARPS = 32, 4, 8
SHORT_ROWS_THREADS, _SHORT_ROWS_BYTES = 128, 48 * 1024  # which every device has
_FEWEST_SHORT_ROWS = 4

# Of the gradient of the weights: outputs of a tile of weight_grad.cu, by bits, and of weight_grad_few_taps.cu; outputs
# of a lane of weight_grad_short_rows.cu, and its longest rows. Those of half a tile leave half of the lanes idle. Of
# sequences that fill less of a tile than a quarter, and are too few to fill one together, one output a lane is faster.
OUTPUTS_OF_TILE = {16: 512, 32: 512, 64: 256}
OUTPUTS_OF_FEW_TAPS = 1024
OWN_OF_SHORT_ROWS, _SHORT_OUTPUTS = 16, 256
_LEAST_SHARE_OF_TILE = 0.25
# Its threads of a block, outputs of a chunk, taps of a block of short rows, and what an output costs beside its
# multiply-adds, in those. Blocks that a launch is cut into where it is large enough, a few waves of a large device, and
# the outputs of a thread at most, which bound a chain of sums.
WEIGHT_THREADS, WEIGHT_THREADS_CHANNELS_LAST, _WEIGHT_CHUNK = 128, 256, 128
WEIGHT_TAPS_SHORT_ROWS = (4, 32)
_COST_OF_WEIGHT_OUTPUT = 12
WEIGHT_BLOCKS, _MOST_WEIGHT_OUTPUTS = 2048, 1024

# On the CPU, for each element and each bit of its length, a transform and its inverse take as long as so many taps of
# an output. Milliseconds, direct and by FFT, of two virtual cores of a Xeon with AVX-512, (B, C, L) = (4, 32, 16384):
#   K          128     256     512     1024
#   float32  16, 20  31, 24  56, 25  111, 31
#   float64  21, 27  41, 25  83, 32  256, 36
# and (16, 128, 1024), where most of a transform is zeros:
#   float32  16, 35  28, 27  41, 38   82, 35
#   float64  21, 37  38, 36  74, 33  136, 35
TAPS_OF_TRANSFORM = {"float32": 20, "float64": 14}
_FEWEST_TAPS = 64

# Length of a transform relative to the taps, and the length above which it is only twice as long as the taps: the
# fastest of 2, 4 and 8 times, for 512, 1,024 and 4,096 taps of either dtype.
_SPANS, _LONG = 8, 2**12


# ------------------------------------------------------------------------------------------------------ on a GPU


@functools.lru_cache(maxsize=1024)  # a plan takes longer than a small CUDA kernel
def on_gpu(direction: Pass, dtype: Any, geometry: Geometry, capability: tuple[int, int]) -> Plan:
    """Plan a pass on a device of a compute capability: kernels of ``kernels_cu/conv1d`` by their names, and "fft".

    Parameters
    ----------
    direction : {"forward", "input_grad", "weight_grad"}
    dtype : dtype
        float16, float32 or float64.
    capability : tuple of int
        Compute capability of the device.
    """
    g, bits = geometry, 8 * np.dtype(dtype).itemsize
    rows = g.batch * g.channels
    row = g.length if direction == "input_grad" and g.stride == 1 else g.outputs
    slow = bits > 16 and capability not in _FAST_DOUBLES
    ragged = bits == 16 and not g.channels_last and (g.length % 8 > 0 or g.outputs % 8 > 0)

    by_sums = rows * row * _output_time("weights" if direction == "weight_grad" else "direct", bits, g.taps, ragged)
    if slow and bits == 64:
        by_sums *= _SLOWER_SUMS
    candidates, cost = list(_timed(sums(direction, g, bits), by_sums)), by_sums
    if direction != "weight_grad":
        name, refused = toeplitz_kernel(bits, g.taps), _why_no_tensor_cores(bits, g, capability)
        toeplitz = 0.0 if refused else rows * max(row, _LEAST_OUTPUTS) * _output_time("toeplitz", bits, g.taps, ragged)
        first = not refused and toeplitz < cost
        cost = toeplitz if first else cost
        candidates.insert(
            0 if first else len(candidates), Candidate(name, None if refused else _ms(toeplitz), "", refused)
        )
    transforms = _FOURIER_CALLS + _FOURIER[bits] * rows * places(direction, g) * (_SLOWER_TRANSFORMS if slow else 1)
    refused = _INEXACT if bits == 64 and g.taps <= EXACT_TAPS else ""
    first = not refused and _LEAST_GAIN * transforms < cost
    candidates.insert(0 if first else len(candidates), Candidate("fft", _ms(transforms), "", refused))
    return Plan(_subject(direction, dtype, g), tuple(candidates))


_ENGINES: dict[str, Engine] = {"toeplitz": "toeplitz", "toeplitz_short": "toeplitz", "fft": "fft"}


def engine(direction: Pass, dtype: Any, geometry: Geometry, capability: tuple[int, int]) -> Engine:
    """The module that takes a pass."""
    return _ENGINES.get(on_gpu(direction, dtype, geometry, capability).first(ALIGNED), "direct")


@functools.lru_cache(maxsize=1024)
def sums(direction: Pass, g: Geometry, bits: int) -> tuple[Candidate, ...]:
    """The kernels of direct sums, in order; the last one takes what is left.

    ``few_taps`` takes 11 instructions an output, of float16 and 4 taps. ``rows`` takes 24, and is slower than memory.
    In float32 it keeps up with memory from a whole tile on, and leaves threads idle where rows are shorter: of these
    ``short_rows`` has several in a block. ``strided`` sums with a load of x for every product. Of the gradients of the
    weights, ``weight_grad_few_taps`` is for float16 alone: in float32 memory binds with either kernel.
    """
    if direction == "weight_grad":
        return _sums_of_weights(g, bits)
    if direction == "input_grad":
        if g.stride > 1:
            return (Candidate("strided_input_grad"),)
        g = adjoint(g)
    if g.batch * g.channels <= 0 or g.outputs <= 0:
        return (Candidate("strided"),)  # which is not launched
    if g.channels == 1:  # both layouts are the same
        g = g._replace(channels_last=False)
    positions = g.length + abs(g.before) + abs(g.after) + g.reach
    general = _ANY_STRIDE if g.stride > 1 else ""
    if positions > _MOST_POSITIONS:
        general = general or f"more than {_MOST_POSITIONS:,} positions"
    of_rows = general or (_BLC if g.channels_last else "a dilation above 1" if g.dilation > 1 else "")
    filled = g.outputs >= TILE[bits] // _SHARE_OF_TILE
    few = of_rows or _why_not_few_taps(g, bits)
    if g.channels_last:
        too_short = g.outputs < OWN_CHANNELS_LAST[bits] * g.dilation
        last = general or ("rows that are shorter than the window of a thread" if too_short else "")
    else:
        last = general or "layout BCL"
    whole = of_rows or ("" if filled else f"rows of fewer than {TILE[bits] // _SHARE_OF_TILE} outputs")
    whole = whole or ("" if max(g.batch, g.channels) <= MOST_BLOCKS_ASIDE else "more rows than a grid has blocks aside")
    short = of_rows or ("rows that fill a block" if filled else "float64" if bits == 64 else "")
    short = short or ("" if cut_short_rows(g, bits) else "too few rows, or too few that fit in a block")
    return (
        Candidate("few_taps", None, ALIGNED, few),
        Candidate("channels_last", refused=last),
        Candidate("rows", refused=whole),
        Candidate("short_rows", refused=short),
        Candidate("strided"),
    )


def sums_kernel(direction: Pass, g: Geometry, bits: int, aligned: bool) -> str:
    """The kernel of direct sums, for arrays that are aligned to 16 bytes or not; of input gradients by the adjoint."""
    return Plan("", sums(direction, g, bits)).first(*((ALIGNED,) if aligned else ()))


@functools.lru_cache(maxsize=1024)
def adjoint(g: Geometry) -> Geometry:
    """The convolution of stride 1 that takes gradients by y to gradients by x."""
    return g._replace(length=g.outputs, before=g.reach - g.before, after=g.reach - g.after, flip=not g.flip)


def toeplitz_kernel(bits: int, taps: int) -> str:
    """The kernel on tensor cores."""
    return "toeplitz_short" if bits == 16 and taps <= MOST_SHORT_TAPS else "toeplitz"


def tensor_cores_serve(dtype: Any, geometry: Geometry, capability: tuple[int, int]) -> bool:
    """Whether tensor cores can compute these sizes, both the outputs and the gradient of the inputs."""
    return not _why_no_tensor_cores(8 * np.dtype(dtype).itemsize, geometry, capability)


def _why_no_tensor_cores(bits: int, g: Geometry, capability: tuple[int, int]) -> str:
    rows, longest = g.batch * g.channels, max(g.length, g.outputs)
    if bits == 64:
        return "float64"
    if capability < (8, 0):
        return "a compute capability below 8.0"
    if g.stride > 1 or g.dilation > 1:
        return "a stride or a dilation above 1"
    if g.channels_last:
        return _BLC
    too_many = rows * (longest // GROUP + 2) > _MOST_BLOCKS or longest + g.taps + g.before > _MOST_REACHED
    return "more rows than a grid has blocks, or positions in them than 2^30" if too_many else ""


def _why_not_few_taps(g: Geometry, bits: int) -> str:
    """Why few_taps.cu does not convolve rows of stride and dilation 1."""
    width = 128 // bits
    if bits == 64:
        return "float64"
    if g.taps > FEW_TAPS:
        return f"more than {FEW_TAPS} taps"
    if not 0 <= g.before < g.taps or g.length % width or g.outputs % width:
        return "rows that are not whole vectors, or padding beyond the taps"
    _, *aside = cut_few_taps(g, bits).grid
    if max(aside) > MOST_BLOCKS_ASIDE or g.batch * g.channels > MOST_ROWS:
        return "more rows than a grid has blocks aside"
    return "" if bits == 16 or g.outputs < TILE[bits] else "rows of whole tiles keep up with memory"


def _sums_of_weights(g: Geometry, bits: int) -> tuple[Candidate, ...]:
    plain = "" if g.stride == g.dilation == 1 else "a stride or a dilation above 1"
    of_rows = _BLC if g.channels_last else plain
    few = (
        of_rows or ("" if bits == 16 else "not float16") or ("" if g.taps <= FEW_TAPS else f"more than {FEW_TAPS} taps")
    )
    whole = g.length % 8 == g.outputs % 8 == 0 and 0 <= g.before < g.taps
    few = few or ("" if whole else "rows that are not whole vectors, or padding beyond the taps")
    few = few or ("" if g.outputs >= OUTPUTS_OF_FEW_TAPS // 2 else f"fewer than {OUTPUTS_OF_FEW_TAPS // 2} outputs")
    short = of_rows or ("float64" if bits == 64 else "")
    short = short or ("" if g.outputs <= _SHORT_OUTPUTS else f"more than {_SHORT_OUTPUTS} outputs")
    short = short or ("" if g.batch * -(-g.outputs // OWN_OF_SHORT_ROWS) >= LANES else "too few rows to fill a warp")
    fewest = _LEAST_SHARE_OF_TILE * OUTPUTS_OF_TILE[bits]
    tiles = of_rows or ("" if g.outputs >= fewest else f"fewer than {fewest:.0f} outputs")
    return (
        Candidate("weight_grad_channels_last", refused="" if g.channels_last else "layout BCL"),
        Candidate("weight_grad_few_taps", None, ALIGNED, few),
        Candidate("weight_grad_short_rows", refused=short),
        Candidate("weight_grad", refused=tiles),
        Candidate("weight_grad_strided", refused=_BLC if g.channels_last else ""),
    )


def _timed(candidates: tuple[Candidate, ...], picoseconds: float) -> Iterator[Candidate]:
    """Candidates, of which the first that serves has the time of the table."""
    ms: float | None = _ms(picoseconds)
    for one in candidates:
        yield one if one.refused else one._replace(ms=ms)
        ms = ms if one.refused else None


def _ms(picoseconds: float) -> float:
    return 1e-9 * picoseconds


def _subject(direction: Pass, dtype: Any, g: Geometry) -> str:
    names = {"forward": "Convolution", "input_grad": "Gradient by the input", "weight_grad": "Gradient by the taps"}
    rows = f"{g.batch:,} x {g.channels:,} rows of {g.length:,} {np.dtype(dtype).name}"
    return f"{names[direction]}: {rows}, {g.taps:,} taps"


class CutFewTaps(NamedTuple):
    """How few_taps.cu cuts rows over warps."""

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    along: int  # slabs of a warp that lie in one row
    lane_bits: int  # binary logarithm of the lanes of a row


def cut_few_taps(g: Geometry, bits: int) -> CutFewTaps:
    """Cut rows over warps of few_taps.cu."""
    vectors = max(g.length, g.outputs) * bits // 128
    slabs = -(-vectors // LANES)
    along = slabs if slabs <= 2 else SLABS
    lane_bits = (min(vectors, LANES) - 1).bit_length()
    warps_of_row, bands = -(-slabs // along), -(-g.channels // (LANES >> lane_bits))
    blocks = -(-warps_of_row // _MOST_WARPS)
    warps = -(-warps_of_row // blocks)
    beside = min(_MOST_WARPS // warps, bands)
    items = SLABS // along
    return CutFewTaps((blocks, -(-bands // beside), -(-g.batch // items)), (LANES, warps, beside), along, lane_bits)


class CutShortRows(NamedTuple):
    """How short_rows.cu has rows in shared memory."""

    grid: tuple[int]
    block: tuple[int, int]
    first_tap: int  # of those that meet an input
    taps: int
    pitch: int  # in rows of 16 bytes, from a row of the input to the next
    vectors: int  # of an input's row that are staged, with the zeros beside
    bytes: int  # of shared memory


def cut_short_rows(g: Geometry, bits: int) -> CutShortRows | None:
    """Cut rows over blocks of short_rows.cu; None where there are too few, or too few fit in shared memory."""
    first_tap = max(g.before - g.outputs + 1, 0)
    taps = max(min(g.before + g.length, g.taps) - first_tap, 0)
    threads, tap_rows, rows_of_vector = -(-g.outputs // 16), -(-taps // 4), 32 // bits
    # Four rows of outputs a thread, those that further taps meet, and as many as a vector has, within which they begin.
    vectors = -(-(4 * threads + tap_rows + rows_of_vector) // rows_of_vector)
    pitch = vectors * rows_of_vector | 1
    most = min(SHORT_ROWS_THREADS // threads, (_SHORT_ROWS_BYTES // 16 - tap_rows) // pitch)
    if min(most, g.batch) < _FEWEST_SHORT_ROWS:
        return None
    # A warp of one place of 32 rows, or threads of one place of eight, which meet all banks.
    step = next(count for count in (LANES, 8, _FEWEST_SHORT_ROWS) if count <= most)
    rows = min(most // step * step, -(-g.batch // _FEWEST_SHORT_ROWS) * _FEWEST_SHORT_ROWS)
    blocks = g.channels * -(-g.batch // rows)
    if max(blocks, g.batch) > MOST_ROWS:
        return None
    shared_bytes = 16 * (rows * pitch + tap_rows)
    return CutShortRows((blocks,), (rows, threads), first_tap, taps, pitch, vectors, shared_bytes)


class CutToeplitz(NamedTuple):
    """How kernels on tensor cores divide rows."""

    short: bool  # whether it is the kernel for few taps
    tap_blocks: int  # of 32 taps, zeros included
    groups: int  # of 256 outputs, of a warp
    warps: int  # of a block
    segments: int  # of a row
    blocks: int


def cut_toeplitz(g: Geometry, bits: int, newer: bool, aligned: bool = True) -> CutToeplitz:
    """Divide rows for toeplitz.cu or toeplitz_short.cu; ``newer``: on a device since 9.0."""
    vector, short = 128 // bits, toeplitz_kernel(bits, g.taps) == "toeplitz_short"
    # A row of y that is not aligned is cut where it is: up to a vector before its first number.
    reached = g.outputs if g.outputs % vector == 0 else g.outputs + vector - 1
    slip = -g.before % vector if aligned and g.length % vector == g.outputs % vector == 0 else vector - 1
    tap_blocks = (g.taps + 30 + slip) // ROW + 1
    if short:
        segments = -(-reached // (SHORT_GROUPS * GROUP))
        warps = min(TOEPLITZ_WARPS, g.batch * segments)
        blocks = g.channels * -(-g.batch * segments // warps)
        return CutToeplitz(True, max(2, tap_blocks), SHORT_GROUPS, warps, segments, blocks)
    groups = TOEPLITZ_GROUPS[bits, newer]
    warps = min(TOEPLITZ_WARPS, -(-reached // (groups * GROUP)))
    segments = -(-reached // (warps * groups * GROUP))
    return CutToeplitz(False, tap_blocks, groups, warps, segments, g.batch * g.channels * segments)


class CutWeights(NamedTuple):
    """How the sums of a gradient of the weights are cut over blocks."""

    block_taps: int
    groups: int  # of taps, each of which reads x and dy
    units: int  # of work
    each: int  # units of a block
    splits: int  # parts that the sums of a channel are in
    blocks: int


def cut_weights(kernel: str, g: Geometry, bits: int) -> CutWeights:
    """Cut sums over blocks: units of work, in multiples of the fewest that fill a block, into about ``WEIGHT_BLOCKS``.

    In float64 memory binds with sums of sixteen taps, too, and twice as many do not fit in shared memory.
    """
    offered: tuple[int, ...] = (16,) if bits == 64 else (4, 16, 32)
    taps, residues, rows, beside = g.taps, 1, g.channels, g.channels
    fewest, own, units = WEIGHT_THREADS // 32, OUTPUTS_OF_TILE[bits] // 32, 0  # own: outputs of a thread
    if kernel == "weight_grad_channels_last":
        tap_step, output_step, width = steps_of_weights(g)
        taps, residues, rows = -(-g.taps // tap_step), min(tap_step, g.taps), -(-g.channels // width)
        chain = -(-g.outputs // output_step)  # outputs that share inputs
        units = g.batch * min(output_step, g.outputs) * -(-chain // _WEIGHT_CHUNK)
        beside, fewest, own = rows, WEIGHT_THREADS_CHANNELS_LAST // width, min(chain, _WEIGHT_CHUNK)
    elif kernel == "weight_grad_few_taps":
        # Half as many outputs a block as elsewhere: six blocks of a multiprocessor wait for memory at a time.
        offered, beside, own = (taps,), -(-g.channels // 2), OUTPUTS_OF_FEW_TAPS // 32
    elif kernel == "weight_grad_short_rows":
        offered, units, own = WEIGHT_TAPS_SHORT_ROWS, g.batch, OWN_OF_SHORT_ROWS
        fewest *= 32 // -(-g.outputs // own)
    elif kernel == "weight_grad_strided":
        offered, units, fewest, own = offered[:2], g.batch * g.outputs, WEIGHT_THREADS, 1
    units = units or g.batch * -(-g.outputs // (32 * own))
    block_taps = min(offered, key=lambda count: -(-taps // count) * (count + _COST_OF_WEIGHT_OUTPUT))
    groups = residues * -(-taps // block_taps)
    each = -(-units * beside * groups // WEIGHT_BLOCKS)
    each = min(max(-(-each // fewest) * fewest, fewest), fewest * (_MOST_WEIGHT_OUTPUTS // own))
    splits = -(-units // each)
    return CutWeights(block_taps, groups, units, each, splits, splits * rows * groups)


def steps_of_weights(g: Geometry) -> tuple[int, int, int]:
    """Of weight_grad_channels_last.cu: steps of taps and outputs that share inputs, and neighbouring channels."""
    common = math.gcd(g.stride, g.dilation)
    return g.stride // common, g.dilation // common, min(32, 1 << (g.channels - 1).bit_length())


# ----------------------------------------------------------------------------------------------------- on the CPU


@functools.lru_cache(maxsize=1024)
def on_cpu(direction: Pass, dtype: Any, geometry: Geometry) -> Plan:
    """Plan a pass on the CPU: sums in Numba, or transforms of chunks of rows."""
    g, number = geometry, arithmetic(np.dtype(dtype))
    candidates: tuple[Candidate, ...] = (Candidate("spread"),)
    if direction != "input_grad" or g.stride == 1:
        of_rows = adjoint(g) if direction == "input_grad" else g
        candidates = Candidate("fft", None, FINITE, _why_no_transforms(of_rows, number)), Candidate("direct")
    return Plan(_subject(direction, dtype, g), candidates)


def transforms(g: Geometry, number: np.dtype) -> int | None:
    """Length of the transforms of a convolution in the dtype ``number``, or None for direct sums."""
    asked = forced(("fft", "direct"))
    if asked is None:
        return None if _why_no_transforms(g, number) else fft_length(g)
    return fft_length(g) if asked == "fft" and g.stride == 1 else None


@functools.lru_cache(maxsize=1024)
def _why_no_transforms(g: Geometry, number: np.dtype) -> str:
    if number == np.float64 and g.taps <= EXACT_TAPS:
        return _INEXACT
    if g.stride > 1:
        return _ANY_STRIDE
    if g.taps < _FEWEST_TAPS:
        return f"fewer than {_FEWEST_TAPS} taps"
    length = fft_length(g)
    new = min(length - g.reach, g.outputs)  # outputs of a transform
    faster = g.taps * new > TAPS_OF_TRANSFORM[number.name] * (length.bit_length() - 1) * length
    return "" if faster else "direct sums take less"


def fft_length(g: Geometry) -> int:
    """Length of a transform: a power of two."""
    span = g.reach + 1
    return 2 ** math.ceil(math.log2(min(max(2 * span, min(_SPANS * span, _LONG)), g.outputs + g.reach)))


# ------------------------------------------------------------------------------------------------------- the table


def _output_time(sums: Literal["direct", "weights", "toeplitz"], bits: int, taps: int, ragged: bool) -> float:
    """Picoseconds for each output."""
    if sums == "toeplitz":
        short = bits == 16 and taps <= MOST_SHORT_TAPS
        lines: tuple[_Line, ...] = (_SHORT_TOEPLITZ,) if short else _TOEPLITZ[bits]
        lines += (_RAGGED_TOEPLITZ,) * ragged
        taps = _in_blocks(taps)
    else:
        lines = (_WEIGHTS if sums == "weights" else _DIRECT)[bits]
        lines += (_MORE_TAPS,) * (bits == 16 and taps > FEW_TAPS) + (_RAGGED,) * ragged
    return max(line(taps) for line in lines)


def _in_blocks(taps: int) -> int:
    """Taps including the zeros that fill their blocks: on average half a block more."""
    return 32 * ((taps + 30) // 32 + 1)


def places(direction: Pass, geometry: Geometry) -> int:
    """Length of the transform of a row on a GPU."""
    spread = (geometry.outputs - 1) * geometry.stride + 1
    if direction == "forward":
        return fast_length(geometry.length + geometry.reach)
    return fast_length(spread + (geometry.reach if direction == "input_grad" else geometry.length))


def fast_length(n: int) -> int:
    """Return the least length of at least ``n`` without prime factors above 5, whose transforms are fast."""
    best = 1 << (n - 1).bit_length() if n > 1 else 1
    fives = 1
    while fives < best:
        odd = fives
        while odd < best:
            twos = -(-n // odd)
            best = min(best, odd << (twos - 1).bit_length() if twos > 1 else odd)
            odd *= 3
        fives *= 5
    return best
