r"""Elementary functions as piecewise polynomials: cubic pieces of equal width, on NumPy and CuPy arrays.

Every function takes an array of any shape, float16, float32 or float64 (others become float64), and returns the same
shape and dtype on the same device; float16 is evaluated in float32 and rounded once. NaN gives NaN, and infinities give
the limits. The pieces meet at their knots, where they take the function's own values.

The error of a value, \|computed - f(x)\|, is for every finite x at most the figure below times max(1, \|f(x)\|), and
times f(x) itself for ``exp`` (down to the smallest normal number). Rounding to float16 adds 4.9e-4.

========  ==================  ======  =======  =======
function  pieces on           number  float64  float32
========  ==================  ======  =======  =======
gelu      [-6, 6]             128     6e-8       2e-7
silu      [-20, 20]           320     6e-8       2e-7
tanh      [-9, 9]             256     5e-8       2e-7
sigmoid   [-18, 18]           256     3e-8       2e-7
erf       [-4, 4]             128     4e-8       2e-7
softplus  [-18, 18]           256     3e-8       2e-7
exp       [-3/8, 3/8]         24      5e-10      2e-7
log       [3/4, 3/2]          24      8e-9       2e-7
========  ==================  ======  =======  =======

Beyond its pieces a function is what it tends to: 0, 1, -1 or x exactly. ``exp`` and ``log`` are right for all x: exp(x)
is 2^n p(x - n log 2), which overflows to infinity and underflows to 0, and log(m 2^n) is p(m) + n log 2, minus infinity
for 0 and NaN below it.

``tanh``, ``sigmoid`` and ``erf`` are one evaluation of a polynomial. ``gelu``, ``silu`` and ``softplus`` read and write
three times more on a GPU, for what infinity gives; data without it can go to the polynomial itself. ``exp`` and ``log``
take some ten passes over memory, and are slower than those of NumPy and CuPy.

Polynomials are fitted at first use, in some milliseconds; :func:`polynomial` returns them.

>>> import numpy as np
>>> from cukde import functions
>>> functions.gelu(np.array([-np.inf, -1, 0, 1, 100])).round(6)
array([  0.      ,  -0.158655,   0.      ,   0.841345, 100.      ])
>>> functions.polynomial("gelu")(np.float32([-1, 1]))
array([-0.15865526,  0.8413447 ], dtype=float32)
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from cukde import _dispatch, _fit_pieces, _pieces
from cukde._piecewise import PiecewisePolynomial

__all__ = ["erf", "exp", "gelu", "log", "polynomial", "sigmoid", "silu", "softplus", "tanh"]


class _Piecewise(NamedTuple):
    """How a function is made of pieces."""

    function: Callable[[np.ndarray], np.ndarray]
    low: float
    high: float
    pieces: int  # a width that has few bits, so that all knots are exact in float32
    below: float = math.nan  # the constant that goes on below the pieces; NaN where the function has no tails
    above: float = math.nan  # the same above; infinity where x itself goes on


_erf = np.vectorize(math.erf, otypes=[np.float64])
_erfc = np.vectorize(math.erfc, otypes=[np.float64])


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


_FUNCTIONS = {
    "gelu": _Piecewise(lambda x: x * _erfc(-x / math.sqrt(2)) / 2, -6, 6, 128, 0, math.inf),
    "silu": _Piecewise(lambda x: x * _sigmoid(x), -20, 20, 320, 0, math.inf),
    "tanh": _Piecewise(np.tanh, -9, 9, 256, -1, 1),
    "sigmoid": _Piecewise(_sigmoid, -18, 18, 256, 0, 1),
    "erf": _Piecewise(_erf, -4, 4, 128, -1, 1),
    "softplus": _Piecewise(lambda x: np.logaddexp(0, x), -18, 18, 256, 0, math.inf),
    "exp": _Piecewise(np.exp, -3 / 8, 3 / 8, 24),
    "log": _Piecewise(np.log, 3 / 4, 3 / 2, 24),
}
_DEGREE = 3


@functools.cache
def polynomial(name: str) -> PiecewisePolynomial:
    """Return the polynomial behind a function by its name, with a piece at either side for what goes on there.

    Pieces have equal widths. That of ``exp`` holds for the reduced argument, and that of ``log`` for the mantissa.
    """
    if name not in _FUNCTIONS:
        raise ValueError(f"name must be one of {', '.join(map(repr, _FUNCTIONS))}; got {name!r}")
    f, low, high, pieces, below, above = _FUNCTIONS[name]
    knots = np.linspace(low, high, pieces + 1)
    c = _fit_pieces.fit(f, knots, _DEGREE, "minimax", True)
    if math.isnan(below):
        return PiecewisePolynomial(c, knots, extrapolate="clamp")
    width = knots[1] - knots[0]
    left, right = np.zeros((_DEGREE + 1, 1)), np.zeros((_DEGREE + 1, 1))
    left[-1] = below
    right[-2:, 0] = (1, high) if math.isinf(above) else (0, above)
    knots = np.concatenate([[low - width], knots, [high + width]])
    c = np.concatenate([left, c, right], axis=1)
    return PiecewisePolynomial(c, knots, extrapolate=True if math.isinf(above) else "clamp")


def gelu(x: Any) -> Any:
    """Gaussian error linear unit, x Phi(x) with the distribution function Phi of the standard normal distribution."""
    return _with_linear_tail("gelu", x)


def silu(x: Any) -> Any:
    """Sigmoid linear unit, x / (1 + exp(-x))."""
    return _with_linear_tail("silu", x)


def softplus(x: Any) -> Any:
    """log(1 + exp(x))."""
    return _with_linear_tail("softplus", x)


def tanh(x: Any) -> Any:
    """Hyperbolic tangent."""
    return polynomial("tanh")(x)


def sigmoid(x: Any) -> Any:
    """1 / (1 + exp(-x))."""
    return polynomial("sigmoid")(x)


def erf(x: Any) -> Any:
    """Error function, 2 / sqrt(pi) times the integral of exp(-t^2) from 0 to x."""
    return polynomial("erf")(x)


def exp(x: Any) -> Any:
    """Exponential function."""
    a, dtype, xp = _in_arithmetic(x)
    lowest, highest = _EXP_RANGE[a.dtype]
    a = xp.clip(a, lowest, highest)
    n = xp.rint(a * a.dtype.type(1 / math.log(2)))
    r = (a - n * a.dtype.type(_LOG_2_HIGH)) - n * a.dtype.type(_LOG_2_LOW)
    n = xp.where(n == n, n, 0).astype(np.int32)
    with np.errstate(over="ignore", under="ignore"):  # to infinity and to 0
        return xp.ldexp(polynomial("exp")(r), n).astype(dtype)


def log(x: Any) -> Any:
    """Natural logarithm."""
    a, dtype, xp = _in_arithmetic(x)
    mantissa, n = xp.frexp(a)  # in [1/2, 1)
    small = mantissa < 0.75
    y = polynomial("log")(xp.where(small, 2 * mantissa, mantissa))
    y += (n - small).astype(a.dtype) * a.dtype.type(math.log(2))
    beyond = xp.where(a == 0, -math.inf, xp.where(a > 0, math.inf, math.nan))
    return xp.where((a > 0) & (a < math.inf), y, beyond).astype(dtype)


# Beyond these the exponential is 0 or infinity.
_EXP_RANGE = {np.dtype(np.float32): (-105.0, 90.0), np.dtype(np.float64): (-747.0, 711.0)}
# Of log 2 the nine leading bits, so that products with exponents are exact, and the rest.
_LOG_2_HIGH = 355 / 512
_LOG_2_LOW = -2.1219444005469058277e-4


def _in_arithmetic(x: Any) -> tuple[Any, np.dtype, Any]:
    """Return x in the dtype it is evaluated in, the dtype of the result, and the module of its arrays."""
    backend = _dispatch.backend(x, "x")
    x = backend.asarray(x)
    dtype = x.dtype if x.dtype in (np.float16, np.float32) else np.dtype(np.float64)
    return x.astype(_pieces.arithmetic(dtype)), dtype, backend.xp


def _with_linear_tail(name: str, x: Any) -> Any:
    """Evaluate a function that goes on as 0 below and as x above; at infinity Horner's rule gives NaN, 0 inf."""
    backend = _dispatch.backend(x, "x")
    x = backend.asarray(x)
    xp = backend.xp
    y = polynomial(name)(x)
    if xp is np:
        with np.errstate(over="ignore"):
            if np.isfinite(y.sum(dtype=np.promote_types(y.dtype, np.float32))):  # one look is faster than a choice
                return y
    return xp.where(xp.isinf(x), xp.maximum(x, 0).astype(y.dtype, copy=False), y)
