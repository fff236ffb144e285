"""What depthwise convolution and its gradients cost, on a GPU by the kernel that the library takes, and on a CPU."""

from __future__ import annotations

from typing import Any

import numpy as np

from cukde.conv1d import check, cost_cpu, cost_gpu
from cukde.conv1d.choice import Pass
from cukde.conv1d.geometry import Geometry
from cukde.core import check as core_check
from cukde.core.cost import elementwise
from cukde.core.cost.cost import Counted, Part, Unit
from cukde.core.cost.peaks import Peaks

_SOURCE = (
    "multiply-adds and bytes: CUDA Kernel Optimization and Counter-Free Performance Analysis for Depthwise Convolution "
    "(arXiv 2604.25422); instructions: counted in kernels_cu/conv1d*.cu"
)

# Of a number, as many operations one at a time as these steps of NumPy and SciPy take as long as: a choice by a
# condition at random, narrowed to half the bits and back, and a scaled complementary error function. Measured in the
# fastest cache of a core of 4.1e9 a second: 3.5, 2.8 and 19.8 ns.
_CHOSEN, _NARROWED, _ERFCX = 14, 12, 80

_OF_ACTIVATION = "passes over memory and exponentials, counted in cukde/conv1d/activations.py"


def forward(
    on: Peaks,
    *,
    batch: int,
    channels: int,
    length: int,
    taps: int,
    dtype: Any = "float32",
    padding: Any = "causal",
    stride: int = 1,
    dilation: int = 1,
    activation: str | None = None,
    layout: str = "BCL",
) -> Counted:
    """Count the convolution of (batch, channels, length), whatever the layout; a state's first outputs are left out."""
    check.activation(activation)
    return _counted(
        "forward", on, _geometry(batch, channels, length, taps, padding, stride, dilation, layout), dtype, activation
    )


def input_grad(
    on: Peaks,
    *,
    batch: int,
    channels: int,
    length: int,
    taps: int,
    dtype: Any = "float32",
    padding: Any = "causal",
    stride: int = 1,
    dilation: int = 1,
    layout: str = "BCL",
) -> Counted:
    """Count the gradient by the input, of ``length`` positions."""
    return _counted(
        "input_grad", on, _geometry(batch, channels, length, taps, padding, stride, dilation, layout), dtype
    )


def weight_grad(
    on: Peaks,
    *,
    batch: int,
    channels: int,
    length: int,
    taps: int,
    dtype: Any = "float32",
    padding: Any = "causal",
    stride: int = 1,
    dilation: int = 1,
    layout: str = "BCL",
    bias: bool = False,
) -> Counted:
    """Count the gradient by the taps, and by the bias."""
    g = _geometry(batch, channels, length, taps, padding, stride, dilation, layout)
    return _counted("weight_grad", on, g, dtype, bias=bias)


def activation_grad(on: Peaks, *, n: int, name: str | None, dtype: Any = "float32") -> Counted:
    """Count the derivative of an activation at n points: passes over memory, one for each step of the formula."""
    check.activation(name)
    size = _floating(dtype).itemsize
    wide = max(size, 4)
    if name is None:
        return Counted((elementwise.passes("ones", on, n, float(n * size)),), _OF_ACTIVATION)
    # Numbers read and written, by the size of the arithmetic: conversions, the point below zero, which is bounded, and
    # the choice at the end, a comparison's one byte twice; then those of silu or gelu of one array, of two.
    conversions = 2 * (size < wide)
    ends = (size + wide) * conversions + (wide + wide) * 2 + (size + 1) + 2 * wide + (1 + 3 * wide)
    of_one, of_two, exponentials = {"silu": (3, 3, 1), "gelu": (9, 7, 3)}[name]
    narrow = 0 if name == "silu" else 3 * wide  # the leading half of the bits, and back
    exponential: Unit = "exponential_f64" if wide == 8 else "exponential"
    work: dict[Unit, float] = {exponential: float(exponentials * n)}
    sums = (of_one + of_two + 4) * float(n)
    work["float64" if wide == 8 else "fma"] = sums
    traffic = float(n) * (ends + 2 * wide * of_one + 3 * wide * of_two + narrow)
    if on.backend == "cpu":  # NumPy's passes run on one core
        narrowed = (name == "gelu") + (size < wide)
        work["scalar"] = float(n) * (_CHOSEN + _NARROWED * narrowed + _ERFCX * (name == "gelu"))
        return Counted((Part("passes", traffic, work, blocks=1.0),), _OF_ACTIVATION)
    launches = of_one + of_two + 5 + 2 * (name == "gelu") + conversions
    passes = elementwise.passes("passes", on, float(n) * launches, traffic, launches=launches, work=work)
    return Counted((passes,), _OF_ACTIVATION)


