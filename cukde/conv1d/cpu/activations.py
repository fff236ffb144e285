"""Activations of sums, in place: exponentials by NumPy, which vectorises them, the rest in Numba.

gelu is y Phi(y), and Phi(-s) = exp(-s^2 / 2) erfcx(s / sqrt(2)) / 2. With t = 1 / (1 + s / 2), erfcx divided by t is
smooth on 0 <= t <= 1 and so approximated by a polynomial, fitted at first use.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from cukde.core.cpu.jit import FUSED as _JIT, njit

__all__ = ["apply"]

# Lowest exponents. Lower ones would make subnormal numbers, perhaps after further factors: these take processors a
# hundred times as long, and are negligible beside the argument.
_LOWEST = {"float32": -79.0, "float64": -700.0}
_NODES = 64
_DEGREE = {"float32": 12, "float64": 27}  # further coefficients are below the rounding error of the first


def apply(y: np.ndarray, activation: str | None) -> None:
    """Replace each entry of y, contiguous, by its activation; the limit at minus infinity is 0."""
    if activation is None:
        return
    flat = y.reshape(-1)
    with np.errstate(over="ignore", under="ignore"):  # overflow where silu is 0
        if activation == "silu":
            exponential = np.exp(-flat)
            _silu(exponential, np.finfo(y.dtype).min, flat)
        else:
            exponential = np.empty_like(flat)
            _exponents(flat, y.dtype.type(_LOWEST[y.dtype.name]), exponential)
            np.exp(exponential, out=exponential)
            _gelu(exponential, _coefficients(y.dtype.name), np.finfo(y.dtype).min, flat)


@functools.cache
def _coefficients(dtype: str) -> np.ndarray:
    """Coefficients of erfcx(s / sqrt(2)) / (2 t) in powers of 2 t - 1, the leading one first."""
    from numpy.polynomial import chebyshev
    from scipy import fft
    from scipy.special import erfcx

    # A cosine transform of values at 2 t - 1 = cos(angle) gives Chebyshev coefficients; exact angles keep all digits.
    angle = (np.arange(_NODES) + 0.5) * (math.pi / _NODES)
    t = np.cos(angle / 2) ** 2
    values = erfcx(2 * np.tan(angle / 2) ** 2 * math.sqrt(0.5)) / (2 * t)
    fitted = fft.dct(values)[: _DEGREE[dtype] + 1] / _NODES
    fitted[0] /= 2
    return np.ascontiguousarray(chebyshev.cheb2poly(fitted)[::-1], dtype)


@njit(**_JIT)
def _silu(exponential: Any, least: Any, y: Any) -> None:
    one = y.dtype.type(1)
    for i in range(y.size):
        value = least if y[i] < least else y[i]
        y[i] = value / (one + exponential[i])


@njit(**_JIT)
def _exponents(y: Any, lowest: Any, out: Any) -> None:
    """Write -y^2 / 2, or minus infinity below ``lowest``."""
    half = y.dtype.type(-0.5)
    for i in range(y.size):
        exponent = half * y[i] * y[i]
        out[i] = exponent if exponent > lowest else -np.inf


@njit(**_JIT)
def _gelu(exponential: Any, c: Any, least: Any, y: Any) -> None:
    one, half = y.dtype.type(1), y.dtype.type(0.5)
    for start in range(0, y.size, 256):
        z, e = y[start : start + 256], exponential[start : start + 256]
        t = np.empty(z.size, y.dtype)
        p = np.empty(z.size, y.dtype)
        for i in range(z.size):
            t[i] = one / (one + half * abs(z[i]))
            p[i] = c[0]
        for k in range(1, c.size):
            for i in range(z.size):
                p[i] = p[i] * (t[i] + t[i] - one) + c[k]
        for i in range(z.size):
            below = e[i] * t[i] * p[i]
            value = least if z[i] < least else z[i]
            z[i] = value * (one - below if value > 0 else below)
