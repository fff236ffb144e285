"""Depthwise convolution on the GPU: each pass by the engine that is the fastest one for it."""

from __future__ import annotations

from typing import Any

from cukde.conv1d import plan as conv1d_plan
from cukde.conv1d.geometry import Geometry
from cukde.conv1d.gpu import direct, fft, toeplitz, weight_grad as conv1d_weight_grad
from cukde.core import plan as core_plan
from cukde.core.gpu import device
from cukde.core.gpu.repeated import Kept, Repeated

REPEATED = Repeated(1024)
"""Convolutions by one launch of :mod:`cukde.conv1d.gpu.direct`, by their arrays and options."""

_BY_Y = {"direct": direct, "toeplitz": toeplitz, "fft": fft}
_BY_W = {"direct": conv1d_weight_grad, "fft": fft}


def forward(x: Any, w: Any, bias: Any | None, geometry: Geometry, activation: str | None) -> Any:
    """Convolve, as :func:`cukde.conv1d.cpu.passes.forward` does, of contiguous arrays.

    Notes
    -----
    Error of a float32 sum, relative to the sum of its terms' absolute values: 4e-7 for 31 taps of numbers of one sign,
    2e-6 for 1,000; 3e-7 where signs are mixed. What is not finite reaches no further than its taps. Denormal numbers of
    float32 count as zeros.

    Relative error that float32 adds with an activation of z: SiLU 6e-7, as long as exp(-z) is below 2^126, beyond
    which the result is zero; GELU by the complementary error function, whose argument is rounded, (5 + z^2) 2^-23. With
    exact exp and erfc in place of the device's, which add 2 and 4 units in the last place, 2e-7 and 1.4e-6 down to
    z = -5 were measured.
    """
    return _BY_Y[_engine("forward", x, geometry)].forward(x, w, bias, geometry, activation)


def input_grad(dy: Any, w: Any, geometry: Geometry) -> Any:
    """Gradient by x, of ``geometry.shape(geometry.length)`` and the dtype of ``dy``, for what :func:`forward` takes."""
    return _BY_Y[_engine("input_grad", dy, geometry)].input_grad(dy, w, geometry)


def weight_grad(x: Any, dy: Any, geometry: Geometry, bias: bool) -> tuple[Any, Any | None]:
    """Gradients by w, (channels, taps), and where it is wanted by the bias, (channels,), of the dtype of x.

    The same bits on every run.
    """
    return _BY_W[_engine("weight_grad", x, geometry)].weight_grad(x, dy, geometry, bias)


def keep(
    operands: tuple[Any, ...], g: Geometry, activation: str | None, arrays: tuple[Any, ...], options: tuple[Any, ...]
) -> None:
    """Keep a call, whose arrays became these operands of :func:`forward`, where one kernel takes them as they were."""
    x, shape = arrays[0], g.shape(g.outputs)
    if 0 in shape or any(a is not b for a, b in zip(arrays, operands, strict=True)):
        return
    if conv1d_plan.engine("forward", x.dtype, g, device.capability()) == "direct":
        launch = direct.launch(g, x.dtype, device.address(x) % 16 == 0, activation, None)
        name = launch.kernel.stem.removeprefix("conv1d/")
        REPEATED.keep(Kept(name, launch, shape, x.dtype), arrays, *options)


def _engine(operation: conv1d_plan.Pass, x: Any, geometry: Geometry) -> conv1d_plan.Engine:
    chosen = conv1d_plan.engine(operation, x.dtype, geometry, device.capability())
    if chosen == "fft":  # the others note their kernels
        core_plan.note(chosen)
    return chosen
