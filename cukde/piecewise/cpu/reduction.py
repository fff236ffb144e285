"""Ranges of the exponential and the logarithm reduced, and values put together again, as :class:`Pieces` describes.

Loops have no branch and convert no number: an integer that is added to 1.5 2^t, t the bits of a mantissa, stands in the
last bits of the sum, from where it is moved into an exponent, or the other way round. Bits are unsigned integers, whose
sums and differences lose what does not fit.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numba import uint64

from cukde.core.cpu.jit import njit

_JIT: dict[str, Any] = {"nogil": True, "error_model": "numpy", "fastmath": {"contract"}, "cache": True}

# Beyond these the exponential is 0 or infinity.
_RANGE = {np.dtype(np.float32): (-105, 90), np.dtype(np.float64): (-747, 711)}
# Of log 2 the nine leading bits, so that products with exponents are exact, and the rest.
_LOG_2_HIGH = 355 / 512
_LOG_2_LOW = -2.1219444005469058277e-4


class Reduction(NamedTuple):
    """Constants in the dtype of the arithmetic, where plain numbers would make it float64."""

    is_exp: bool
    lowest: Any
    highest: Any
    per_log_2: Any
    log_2: Any
    log_2_high: Any
    log_2_low: Any
    magic: Any  # 1.5 2^t
    smallest: Any  # normal number
    subnormal: Any  # 2^t, which makes a subnormal number a normal one
    half: Any
    bias: Any  # of the exponent in the bits of a number
    bias_of_subnormal: Any  # with the power of two that was brought in
    zero: Any
    infinity: Any
    nan: Any


class Workspace(NamedTuple):
    """Two numbers for each point of a block, and the same memory as unsigned integers."""

    numbers: np.ndarray  # (2, block)
    bits: np.ndarray


def constants(name: str, dtype: np.dtype) -> Reduction:
    """Return what "exp" or "log" needs in float32 or float64."""
    info, number = np.finfo(dtype), dtype.type
    lowest, highest = _RANGE[dtype]
    power, bias = 2.0**info.nmant, info.maxexp - 1
    numbers = (
        *(lowest, highest, 1 / math.log(2), math.log(2), _LOG_2_HIGH, _LOG_2_LOW),
        *(1.5 * power, info.tiny, power, 0.5, bias, bias + info.nmant, 0, math.inf, math.nan),
    )
    return Reduction(name == "exp", *map(number, numbers))


def workspace(block: int, dtype: np.dtype) -> Workspace:
    """Return memory for one thread."""
    numbers = np.empty((2, block), dtype)
    return Workspace(numbers, numbers.view(f"u{dtype.itemsize}"))


@njit(**_JIT)
def reduce(x: Any, of: Any, work: Any, part: Any) -> None:
    """Write the part of each x that the polynomial is of; ``work`` keeps the power of two for :func:`restore`."""
    if of.is_exp:
        shifted = work.numbers[0]
        for p in range(x.size):
            a = of.lowest if x[p] < of.lowest else x[p]
            a = of.highest if a > of.highest else a
            shifted[p] = a * of.per_log_2 + of.magic
            n = shifted[p] - of.magic
            part[p] = (a - n * of.log_2_high) - n * of.log_2_low
        return
    mantissa, exponent = work.bits[0], work.bits[1]
    shift = uint64(np.finfo(x.dtype).nmant)
    bias = uint64(np.finfo(x.dtype).maxexp - 1)
    half, one = uint64(1) << (shift - uint64(1)), bias << shift
    magic = ((bias + shift) << shift) + half
    for p in range(x.size):
        work.numbers[0, p] = x[p] * of.subnormal if x[p] < of.smallest else x[p]
    for p in range(x.size):  # half the range of mantissas on: those from 3/2 belong to the next exponent
        exponent[p] = mantissa[p] + half
    for p in range(x.size):
        e = exponent[p] >> shift
        mantissa[p] = mantissa[p] - (e << shift) + one
        exponent[p] = e + magic
    for p in range(x.size):
        part[p] = work.numbers[0, p]


@njit(**_JIT)
def restore(x: Any, of: Any, work: Any, y: Any) -> None:
    """Make of the polynomials' values those of the function at x, in place."""
    if of.is_exp:
        # Two factors, for their product may be beyond the range of numbers; only the second can round.
        half = work.numbers[1]
        for p in range(y.size):
            half[p] = (work.numbers[0, p] - of.magic) * of.half + of.magic
        shift = uint64(np.finfo(x.dtype).nmant)
        one = uint64(np.finfo(x.dtype).maxexp - 1) << shift
        for p in range(y.size):
            first = work.bits[1, p]
            second = work.bits[0, p] - first
            work.bits[1, p] = (first << shift) + one
            work.bits[0, p] = (second << shift) + one
        for p in range(y.size):
            y[p] = y[p] * work.numbers[1, p] * work.numbers[0, p]
        return
    for p in range(y.size):
        a = x[p]
        n = work.numbers[1, p] - of.magic - (of.bias_of_subnormal if a < of.smallest else of.bias)
        value = y[p] + n * of.log_2
        outside = -of.infinity if a == of.zero else of.nan
        value = value if a > of.zero else outside
        y[p] = a if a == of.infinity else value
