"""Range reduction of the exponential and the logarithm, as :class:`Pieces` describes it.

Loops have no branches and no conversions. Where t is the number of mantissa bits, an integer added to 1.5 2^t stands in
the last bits of the sum, from where shifts move it into an exponent; the logarithm goes the other way. Bits are
unsigned integers with modular arithmetic.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numba import uint64

from cukde.core.cpu.jit import njit

_JIT: dict[str, Any] = {"nogil": True, "error_model": "numpy", "fastmath": {"contract"}, "cache": True}

# Outside these ranges the exponential is 0 or infinity.
_RANGE = {np.dtype(np.float32): (-105, 90), np.dtype(np.float64): (-747, 711)}
# The nine leading bits of log 2, whose products with exponents are exact, and the rest of it.
_LOG_2_HIGH = 355 / 512
_LOG_2_LOW = -2.1219444005469058277e-4


class Reduction(NamedTuple):
    """Constants in the dtype of the arithmetic, which plain numbers would turn into float64."""

    is_exp: bool
    lowest: Any
    highest: Any
    per_log_2: Any
    log_2: Any
    log_2_high: Any
    log_2_low: Any
    magic: Any  # 1.5 2^t
    smallest: Any  # normal number
    subnormal: Any  # 2^t, the factor that makes subnormal numbers normal
    half: Any
    bias: Any  # of the exponent in the bits of a number
    bias_of_subnormal: Any  # with the power of that factor
    zero: Any
    infinity: Any
    nan: Any


class Workspace(NamedTuple):
    """Two numbers for each point of a block, and a view of their bits; and its reduced argument."""

    numbers: np.ndarray  # (2, block)
    bits: np.ndarray
    argument: np.ndarray  # (block,)


def constants(name: str, dtype: np.dtype) -> Reduction:
    """Return the constants of "exp" or "log" in float32 or float64."""
    info, number = np.finfo(dtype), dtype.type
    lowest, highest = _RANGE[dtype]
    power, bias = 2.0**info.nmant, info.maxexp - 1
    numbers = (
        *(lowest, highest, 1 / math.log(2), math.log(2), _LOG_2_HIGH, _LOG_2_LOW),
        *(1.5 * power, info.tiny, power, 0.5, bias, bias + info.nmant, 0, math.inf, math.nan),
    )
    return Reduction(name == "exp", *map(number, numbers))


def workspace(block: int, dtype: np.dtype) -> Workspace:
    """Return the workspace of one thread."""
    numbers = np.empty((2, block), dtype)
    return Workspace(numbers, numbers.view(f"u{dtype.itemsize}"), np.empty(block, dtype))


@njit(**_JIT)
def reduce(x: Any, constant: Any, work: Any, part: Any) -> None:
    """Write the reduced argument of each x; ``work`` keeps the power of two for :func:`restore`."""
    if constant.is_exp:
        shifted = work.numbers[0]
        for p in range(x.size):
            a = constant.lowest if x[p] < constant.lowest else x[p]
            a = constant.highest if a > constant.highest else a
            shifted[p] = a * constant.per_log_2 + constant.magic
            n = shifted[p] - constant.magic
            part[p] = (a - n * constant.log_2_high) - n * constant.log_2_low
        return
    mantissa, exponent = work.bits[0], work.bits[1]
    shift = uint64(np.finfo(x.dtype).nmant)
    bias = uint64(np.finfo(x.dtype).maxexp - 1)
    half, one = uint64(1) << (shift - uint64(1)), bias << shift
    magic = ((bias + shift) << shift) + half
    for p in range(x.size):
        work.numbers[0, p] = x[p] * constant.subnormal if x[p] < constant.smallest else x[p]
    for p in range(x.size):  # mantissas from 3/2 on carry into the next exponent
        exponent[p] = mantissa[p] + half
    for p in range(x.size):
        e = exponent[p] >> shift
        mantissa[p] = mantissa[p] - (e << shift) + one
        exponent[p] = e + magic
    for p in range(x.size):
        part[p] = work.numbers[0, p]


@njit(**_JIT)
def restore(x: Any, constant: Any, work: Any, y: Any) -> None:
    """Turn values of the polynomial into those of the function at x, in place."""
    if constant.is_exp:
        # Two factors, whose product may be out of range; only the second multiplication can round.
        half = work.numbers[1]
        for p in range(y.size):
            half[p] = (work.numbers[0, p] - constant.magic) * constant.half + constant.magic
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
        n = (
            work.numbers[1, p]
            - constant.magic
            - (constant.bias_of_subnormal if a < constant.smallest else constant.bias)
        )
        value = y[p] + n * constant.log_2
        outside = -constant.infinity if a == constant.zero else constant.nan
        value = value if a > constant.zero else outside
        y[p] = a if a == constant.infinity else value
