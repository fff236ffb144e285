"""Whether the CPU convolves by FFT, and the length of the transforms."""

from __future__ import annotations

import math

import numpy as np

from cukde.conv1d.choice import EXACT_TAPS
from cukde.conv1d.geometry import Geometry

# For each element and each bit of its length, a transform and its inverse take as long as so many taps of an output.
# Milliseconds, direct and by FFT, of two virtual cores of a Xeon with AVX-512, (B, C, L) = (4, 32, 16384):
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


def fft_length(g: Geometry, number: np.dtype) -> int | None:
    """Return the length of the transforms of a convolution in the dtype ``number``, or None for direct sums."""
    if g.stride > 1 or g.taps < _FEWEST_TAPS:
        return None
    span = g.reach + 1
    bits = math.ceil(math.log2(min(max(2 * span, min(_SPANS * span, _LONG)), g.outputs + g.reach)))
    new = min(2**bits - g.reach, g.outputs)  # outputs of a transform
    return 2**bits if g.taps * new > TAPS_OF_TRANSFORM[number.name] * bits * 2**bits else None


def transforms(g: Geometry, number: np.dtype) -> int | None:
    """Return the length of the transforms where they are faster and accurate enough, or None for direct sums."""
    return None if number == np.float64 and g.taps <= EXACT_TAPS else fft_length(g, number)
