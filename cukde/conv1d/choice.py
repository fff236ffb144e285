"""The choice of the fastest engine of a depthwise convolution on a GPU, and the times behind it.

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

The choice is the engine of least estimated cost.

Sums of products, direct or on tensor cores: each output takes the maximum of several linear functions of the number of
taps, the first of which is the time of memory. On tensor cores a short row takes as long as several groups of outputs:
rows (131072, 64) of float16 and 31 taps take 84 us, the time of 600 outputs in each row.

Fourier transforms, in float64 for float32: a time for each place of a padded row, and one for the calls. The transform
of a whole row is less accurate than sums, see ``conv1d/gpu/fft.py``, and must be faster by a margin.

This module needs neither a GPU nor CuPy, since the performance model uses it too.
"""

from __future__ import annotations

import functools
from typing import Any, Literal, NamedTuple

import numpy as np

from cukde.conv1d.geometry import Geometry

EXACT_TAPS = 512
"""The most taps for which errors in float64 are relative to an output's own terms, as those of transforms are not."""

Pass = Literal["forward", "input_grad", "weight_grad"]
Engine = Literal["direct", "toeplitz", "fft"]


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
_FEW_TAPS, _MORE_TAPS = 4, _Line(1.35)
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
_MOST_BLOCKS = 2**31 - 1  # of a grid
_MOST_REACHED = 2**30  # places in a row, which these kernels count in int32


@functools.lru_cache(maxsize=1024)  # a choice takes as long as a small CUDA kernel
def engine(direction: Pass, dtype: Any, geometry: Geometry, capability: tuple[int, int]) -> Engine:
    """Choose the engine of a pass.

    Parameters
    ----------
    direction : {"forward", "input_grad", "weight_grad"}
    dtype : dtype
        float16, float32 or float64.
    capability : tuple of int
        Compute capability of the device.
    """
    bits = 8 * np.dtype(dtype).itemsize
    taps, rows = geometry.taps, geometry.batch * geometry.channels
    row = geometry.length if direction == "input_grad" and geometry.stride == 1 else geometry.outputs
    results = rows * row
    slow = bits > 16 and capability not in _FAST_DOUBLES

    sums: Engine = "direct"
    ragged = bits == 16 and not geometry.channels_last and (geometry.length % 8 > 0 or geometry.outputs % 8 > 0)
    cost = results * _output_time("weights" if direction == "weight_grad" else "direct", bits, taps, ragged)
    if slow and bits == 64:
        cost *= _SLOWER_SUMS
    if direction != "weight_grad" and tensor_cores_serve(dtype, geometry, capability):
        toeplitz = rows * max(row, _LEAST_OUTPUTS) * _output_time("toeplitz", bits, taps, ragged)
        if toeplitz < cost:
            sums, cost = "toeplitz", toeplitz
    transforms = _FOURIER_CALLS + _FOURIER[bits] * rows * _places(direction, geometry) * (
        _SLOWER_TRANSFORMS if slow else 1
    )
    exact = bits == 64 and taps <= EXACT_TAPS
    return "fft" if _LEAST_GAIN * transforms < cost and not exact else sums


def _output_time(sums: Literal["direct", "weights", "toeplitz"], bits: int, taps: int, ragged: bool) -> float:
    """Picoseconds for each output."""
    if sums == "toeplitz":
        short = bits == 16 and taps <= MOST_SHORT_TAPS
        lines: tuple[_Line, ...] = (_SHORT_TOEPLITZ,) if short else _TOEPLITZ[bits]
        lines += (_RAGGED_TOEPLITZ,) * ragged
        taps = _in_blocks(taps)
    else:
        lines = (_WEIGHTS if sums == "weights" else _DIRECT)[bits]
        lines += (_MORE_TAPS,) * (bits == 16 and taps > _FEW_TAPS) + (_RAGGED,) * ragged
    return max(line(taps) for line in lines)


def _in_blocks(taps: int) -> int:
    """Taps including the zeros that fill their blocks: on average half a block more."""
    return 32 * ((taps + 30) // 32 + 1)


def _places(direction: Pass, geometry: Geometry) -> int:
    """Length of the transform of a row."""
    spread = (geometry.outputs - 1) * geometry.stride + 1
    if direction == "forward":
        return fast_length(geometry.length + geometry.reach)
    return fast_length(spread + (geometry.reach if direction == "input_grad" else geometry.length))


def tensor_cores_serve(dtype: Any, geometry: Geometry, capability: tuple[int, int]) -> bool:
    """Whether tensor cores can compute these sizes, both the outputs and the gradient of the inputs."""
    rows, longest = geometry.batch * geometry.channels, max(geometry.length, geometry.outputs)
    return (
        np.dtype(dtype) in (np.float16, np.float32)
        and capability >= (8, 0)
        and geometry.stride == geometry.dilation == 1
        and not geometry.channels_last
        and rows * (longest // GROUP + 2) <= _MOST_BLOCKS
        and longest + geometry.taps + geometry.before <= _MOST_REACHED
    )


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
