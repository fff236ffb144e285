"""Depthwise convolution on the tensor cores, against float64 sums from the definition."""

from __future__ import annotations

from types import ModuleType

import numpy as np
import pytest

from tests import reference, tolerances
from tests.conftest import Backend
from tests.conv1d.cases import expected, expected_grad
from tests.conv1d.toeplitz_cases import ROUNDING, SUMS, geometry_of, numbers
from tests.private import Geometry, tensor_cores_serve

DTYPES = ("float16", "float32")


@pytest.fixture
def toeplitz(device: Backend) -> ModuleType:
    """The launcher, on the device."""
    from cukde.conv1d.gpu import toeplitz as conv1d_toeplitz

    return conv1d_toeplitz


@pytest.mark.parametrize("taps", [64, 900])
def test_one_tile_a_warp(device: Backend, toeplitz: ModuleType, monkeypatch: pytest.MonkeyPatch, taps: int) -> None:
    """Of float32, which devices before 9.0 take."""
    monkeypatch.setattr("cukde.core.gpu.device.capability", lambda: (8, 0))
    g = geometry_of(1, 2, 2500, taps, taps - 1)
    x, w = numbers("float32", 1, 2, 2500), numbers("float32", 2, taps)
    x[0, 0, 700:] *= 1e-20
    check(run(device, toeplitz, x, w, g), *expected(x, w, None, g))


def check(got: np.ndarray, want: np.ndarray, size: np.ndarray, times: float = 1) -> None:
    """Finite where float64 rounded to the dtype is, and the same where it is not."""
    dtype = got.dtype.name
    relative, absolute = ROUNDING[dtype]
    with np.errstate(over="ignore"):
        rounded = want.astype(dtype)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
    edge = float(np.finfo(dtype).max) * (1 - 1e-3)
    finite = np.abs(want) < edge
    np.testing.assert_array_equal(got[np.abs(want) > edge * 1.01], rounded[np.abs(want) > edge * 1.01])
    error = np.abs(got[finite].astype(np.float64) - want[finite])
    tolerances.check(error, times * SUMS[dtype] * size[finite] + relative * np.abs(want[finite]) + absolute, "sum")


def run(
    device: Backend, toeplitz: ModuleType, x: np.ndarray, w: np.ndarray, g: Geometry, activation: str | None = None
) -> np.ndarray:
    assert tensor_cores_serve(x.dtype, g, (8, 0))
    return device.asnumpy(toeplitz.forward(device.asarray(x), device.asarray(w), None, g, activation))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("taps", "length", "before", "after"),
    [
        (1, 40, 0, None),
        (5, 64, 4, None),
        (31, 2048, 30, None),  # causal
        (31, 1037, 15, None),  # same
        (33, 515, 0, 0),  # valid
        (58, 530, 61, 70),  # padding larger than the taps
        (64, 1601, 63, None),
        (100, 333, 450, 3),  # and than the row
        (513, 4103, 512, None),
        (900, 2100, 450, 500),  # more than a chunk
    ],
)
def test_sums(
    device: Backend, toeplitz: ModuleType, dtype: str, taps: int, length: int, before: int, after: int | None
) -> None:
    g = geometry_of(2, 2, length, taps, before, after, flip=taps % 3 == 0)
    x, w = numbers(dtype, 2, 2, length), numbers(dtype, 2, taps)
    check(run(device, toeplitz, x, w, g), *expected(x, w, None, g))
    dy = numbers(dtype, 2, 2, g.outputs, seed=1)
    got = device.asnumpy(toeplitz.input_grad(device.asarray(dy), device.asarray(w), g))
    check(got, *expected_grad(dy, w, g))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("taps", [33, 65])  # a slip of one reaches another block
def test_every_alignment(device: Backend, toeplitz: ModuleType, dtype: str, taps: int) -> None:
    """Rows and arrays that begin anywhere, taps that slip by any number."""
    for length in range(90, 99):
        for offset in (0, 1, 5):
            g = geometry_of(1, 3, length, taps, (taps - length) % taps, 3)
            whole = numbers(dtype, 3 * length + 8, seed=length)
            x = device.asarray(whole)[offset : offset + 3 * length].reshape(1, 3, length)
            w = numbers(dtype, 3, taps)
            got = device.asnumpy(toeplitz.forward(x, device.asarray(w), None, g, None))
            host = whole[offset : offset + 3 * length].reshape(1, 3, length)
            check(got, *expected(host, w, None, g))


