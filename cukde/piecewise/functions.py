"""The public functions made of piecewise polynomials."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, Literal, NamedTuple, TypeVar

import numpy as np

from cukde.core import check as core_check, dispatch, elementwise, plan as core_plan
from cukde.core.cost.registry import declare
from cukde.core.quiet import quiet
from cukde.core.types import Array, ArrayLike
from cukde.piecewise import cost, fit_pieces
from cukde.piecewise.evaluator import Evaluator
from cukde.piecewise.pieces import Pieces, Reduction
from cukde.piecewise.polynomial import PiecewisePolynomial


class _Piecewise(NamedTuple):
    """A function and its pieces."""

    function: Callable[[np.ndarray], np.ndarray]
    low: float
    high: float
    pieces: int  # of a width with few bits, so that all knots are exact in float32
    below: float = 0  # the constant value below the pieces
    above: float = 0  # the same above them; infinity: the value is x
    reduction: Reduction | None = None  # how all x are brought into the pieces


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
    "exp": _Piecewise(np.exp, -3 / 8, 3 / 8, 24, reduction="exp"),
    "log": _Piecewise(np.log, 3 / 4, 3 / 2, 24, reduction="log"),
}
_DEGREE = 3

_OF_NUMPY = {"exp": np.exp, "log": np.log, "tanh": np.tanh}
"""On the CPU, where NumPy's are faster at any size."""

_TASK = 2**18  # points of a task of a thread

F = TypeVar("F", bound=Callable[..., Any])


def _declared(f: F) -> F:
    """Declare a function and its cost by its name; without a reduction it has one more piece at either side."""
    made = _FUNCTIONS[f.__name__]
    pieces = made.pieces + 2 * (made.reduction is None)
    count = cost.function(pieces, _DEGREE, made.reduction, _beyond(made), of_numpy=f.__name__ in _OF_NUMPY)
    elementwise.BY_NAME[f.__name__] = declared = declare(count, cost.of_points, f"functions.{f.__name__}")(quiet(f))
    return declared


def _beyond(function: _Piecewise) -> bool | Literal["clamp"]:
    """What lies beyond the pieces: the last piece goes on where the value is x."""
    return True if function.reduction is None and math.isinf(function.above) else "clamp"


@quiet
def polynomial(name: str) -> PiecewisePolynomial:
    """Return the polynomial that computes a function, with one more piece at either side.

    ``name`` is the name of the function; an unknown one is a ValueError. Pieces have equal widths. The polynomial of
    ``exp`` is for the reduced argument, and that of ``log`` for the mantissa. It is fitted once, in a few milliseconds,
    and its values have the errors of the function.

    Examples
    --------
    >>> from cukde import functions
    >>> float(functions.polynomial("exp")(0.25).round(6))
    1.284025
    """
    core_check.option("name", name, [*_FUNCTIONS])
    return _polynomial(name)


@functools.cache
def _polynomial(name: str) -> PiecewisePolynomial:
    f, low, high, pieces, below, above, reduction = _FUNCTIONS[name]
    knots = np.linspace(low, high, pieces + 1)
    c = fit_pieces.fit(f, knots, _DEGREE, "minimax", True)
    if reduction is not None:
        return PiecewisePolynomial(c, knots, extrapolate="clamp")
    width = knots[1] - knots[0]
    left, right = np.zeros((_DEGREE + 1, 1)), np.zeros((_DEGREE + 1, 1))
    left[-1] = below
    right[-2:, 0] = (1, high) if math.isinf(above) else (0, above)
    knots = np.concatenate([[low - width], knots, [high + width]])
    c = np.concatenate([left, c, right], axis=1)
    return PiecewisePolynomial(c, knots, extrapolate=_beyond(_FUNCTIONS[name]))


@_declared
def gelu(x: ArrayLike) -> Array:
    r"""Gaussian error linear unit of ``x``, x Phi(x) with the standard normal distribution function Phi.

    The error is at most 6e-8 in float64 and 2e-7 in float32, times max(1, \|f(x)\|), and rounding in float16. See
    :mod:`cukde.functions`.

    Examples
    --------
    >>> from cukde import functions
    >>> functions.gelu([1.0]).round(6)
    array([0.841345])
    """
    return _evaluate("gelu", x)


