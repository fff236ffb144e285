"""Conversions of float16 on the CPU against NumPy's, bit by bit, and where blocks of a convolution need them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import cukde
from cukde.core.cpu import float16
from tests.private import conv1d_cpu as conv1d_passes

rng = np.random.default_rng(11)
EVERY = np.arange(2**16, dtype=np.uint16).view(np.float16)


def numpy_narrow(a: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        return a.astype(np.float16)


def narrow(a: np.ndarray) -> np.ndarray:
    out = np.empty(a.shape, np.float16)
    with np.errstate(all="raise"):
        float16.narrow(a, out)
    return out


def assert_same_bits(a: np.ndarray, b: np.ndarray) -> None:
    """Any NaN is as good as another, of its sign."""
    assert (a.dtype, a.shape) == (b.dtype, b.shape)
    np.testing.assert_array_equal(np.isnan(a), np.isnan(b))
    np.testing.assert_array_equal(np.signbit(a), np.signbit(b))
    bits = f"u{a.itemsize}"
    np.testing.assert_array_equal(a.view(bits)[~np.isnan(a)], b.view(bits)[~np.isnan(b)])


def test_widens_every_number() -> None:
    with np.errstate(all="raise"):
        wide = float16.widen(EVERY)
    np.testing.assert_array_equal(wide.view(np.uint32), EVERY.astype(np.float32).view(np.uint32))


def test_every_number_comes_back() -> None:
    assert_same_bits(narrow(float16.widen(EVERY)), EVERY)


def test_rounds_to_even_between_all_neighbours() -> None:
    """Numbers, and the middles between them, with up to three float32 on either side; the last middle is 65520."""
    numbers = np.append(np.arange(0x7C00, dtype=np.uint16).view(np.float16).astype(np.float64), 2.0**16)
    exact = np.concatenate([numbers, (numbers[1:] + numbers[:-1]) / 2]).astype(np.float32)
    near = exact.view(np.int32)[:, None] + np.arange(-3, 4, dtype=np.int32)
    near = near[near >= 0].view(np.float32)
    for a in (near, -near):
        assert_same_bits(narrow(a), numpy_narrow(a))


def test_narrows_any_bits() -> None:
    """Random numbers of all exponents, both signs, subnormal ones and NaN with payloads in the low bits among them."""
    bits = rng.integers(0, 2**32, 2**17, dtype=np.uint32)
    special = np.array(
        [0x7F800000, 0x7F800001, 0x7FC00000, 0x7FFFFFFF, 0x7F7FFFFF, 0, 1, 0x7FFFFF, 0x800000], np.uint32
    )
    payloads = np.uint32(0x7F800000) + np.arange(1, 2**14, dtype=np.uint32)
    subnormal = rng.integers(0, 2**23, 1000, dtype=np.uint32)
    positive = np.concatenate([special, payloads, subnormal])
    a = np.concatenate([bits, positive, positive | np.uint32(2**31)]).view(np.float32)
    assert_same_bits(narrow(a), numpy_narrow(a))


@pytest.mark.parametrize("size", [0, 1, 7, 33, 100])
def test_writes_no_more_than_its_part(size: int) -> None:
    """Arrays of any length and any place in memory, of which vectors are not a multiple."""
    a = rng.standard_normal(size + 2).astype(np.float32)[1:-1]
    memory = np.full(size + 2, 7, np.float16)
    float16.narrow(a, memory[1:-1])
    np.testing.assert_array_equal(memory, np.concatenate([[7], a.astype(np.float16), [7]]).astype(np.float16))
    np.testing.assert_array_equal(float16.widen(memory[1:-1]), memory[1:-1].astype(np.float32))


@pytest.mark.parametrize("layout", ["BCL", "BLC"])
@pytest.mark.parametrize(("taps", "stride", "elements"), [(5, 1, 100), (5, 3, 1000), (700, 1, 2**16)])
def test_convolution_is_that_in_float32_rounded(
    monkeypatch: pytest.MonkeyPatch, taps: int, stride: int, elements: int, layout: str
) -> None:
    """Chunks of parts of rows, of whole ones and of several; the sums are those of float32 to the last bit."""
    monkeypatch.setattr(conv1d_passes, "_ELEMENTS", elements)
    options: dict[str, Any] = {"stride": stride, "layout": layout}
    swap = (lambda a: a.transpose(0, 2, 1).copy()) if layout == "BLC" else (lambda a: a)
    scales = 10 ** np.linspace(-9, 4, 9000)  # sums of 0, subnormal ones and infinity
    x = swap((rng.standard_normal((2, 3, 9000)) * scales).astype(np.float16))
    w = (10 * rng.standard_normal((3, taps))).astype(np.float16)
    dy = swap((1e-3 * rng.standard_normal((2, 3, 9000 // stride))).astype(np.float16))
    with np.errstate(all="raise"):
        y = cukde.depthwise_conv1d(x, w, **options)
        dx = cukde.depthwise_conv1d_input_grad(dy, w, input_length=9000, **options)
        dw = cukde.depthwise_conv1d_weight_grad(x, dy, taps, **options)
    x_wide, w_wide, dy_wide = (a.astype(np.float32) for a in (x, w, dy))
    assert_same_bits(y, numpy_narrow(cukde.depthwise_conv1d(x_wide, w_wide, **options)))
    assert np.isinf(y).any()
    assert (abs(y[y != 0]) < 2**-14).any()
    assert_same_bits(dx, numpy_narrow(cukde.depthwise_conv1d_input_grad(dy_wide, w_wide, input_length=9000, **options)))
    dw_wide = cukde.depthwise_conv1d_weight_grad(x_wide, dy_wide, taps, **options)
    np.testing.assert_allclose(dw, numpy_narrow(dw_wide), rtol=2**-10)  # rounded once from float64, not twice
