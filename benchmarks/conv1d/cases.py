"""Depthwise convolution on the CPU beside SciPy: calls, and checked rows.

SciPy's ``correlate1d`` goes through the channels in a loop; ``oaconvolve``, for long taps, takes all at once. Data are
standard normal. The error of a row is the largest relative to the sum of absolute terms of the same output, against a
loop over taps in float64; for long taps, to the largest such sum of a channel. Rows of float16 are beside SciPy in
float32.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from scipy.ndimage import correlate1d
from scipy.signal import oaconvolve

import cukde
from benchmarks.peers import Peer
from benchmarks.record import Case, checked
from tests import reference

Shape = tuple[int, int, int]  # B, C, L
Layout = Literal["BCL", "BLC"]

_TOLERANCE = {"float64": 2e-15, "float32": 1e-6, "float16": 2**-11 + 1e-6}


def forward(shape: Shape, taps: int, dtype: str, activation: Any = None, layout: Layout = "BCL") -> Case:
    """The causal convolution; SciPy beside it where there is no activation."""
    x, w = data(shape, taps, dtype)
    expected = reference.conv1d(x[:1], w, activation=activation)
    scale = 1.13 * reference.conv1d(np.abs(x[:1]), np.abs(w))
    held = np.ascontiguousarray(x.transpose(0, 2, 1)) if layout == "BLC" else x

    def ours() -> np.ndarray:
        return cukde.depthwise_conv1d(held, w, activation=activation, layout=layout)

    def error(y: np.ndarray) -> float:
        return float((np.abs(y[:1] - expected) / scale).max())

    y = ours()
    more = {"layout": layout, "activation": activation or "none"}
    about = _row("forward", shape, taps, dtype, error(y.transpose(0, 2, 1) if layout == "BLC" else y), **more)
    peers: dict[str, Peer | str] = {}
    if activation is None:
        given = _wide(dtype, x, w)
        peers["SciPy correlate1d"] = (lambda: _loop_over_channels(*given), error(_loop_over_channels(*given)))
    return Case(ours, about, peers)


def input_grad(shape: Shape, taps: int, dtype: str) -> Case:
    """The gradient by the input."""
    dy, w = data(shape, taps, dtype)
    expected = reference.conv1d_input_grad(dy[:1], w, input_length=shape[2])
    scale = reference.conv1d_input_grad(np.abs(dy[:1]), np.abs(w), input_length=shape[2])
    error = np.abs(cukde.depthwise_conv1d_input_grad(dy, w)[:1] - expected) / scale
    about = _row("input grad", shape, taps, dtype, float(error.max()))
    return Case(lambda: cukde.depthwise_conv1d_input_grad(dy, w), about, {})


def weight_grad(shape: Shape, taps: int, dtype: str, layout: Layout = "BCL") -> Case:
    """The gradient by the taps."""
    dy, _ = data(shape, taps, dtype)
    x = np.roll(dy, 5, axis=0)
    expected = reference.conv1d_weight_grad(x, dy, taps)
    scale = reference.conv1d_weight_grad(np.abs(x), np.abs(dy), taps)
    held, of = (np.ascontiguousarray(a.transpose(0, 2, 1)) if layout == "BLC" else a for a in (x, dy))

    def ours() -> np.ndarray:
        return cukde.depthwise_conv1d_weight_grad(held, of, taps, layout=layout)

    error = np.abs(ours() - expected) / scale
    return Case(ours, _row("weight grad", shape, taps, dtype, float(error.max()), layout=layout), {})


def long_taps(shape: Shape, taps: int, dtype: str) -> Case:
    """The convolution where Fourier transforms pay."""
    x, w = data(shape, taps, dtype)
    expected = reference.conv1d(x[:1], w)
    scale = reference.conv1d(np.abs(x[:1]), np.abs(w)).max(axis=2, keepdims=True)

    def theirs() -> np.ndarray:
        return oaconvolve(x, w[None, :, ::-1], axes=2)[:, :, : x.shape[2]]

    def error(y: np.ndarray) -> float:
        return float((np.abs(y[:1] - expected) / scale).max())

    about = _row("forward", shape, taps, dtype, error(cukde.depthwise_conv1d(x, w)))
    return Case(lambda: cukde.depthwise_conv1d(x, w), about, {"SciPy oaconvolve": (theirs, error(theirs()))})


def data(shape: Shape, taps: int, dtype: str) -> tuple[np.ndarray, np.ndarray]:
    """Sequences (B, C, L) and taps (C, K)."""
    rng = np.random.default_rng(0)
    return rng.standard_normal(shape).astype(dtype), rng.standard_normal((shape[1], taps)).astype(dtype)


def _row(op: str, shape: Shape, taps: int, dtype: str, error: float, **more: Any) -> dict[str, Any]:
    sizes: dict[str, Any] = dict(zip(("batch", "channels", "length"), shape, strict=True)) | {"taps": taps} | more
    about = {"op": op, "backend": "cpu", "shape": sizes, "dtype": dtype, "precision": dtype, "rel_err_max": error}
    return checked(about, _TOLERANCE[dtype])


def _loop_over_channels(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    y = np.empty_like(x)
    taps = w.shape[1]
    for c in range(x.shape[1]):  # causal: output i meets inputs i - taps + 1 to i
        correlate1d(x[:, c], w[c], axis=1, output=y[:, c], mode="constant", origin=taps - 1 - taps // 2)
    return y


def _wide(dtype: str, *arrays: np.ndarray) -> list[np.ndarray]:
    """Arrays of a dtype that SciPy has."""
    return [a.astype(np.float32) if dtype == "float16" else a for a in arrays]
