"""Derivatives of the activations of :func:`cukde.depthwise_conv1d`, on both backends."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from cukde.conv1d import check, cost
from cukde.core import check as core_check, dispatch, dtypes
from cukde.core.cost.registry import declare
from cukde.core.types import Array, ArrayLike


@declare(cost.activation_grad, cost.activation_grad_sizes)
def activation_grad(name: str | None, z: ArrayLike) -> Array:
    r"""Derivative of an activation of :func:`depthwise_conv1d` at its arguments.

    With the logistic function :math:`\sigma`, and the density :math:`\phi` and distribution function :math:`\Phi` of
    the standard normal distribution,

    .. math::

        \mathrm{silu}'(z) = \sigma(z) (1 + z \sigma(-z)), \qquad \mathrm{gelu}'(z) = \Phi(z) + z \phi(z)

    Parameters
    ----------
    name : {"silu", "gelu", None}
        The activation; None is the identity, whose derivative is 1.
    z : array_like
        Arguments, of any shape. If ``z`` is a GPU array, the call computes on the GPU.

    Returns
    -------
    ndarray
        Of the shape and dtype of z (integers become float64). NaN gives NaN; infinities give the limits 0 and 1.

    Raises
    ------
    ValueError
        For an unknown name.
    TypeError
        For z that does not hold real numbers of at most 64 bits.

    See Also
    --------
    depthwise_conv1d_input_grad, depthwise_conv1d_weight_grad : Take a gradient times this.

    Notes
    -----
    The arithmetic is in the dtype of z; float16 is computed in float32 and rounded once. The error is at most 8 eps of
    the sum of the sizes of the two terms. This holds in the tails too, where they vanish like exp(-\|z\|) and
    exp(-z^2/2), down to the smallest normal number. The cost is some ten to twenty passes over memory.

    Examples
    --------
    >>> import cukde
    >>> cukde.activation_grad("gelu", [-1.0, 0.0, 1.0]).round(6)
    array([-0.083315,  0.5     ,  1.083315])
    """
    check.activation(name)
    backend = dispatch.backend(z, "z")
    with backend.device_of(z):
        points = core_check.floating("z", z, backend)
        if name is None:
            return backend.xp.ones_like(points)
        number = dtypes.arithmetic(points.dtype)
        below_zero = backend.xp.copysign(points.astype(number, copy=False), number.type(-1))
        # Infinity times 0 is NaN where the limit is 0.
        below_zero = backend.xp.maximum(below_zero, np.finfo(number).min)
        with np.errstate(over="ignore", under="ignore"):
            below = _AT_NEGATIVE[name](below_zero, backend)
            return backend.xp.where(points > 0, 1 - below, below).astype(points.dtype, copy=False)


def _silu(z: Any, backend: Any) -> Any:
    """Return the derivative at z <= 0."""
    e = backend.xp.exp(z)
    above = 1 + e
    return e / above * (1 + z / above)


def _gelu(z: Any, backend: Any) -> Any:
    """Return the derivative at z <= 0: exp(-z^2 / 2) times the sum of a scaled distribution function and z."""
    xp, number = backend.xp, z.dtype.type
    # The square of the leading half of the bits is exact. Below -1e4 the exponential is 0.
    near = xp.maximum(z, number(-1e4))
    lead = near.astype(np.float16 if z.dtype.itemsize == 4 else np.float32).astype(z.dtype)
    exponential = xp.exp(lead * number(-0.5) * lead) * xp.exp((lead - near) * (lead + near) / 2)
    distribution = backend.erfcx(z * number(-math.sqrt(0.5))) / 2
    return exponential * (distribution + z * number(1 / math.sqrt(2 * math.pi)))


# Both derivatives at z are 1 minus those at -z.
_AT_NEGATIVE: dict[str, Callable[[Any, Any], Any]] = {"silu": _silu, "gelu": _gelu}
