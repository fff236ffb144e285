"""Depthwise convolution by Fourier transforms on the GPU, and which way of a convolution is chosen."""

from __future__ import annotations

import itertools
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from tests import reference, tolerances
from tests.conftest import Backend
from tests.conv1d.cases import expected, expected_grad, expected_weight_grad, rows_of
from tests.private import Geometry, conv1d_engine, conv1d_plan, tensor_cores_serve

# Of the norms of x and w, before the rounding of the result: see cukde/conv1d/gpu/fft.py.
NORMS = {"float16": 3e-7, "float32": 1e-15, "float64": 1e-15}
ROUNDING = {"float16": (2.0**-11, 2.0**-25), "float32": (2.0**-24, 2.0**-126), "float64": (2.0**-52, 0)}

GEOMETRIES = [
    Geometry(2, 3, 40, 40, 1, 1, 39, 0, False, False),
    Geometry(2, 3, 61, 35, 1, 1, 50, 80, False, True),  # padding larger than the taps
    Geometry(3, 2, 50, 9, 3, 2, 4, 11, True, False),
    Geometry(2, 3, 77, 5, 2, 7, 0, 3, False, True),
    Geometry(1, 1, 1, 1, 1, 1, 0, 0, True, False),
]


@pytest.fixture
def fft(device: Backend) -> ModuleType:
    """The passes, on the device."""
    from cukde.conv1d.gpu import fft as conv1d_fft

    return conv1d_fft


def numbers(dtype: str, *shape: int) -> np.ndarray:
    return np.random.default_rng(shape).standard_normal(shape).astype(dtype)


def check(got: np.ndarray, want: np.ndarray, norms: np.ndarray) -> None:
    relative, absolute = ROUNDING[got.dtype.name]
    error = np.abs(got.astype(np.float64) - want)
    tolerances.check(error, NORMS[got.dtype.name] * norms + relative * np.abs(want) + absolute, "convolution")


def norm(a: np.ndarray) -> np.ndarray:
    return np.linalg.norm(a, axis=-1, keepdims=True)


@pytest.mark.parametrize("dtype", NORMS)
@pytest.mark.parametrize("workspace", [2**28, 3000], ids=["at once", "in blocks"])
@pytest.mark.parametrize("g", GEOMETRIES)
def test_passes(
    device: Backend, fft: ModuleType, monkeypatch: pytest.MonkeyPatch, g: Geometry, workspace: int, dtype: str
) -> None:
    monkeypatch.setattr(fft, "_WORKSPACE", workspace)
    x, dy, w = (
        numbers(dtype, *g.shape(g.length)),
        numbers(dtype, *g.shape(g.outputs)),
        numbers(dtype, g.channels, g.taps),
    )
    bias = numbers("float64" if dtype == "float64" else "float32", g.channels)
    x_on, dy_on, w_on, bias_on = map(device.asarray, (x, dy, w, bias))

    y = device.asnumpy(fft.forward(x_on, w_on, bias_on, g, None))
    want = expected(x, w, bias, g).value
    assert y.shape == g.shape(g.outputs)
    check(rows_of(y, g).astype(dtype), want, norm(rows_of(x, g)) * norm(w.astype(np.float64)) + np.abs(bias[:, None]))

    dx = device.asnumpy(fft.input_grad(dy_on, w_on, g))
    assert dx.shape == g.shape(g.length)
    want = expected_grad(dy, w, g).value
    check(rows_of(dx, g).astype(dtype), want, norm(rows_of(dy, g)) * norm(w.astype(np.float64)))

    dw, dbias = fft.weight_grad(x_on, dy_on, g, True)
    norms = (norm(rows_of(x, g)) * norm(rows_of(dy, g))).sum(axis=0)
    want, size = expected_weight_grad(x, dy, g)
    check(device.asnumpy(dw), want[:, :-1], norms)
    check(device.asnumpy(dbias), want[:, -1], size[:, -1])
    assert fft.weight_grad(x_on, dy_on, g, False)[1] is None
    again = fft.weight_grad(x_on, dy_on, g, False)[0]
    np.testing.assert_array_equal(device.asnumpy(again), device.asnumpy(dw))


@pytest.mark.parametrize("activation", ["silu", "gelu"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_activation(device: Backend, fft: ModuleType, dtype: str, activation: str) -> None:
    g = Geometry(1, 2, 30, 10, 1, 1, 9, 0, False, False)
    x, w = device.asarray(numbers(dtype, 1, 2, 30)), device.asarray(numbers(dtype, 2, 10))
    z = device.asnumpy(fft.forward(x, w, None, g, None)).astype(np.float64)
    y = fft.forward(x, w, None, g, activation)
    np.testing.assert_allclose(
        device.asnumpy(y), reference.activated(z, activation), rtol=0, atol=8 * np.finfo(dtype).eps
    )


def test_lengths_of_transforms() -> None:
    """The least that have no factor but 2, 3 and 5."""
    smooth = sorted(2**a * 3**b * 5**c for a in range(14) for b in range(9) for c in range(6))
    for n in range(1, 3000):
        assert conv1d_plan.fast_length(n) == next(m for m in smooth if m >= n)


def choose(of: str, dtype: str, capability: tuple[int, int] = (9, 0), **sizes: Any) -> str:
    given = {"batch": 16, "channels": 128, "length": 4096, "taps": 512, "stride": 1, "dilation": 1}
    g = Geometry(**{**given, "before": 0, "after": 0, "channels_last": False, "flip": False, **sizes})  # type: ignore[arg-type]
    g = g._replace(before=g.reach)
    return conv1d_engine(of, dtype, g, capability)  # type: ignore[arg-type]


def test_an_engine_for_every_geometry() -> None:
    """One that serves it, and none but sums for small work."""
    for of, dtype, capability, taps, stride, dilation, last, batch in itertools.product(
        ("forward", "input_grad", "weight_grad"),
        NORMS,
        ((7, 5), (8, 0), (8, 9), (9, 0), (12, 0)),
        (1, 2, 31, 513, 20_000),
        (1, 3),
        (1, 2),
        (False, True),
        (0, 1, 1024, 2**26),
    ):
        sizes = {"taps": taps, "stride": stride, "dilation": dilation, "channels_last": last, "batch": batch}
        chosen = choose(of, dtype, capability, **sizes, length=5000, channels=64)
        assert chosen in ("direct", "toeplitz", "fft")
        if chosen == "toeplitz":
            g = Geometry(batch, 64, 5000, taps, stride, dilation, taps - 1, 0, last, False)
            assert of != "weight_grad"
            assert tensor_cores_serve(dtype, g, capability)
        if taps < 100 and not (dtype == "float64" and capability[1] | (capability[0] > 10)):
            assert chosen != "fft"
