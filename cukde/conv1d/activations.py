"""Derivatives of the activations of :func:`cukde.depthwise_conv1d`, on both backends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from cukde.conv1d import check, cost
from cukde.conv1d.derivatives import DERIVATIVES
from cukde.core import check as core_check, dispatch, dtypes
from cukde.core.cost.registry import declare
from cukde.core.entry.over_arrays import over_arrays
from cukde.core.types import Array, ArrayLike


@declare(cost.activation_grad, cost.activation_grad_sizes)
@over_arrays
def activation_grad(name: str | Callable[[Any], Any] | None, z: ArrayLike) -> Array:
    r"""Return the derivative of an activation of :func:`depthwise_conv1d`.

    With the logistic function :math:`\sigma`, and the density :math:`\phi` and distribution function :math:`\Phi` of
    the standard normal distribution,

    .. math::

        \mathrm{silu}'(z) = \sigma(z) (1 + z \sigma(-z)), \qquad \mathrm{gelu}'(z) = \Phi(z) + z \phi(z), \qquad
        \mathrm{softplus}'(z) = \sigma(z)

    .. math::

        \tanh'(z) = 4 \sigma(2 z) \sigma(-2 z), \qquad \sigma'(z) = \sigma(z) \sigma(-z), \qquad
        \mathrm{erf}'(z) = 2 e^{-z^2} / \sqrt\pi, \qquad \exp'(z) = e^z, \qquad \log'(z) = 1 / z

    Parameters
    ----------
    name : str, function of cukde.functions or None
        The activation, by the name of a function of :mod:`cukde.functions` or as that function; None is the identity,
        whose derivative is 1. The result is the derivative of the exact function, not of its piecewise approximation.
        For a :class:`PiecewisePolynomial` p take ``p(z, 1)`` instead.
    z : array_like
        Arguments, of any shape. If ``z`` is a GPU array, the call computes on the GPU.

    Returns
    -------
    ndarray
        Of the shape and dtype of z (integers become float64). NaN gives NaN, as does the logarithm below 0; infinities
        give the limits.

    Raises
    ------
    ValueError
        For an unknown name.
    TypeError
        For z that does not hold real numbers of at most 64 bits.

    Examples
    --------
    >>> import cukde
    >>> cukde.activation_grad("gelu", [-1.0, 0.0, 1.0]).round(6)
    array([-0.083315,  0.5     ,  1.083315])

    See Also
    --------
    depthwise_conv1d_input_grad, depthwise_conv1d_weight_grad : Take a gradient times this.

    Notes
    -----
    The arithmetic is in the dtype of z; float16 is computed in float32 and rounded once. The error is at most 8 eps of
    the value; for silu and gelu, of the sum of the absolute values of their two terms. This holds in the tails too,
    where they vanish like exp(-\|z\|) and exp(-z^2/2), down to the smallest normal number
    (``tests/conv1d/test_api.py``). The cost is up to about twenty passes over memory.
    """
    name = check.name_of_activation(name)
    backend = dispatch.backend(z, "z")
    with backend.device_of(z):
        points = core_check.floating("z", z, backend)
        if name is None:
            return backend.xp.ones_like(points)
        xp, number = backend.xp, dtypes.arithmetic(points.dtype)
        formula, symmetry, *_ = DERIVATIVES[name]
        at = points.astype(number, copy=False)
        if symmetry != "none":
            # Infinity times 0 is NaN where the limit is 0.
            at = xp.maximum(xp.copysign(at, number.type(-1)), np.finfo(number).min)
        with np.errstate(over="ignore", under="ignore", divide="ignore"):
            out = formula(at, backend)
            if symmetry == "complement":
                out = xp.where(points > 0, 1 - out, out)
            return out.astype(points.dtype, copy=False)
