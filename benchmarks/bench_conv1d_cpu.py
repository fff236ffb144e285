"""Depthwise convolution on the CPU beside SciPy, each row checked before it is timed.

python -m pytest benchmarks/bench_conv1d_cpu.py --record benchmarks/results/NAME.json

SciPy's ``correlate1d`` goes through the channels in a loop; ``oaconvolve``, for long taps, takes all at once. Data are
standard normal. The error of a row is the largest relative to the sum of absolute terms of the same output, against a
loop over taps in float64; for long taps, to the largest such sum of a channel. Rows of float16 are beside SciPy in
float32.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.ndimage import correlate1d
from scipy.signal import oaconvolve

import cukde
from tests import reference

_B, _C, _L = 8, 64, 2048
_LONG = (4, 32, 16384)
_TOLERANCE = {"float64": 2e-15, "float32": 1e-6, "float16": 2**-11 + 1e-6}
_DTYPES = ("float32", "float64", "float16")


def _data(shape: tuple[int, int, int], taps: int, dtype: str) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.standard_normal(shape).astype(dtype), rng.standard_normal((shape[1], taps)).astype(dtype)


def _row(op: str, shape: tuple[int, int, int], taps: int, dtype: str, error: float, **more: Any) -> dict[str, Any]:
    assert error <= _TOLERANCE[dtype]
    sizes: dict[str, Any] = dict(zip(("batch", "channels", "length"), shape, strict=True)) | {"taps": taps} | more
    return {"op": op, "backend": "cpu", "shape": sizes, "dtype": dtype, "precision": dtype, "rel_err_max": error}


def _loop_over_channels(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    y = np.empty_like(x)
    taps = w.shape[1]
    for c in range(x.shape[1]):  # causal: output i meets inputs i - taps + 1 to i
        correlate1d(x[:, c], w[c], axis=1, output=y[:, c], mode="constant", origin=taps - 1 - taps // 2)
    return y


def _wide(dtype: str, *arrays: np.ndarray) -> list[np.ndarray]:
    """Arrays of a dtype that SciPy has."""
    return [a.astype(np.float32) if dtype == "float16" else a for a in arrays]


@pytest.mark.parametrize("layout", ["BCL", "BLC"])
@pytest.mark.parametrize("activation", [None, "silu", "gelu"])
@pytest.mark.parametrize("taps", [4, 31])
@pytest.mark.parametrize("dtype", _DTYPES)
def bench_forward_cpu(compare: Callable[..., None], dtype: str, taps: int, activation: Any, layout: str) -> None:
    shape = (_B, _C, _L)
    x, w = _data(shape, taps, dtype)
    expected = reference.conv1d(x[:1], w, activation=activation)
    scale = 1.13 * reference.conv1d(np.abs(x[:1]), np.abs(w))
    held = np.ascontiguousarray(x.transpose(0, 2, 1)) if layout == "BLC" else x

    def ours() -> np.ndarray:
        return cukde.depthwise_conv1d(held, w, activation=activation, layout=layout)

    def error(y: np.ndarray) -> float:
        return float((np.abs(y[:1] - expected) / scale).max())

    y = ours()
    more = {"layout": layout, "activation": activation or "none"}
    row = _row("forward", shape, taps, dtype, error(y.transpose(0, 2, 1) if layout == "BLC" else y), **more)
    peers = {}
    if activation is None:
        given = _wide(dtype, x, w)
        peers["SciPy correlate1d"] = (lambda: _loop_over_channels(*given), error(_loop_over_channels(*given)))
    compare(ours, row, peers)


@pytest.mark.parametrize("taps", [4, 31])
@pytest.mark.parametrize("dtype", _DTYPES)
def bench_input_grad_cpu(compare: Callable[..., None], dtype: str, taps: int) -> None:
    shape = (_B, _C, _L)
    dy, w = _data(shape, taps, dtype)
    expected = reference.conv1d_input_grad(dy[:1], w, input_length=_L)
    scale = reference.conv1d_input_grad(np.abs(dy[:1]), np.abs(w), input_length=_L)
    error = np.abs(cukde.depthwise_conv1d_input_grad(dy, w)[:1] - expected) / scale
    row = _row("input grad", shape, taps, dtype, float(error.max()))
    compare(lambda: cukde.depthwise_conv1d_input_grad(dy, w), row, {})


@pytest.mark.parametrize("layout", ["BCL", "BLC"])
@pytest.mark.parametrize("taps", [4, 31])
@pytest.mark.parametrize("dtype", _DTYPES)
def bench_weight_grad_cpu(compare: Callable[..., None], dtype: str, taps: int, layout: str) -> None:
    shape = (_B, _C, _L)
    dy, _ = _data(shape, taps, dtype)
    x = np.roll(dy, 5, axis=0)
    expected = reference.conv1d_weight_grad(x, dy, taps)
    scale = reference.conv1d_weight_grad(np.abs(x), np.abs(dy), taps)
    held = [np.ascontiguousarray(a.transpose(0, 2, 1)) if layout == "BLC" else a for a in (x, dy)]

    def ours() -> np.ndarray:
        return cukde.depthwise_conv1d_weight_grad(*held, taps, layout=layout)

    error = np.abs(ours() - expected) / scale
    compare(ours, _row("weight grad", shape, taps, dtype, float(error.max()), layout=layout), {})


@pytest.mark.parametrize("taps", [128, 256, 512, 1024, 4096])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def bench_long_taps_cpu(compare: Callable[..., None], dtype: str, taps: int) -> None:
    x, w = _data(_LONG, taps, dtype)
    expected = reference.conv1d(x[:1], w)
    scale = reference.conv1d(np.abs(x[:1]), np.abs(w)).max(axis=2, keepdims=True)

    def theirs() -> np.ndarray:
        return oaconvolve(x, w[None, :, ::-1], axes=2)[:, :, : x.shape[2]]

    def error(y: np.ndarray) -> float:
        return float((np.abs(y[:1] - expected) / scale).max())

    row = _row("forward", _LONG, taps, dtype, error(cukde.depthwise_conv1d(x, w)))
    compare(lambda: cukde.depthwise_conv1d(x, w), row, {"SciPy oaconvolve": (theirs, error(theirs()))})
