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
    return None, elementwise.by_name(value)


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
    return FUSED + tuple(name for name in elementwise.names() if name not in FUSED)


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


class Operands(NamedTuple):
    """Checked arrays of a convolution, its sizes, and the dtype of the result."""

    signal: Any
    taps: Any
    bias: Any | None
    state: Any | None
    geometry: Geometry
    dtype: np.dtype


def operands(
    x: Any,
    w: Any,
    b: Any,
    before: Any,
    backend: ModuleType,
    *,
    padding: Any,
    stride: int,
    dilation: int,
    layout: str,
    flip: bool,
    return_state: bool,
) -> Operands:
    """Check the shapes of inputs, taps, bias and state; :func:`options` has checked the options."""
    x = signal("x", x, layout, backend)
    w = weights(w, x.shape[layout.index("C")], "x", backend)
    g = geometry(x.shape, w.shape[1], padding, stride, dilation, layout, flip)
    if b is not None:
        b = bias(b, g.channels, backend)
    if before is not None:
        before = state(before, g.shape(g.reach), backend)
    if before is not None or return_state:
        streams(padding, g.length, g.stride, returned=return_state)
    return Operands(x, w, b, before, g, result_dtype(x, w))


def geometry(
    shape: tuple[int, ...], taps: int, padding: Any, stride: int, dilation: int, layout: str, flip: bool
) -> Geometry:
    """Return the sizes of a convolution of an input of this shape; :func:`options` has checked the options."""
    batch, channels, length = shape if layout == "BCL" else (shape[0], shape[2], shape[1])
    reach = (taps - 1) * dilation
    before, after = sides(padding, taps, dilation)
    if length + before + after < reach + 1:
        spaced = f" {dilation} apart" if dilation > 1 else ""
        raise ValueError(
            f"the {taps} taps{spaced} of w must fit into the padded input of length "
            f"{length} + {before} + {after}; they span {reach + 1}"
        )
    return Geometry(batch, channels, length, taps, stride, dilation, before, after, layout == "BLC", flip)


def sides(padding: Any, taps: int, dilation: int) -> tuple[int, int]:
    """Return the numbers of zeros before and after the input."""
    reach = (taps - 1) * dilation
    if padding == "causal":
        return reach, 0
    if padding == "same":
        before = (taps - 1) // 2 * dilation
        return before, reach - before
    return (0, 0) if padding == "valid" else (int(padding), int(padding))


def options(padding: Any, stride: Any, dilation: Any, layout: Any) -> tuple[int, int]:
    """Check options that do not depend on arrays; return the stride and the dilation."""
    core_check.option("layout", layout, LAYOUTS)
    steps = _size("stride", stride), _size("dilation", dilation)
    if isinstance(padding, str | bool) or not isinstance(padding, int | np.integer):
        core_check.option("padding", padding, PADDINGS, " or a number of zeros")
    elif padding < 0:
        raise ValueError(f"padding must not be negative; got {padding}")
    elif padding > _LARGEST:
        raise ValueError(f"padding must be at most {_LARGEST}; got {padding}")
    return steps


def kernel_size(count: Any) -> int:
    """Check a number of taps."""
    return _size("kernel_size", count)


def _size(name: str, value: Any) -> int:
    out = core_check.count(name, value)
    if out > _LARGEST:
        raise ValueError(f"{name} must be at most {_LARGEST}; got {out}")
    return out


def input_length(value: Any, outputs: int, taps: int, padding: Any, stride: int, dilation: int) -> int:
    """Return the length of the input of a convolution with so many outputs; ``value`` may be None for stride 1."""
    reach = (taps - 1) * dilation
    before, after = sides(padding, taps, dilation)
    least = max(1, (outputs - 1) * stride + reach + 1 - before - after)
    if value is None:
        if stride > 1:
            raise ValueError(
                f"input_length must be given with stride {stride}: inputs of several lengths have {outputs} outputs"
            )
        if outputs + reach - before - after < 1:
            raise ValueError(
                f"dy must have more than {before + after - reach} positions for padding={padding!r}; got {outputs}"
            )
        return outputs + reach - before - after
    length = _size("input_length", value)
    if length + before + after < reach + 1 or (length + before + after - reach - 1) // stride + 1 != outputs:
        most = outputs * stride + reach - before - after
        raise ValueError(f"input_length must be {_range(least, most)} for the {outputs} positions of dy; got {length}")
    return length


def _range(least: int, most: int) -> str:
    return str(least) if least >= most else f"from {least} to {most}"


def gradient(dy: Any, g: Geometry) -> None:
    """Check the shape of a gradient against a convolution."""
    expected = g.shape(g.outputs)
    if dy.shape != expected:
        raise ValueError(f"dy must have shape {expected} like the convolution of x; got {dy.shape}")


def result_dtype(*arrays: Any) -> np.dtype:
    """Return NumPy's promoted dtype; integers become float64."""
    dtype = dtypes.promoted(*(a.dtype for a in arrays))
    return dtype if dtype.kind == "f" else np.dtype(np.float64)
