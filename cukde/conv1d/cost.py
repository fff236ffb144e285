"""Costs of depthwise convolution and its gradients, on a GPU by the kernel that the library takes, and on a CPU."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from cukde.conv1d import check, cost_cpu, cost_gpu
from cukde.conv1d.derivatives import DERIVATIVES
from cukde.conv1d.geometry import Geometry
from cukde.conv1d.plan import Pass
from cukde.core import check as core_check, elementwise as elementwise_functions
from cukde.core.cost import arguments, elementwise, registry
from cukde.core.cost.cost import Counted, Part, Unit
from cukde.core.cost.peaks import Peaks
from cukde.core.cost.sizes import takes

_SOURCE = (
    "multiply-adds and bytes: CUDA Kernel Optimization and Counter-Free Performance Analysis for Depthwise Convolution "
    "(arXiv 2604.25422); instructions: counted in kernels_cu/conv1d/"
)

# Steps of NumPy and SciPy take as long as so many operations one at a time for each number: a choice by a random
# condition, a conversion to half the bits and back, and a scaled complementary error function. Measured in the fastest
# cache of a core of 4.1e9 a second: 3.5, 2.8 and 19.8 ns.
_CHOSEN, _NARROWED, _ERFCX = 14, 12, 80

_OF_ACTIVATION = "passes over memory and exponentials, counted in cukde/conv1d/activations.py"


_SHARED = "batch channels length taps dtype padding stride dilation"


@dataclass(frozen=True)
class Sizes:
    """Sizes of a convolution of (batch, channels, length), whatever the layout."""

    batch: int
    channels: int
    length: int
    taps: int
    dtype: Any = "float32"
    padding: Any = "causal"
    stride: int = 1
    dilation: int = 1
    layout: str = "BCL"

    def geometry(self) -> Geometry:
        """Check the sizes."""
        options = check.options(self.padding, self.stride, self.dilation, self.layout)
        taps, length = check.size("kernel_size", self.taps), core_check.count("length", self.length)
        return check.geometry(options.shape(int(self.batch), int(self.channels), length), taps, options)


@takes(Sizes, f"{_SHARED} activation layout")
def forward(on: Peaks, sizes: Sizes, activation: str | Callable[[Any], Any] | None = None) -> Counted:
    """Count the convolution; the first outputs, which come from a state, are left out."""
    fused, after = check.activation(activation)
    counted = _counted("forward", on, sizes, fused)
    return counted if after is None else _and_then(counted, after, on, sizes)


@takes(Sizes, f"{_SHARED} layout")
def input_grad(on: Peaks, sizes: Sizes) -> Counted:
    """Count the gradient by the input, of ``length`` positions."""
    return _counted("input_grad", on, sizes)


@takes(Sizes, f"{_SHARED} layout bias")
def weight_grad(on: Peaks, sizes: Sizes, bias: bool = False) -> Counted:
    """Count the gradient by the taps, and by the bias."""
    return _counted("weight_grad", on, sizes, bias=bias)


def activation_grad(on: Peaks, *, n: int, name: Any, dtype: Any = "float32") -> Counted:
    """Count the derivative of an activation at ``n`` points: passes over memory, one for each step of the formula."""
    name = check.name_of_activation(name)
    size = arguments.as_floating(dtype).itemsize
    wide = max(size, 4)
    if name is None:
        return Counted((elementwise.passes("ones", on, n, float(n * size)),), _OF_ACTIVATION)
    # Bytes read and written for each number: conversions, the bound on points below zero, and the choice at the end,
    # with one byte of a comparison twice; then operations of the derivative on one array and on two.
    conversions, form = 2 * (size < wide), DERIVATIVES[name]
    bounded, chosen, split = form.symmetry != "none", form.symmetry == "complement", name in ("gelu", "erf")
    ends = (size + wide) * conversions + (wide + wide) * 2 * bounded
    ends += ((size + 1) + 2 * wide + (1 + 3 * wide)) * chosen
    of_one, of_two, exponentials = form.of_one, form.of_two, form.exponentials
    narrow = 3 * wide * split  # the leading half of the bits, and back
    exponential: Unit = "exponential_f64" if wide == 8 else "exponential"
    work: dict[Unit, float] = {exponential: float(exponentials * n)} if exponentials else {}
    sums = (of_one + of_two + 2 * bounded + 2 * chosen) * float(n)
    work["float64" if wide == 8 else "fma"] = sums
    traffic = float(n) * (ends + 2 * wide * of_one + 3 * wide * of_two + narrow)
    if on.backend == "cpu":  # NumPy's passes run on one core
        narrowed = split + (size < wide)
        work["scalar"] = float(n) * (_CHOSEN * chosen + _NARROWED * narrowed + _ERFCX * (name == "gelu"))
        return Counted((Part("passes", traffic, work, blocks=1.0),), _OF_ACTIVATION)
    launches = of_one + of_two + 2 * bounded + 3 * chosen + 2 * split + conversions
    passes = elementwise.passes("passes", on, float(n) * launches, traffic, launches=launches, work=work)
    return Counted((passes,), _OF_ACTIVATION)


# --------------------------------------------------------------------------------------- the sizes of a call


def forward_sizes(x: Any, w: Any, **options: Any) -> dict[str, Any]:
    """Sizes of a call of ``depthwise_conv1d``."""
    sizes = _sizes(x, w, arguments.shape(w)[-1], options, "padding", "stride", "dilation", "activation")
    name = elementwise_functions.name_of(sizes.get("activation"))
    return sizes if name is None else sizes | {"activation": name}


def input_grad_sizes(dy: Any, w: Any, *, input_length: int | None = None, **options: Any) -> dict[str, Any]:
    """Sizes of a call of ``depthwise_conv1d_input_grad``."""
    sizes = _sizes(dy, w, arguments.shape(w)[-1], options, "padding", "stride", "dilation")
    of_length = check.options(**{name: sizes[name] for name in ("padding", "stride", "dilation") if name in sizes})
    length = check.input_length(input_length, sizes["length"], sizes["taps"], of_length)
    return sizes | {"length": length}


def weight_grad_sizes(x: Any, dy: Any, kernel_size: int, **options: Any) -> dict[str, Any]:
    """Sizes of a call of ``depthwise_conv1d_weight_grad``."""
    return _sizes(x, dy, kernel_size, options, "padding", "stride", "dilation", "bias")


def activation_grad_sizes(name: Any, z: Any) -> dict[str, Any]:
    """Sizes of a call of ``activation_grad``."""
    name = check.name_of_activation(name)
    return {"n": math.prod(arguments.shape(z)), "name": name, "dtype": arguments.floating(z)}


def _sizes(a: Any, other: Any, taps: int, options: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """Sizes of a call with two arrays, and its options of these names where they are given."""
    layout = options.get("layout", "BCL")
    axes = {"B": "batch", "C": "channels", "L": "length"}
    sizes: dict[str, Any] = {axes[axis]: size for axis, size in zip(layout, arguments.shape(a), strict=True)}
    sizes |= {"taps": taps, "dtype": arguments.floating(a, other), "layout": layout}
    return sizes | {name: options[name] for name in names if name in options}


# ----------------------------------------------------------------------------------------------- the counting


def _and_then(counted: Counted, function: Callable[[Any], Any], on: Peaks, sizes: Sizes) -> Counted:
    """Add a function of the result: its own cost where that is known, else one pass over it."""
    g, dtype = sizes.geometry(), arguments.as_floating(sizes.dtype)
    outputs = g.batch * g.channels * g.outputs
    call = registry.found(function, (np.broadcast_to(np.empty((), dtype), (outputs,)),), {})
    if call is None:
        parts: tuple[Part, ...] = (elementwise.passes("activation", on, outputs, 2.0 * dtype.itemsize * outputs),)
    else:
        parts = call.operation.formula(on, **call.shapes).parts
    return replace(counted, parts=(*counted.parts, *(replace(part, name=f"activation: {part.name}") for part in parts)))


def _counted(direction: Pass, on: Peaks, sizes: Sizes, activation: str | None = None, bias: bool = False) -> Counted:
    g, size = sizes.geometry(), arguments.as_floating(sizes.dtype).itemsize
    if on.backend == "gpu":
        parts = cost_gpu.parts(direction, g, 8 * size, activation, bias, on)
    else:
        parts = cost_cpu.parts(direction, g, 8 * size, activation, bias, on.clock)
    outputs = g.batch * g.channels * g.outputs
    least = size * (g.batch * g.channels * g.length + outputs + g.channels * g.taps)
    return Counted(parts, _SOURCE, textbook_flops=2.0 * outputs * g.taps, textbook_bytes=float(least))
