"""What is the CPU's alone: chunks, threads, and the choice between sums and FFT."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import cukde
from cukde.conv1d import check as conv1d_check
from cukde.conv1d.cpu import fft, rows
from tests import reference, tolerances
from tests.private import Geometry, conv1d_cpu as conv1d_passes, conv1d_transforms, threads

rng = np.random.default_rng(7)


def sizes(batch: int, channels: int, length: int, taps: int, dilation: int = 1) -> Geometry:
    return conv1d_check.geometry((batch, channels, length), taps, conv1d_check.Options("causal", 1, dilation, "BCL"))


@pytest.mark.parametrize("layout", ["BCL", "BLC"])
@pytest.mark.parametrize("stride", [1, 3])
@pytest.mark.parametrize("taps", [5, 700])
def test_chunks_do_not_matter(monkeypatch: pytest.MonkeyPatch, taps: int, stride: int, layout: str) -> None:
    """Chunks of few positions of a channel, of a few channels and of several of the batch."""
    options: dict[str, Any] = {"padding": "same", "stride": stride, "layout": layout}
    x, w = rng.standard_normal((3, 4, 1500)), rng.standard_normal((4, taps))
    if layout == "BLC":
        x = x.transpose(0, 2, 1).copy()
    for elements in (100, 1000, 5000, 2**20):
        monkeypatch.setattr(conv1d_passes, "_ELEMENTS", elements)
        y = cukde.depthwise_conv1d(x, w, **options)
        np.testing.assert_allclose(y, reference.conv1d(x, w, **options), rtol=0, atol=1e-12)
        dx = cukde.depthwise_conv1d_input_grad(y, w, input_length=1500, **options)
        expected = reference.conv1d_input_grad(y, w, input_length=1500, **options)
        np.testing.assert_allclose(dx, expected, rtol=0, atol=1e-10)
        dw = cukde.depthwise_conv1d_weight_grad(x, y, taps, **options)
        np.testing.assert_allclose(dw, reference.conv1d_weight_grad(x, y, taps, **options), rtol=1e-12, atol=1e-9)


@pytest.mark.parametrize("shape", [(7, 5, 300), (1, 1, 4000), (2, 40, 50)])
def test_weights_do_not_depend_on_threads(monkeypatch: pytest.MonkeyPatch, shape: tuple[int, int, int]) -> None:
    x = rng.standard_normal(shape).astype(np.float32)
    several = cukde.depthwise_conv1d_weight_grad(x, x, 9, bias=True)
    monkeypatch.setattr(threads, "count", lambda: 1)
    one = cukde.depthwise_conv1d_weight_grad(x, x, 9, bias=True)
    assert [a.tobytes() for a in several] == [a.tobytes() for a in one]


class TestFft:
    def test_is_for_long_taps(self) -> None:
        for number, taps in ((np.dtype(np.float32), 512), (np.dtype(np.float64), 513)):
            assert conv1d_transforms(sizes(4, 32, 16384, 31), number) is None
            assert conv1d_transforms(sizes(4, 32, 16384, taps), number) == 4096
            assert conv1d_transforms(sizes(4, 32, 16384, taps, 4), number) == (4096 if taps == 512 else 8192)
            assert conv1d_transforms(sizes(4, 32, 16384, 5000), number) == 16384
            assert conv1d_transforms(sizes(4, 32, 100, 512), number) is None
            assert conv1d_transforms(sizes(4, 32, 16384, 512)._replace(stride=2), number) is None

    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    @pytest.mark.parametrize("dilation", [1, 3])
    def test_agrees_with_sums(self, dtype: type, dilation: int) -> None:
        x, w = rng.standard_normal((6, 500)).astype(dtype), rng.standard_normal((3, 40)).astype(dtype)
        bias = rng.standard_normal(3).astype(dtype)
        by_sums, by_fft = np.empty((2, 6, 500), dtype)
        rows.correlate(x, w, bias, 0, 3, 39, 1, dilation, by_sums)
        assert fft.correlate(x, fft.spectra(w, dilation, 1024), bias, 39, by_fft)
        np.testing.assert_allclose(by_fft, by_sums, rtol=0, atol=200 * np.finfo(dtype).eps)

        dw_by_sums, dw_by_fft = np.zeros((2, 3, 40))
        rows.tap_products(x, by_sums, 3, 39, 1, dilation, dw_by_sums)
        assert fft.tap_products(x, by_sums, 3, 39, dilation, 1024, dw_by_fft)
        np.testing.assert_allclose(dw_by_fft, dw_by_sums, rtol=0, atol=1e4 * np.finfo(dtype).eps)

    def test_spoils_nothing(self) -> None:
        """Numbers that are not finite, and sums beyond the range, go the other way."""
        w = np.ones((1, 40))
        for value in (np.nan, np.inf, 1e308):
            x = np.zeros((1, 500))
            x[0, :2] = value
            y, dw = np.zeros((1, 500)), np.zeros((1, 40))
            assert not fft.correlate(x, fft.spectra(w, 1, 1024), np.zeros(1), 39, y)
            assert not fft.tap_products(x, x, 1, 39, 1, 1024, dw)
            assert not y.any()
            assert not dw.any()

    def test_float32_keeps_small_outputs_beside_large_ones(self) -> None:
        x = np.where(np.arange(6000) < 3000, 1e-6, 1.0).astype(np.float32)[None, None]
        w = rng.standard_normal((1, 600)).astype(np.float32)
        assert conv1d_transforms(sizes(1, 1, 6000, 600), np.dtype(np.float32))
        y = cukde.depthwise_conv1d(x, w)
        error = np.abs(y - reference.conv1d(x, w))
        tolerances.check(
            error, tolerances.CONV1D["float32"].value * reference.conv1d(np.abs(x), np.abs(w)), "small outputs"
        )


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ["silu", "gelu"])
def test_activations(name: str, dtype: str) -> None:
    x = np.linspace(-15, 15, 30_000).astype(dtype)  # no 0
    y = cukde.depthwise_conv1d(x[None, None], np.ones((1, 1), dtype), activation=name)[0, 0]
    wide = x.astype(np.float64)
    shares = 1 / (1 + np.exp(-wide)) if name == "silu" else np.vectorize(math.erfc)(-wide / math.sqrt(2)) / 2
    allowed = tolerances.ACTIVATION.value * np.finfo(dtype).eps * np.abs(wide)
    tolerances.check(np.abs(y - wide * shares), allowed, name)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("name", ["silu", "gelu"])
def test_activations_at_infinity(name: str, dtype: str) -> None:
    x = np.array([[[-np.inf, np.inf, np.nan, -800, 800]]], dtype)
    y = cukde.depthwise_conv1d(x, np.ones((1, 1), dtype), activation=name)
    np.testing.assert_array_equal(y, np.array([[[0, np.inf, np.nan, 0, 800]]], dtype))