# --------------------------------------------------------------------------------------- the sizes of a call


def forward_sizes(x: Any, w: Any, **options: Any) -> dict[str, Any]:
    """Sizes of a call of ``depthwise_conv1d``."""
    layout = options.get("layout", "BCL")
    kept = {name: options[name] for name in ("padding", "stride", "dilation", "activation") if name in options}
    return _sizes(x, layout) | {"taps": _shape(w)[1], "dtype": _promoted(x, w), "layout": layout} | kept


def input_grad_sizes(dy: Any, w: Any, *, input_length: int | None = None, **options: Any) -> dict[str, Any]:
    """Sizes of a call of ``depthwise_conv1d_input_grad``."""
    layout = options.get("layout", "BCL")
    kept = {name: options[name] for name in ("padding", "stride", "dilation") if name in options}
    sizes, taps = _sizes(dy, layout), _shape(w)[1]
    sizes["length"] = check.input_length(
        input_length,
        sizes["length"],
        taps,
        kept.get("padding", "causal"),
        kept.get("stride", 1),
        kept.get("dilation", 1),
    )
    return sizes | {"taps": taps, "dtype": _promoted(dy, w), "layout": layout} | kept


def weight_grad_sizes(x: Any, dy: Any, kernel_size: int, **options: Any) -> dict[str, Any]:
    """Sizes of a call of ``depthwise_conv1d_weight_grad``."""
    layout = options.get("layout", "BCL")
    kept = {name: options[name] for name in ("padding", "stride", "dilation", "bias") if name in options}
    return _sizes(x, layout) | {"taps": kernel_size, "dtype": _promoted(x, dy), "layout": layout} | kept


def activation_grad_sizes(name: str | None, z: Any) -> dict[str, Any]:
    """Sizes of a call of ``activation_grad``."""
    return {"n": int(np.prod(_shape(z))), "name": name, "dtype": _promoted(z)}


def _shape(a: Any) -> tuple[int, ...]:
    return tuple(map(int, a.shape if hasattr(a, "shape") else np.shape(a)))


def _sizes(a: Any, layout: str) -> dict[str, Any]:
    names = {"B": "batch", "C": "channels", "L": "length"}
    return {names[letter]: size for letter, size in zip(layout, _shape(a), strict=True)}


def _promoted(*arrays: Any) -> str:
    """Name of the dtype of a result; integers become float64."""
    dtypes = (a.dtype if hasattr(a, "dtype") else np.asarray(a).dtype for a in arrays)
    return _floating(np.result_type(*dtypes)).name


# ----------------------------------------------------------------------------------------------- the counting


def _floating(dtype: Any) -> np.dtype:
    given = np.dtype(dtype)
    return given if given.kind == "f" else np.dtype(np.float64)


def _geometry(
    batch: int, channels: int, length: int, taps: int, padding: Any, stride: int, dilation: int, layout: str
) -> Geometry:
    stride, dilation = check.options(padding, stride, dilation, layout)
    taps = check.kernel_size(taps)
    length = core_check.count("length", length)
    shape = (int(batch), int(channels), length) if layout == "BCL" else (int(batch), length, int(channels))
    return check.geometry(shape, taps, padding, stride, dilation, layout, False)


def _counted(
    of: Pass, on: Peaks, g: Geometry, dtype: Any, activation: str | None = None, bias: bool = False
) -> Counted:
    size = _floating(dtype).itemsize
    if on.backend == "gpu":
        parts = cost_gpu.parts(of, g, 8 * size, activation, bias, on)
    else:
        parts = cost_cpu.parts(of, g, 8 * size, activation, bias, on.clock)
    outputs = g.batch * g.channels * g.outputs
    least = size * (g.batch * g.channels * g.length + outputs + g.channels * g.taps)
    return Counted(parts, _SOURCE, textbook_flops=2.0 * outputs * g.taps, textbook_bytes=float(least))
