"""Argument checks of depthwise convolution, made before anything is computed."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from cukde.conv1d.geometry import Geometry
from cukde.core import check as core_check, dtypes, elementwise

FUSED = ("silu", "gelu")
"""Activations that passes apply before they write a result."""

LAYOUTS = ("BCL", "BLC")
_LARGEST = 2**31 - 1
"""Of taps, positions and steps, with which CUDA kernels index a row."""

PADDINGS = ("causal", "same", "valid")


def activation(value: Any) -> tuple[str | None, Callable[[Any], Any] | None]:
    """Check an activation; return the name of one that passes apply, and a function to apply to their result."""
    if value is None or (isinstance(value, str) and value in FUSED):
        return value, None
    if callable(value):
        return None, value
    core_check.option("activation", value, _names(), ", a function of an array or None")
    return None, elementwise.BY_NAME[value]


def name_of_activation(value: Any) -> str | None:
    """Check an activation whose derivative is known; return its name, or None for the identity."""
    name = value if isinstance(value, str | None) else elementwise.name_of(value)
    if name is None and value is not None:
        raise ValueError(
            f"activation must be one of {', '.join(map(repr, _names()))} or None, or that function of cukde.functions; "
            f"got {value!r}: write p(z, 1) for the derivative of a piecewise polynomial p"
        )
    if name is not None:
        core_check.option("activation", name, _names(), " or None")
    return name


def _names() -> tuple[str, ...]:
    return tuple(dict.fromkeys((*FUSED, *elementwise.BY_NAME)))


def activated(out: Any, sums: Any) -> Any:
    """Check what a function has made of the sums, an array of their kind."""
    if type(out) is not type(sums) or out.shape != sums.shape or out.dtype != sums.dtype:
        kind = f"{type(out).__name__} of shape {getattr(out, 'shape', None)} and dtype {getattr(out, 'dtype', None)}"
        raise ValueError(
            f"activation must return an array of the shape {sums.shape} and dtype {sums.dtype} of the sums; got {kind}"
        )
    return out


def signal(name: str, a: Any, layout: str, backend: ModuleType) -> Any:
    """Return an array of batch, channels and positions."""
    out = core_check.array(name, a, backend, rounded=True, points="")
    if out.ndim != 3:
        raise ValueError(f'{name} must have shape ({_axes(layout)}) for layout="{layout}"; got {out.shape}')
    if 0 in out.shape[1:]:
        raise ValueError(
            f"{name} must have at least one channel and one position; got shape {out.shape} ({_axes(layout)})"
        )
    return out


def _axes(layout: str) -> str:
    return ", ".join({"B": "batch", "C": "channels", "L": "length"}[letter] for letter in layout)


def weights(w: Any, channels: int, signals: str, backend: ModuleType) -> Any:
    """Return taps for the channels of the array named ``signals``."""
    out = per_channel(core_check.array("w", w, backend, rounded=True, points=""))
    if out.ndim != 2 or out.shape[1] == 0:
        raise ValueError(
            f"w must have shape (channels, taps), or (channels, 1, taps), with at least one tap; got {out.shape}"
        )
    if out.shape[0] != channels:
        raise ValueError(f"w must have {channels} rows like {signals} has channels; got shape {out.shape}")
    return out


def per_channel(w: Any) -> Any:
    """Return taps without the axis of groups that PyTorch's have, (channels, 1, taps); anything else unchanged."""
    shape: tuple[int, ...] = getattr(w, "shape", ())
    return w[:, 0] if len(shape) == 3 and shape[1] == 1 else w


def bias(b: Any, channels: int, backend: ModuleType) -> Any:
    """Return a bias."""
    out = core_check.array("bias", b, backend, rounded=True, points="")
    if out.shape != (channels,):
        raise ValueError(f"bias must have shape ({channels},), one for each channel; got {out.shape}")
    return out


def state(a: Any, shape: tuple[int, int, int], backend: ModuleType) -> Any:
    """Return a state of the shape it must have."""
    out = core_check.array("state", a, backend, rounded=True, points="")
    if out.shape != shape:
        raise ValueError(f"state must have shape {shape}, the last (taps - 1) * dilation inputs; got {out.shape}")
    return out


def streams(padding: Any, length: int, stride: int, *, returned: bool) -> None:
    """Check that the options allow a sequence in chunks."""
    if not isinstance(padding, str) or padding != "causal":
        raise ValueError(f'state and return_state need padding="causal"; got {padding!r}')
    if returned and length % stride:
        raise ValueError(
            f"with return_state the length of x must be a multiple of the stride {stride}; got {length}: "
            "keep the rest for the next chunk"
        )