@_declared
def silu(x: ArrayLike) -> Array:
    r"""Sigmoid linear unit of ``x``, x / (1 + exp(-x)).

    The error is at most 6e-8 in float64 and 2e-7 in float32, times max(1, \|f(x)\|), and rounding in float16. See
    :mod:`cukde.functions`.

    Examples
    --------
    >>> from cukde import functions
    >>> functions.silu([1.0]).round(6)
    array([0.731059])
    """
    return _evaluate("silu", x)


@_declared
def tanh(x: ArrayLike) -> Array:
    """Hyperbolic tangent of ``x``.

    The error is at most 5e-8 in float64 and 2e-7 in float32, and rounding in float16. See :mod:`cukde.functions`.

    Examples
    --------
    >>> from cukde import functions
    >>> functions.tanh([1.0]).round(6)
    array([0.761594])
    """
    return _evaluate("tanh", x)


@_declared
def sigmoid(x: ArrayLike) -> Array:
    """The logistic function of ``x``, 1 / (1 + exp(-x)).

    The error is at most 3e-8 in float64 and 2e-7 in float32, and rounding in float16. See :mod:`cukde.functions`.

    Examples
    --------
    >>> from cukde import functions
    >>> functions.sigmoid([1.0]).round(6)
    array([0.731059])
    """
    return _evaluate("sigmoid", x)


@_declared
def erf(x: ArrayLike) -> Array:
    """Error function of ``x``, 2 / sqrt(pi) times the integral of exp(-t^2) from 0 to x.

    The error is at most 4e-8 in float64 and 2e-7 in float32, and rounding in float16. See :mod:`cukde.functions`.

    Examples
    --------
    >>> from cukde import functions
    >>> functions.erf([1.0]).round(6)
    array([0.842701])
    """
    return _evaluate("erf", x)


@_declared
def softplus(x: ArrayLike) -> Array:
    r"""Softplus of ``x``, log(1 + exp(x)).

    The error is at most 3e-8 in float64 and 2e-7 in float32, times max(1, \|f(x)\|), and rounding in float16. See
    :mod:`cukde.functions`.

    Examples
    --------
    >>> from cukde import functions
    >>> functions.softplus([1.0]).round(6)
    array([1.313262])
    """
    return _evaluate("softplus", x)


@_declared
def exp(x: ArrayLike) -> Array:
    """Exponential function of ``x``.

    The error is at most 5e-10 in float64 and 2e-7 in float32, times the value, and rounding in float16. See
    :mod:`cukde.functions`.

    Examples
    --------
    >>> from cukde import functions
    >>> functions.exp([1.0]).round(6)
    array([2.718282])
    """
    return _evaluate("exp", x)


@_declared
def log(x: ArrayLike) -> Array:
    r"""Natural logarithm of ``x``.

    The error is at most 8e-9 in float64 and 2e-7 in float32, times max(1, \|f(x)\|), and rounding in float16. See
    :mod:`cukde.functions`.

    Examples
    --------
    >>> from cukde import functions
    >>> functions.log([2.0]).round(6)
    array([0.693147])
    """
    return _evaluate("log", x)


def _evaluate(name: str, x: Any) -> Any:
    core_check.no_collection("x", x)
    backend = dispatch.backend(x, "x")
    with backend.device_of(x):
        points = core_check.floating("x", x, backend)
        if backend.name == "cpu" and name in _OF_NUMPY:
            return _by_numpy(_OF_NUMPY[name], points)
        evaluator, beyond = _evaluator(name)
        return evaluator(points, beyond, backend)


def _by_numpy(function: np.ufunc, x: np.ndarray) -> np.ndarray:
    """Values of a function of NumPy, of many points by all threads."""
    core_plan.note("NumPy")
    out = np.empty(x.shape, x.dtype)
    if x.size <= _TASK:
        return np.asarray(function(x, out=out))
    from cukde.core.cpu import threads  # loads Numba

    points, values = x.reshape(-1), out.reshape(-1)

    def write(start: int) -> None:
        part = slice(start, start + _TASK)
        with np.errstate(all="ignore"):
            function(points[part], out=values[part])

    threads.run(write, range(0, x.size, _TASK), blas=False)
    return out


@functools.cache
def _evaluator(name: str) -> tuple[Evaluator, Any]:
    """The evaluator of a function, and what lies beyond its knots."""
    p = polynomial(name)
    return Evaluator(Pieces(p.c[..., None], p.x, local=True, reduction=_FUNCTIONS[name].reduction)), p.extrapolate
