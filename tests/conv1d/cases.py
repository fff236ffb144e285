"""Depthwise convolutions as a backend is asked for them: sizes, and what float64 sums of the definition are."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from types import ModuleType
from typing import Any, NamedTuple
from unittest import mock

import numpy as np

from tests import reference, tolerances
from tests.conftest import forget
from tests.private import Geometry

ALLOWED = {"float16": 2.0**-20, "float32": 2.0**-20, "float64": 2.0**-49}  # of the sum of absolute terms
HALF = 2.0**-11, 2.0**-25  # a rounding to float16: relative, and absolute where the result is denormal


class Expected(NamedTuple):
    """Values, and the sums of the absolute values of their terms."""

    value: np.ndarray
    size: np.ndarray


def geometry(
    batch: int,
    channels: int,
    length: int,
    taps: int,
    *,
    stride: int = 1,
    dilation: int = 1,
    before: int | None = None,
    after: int = 0,
    last: bool = False,
    flip: bool = False,
) -> Geometry:
    """Causal unless told otherwise."""
    before = (taps - 1) * dilation if before is None else before
    return Geometry(batch, channels, length, taps, stride, dilation, before, after, last, flip)


def rows_of(a: np.ndarray, g: Geometry) -> np.ndarray:
    """An array in float64 with its positions last."""
    return (a.swapaxes(1, 2) if g.channels_last else a).astype(np.float64)


def met(g: Geometry) -> tuple[np.ndarray, np.ndarray]:
    """Of taps and outputs: positions of the inputs that they meet, and whether there are such inputs."""
    at = np.arange(g.outputs) * g.stride + np.arange(g.taps)[:, None] * g.dilation - g.before
    return np.clip(at, 0, g.length - 1), (at >= 0) & (at < g.length)


def expected(x: np.ndarray, w: np.ndarray, bias: np.ndarray | None, g: Geometry) -> Expected:
    """Outputs, with positions last."""
    sizes = None if bias is None else np.abs(bias)
    y = reference.conv1d(x, w, bias=bias, **_options(g))
    return Expected(*(rows_of(a, g) for a in (y, reference.conv1d(np.abs(x), np.abs(w), bias=sizes, **_options(g)))))


def expected_grad(dy: np.ndarray, w: np.ndarray, g: Geometry) -> Expected:
    """Gradient by the inputs, with positions last."""
    of = (dy, w), (np.abs(dy), np.abs(w))
    return Expected(*(rows_of(reference.conv1d_input_grad(*a, input_length=g.length, **_options(g)), g) for a in of))


def expected_weight_grad(x: np.ndarray, dy: np.ndarray, g: Geometry) -> Expected:
    """Gradients by the taps, and in one more column by the bias."""

    def both(x: np.ndarray, dy: np.ndarray) -> np.ndarray:
        dw = reference.conv1d_weight_grad(x, dy, g.taps, **_options(g))
        return np.column_stack([dw, np.ascontiguousarray(rows_of(dy, g)).sum(axis=2).sum(axis=0)])

    return Expected(both(x, dy), both(np.abs(x), np.abs(dy)))


def activated(want: Expected, activation: str | None) -> Expected:
    """After the activation, whose slope is at most 1.13."""
    if activation is None:
        return want
    return Expected(reference.activated(want.value, activation), 1.13 * want.size)


def check(got: np.ndarray, want: Expected, g: Geometry, terms: int) -> None:
    """Errors grow with the number of terms, as those of any sum in a row do."""
    error = np.abs(rows_of(got, g) - want.value)
    allowed = ALLOWED[got.dtype.name] * max(1.0, terms / 64) * want.size
    if got.dtype == np.float16:
        allowed = allowed + HALF[0] * np.abs(want.value) + HALF[1]
    tolerances.check(error, allowed + 8 * float(np.finfo(np.float32).tiny), "convolution")


def sample(g: Geometry, positions: int, dtype: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """An array of so many positions, weights and biases."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal(g.shape(positions)).astype(dtype)
    w = rng.standard_normal((g.channels, g.taps)).astype(dtype)
    return x, w, rng.standard_normal(g.channels).astype("f8" if dtype == "float64" else "f4")


@contextlib.contextmanager
def changed(module: ModuleType, *others: ModuleType, **constants: Any) -> Iterator[None]:
    """Other constants of a module; ``others`` remember what they were."""
    with mock.patch.multiple(module, **constants):
        forget(module, *others)
        yield
    forget(module, *others)


def _options(g: Geometry) -> dict[str, Any]:
    layout = "BLC" if g.channels_last else "BCL"
    return {
        "padding": (g.before, g.after),
        "stride": g.stride,
        "dilation": g.dilation,
        "layout": layout,
        "flip": g.flip,
    }
