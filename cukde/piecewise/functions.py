"""The public functions made of piecewise polynomials."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, Literal, NamedTuple, TypeVar

import numpy as np

from cukde.core import check as core_check, dispatch
from cukde.core.cost.registry import declare
from cukde.piecewise import cost, fit_pieces
from cukde.piecewise.evaluator import Evaluator
from cukde.piecewise.pieces import Pieces, Reduction
from cukde.piecewise.polynomial import PiecewisePolynomial


class _Piecewise(NamedTuple):
    """How a function is made of pieces."""

    function: Callable[[np.ndarray], np.ndarray]
    low: float
    high: float
    pieces: int  # a width that has few bits, so that all knots are exact in float32
    below: float = 0  # the constant that goes on below the pieces
    above: float = 0  # the same above; infinity where x itself goes on
    reduction: Reduction | None = None  # where all x are brought into the pieces


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

F = TypeVar("F", bound=Callable[..., Any])


def _declared(f: F) -> F:
    """Declare what the function of that name costs; beyond most of them a piece more goes on at either side."""
    of = _FUNCTIONS[f.__name__]
    pieces = of.pieces if of.reduction else of.pieces + 2
    count = cost.function(pieces, _DEGREE, of.reduction, _beyond(of))
    return declare(count, cost.of_points, f"functions.{f.__name__}")(f)


def _beyond(of: _Piecewise) -> bool | Literal["clamp"]:
    """What a function does beyond its pieces: where x itself goes on, the last piece does."""
    return True if of.reduction is None and math.isinf(of.above) else "clamp"


@functools.cache
def polynomial(name: str) -> PiecewisePolynomial:
    """Return the polynomial behind a function by its name, with a piece at either side for what goes on there.

    Pieces have equal widths. That of ``exp`` holds for the reduced argument, and that of ``log`` for the mantissa. It
    is fitted once, in some milliseconds, and its values have the errors of the function.

    Examples
    --------
    >>> from cukde import functions
    >>> float(functions.polynomial("exp")(0.25).round(6))
    1.284025
    """
    if name not in _FUNCTIONS:
        raise ValueError(f"name must be one of {', '.join(map(repr, _FUNCTIONS))}; got {name!r}")
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
def gelu(x: Any) -> Any:
    r"""Gaussian error linear unit, x Phi(x) with the distribution function Phi of the standard normal distribution.

    Largest error 6e-8 in float64 and 2e-7 in float32, times max(1, \|f(x)\|); float16 is rounded besides. See
    :mod:`cukde.functions`.

    Examples
    --------
    >>> import numpy as np
    >>> from cukde import functions
    >>> functions.gelu(np.array([1.0])).round(6)
    array([0.841345])
    """
    return _evaluate("gelu", x)


@_declared
def silu(x: Any) -> Any:
    r"""Sigmoid linear unit, x / (1 + exp(-x)).

    Largest error 6e-8 in float64 and 2e-7 in float32, times max(1, \|f(x)\|); float16 is rounded besides. See
    :mod:`cukde.functions`.

    Examples
    --------
    >>> import numpy as np
    >>> from cukde import functions
    >>> functions.silu(np.array([1.0])).round(6)
    array([0.731059])
    """
    return _evaluate("silu", x)


@_declared
def tanh(x: Any) -> Any:
    """Hyperbolic tangent.

    Largest error 5e-8 in float64 and 2e-7 in float32; float16 is rounded besides. See :mod:`cukde.functions`.

    Examples
    --------
    >>> import numpy as np
    >>> from cukde import functions
    >>> functions.tanh(np.array([1.0])).round(6)
    array([0.761594])
    """
    return _evaluate("tanh", x)


@_declared
def sigmoid(x: Any) -> Any:
    """The logistic function, 1 / (1 + exp(-x)).

    Largest error 3e-8 in float64 and 2e-7 in float32; float16 is rounded besides. See :mod:`cukde.functions`.

    Examples
    --------
    >>> import numpy as np
    >>> from cukde import functions
    >>> functions.sigmoid(np.array([1.0])).round(6)
    array([0.731059])
    """
    return _evaluate("sigmoid", x)


@_declared
def erf(x: Any) -> Any:
    """Error function, 2 / sqrt(pi) times the integral of exp(-t^2) from 0 to x.

    Largest error 4e-8 in float64 and 2e-7 in float32; float16 is rounded besides. See :mod:`cukde.functions`.

    Examples
    --------
    >>> import numpy as np
    >>> from cukde import functions
    >>> functions.erf(np.array([1.0])).round(6)
    array([0.842701])
    """
    return _evaluate("erf", x)


@_declared
def softplus(x: Any) -> Any:
    r"""Softplus, log(1 + exp(x)).

    Largest error 3e-8 in float64 and 2e-7 in float32, times max(1, \|f(x)\|); float16 is rounded besides. See
    :mod:`cukde.functions`.

    Examples
    --------
    >>> import numpy as np
    >>> from cukde import functions
    >>> functions.softplus(np.array([1.0])).round(6)
    array([1.313262])
    """
    return _evaluate("softplus", x)


@_declared
def exp(x: Any) -> Any:
    """Exponential function.

    Largest error 5e-10 in float64 and 2e-7 in float32, relative to the value; float16 is rounded besides. See
    :mod:`cukde.functions`.

    Examples
    --------
    >>> import numpy as np
    >>> from cukde import functions
    >>> functions.exp(np.array([1.0])).round(6)
    array([2.718282])
    """
    return _evaluate("exp", x)


@_declared
def log(x: Any) -> Any:
    r"""Natural logarithm.

    Largest error 8e-9 in float64 and 2e-7 in float32, times max(1, \|f(x)\|); float16 is rounded besides. See
    :mod:`cukde.functions`.

    Examples
    --------
    >>> import numpy as np
    >>> from cukde import functions
    >>> functions.log(np.array([2.0])).round(6)
    array([0.693147])
    """
    return _evaluate("log", x)


def _evaluate(name: str, x: Any) -> Any:
    backend = dispatch.backend(x, "x")
    with backend.device_of(x):
        evaluator, beyond = _evaluator(name)
        return evaluator(core_check.floating("x", x, backend), beyond, backend)


@functools.cache
def _evaluator(name: str) -> tuple[Evaluator, Any]:
    """What evaluates a function, and what lies beyond its knots."""
    p = polynomial(name)
    reduction = _FUNCTIONS[name].reduction
    return Evaluator(Pieces(p.c[..., None], p.x, local=True, reduction=reduction)), p.extrapolate