@pytest.mark.parametrize("activation", [None, "silu", "gelu"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("taps", [9, 65])
def test_bias_and_activation(
    device: Backend, toeplitz: ModuleType, dtype: str, taps: int, activation: str | None
) -> None:
    g = geometry_of(2, 3, 200, taps, taps - 1)
    x, w, bias = numbers(dtype, 2, 3, 200), numbers(dtype, 3, taps), np.array([-50, 0.5, 20], "f4")
    got = device.asnumpy(toeplitz.forward(*map(device.asarray, (x, w, bias)), g, activation))
    total, size = expected(x, w, None, g)
    z = total + bias[:, None].astype(np.float64)
    # The slope of both is below 1.13; exp and erfc, right to some ulps, take z as it is rounded.
    relative = 8 * 2.0**-24 * (1 + np.abs(z)) * np.abs(reference.activated(z, activation)) / SUMS[dtype]
    check(got, reference.activated(z, activation), size + np.abs(z) * 2.0**-24 / SUMS[dtype] + relative, 1.2)


@pytest.mark.parametrize("taps", [3, 64, 513])
def test_any_magnitude(device: Backend, toeplitz: ModuleType, taps: int) -> None:
    """From 1e-30 to 1e30 mixed within a row, next to zeros, and taps that decay below every term.

    Nothing is denormal: kernels take that for zero on a device, and not in emulation.
    """
    length = 3 * taps + 700
    x = numbers("float32", 1, 5, length)
    scale = np.random.default_rng(1).uniform(-30, 30, (1, 5, length))
    x[0, 0] *= 10.0 ** scale[0, 0]  # every number of its own
    x[0, 1] *= 10.0 ** np.repeat(scale[0, 1, :: 2 * taps], 2 * taps)[:length]  # stretches longer than the taps
    x[0, 2] = 1 + np.abs(x[0, 2]) % 1  # none that is far smaller than its neighbours
    x[0, 2, 5 : 2 * taps] = 0
    x[0, 2, 3 * taps :] *= 1e-10
    x[0, 3] *= 1e-36
    x[0, 4] *= 1e37
    w = numbers("float32", 5, taps)
    w[1] *= np.exp(-np.arange(taps) / 3, dtype="f4")
    w[2] *= 1e-5
    w[3] *= 1e30
    w[4] *= 1e-30
    for numbers_of_all in (x, w):
        numbers_of_all[np.abs(numbers_of_all) < np.finfo("f4").tiny] = 0
    g = geometry_of(1, 5, length, taps, taps - 1)
    check(run(device, toeplitz, x, w, g), *expected(x, w, None, g))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("taps", [20, 90])
def test_not_finite(device: Backend, toeplitz: ModuleType, dtype: str, taps: int) -> None:
    """Only where a tap meets what is not finite; infinities stay infinite."""
    x, w = numbers(dtype, 1, 4, 500), np.abs(numbers(dtype, 4, taps))
    x[0, 0, 100] = np.nan
    x[0, 1, [0, 250]] = np.inf, -np.inf
    w[2, [3, -1]] = np.nan, np.inf
    w[3, 0] = -np.inf
    x[0, 3, ::7] = 0
    g = geometry_of(1, 4, 500, taps, taps // 2)
    got, (want, size) = run(device, toeplitz, x, w, g), expected(x, w, None, g)
    assert np.isnan(want).any()
    assert np.isinf(want).any()
    assert np.isfinite(want).any()
    check(got, want, size)


def test_sums_beyond_float16(device: Backend, toeplitz: ModuleType) -> None:
    """They are infinite where float32's are too large for float16, and cancel where float32's do."""
    x = np.full((1, 1, 300), 60000, "f2")
    w = np.resize(np.array([60000, -60000, 1], "f2"), (1, 40))
    g = geometry_of(1, 1, 300, 40, 39)
    want, size = expected(x, w, None, g)
    assert np.abs(want).max() > 1e5
    assert np.abs(want).min() <= 60000
    check(run(device, toeplitz, x, w, g), want, size)


def test_empty(device: Backend, toeplitz: ModuleType) -> None:
    g = geometry_of(0, 3, 10, 5, 4)
    got = run(device, toeplitz, numbers("float32", 0, 3, 10), numbers("float32", 3, 5), g)
    assert got.shape == (0, 3, 10)
    assert got.dtype == np.float32


def test_what_it_does_not_serve(device: Backend, toeplitz: ModuleType) -> None:
    g = geometry_of(2, 3, 100, 5, 4)
    assert not tensor_cores_serve("float64", g, (9, 0))
    assert not tensor_cores_serve("float32", g, (7, 5))
    for other in (g._replace(stride=2), g._replace(dilation=2), g._replace(channels_last=True)):
        assert not tensor_cores_serve("float32", other, (9, 0))
    assert not tensor_cores_serve("float16", g._replace(batch=2**31), (9, 0))


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("sign", [False, True], ids=["one sign", "both signs"])
def test_tensor_cores_that_cut_off(dtype: str, sign: bool) -> None:
    """What the emulation, whose sums are exact, cannot show: long sums of one sign."""
    import cupy as cp

    from cukde.conv1d.gpu import toeplitz as conv1d_toeplitz

    g = geometry_of(4, 8, 9000, 4000, 3999)
    x, w = numbers(dtype, 4, 8, 9000), numbers(dtype, 8, 4000)
    if not sign:
        x, w = np.abs(x), np.abs(w)
    got = conv1d_toeplitz.forward(cp.asarray(x), cp.asarray(w), None, g, None).get()
    with np.errstate(over="ignore"):
        check(got, *expected(x, w, None, g))
