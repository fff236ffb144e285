"""Derivatives of activations by array operations, and their counts."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import numpy as np


class Derivative(NamedTuple):
    """A derivative, and operations of its formula on one array and on two, exponentials among the former."""

    formula: Callable[[Any, Any], Any]  # of points and the backend
    symmetry: Literal["complement", "even", "none"]
    """How it follows from that at z <= 0, where the formula holds: 1 minus it at -z, the same at -z, or not at all."""
    of_one: int
    of_two: int
    exponentials: int


def _silu(z: Any, backend: Any) -> Any:
    e = backend.xp.exp(z)
    above = 1 + e
    return e / above * (1 + z / above)


def _gelu(z: Any, backend: Any) -> Any:
    """The density of the normal distribution times the sum of a scaled distribution function and z."""
    distribution = backend.erfcx(z * z.dtype.type(-math.sqrt(0.5))) / 2
    return _exp_of_minus_square(z, backend, 0.5) * (distribution + z * z.dtype.type(1 / math.sqrt(2 * math.pi)))


def _tanh(z: Any, backend: Any) -> Any:
    """The square of the hyperbolic secant, whose exponential has all of its digits where the square still has some."""
    e = backend.xp.exp(z)
    secant = 2 * e / (1 + e * e)
    return secant * secant


def _sigmoid(z: Any, backend: Any) -> Any:
    e = backend.xp.exp(z)
    above = 1 + e
    return e / (above * above)


def _softplus(z: Any, backend: Any) -> Any:
    e = backend.xp.exp(z)
    return e / (1 + e)


def _erf(z: Any, backend: Any) -> Any:
    return _exp_of_minus_square(z, backend, 1.0) * z.dtype.type(2 / math.sqrt(math.pi))


def _exp(z: Any, backend: Any) -> Any:
    return backend.xp.exp(z)


def _log(z: Any, backend: Any) -> Any:
    return backend.xp.where(z < 0, z.dtype.type(np.nan), 1 / abs(z))  # the function has no value below 0


def _exp_of_minus_square(z: Any, backend: Any, factor: float) -> Any:
    """exp(-factor z^2) for z <= 0, with all of its digits where it is small."""
    xp, number = backend.xp, z.dtype.type
    # The square of the leading half of the bits is exact. Below -1e4 the exponential is 0.
    near = xp.maximum(z, number(-1e4))
    lead = near.astype(np.float16 if z.dtype.itemsize == 4 else np.float32).astype(z.dtype)
    return xp.exp(lead * number(-factor) * lead) * xp.exp((lead - near) * (lead + near) * number(factor))


DERIVATIVES = {
    "silu": Derivative(_silu, "complement", 3, 3, 1),
    "gelu": Derivative(_gelu, "complement", 9, 7, 3),
    "tanh": Derivative(_tanh, "even", 3, 3, 1),
    "sigmoid": Derivative(_sigmoid, "even", 2, 2, 1),
    "erf": Derivative(_erf, "even", 6, 5, 2),
    "softplus": Derivative(_softplus, "complement", 2, 1, 1),
    "exp": Derivative(_exp, "none", 1, 0, 1),
    "log": Derivative(_log, "none", 3, 1, 0),
}
"""By the names of activations."""