class Options(NamedTuple):
    """Checked options of a convolution that do not depend on arrays."""

    padding: Any
    stride: int
    dilation: int
    layout: str
    flip: bool = False

    def shape(self, batch: int, channels: int, length: int) -> tuple[int, int, int]:
        """Shape of an array in the layout."""
        return (batch, channels, length) if self.layout == "BCL" else (batch, length, channels)


class Operands(NamedTuple):
    """Checked arrays of a convolution, its sizes, and the dtype of the result."""

    signal: Any
    taps: Any
    bias: Any | None
    state: Any | None
    geometry: Geometry
    dtype: np.dtype


def operands(
    x: Any, w: Any, b: Any, before: Any, backend: ModuleType, options: Options, return_state: bool
) -> Operands:
    """Check the shapes of inputs, taps, bias and state."""
    x = signal("x", x, options.layout, backend)
    w = weights(w, x.shape[options.layout.index("C")], "x", backend)
    g = geometry(x.shape, w.shape[1], options)
    if b is not None:
        b = bias(b, g.channels, backend)
    if before is not None:
        before = state(before, g.shape(g.reach), backend)
    if before is not None or return_state:
        streams(options.padding, g.length, g.stride, returned=return_state)
    return Operands(x, w, b, before, g, result_dtype(x, w))


def geometry(shape: tuple[int, ...], taps: int, options: Options) -> Geometry:
    """Return the sizes of a convolution of an input of this shape."""
    _, stride, dilation, layout, flip = options
    batch, channels, length = shape if layout == "BCL" else (shape[0], shape[2], shape[1])
    reach, before, after = sides(taps, options)
    if length + before + after < reach + 1:
        spaced = f" {dilation} apart" if dilation > 1 else ""
        raise ValueError(
            f"the {taps} taps{spaced} of w must fit into the padded input of length "
            f"{length} + {before} + {after}; they span {reach + 1}"
        )
    return Geometry(batch, channels, length, taps, stride, dilation, before, after, layout == "BLC", flip)


def sides(taps: int, options: Options) -> tuple[int, int, int]:
    """Return the distance of the first tap from the last, and the numbers of zeros before and after the input."""
    padding, reach = options.padding, (taps - 1) * options.dilation
    named = {"causal": (reach, 0), "same": (reach // 2, reach - reach // 2), "valid": (0, 0)}
    return reach, *(named[padding] if isinstance(padding, str) else (int(padding), int(padding)))


def options(
    padding: Any = "causal", stride: Any = 1, dilation: Any = 1, layout: Any = "BCL", flip: Any = False
) -> Options:
    """Check options that do not depend on arrays."""
    core_check.option("layout", layout, LAYOUTS)
    steps = size("stride", stride), size("dilation", dilation)
    if isinstance(padding, str | bool) or not isinstance(padding, int | np.integer):
        core_check.option("padding", padding, PADDINGS, " or a number of zeros")
    elif padding < 0:
        raise ValueError(f"padding must not be negative; got {padding}")
    elif padding > _LARGEST:
        raise ValueError(f"padding must be at most {_LARGEST}; got {padding}")
    return Options(padding, *steps, layout, core_check.flag("flip", flip))


def size(name: str, value: Any) -> int:
    """Check a number of taps, positions or steps."""
    out = core_check.count(name, value)
    if out > _LARGEST:
        raise ValueError(f"{name} must be at most {_LARGEST}; got {out}")
    return out


def input_length(value: Any, outputs: int, taps: int, options: Options) -> int:
    """Return the length of the input of a convolution with so many outputs; ``value`` may be None for stride 1."""
    (reach, before, after), stride = sides(taps, options), options.stride
    shortest = (outputs - 1) * stride + reach + 1 - before - after
    if value is None:
        if stride > 1:
            raise ValueError(
                f"input_length must be given with stride {stride}: inputs of several lengths have {outputs} outputs"
            )
        if shortest < 1:
            raise ValueError(
                f"dy must have more than {before + after - reach} positions for padding={options.padding!r}; "
                f"got {outputs}"
            )
        return shortest
    length, least = size("input_length", value), max(1, shortest)
    if length + before + after < reach + 1 or (length + before + after - reach - 1) // stride + 1 != outputs:
        most = outputs * stride + reach - before - after
        lengths = f"{least}" if least >= most else f"from {least} to {most}"
        raise ValueError(f"input_length must be {lengths} for the {outputs} positions of dy; got {length}")
    return length


def gradient(dy: Any, g: Geometry) -> None:
    """Check the shape of a gradient against a convolution."""
    expected = g.shape(g.outputs)
    if dy.shape != expected:
        raise ValueError(f"dy must have shape {expected} like the convolution of x; got {dy.shape}")


def result_dtype(*arrays: Any) -> np.dtype:
    """Return NumPy's promoted dtype; integers become float64."""
    dtype = dtypes.promoted(*(a.dtype for a in arrays))
    return dtype if dtype.kind == "f" else np.dtype(np.float64)
