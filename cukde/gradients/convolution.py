"""Gradients of the depthwise convolution, by its own two, with an activation's derivative."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from cukde.conv1d import check
from cukde.conv1d.activations import activation_grad
from cukde.conv1d.api import depthwise_conv1d, depthwise_conv1d_input_grad, depthwise_conv1d_weight_grad
from cukde.core.cpu import arrays as host
from cukde.gradients.operation import Arrays, Operation, Struct
from cukde.gradients.piecewise import slope
from cukde.piecewise.polynomial import PiecewisePolynomial


class Convolution(Operation):
    """:func:`cukde.depthwise_conv1d`, without a state."""

    operands = ("x", "w", "bias")

    def _prepare(self) -> None:
        self._activation = self.options.pop("activation", None)
        self._derivative = _derivative(self._activation)

    @classmethod
    def struct(cls, arrays: Arrays, options: Mapping[str, Any]) -> Struct:
        options = dict(options)
        _derivative(options.pop("activation", None))
        x, w, bias = (arrays.get(name) for name in cls.operands)
        found = check.operands(x, w, bias, None, host, check.options(**options), False)
        return Struct(found.geometry.shape(found.geometry.outputs), found.dtype)

    def _result(self, wanted: frozenset[str]) -> Any:
        return self._convolved(self._activation)

    def _convolved(self, activation: Any) -> Any:
        x, w = self.arrays["x"], self.arrays["w"]
        return depthwise_conv1d(x, w, bias=self.arrays.get("bias"), activation=activation, **self.options)

    def _gradients(self, g: Any, wanted: frozenset[str]) -> dict[str, Any]:
        x, w = self.arrays["x"], self.arrays["w"]
        found: dict[str, Any] = {}
        if self._derivative is not None:
            g = g * self._derivative(self._convolved(None))
        if "x" in wanted:
            length = x.shape[self.options.get("layout", "BCL").index("L")]
            found["x"] = depthwise_conv1d_input_grad(g, w, input_length=length, **self.options)
        if wanted & {"w", "bias"}:
            found["w"], found["bias"] = depthwise_conv1d_weight_grad(x, g, w.shape[-1], bias=True, **self.options)
        return found


def _derivative(activation: Any) -> Callable[[Any], Any] | None:
    """The derivative of an activation, checked; None of none."""
    if activation is None:
        return None
    if isinstance(activation, PiecewisePolynomial):
        return lambda z: slope(activation, z)
    activation_grad(activation, np.zeros(0))
    return lambda z: activation_grad(activation, z)
