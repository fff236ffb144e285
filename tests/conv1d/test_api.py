"""Depthwise convolution and its gradients on each backend, against loops over taps in float64."""

from __future__ import annotations

import doctest
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import cukde
from cukde.conv1d import activations, api as conv1d_api
from tests import extended, reference, tolerances
from tests.conftest import Backend

DTYPES = ("float16", "float32", "float64")
PADDINGS = ("causal", "same", "valid", 0, 3)


def normal(rng: np.random.Generator, shape: tuple[int, ...], dtype: str = "float64") -> np.ndarray:
    return rng.standard_normal(shape).astype(dtype)


def shape_of(layout: str, batch: int, channels: int, length: int) -> tuple[int, int, int]:
    return (batch, channels, length) if layout == "BCL" else (batch, length, channels)


def compare(actual: np.ndarray, expected: np.ndarray, scale: np.ndarray, what: str) -> None:
    """Sums against their oracle, relative to the sum of absolute terms; and half a unit of the result."""
    assert actual.shape == expected.shape
    allowed = tolerances.CONV1D[actual.dtype.name].value * scale
    if actual.dtype == np.float16:
        allowed = allowed + np.spacing(np.abs(expected).astype(np.float16)).astype(np.float64) / 2
    tolerances.check(np.abs(actual.astype(np.float64) - expected), allowed, what)


def check_all(
    backend: Backend,
    rng: np.random.Generator,
    sizes: tuple[int, int, int, int],
    dtype: str,
    biased: bool = False,
    activation: Any = None,
    by_fft: bool = False,
    **options: Any,
) -> None:
    """The convolution and both gradients of normal data of (batch, channels, length, taps).

    What may be done by FFT is judged by the largest sum of absolute terms of a channel.
    """

    def near(scale: np.ndarray) -> np.ndarray:
        return np.broadcast_to(scale.max(axis=2, keepdims=True), scale.shape) if by_fft else scale

    batch, channels, length, taps = sizes
    x = normal(rng, shape_of(options.get("layout", "BCL"), batch, channels, length), dtype)
    w = normal(rng, (channels, taps), dtype)
    bias = normal(rng, (channels,), "float64" if dtype == "float64" else "float32") if biased else None
    given_x, given_w, given_bias = map(backend.asarray, (x, w, bias))

    y = backend.asnumpy(cukde.depthwise_conv1d(given_x, given_w, bias=given_bias, activation=activation, **options))
    assert y.dtype == dtype
    expected = reference.conv1d(x, w, bias=bias, activation=activation, **options)
    absolute = None if bias is None else np.abs(bias)
    # Derivatives of the activations are at most 1.13.
    scale = 1.13 * reference.conv1d(np.abs(x), np.abs(w), bias=absolute, **options)
    compare(y, expected, near(scale), "convolution")

    dy = normal(rng, y.shape, dtype)
    given_dy = backend.asarray(dy)
    dx = backend.asnumpy(cukde.depthwise_conv1d_input_grad(given_dy, given_w, input_length=length, **options))
    assert dx.dtype == dtype
    options["input_length"] = length
    scale = reference.conv1d_input_grad(np.abs(dy), np.abs(w), **options)
    compare(dx, reference.conv1d_input_grad(dy, w, **options), near(scale), "input gradient")
    del options["input_length"]

    dw, dbias = map(backend.asnumpy, cukde.depthwise_conv1d_weight_grad(given_x, given_dy, taps, bias=True, **options))
    assert dw.dtype == dtype
    assert dbias.dtype == dtype
    scale = reference.conv1d_weight_grad(np.abs(x), np.abs(dy), taps, **options)
    compare(dw, reference.conv1d_weight_grad(x, dy, taps, **options), scale, "weight gradient")
    positions = (0, 2) if options.get("layout", "BCL") == "BCL" else (0, 1)
    wide = dy.astype(np.float64)
    compare(dbias, wide.sum(axis=positions), np.abs(wide).sum(axis=positions), "bias gradient")


class TestSums:
    def test_loop_over_taps(self, backend: Backend) -> None:
        @settings(max_examples=backend.size(50, 12), deadline=None)
        @given(
            batch=st.integers(0, 3),
            channels=st.sampled_from([1, 2, 3, 8, 33]),
            taps=st.one_of(st.integers(1, 9), st.integers(1, backend.size(90, 33))),
            extra=st.one_of(st.integers(0, 20), st.integers(0, backend.size(700, 80))),
            padding=st.one_of(st.sampled_from(PADDINGS), st.integers(0, 40)),
            stride=st.sampled_from([1, 1, 1, 2, 3, 5]),
            dilation=st.sampled_from([1, 1, 2, 3, 6]),
            dtype=st.sampled_from(DTYPES),
            layout=st.sampled_from(["BCL", "BLC"]),
            flip=st.booleans(),
            biased=st.booleans(),
            activation=st.sampled_from([None, "silu", "gelu"]),
            seed=st.integers(0, 2**32 - 1),
        )
        def check(batch: int, channels: int, taps: int, extra: int, seed: int, **options: Any) -> None:
            reach, padding = (taps - 1) * options["dilation"], options["padding"]
            inside = reach - 2 * padding if isinstance(padding, int) else reach if padding == "valid" else 0
            sizes = (batch, channels, max(0, inside) + extra + 1, taps)
            check_all(backend, np.random.default_rng(seed), sizes, **options)

        check()

    @pytest.mark.parametrize("layout", ["BCL", "BLC"])
    @pytest.mark.parametrize("dtype", DTYPES)
    def test_many_blocks_and_threads(self, backend: Backend, dtype: str, layout: str) -> None:
        sizes = (3, backend.size(67, 5), backend.size(5003, 531), 7)
        check_all(backend, np.random.default_rng(0), sizes, dtype, True, "silu", layout=layout, padding="same")

    @pytest.mark.parametrize(("taps", "dilation"), [(512, 1), (301, 2), (1000, 1)])
    @pytest.mark.parametrize("dtype", DTYPES)
    def test_long_taps(self, backend: Backend, dtype: str, taps: int, dilation: int) -> None:
        rng = np.random.default_rng(taps)
        taps = backend.size(taps, taps // 4)
        reach = (taps - 1) * dilation
        sizes = (2, 3, reach + backend.size(2500, 150), taps)
        check_all(backend, rng, sizes, dtype, True, "gelu", by_fft=True, dilation=dilation, flip=True)

    @settings(max_examples=15, deadline=None, derandomize=True)
    @given(
        taps=st.integers(64, 512),
        decades=st.sampled_from([0, 2, 6, 12]),
        dtype=st.sampled_from(["float32", "float64"]),
        layout=st.sampled_from(["BCL", "BLC"]),
        seed=st.integers(0, 2**32 - 1),
    )
    def test_signals_whose_size_varies(self, taps: int, decades: int, dtype: str, layout: Any, seed: int) -> None:
        """Each output is as accurate as its own terms allow, beside much larger ones, too."""
        rng = np.random.default_rng(seed)
        if dtype == "float32":  # transforms in float64 keep eight digits less
            decades = min(decades, 6)
        sizes = 10.0 ** (decades * (np.sin(np.arange(4096) / 500 + rng.uniform(0, 6)) - 1) / 2)
        x = (rng.standard_normal((1, 2, 4096)) * sizes).astype(dtype)
        w = rng.standard_normal((2, taps)).astype(dtype)
        ordered = (lambda a: a) if layout == "BCL" else (lambda a: np.ascontiguousarray(a.swapaxes(1, 2)))
        absolute = [np.abs(x), np.abs(w)]
        y = cukde.depthwise_conv1d(ordered(x), w, layout=layout)
        compare(ordered(y), reference.conv1d(x, w), reference.conv1d(*absolute), "convolution")
        dx = cukde.depthwise_conv1d_input_grad(ordered(x), w, layout=layout)
        options: Any = {"input_length": 4096}
        want, size = (reference.conv1d_input_grad(*of, **options) for of in ((x, w), absolute))
        compare(ordered(dx), want, size, "input gradient")
        dw = cukde.depthwise_conv1d_weight_grad(ordered(x), ordered(x), taps, layout=layout)
        size = reference.conv1d_weight_grad(np.abs(x), np.abs(x), taps)
        compare(dw, reference.conv1d_weight_grad(x, x, taps), size, "weight gradient")

    @pytest.mark.parametrize("layout", ["BCL", "BLC"])
    def test_short_rows_of_a_large_batch(self, backend: Backend, layout: str) -> None:
        sizes = (backend.size(3001, 70), 3, 5, 4)
        check_all(backend, np.random.default_rng(0), sizes, "float32", layout=layout)

    def test_taps_as_long_as_the_padded_input(self, backend: Backend) -> None:
        for padding, taps in (("valid", 37), (5, 47), ("causal", 73), ("same", 73)):
            check_all(backend, np.random.default_rng(taps), (2, 3, 37, taps), "float32", padding=padding)

    def test_outputs_that_meet_zeros_alone(self, backend: Backend) -> None:
        for stride in (1, 4):
            check_all(backend, np.random.default_rng(1), (2, 3, 1, 3), "float64", True, padding=50, stride=stride)
            check_all(backend, np.random.default_rng(1), (2, 3, 5, 2), "float64", dilation=90, stride=stride)

    def test_inputs_that_no_output_meets(self, backend: Backend) -> None:
        dx = cukde.depthwise_conv1d_input_grad(
            backend.asarray(np.ones((1, 1, 3))), [[1.0, 1]], input_length=13, padding="valid", stride=5
        )
        np.testing.assert_array_equal(backend.asnumpy(dx), [[[1, 1, 0, 0, 0, 1, 1, 0, 0, 0, 1, 1, 0]]])

    def test_conventions(self, backend: Backend) -> None:
        x, w = np.arange(1.0, 8), np.array([1.0, 10, 100, 1000])

        def of(**options: Any) -> np.ndarray:
            return backend.asnumpy(cukde.depthwise_conv1d(backend.asarray(x[None, None]), w[None], **options))[0, 0]

        np.testing.assert_array_equal(of(padding="valid"), np.correlate(x, w, "valid"))
        np.testing.assert_array_equal(of(padding="valid", flip=True), np.convolve(x, w, "valid"))
        np.testing.assert_array_equal(of(flip=True), np.convolve(x, w)[:7])
        np.testing.assert_array_equal(of(padding=3), np.correlate(x, w, "full"))
        np.testing.assert_array_equal(of(padding="same"), np.correlate(x, w, "full")[2:9])
        np.testing.assert_array_equal(of(padding="same", stride=3), np.correlate(x, w, "full")[2:9:3])

    @settings(max_examples=40, deadline=None, derandomize=True)
    @given(
        taps=st.integers(1, 9),
        dilation=st.integers(1, 4),
        length=st.integers(1, 20),
        layout=st.sampled_from(["BCL", "BLC"]),
    )
    def test_same_is_pytorchs(self, taps: int, dilation: int, length: int, layout: Any) -> None:
        """Of dilation (taps - 1) zeros the smaller half is before x (``torch.nn.modules.conv._ConvNd``)."""
        rng = np.random.default_rng(0)
        x, w = rng.integers(-9, 9, (2, 3, length)) * 1.0, rng.integers(-9, 9, (3, taps)) * 1.0
        zeros = dilation * (taps - 1)
        padded = np.pad(x, ((0, 0), (0, 0), (zeros // 2, zeros - zeros // 2)))
        want = sum(w[:, [k]] * padded[:, :, k * dilation : k * dilation + length] for k in range(taps))
        ordered = (lambda a: a) if layout == "BCL" else (lambda a: a.swapaxes(1, 2))
        options: Any = {"padding": "same", "dilation": dilation, "layout": layout}
        y = cukde.depthwise_conv1d(ordered(x), w, **options)
        np.testing.assert_array_equal(ordered(y), want)
        dy = rng.integers(-9, 9, (2, 3, length)) * 1.0
        dx = cukde.depthwise_conv1d_input_grad(ordered(dy), w, **options)
        dw = cukde.depthwise_conv1d_weight_grad(ordered(x), ordered(dy), taps, **options)
        assert (want * dy).sum() == (ordered(dx) * x).sum() == (dw * w).sum()

    def test_float16_is_rounded_once(self, backend: Backend) -> None:
        """2,048 ones, then 2^-11 of each: in float16 every sum of two would be rounded."""
        x = np.concatenate([np.full(100, 20.48), np.full(100, 0.01)]).astype(np.float16)[None, None]
        y = backend.asnumpy(cukde.depthwise_conv1d(backend.asarray(x), np.ones((1, 200), np.float16), padding="valid"))
        np.testing.assert_array_equal(y, x.sum(dtype=np.float64, keepdims=True).astype(np.float16))


class TestGradients:
    OPTIONS = (
        {},
        {"padding": "same", "dilation": 3, "layout": "BLC"},
        {"padding": 2, "stride": 3, "flip": True},
        {"padding": "valid", "stride": 2, "dilation": 3, "layout": "BLC"},
    )

    @pytest.mark.parametrize("options", OPTIONS, ids=str)
    def test_adjoints(self, backend: Backend, options: dict[str, Any]) -> None:
        rng = np.random.default_rng(0)
        x = normal(rng, shape_of(options.get("layout", "BCL"), 2, 5, backend.size(301, 61)))
        w = normal(rng, (5, 6))
        y = backend.asnumpy(cukde.depthwise_conv1d(backend.asarray(x), w, **options))
        dy = normal(rng, y.shape)
        length = x.shape[2 if options.get("layout", "BCL") == "BCL" else 1]
        dx = backend.asnumpy(cukde.depthwise_conv1d_input_grad(backend.asarray(dy), w, input_length=length, **options))
        dw = backend.asnumpy(cukde.depthwise_conv1d_weight_grad(backend.asarray(x), dy, 6, **options))
        product = np.vdot(dy, y)
        allowed = 1e-13 * np.vdot(np.abs(dy), np.abs(y))
        assert abs(np.vdot(dx, x) - product) <= allowed
        assert abs(np.vdot(dw, w) - product) <= allowed

    @pytest.mark.parametrize("activation", [None, "silu", "gelu"])
    @pytest.mark.parametrize("options", OPTIONS[1:3], ids=str)
    def test_finite_differences(self, backend: Backend, options: dict[str, Any], activation: Any) -> None:
        """Of the sum of some multiples of the outputs, by every entry of x, w and the bias."""
        rng = np.random.default_rng(3)
        layout = options.get("layout", "BCL")
        arguments = {"x": normal(rng, shape_of(layout, 2, 2, 9)), "w": normal(rng, (2, 3)), "bias": normal(rng, (2,))}
        xp = backend.xp

        def outputs(given: dict[str, np.ndarray], activation: Any) -> Any:
            x, w, bias = (backend.asarray(given[name]) for name in ("x", "w", "bias"))
            return cukde.depthwise_conv1d(x, w, bias=bias, activation=activation, **options)

        factors = backend.asarray(normal(rng, outputs(arguments, None).shape))
        dz = factors * cukde.activation_grad(activation, outputs(arguments, None))
        dx = cukde.depthwise_conv1d_input_grad(dz, arguments["w"], input_length=9, **options)
        dw, dbias = cukde.depthwise_conv1d_weight_grad(backend.asarray(arguments["x"]), dz, 3, bias=True, **options)
        gradients = {"x": dx, "w": dw, "bias": dbias}
        step = 1e-5
        for name, gradient in gradients.items():
            gradient = backend.asnumpy(gradient)
            for place in list(np.ndindex(gradient.shape))[:: backend.size(1, 7)]:
                total = 0.0
                for way in (step, -step):
                    moved = {key: a.copy() for key, a in arguments.items()}
                    moved[name][place] += way
                    total += float(xp.sum(factors * outputs(moved, activation))) * math.copysign(0.5, way)
                # A term of third order, and rounding over the step.
                assert gradient[place] == pytest.approx(total / step, abs=2e-9)

    def test_input_length_of_stride_1(self, backend: Backend) -> None:
        dy, w = backend.asarray(np.ones((1, 1, 9))), [[1.0, 1, 1, 1]]
        for padding, length in (("causal", 9), ("same", 9), ("valid", 12), (2, 8)):
            assert cukde.depthwise_conv1d_input_grad(dy, w, padding=padding).shape == (1, 1, length)

    @pytest.mark.parametrize("layout", ["BCL", "BLC"])
    @pytest.mark.parametrize("dtype", DTYPES)
    def test_weights_have_the_same_bits_on_every_run(self, backend: Backend, dtype: str, layout: str) -> None:
        rng = np.random.default_rng(0)
        x = backend.asarray(normal(rng, shape_of(layout, 7, 5, backend.size(3001, 201)), dtype))
        runs = [
            cukde.depthwise_conv1d_weight_grad(x, x, 31, padding="same", layout=layout, bias=True)
            for _ in range(backend.size(5, 2))
        ]
        for dw, dbias in runs[1:]:
            assert backend.asnumpy(dw).tobytes() == backend.asnumpy(runs[0][0]).tobytes()
            assert backend.asnumpy(dbias).tobytes() == backend.asnumpy(runs[0][1]).tobytes()


class TestStreaming:
    @pytest.mark.parametrize("layout", ["BCL", "BLC"])
    @pytest.mark.parametrize(("taps", "stride", "dilation"), [(4, 1, 1), (9, 1, 3), (7, 3, 2), (1, 2, 5)])
    def test_chunks_equal_the_whole(self, backend: Backend, taps: int, stride: int, dilation: int, layout: str) -> None:
        rng = np.random.default_rng(taps)
        lengths = [stride * n for n in (1, 5, 2, backend.size(90, 20), 1, 8)] + [11]
        axis = layout.index("L")
        x = normal(rng, shape_of(layout, 2, 3, sum(lengths)), "float32")
        w, bias = normal(rng, (3, taps), "float32"), normal(rng, (3,), "float32")
        options = {"bias": bias, "stride": stride, "dilation": dilation, "layout": layout}
        reach = (taps - 1) * dilation
        parts, state, start = [], None, 0
        for length in lengths:
            chunk = backend.asarray(x.take(range(start, start + length), axis))
            start += length
            if start < sum(lengths):
                y, state = cukde.depthwise_conv1d(
                    chunk, w, activation="silu", state=state, return_state=True, **options
                )
                zeros = np.zeros(shape_of(layout, 2, 3, reach), np.float32)
                seen = np.concatenate([zeros, x.take(range(start), axis)], axis)
                np.testing.assert_array_equal(backend.asnumpy(state), seen.take(range(start, start + reach), axis))
            else:  # of any length
                y = cukde.depthwise_conv1d(chunk, w, activation="silu", state=state, **options)
            parts.append(backend.asnumpy(y))
        expected = reference.conv1d(x, w, activation="silu", **options)
        options["bias"] = np.abs(bias)
        scale = 1.13 * reference.conv1d(np.abs(x), np.abs(w), **options)
        compare(np.concatenate(parts, axis), expected, scale, "chunks")

    def test_state_of_another_dtype(self, backend: Backend) -> None:
        x, w = backend.asarray(np.ones((1, 1, 3), np.float32)), np.float32([[1, 2]])
        y, state = cukde.depthwise_conv1d(x, w, state=np.full((1, 1, 1), 5.0), return_state=True)
        np.testing.assert_array_equal(backend.asnumpy(y), np.float32([[[7, 3, 3]]]))
        assert y.dtype == state.dtype == np.float32

    def test_state_is_a_copy(self, backend: Backend) -> None:
        x = backend.asarray(np.ones((1, 1, 3)))
        _, state = cukde.depthwise_conv1d(x, [[1.0, 1]], return_state=True)
        x[...] = 7
        np.testing.assert_array_equal(backend.asnumpy(state), [[[1.0]]])


class TestArrays:
    def test_not_contiguous(self, backend: Backend) -> None:
        rng = np.random.default_rng(0)
        x, w, dy = normal(rng, (4, 6, 50)), normal(rng, (6, 5)), normal(rng, (4, 6, 50))
        expected = reference.conv1d(x, w)
        wide = backend.asarray(np.repeat(x, 2, axis=2))
        turned = backend.asarray(np.asfortranarray(x))
        backwards = backend.asarray(x[:, :, ::-1].copy())[:, :, ::-1]
        for same in (wide[:, :, ::2], turned, backwards):
            y = cukde.depthwise_conv1d(same, backend.asarray(np.asfortranarray(w)))
            np.testing.assert_allclose(backend.asnumpy(y), expected, rtol=0, atol=1e-13)
            dw = cukde.depthwise_conv1d_weight_grad(same, backend.asarray(np.asfortranarray(dy)), 5)
            np.testing.assert_allclose(backend.asnumpy(dw), reference.conv1d_weight_grad(x, dy, 5), rtol=0, atol=1e-12)
        dx = cukde.depthwise_conv1d_input_grad(backend.asarray(np.asfortranarray(dy)), w)
        expected = reference.conv1d_input_grad(dy, w, input_length=50)
        np.testing.assert_allclose(backend.asnumpy(dx), expected, rtol=0, atol=1e-13)

    @pytest.mark.parametrize(
        ("x", "w", "result"),
        [
            ("int8", "int64", "float64"),
            ("bool", "float32", "float32"),
            ("float16", "float32", "float32"),
            ("float32", "float64", "float64"),
            ("float16", "int8", "float16"),
        ],
    )
    def test_dtypes(self, backend: Backend, x: str, w: str, result: str) -> None:
        data, taps = np.array([[[0, 1, 1, 0]]]).astype(x), np.array([[1, 1]]).astype(w)
        y = backend.asnumpy(cukde.depthwise_conv1d(backend.asarray(data), backend.asarray(taps)))
        np.testing.assert_array_equal(y, [[[0, 1, 2, 1]]])
        assert y.dtype == result

    @pytest.mark.parametrize("layout", ["BCL", "BLC"])
    def test_empty_batch(self, backend: Backend, layout: str) -> None:
        x = backend.asarray(np.ones(shape_of(layout, 0, 3, 9), np.float32))
        w = np.ones((3, 4), np.float32)
        y, state = cukde.depthwise_conv1d(x, w, layout=layout, return_state=True)
        assert backend.asnumpy(y).shape == x.shape
        assert state.shape == shape_of(layout, 0, 3, 3)
        for stride, outputs in ((1, 9), (2, 5)):
            options: dict[str, Any] = {"layout": layout, "stride": stride}
            dy = backend.asarray(np.ones(shape_of(layout, 0, 3, outputs), np.float32))
            assert cukde.depthwise_conv1d_input_grad(dy, w, input_length=9, **options).shape == x.shape
            dw, dbias = cukde.depthwise_conv1d_weight_grad(x, dy, 4, bias=True, **options)
            np.testing.assert_array_equal(backend.asnumpy(dw), np.zeros((3, 4)))
            np.testing.assert_array_equal(backend.asnumpy(dbias), np.zeros(3))

    @pytest.mark.parametrize("taps", [4, 300])
    @pytest.mark.parametrize("value", [np.nan, np.inf])
    def test_what_is_not_finite_reaches_the_outputs_that_meet_it(
        self, backend: Backend, value: float, taps: int
    ) -> None:
        taps = backend.size(taps, min(taps, 70))
        x = np.ones((1, 2, 3 * taps + backend.size(2000, 0)), np.float32)
        x[0, 1, taps + 3] = value
        y = backend.asnumpy(cukde.depthwise_conv1d(backend.asarray(x), np.ones((2, taps), np.float32)))
        met = np.zeros(y.shape, bool)
        met[0, 1, taps + 3 : 2 * taps + 3] = True
        np.testing.assert_array_equal(np.isfinite(y), ~met)
        np.testing.assert_array_equal(y[met], np.full(taps, np.float32(value)))

    @pytest.mark.parametrize("layout", ["BCL", "BLC"])
    def test_gradients_of_what_is_not_finite(self, backend: Backend, layout: str) -> None:
        """Infinities of both signs in one channel leave the others and the inputs before them alone."""
        dy = np.ones((2, 3, 40), np.float32)
        dy[1, 1, 20], dy[1, 1, 30] = np.inf, -np.inf
        given = dy if layout == "BCL" else dy.transpose(0, 2, 1).copy()
        x = backend.asarray(np.ones_like(given))
        w = np.ones((3, 4), np.float32)
        dx = backend.asnumpy(cukde.depthwise_conv1d_input_grad(backend.asarray(given), w, layout=layout))
        finite = np.ones(dy.shape, bool)
        finite[1, 1, 17:21] = finite[1, 1, 27:31] = False
        np.testing.assert_array_equal(np.isfinite(dx if layout == "BCL" else dx.transpose(0, 2, 1)), finite)
        dw, dbias = cukde.depthwise_conv1d_weight_grad(x, given, 4, layout=layout, bias=True)
        np.testing.assert_array_equal(np.isnan(backend.asnumpy(dw)).all(axis=1), [False, True, False])
        np.testing.assert_array_equal(backend.asnumpy(dw)[::2, -1], [80, 80])
        np.testing.assert_array_equal(backend.asnumpy(dbias), np.float32([80, np.nan, 80]))

    @pytest.mark.gpu
    def test_where_it_is_computed(self) -> None:
        import cupy as cp

        x, w = np.ones((1, 2, 5)), np.ones((2, 3))
        for taps in (w, cp.asarray(w)):
            assert isinstance(cukde.depthwise_conv1d(cp.asarray(x), taps, bias=np.ones(2)), cp.ndarray)
        for others in ({"w": cp.asarray(w)}, {"w": w, "bias": cp.ones(2)}, {"w": w, "state": cp.ones((1, 2, 2))}):
            with pytest.raises(TypeError, match="is on the GPU but x is not"):
                cukde.depthwise_conv1d(x, **others)
        with pytest.raises(TypeError, match="dy is on the GPU but x is not"):
            cukde.depthwise_conv1d_weight_grad(x, cp.asarray(x), 3)


class TestActivationsAfterTheSums:
    """Functions of :mod:`cukde.functions` by name or as they are, polynomials and others, on rounded sums."""

    X = np.random.default_rng(5).normal(size=(2, 3, 20))
    W = np.random.default_rng(6).normal(size=(3, 4))

    @pytest.mark.parametrize("dtype", DTYPES)
    @pytest.mark.parametrize("name", ["tanh", "sigmoid", "erf", "softplus", "exp", "log"])
    def test_functions(self, backend: Backend, name: str, dtype: str) -> None:
        x, w = (backend.asarray(a.astype(dtype)) for a in (self.X, self.W))
        sums = cukde.depthwise_conv1d(x, w, padding="same", dilation=2)
        y = backend.asnumpy(cukde.depthwise_conv1d(x, w, padding="same", dilation=2, activation=name))
        assert y.dtype == dtype
        z = backend.asnumpy(sums).astype(np.float64)
        want = reference.activated(z, name)
        allowed = {"float16": 5e-4, "float32": 2e-7, "float64": 5e-8}[dtype]  # those of cukde.functions
        np.testing.assert_allclose(y, want, rtol=allowed, atol=allowed)
        function = getattr(cukde.functions, name)
        for options in ({}, {"state": np.zeros((2, 3, 3), dtype)}):  # a state of zeros changes no bit
            again = cukde.depthwise_conv1d(x, w, activation=function, **options)
            once = function(cukde.depthwise_conv1d(x, w, **options))
            np.testing.assert_array_equal(backend.asnumpy(again), backend.asnumpy(once))

    def test_polynomials_and_other_functions(self, backend: Backend) -> None:
        x, w = backend.asarray(self.X), backend.asarray(self.W)
        p = cukde.PiecewisePolynomial([[0.0, 1.0], [0.0, 0.0]], [-1, 0, 1])  # relu
        want = np.maximum(backend.asnumpy(cukde.depthwise_conv1d(x, w)), 0)
        for relu in (p, lambda z: z * (z > 0)):
            got = backend.asnumpy(cukde.depthwise_conv1d(x, w, activation=relu))
            np.testing.assert_allclose(got, want, rtol=0, atol=1e-15)
        y, _ = cukde.depthwise_conv1d(x, w, activation=p, return_state=True)
        np.testing.assert_allclose(backend.asnumpy(y), want, rtol=0, atol=1e-15)
        for wrong in (lambda z: z.sum(), lambda z: z.astype("float32"), lambda z: z.tolist()):
            with pytest.raises(
                ValueError, match=r"activation must return an array of the shape \(2, 3, 20\) and dtype"
            ):
                cukde.depthwise_conv1d(x, w, activation=wrong)


def test_taps_in_the_shape_of_pytorch(backend: Backend) -> None:
    x, w = (np.random.default_rng(7).normal(size=shape) for shape in ((2, 3, 20), (3, 4)))
    x = backend.asarray(x)
    for taps in (w[:, None], w[:, None].tolist()):
        given = backend.asarray(taps)
        for function in (cukde.depthwise_conv1d, cukde.depthwise_conv1d_input_grad):
            for _ in range(2):  # a GPU may keep what the first call checked
                got, want = (backend.asnumpy(function(x, one)) for one in (given, backend.asarray(w)))
                np.testing.assert_array_equal(got, want)
    with pytest.raises(ValueError, match=r"^w\b"):
        cukde.depthwise_conv1d(x, backend.asarray(np.ones((3, 2, 4))))


class TestActivationGrad:
    @extended.needed
    @pytest.mark.parametrize("dtype", DTYPES)
    @pytest.mark.parametrize("name", ["silu", "gelu"])
    def test_values(self, backend: Backend, name: str, dtype: str) -> None:
        """Relative to the sizes of the two terms, out to where they vanish."""
        edge = {"float16": 20, "float32": 86 if name == "silu" else 13, "float64": 700 if name == "silu" else 37}
        z = np.linspace(-edge[dtype], edge[dtype], 4001).astype(dtype)
        share, density = (_logistic if name == "silu" else _normal)(z.astype(np.longdouble))
        expected, size = share + z * density, share + np.abs(z) * density
        actual = backend.asnumpy(cukde.activation_grad(name, backend.asarray(z.reshape(-1, 1))))[:, 0]
        assert actual.dtype == dtype
        allowed = tolerances.ACTIVATION_GRAD[dtype].value * size + float(np.finfo(dtype).tiny)
        if dtype == "float16":
            allowed = allowed + np.spacing(np.abs(expected).astype(dtype)).astype(np.float64) / 2
        tolerances.check(
            np.abs(actual - expected).astype(np.float64), allowed.astype(np.float64), f"derivative of {name}"
        )

    @pytest.mark.parametrize("dtype", DTYPES)
    @pytest.mark.parametrize("name", ["silu", "gelu"])
    def test_limits(self, backend: Backend, name: str, dtype: str) -> None:
        largest = float(np.finfo(dtype).max)
        z = backend.asarray(np.array([-np.inf, -largest, 0, largest, np.inf, np.nan], dtype))
        np.testing.assert_array_equal(
            backend.asnumpy(cukde.activation_grad(name, z)), np.array([0, 0, 0.5, 1, 1, np.nan], dtype)
        )

    @extended.needed
    @pytest.mark.parametrize("dtype", DTYPES)
    @pytest.mark.parametrize("name", ["tanh", "sigmoid", "erf", "softplus", "exp", "log"])
    def test_values_of_other_functions(self, backend: Backend, name: str, dtype: str) -> None:
        """Relative to the value, out to where it vanishes."""
        edge = {"float16": 4, "float32": 80 if name != "erf" else 9, "float64": 700 if name != "erf" else 26}[dtype]
        z = np.linspace(-edge, edge, 4000).astype(dtype)  # an even number: without 0
        if name == "log":
            z = np.abs(z)
        t = z.astype(np.longdouble)
        e = np.exp(-np.abs(t))
        expected = {
            "tanh": 4 * e * e / (1 + e * e) ** 2,
            "sigmoid": e / (1 + e) ** 2,
            "erf": 2 * np.exp(-t * t) / np.sqrt(np.arccos(np.longdouble(-1))),
            "softplus": np.where(t > 0, 1, e) / (1 + e),
            "exp": np.exp(t),
            "log": 1 / t,
        }[name]
        actual = backend.asnumpy(cukde.activation_grad(getattr(cukde.functions, name), backend.asarray(z)))
        assert actual.dtype == dtype
        allowed = tolerances.ACTIVATION_GRAD[dtype].value * expected + float(np.finfo(dtype).tiny)
        if dtype == "float16":
            allowed = allowed + np.spacing(expected.astype(dtype)).astype(np.float64) / 2
        tolerances.check(
            np.abs(actual - expected).astype(np.float64), allowed.astype(np.float64), f"derivative of {name}"
        )

    def test_limits_of_other_functions(self, backend: Backend) -> None:
        z = backend.asarray(np.array([-np.inf, 0, np.inf, np.nan]))
        for name, want in {
            "tanh": [0, 1, 0, np.nan],
            "sigmoid": [0, 0.25, 0, np.nan],
            "softplus": [0, 0.5, 1, np.nan],
            "exp": [0, 1, np.inf, np.nan],
            "log": [np.nan, np.inf, 0, np.nan],
        }.items():
            np.testing.assert_array_equal(backend.asnumpy(cukde.activation_grad(name, z)), want, err_msg=name)
        assert backend.asnumpy(cukde.activation_grad("erf", z))[[0, 2]].tolist() == [0, 0]

    def test_identity_shapes_and_integers(self, backend: Backend) -> None:
        z = backend.asarray(np.zeros((2, 0, 3), np.float16))
        for name in (None, "silu", "gelu"):
            assert backend.asnumpy(cukde.activation_grad(name, z)).shape == (2, 0, 3)
            ones = cukde.activation_grad(name, backend.asarray(np.array([[0, 0]])))
            np.testing.assert_array_equal(backend.asnumpy(ones), np.full((1, 2), 1.0 if name is None else 0.5))

    def test_errors(self, backend: Backend) -> None:
        with pytest.raises(ValueError, match=r"^activation\b"):
            cukde.activation_grad("relu", backend.asarray(np.ones(2)))
        with pytest.raises(ValueError, match=r"that function of cukde.functions; got .*: write p\(z, 1\)"):
            cukde.activation_grad(cukde.PiecewisePolynomial([[1.0]], [0, 1]), backend.asarray(np.ones(2)))
        with pytest.raises(TypeError, match=r"^z\b"):
            cukde.activation_grad("silu", backend.asarray(np.ones(2, complex)))


def _logistic(z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The logistic function and its derivative, so that nothing is lost on the negative side."""
    e = np.exp(-np.abs(z))
    return np.where(z > 0, 1, e) / (1 + e), e / (1 + e) ** 2


def _normal(z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The normal distribution function and its density: a series near 0, a continued fraction in the tails."""
    t = np.abs(z)
    density = np.exp(-t * t / 2) / np.sqrt(2 * np.arccos(np.longdouble(-1)))
    near = np.minimum(t, 3)
    term, series = near, near
    for n in range(3, 160, 2):
        term = term * near * near / n
        series = series + term
    far = np.maximum(t, 3)
    fraction = far
    for n in range(200, 0, -1):
        fraction = far + n / fraction
    tail = np.where(t < 3, np.longdouble(0.5) - density * series, density / fraction)
    return np.where(z > 0, 1 - tail, tail), density


class TestErrors:
    X = np.ones((2, 3, 10))
    W = np.ones((3, 4))

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (
                {"x": np.ones((3, 10))},
                r"x must have shape \(batch, channels, length\) for layout=\"BCL\"; got \(3, 10\)",
            ),
            ({"x": np.ones((2, 0, 10))}, "x must have at least one channel and one position"),
            ({"x": np.ones((2, 3, 0))}, "x must have at least one channel and one position"),
            ({"w": np.ones((4, 4))}, r"w must have 3 rows like x has channels; got shape \(4, 4\)"),
            ({"layout": "BLC"}, r"^w\b.*10"),
            ({"w": np.ones((3, 0))}, "at least one tap"),
            ({"w": np.ones(4)}, r"w must have shape \(channels, taps\)"),
            ({"w": np.ones((3, 11)), "padding": "valid"}, r"11 taps of w must fit .* 10 \+ 0 \+ 0; they span 11"),
            ({"dilation": 7, "padding": 5}, r"4 taps 7 apart of w must fit .* 10 \+ 5 \+ 5; they span 22"),
            ({"padding": "full"}, r"^padding\b"),
            ({"padding": -1}, "padding must not be negative; got -1"),
            ({"padding": 2**31}, "padding must be at most 2147483647; got 2147483648"),
            ({"padding": "same", "stride": 10**30}, r"^stride\b.*2147483647.*10"),
            ({"padding": "same", "dilation": 2**63}, "dilation must be at most 2147483647; got 9223372036854775808"),
            ({"padding": 1.5}, r"^padding\b"),
            ({"padding": True}, r"^padding\b"),
            ({"activation": "relu"}, "activation must be one of 'silu', 'gelu', .* or None; got 'relu'"),
            ({"layout": "LBC"}, r"^layout\b"),
            ({"stride": 0}, r"^stride\b.*1.*0"),
            ({"dilation": -2}, r"^dilation\b.*1.*2"),
            ({"bias": np.ones(4)}, r"bias must have shape \(3,\), one for each channel; got \(4,\)"),
            ({"state": np.ones((2, 3, 4))}, r"state must have shape \(2, 3, 3\)"),
            ({"state": np.ones((2, 3, 3)), "padding": "same"}, "need padding=\"causal\"; got 'same'"),
            ({"return_state": True, "padding": 3}, r"^state\b.*3"),
            ({"return_state": True, "stride": 3}, "length of x must be a multiple of the stride 3; got 10"),
        ],
    )
    def test_forward(self, backend: Backend, arguments: dict[str, Any], message: str) -> None:
        given = {"x": self.X, "w": self.W} | arguments
        x = backend.asarray(given.pop("x"))
        with pytest.raises(ValueError, match=message):
            cukde.depthwise_conv1d(x, given.pop("w"), **given)

    def test_types(self, backend: Backend) -> None:
        x = backend.asarray(self.X)
        for name, value in (("stride", 1.5), ("stride", True), ("dilation", "2")):
            with pytest.raises(TypeError, match=f"{name} must be an integer"):
                cukde.depthwise_conv1d(x, self.W, **{name: value})
        for name in ("w", "bias", "state"):
            with pytest.raises(TypeError, match=f"{name} must hold real numbers"):
                cukde.depthwise_conv1d(x, **({"w": self.W} | {name: np.ones((3, 4), complex)}))
        with pytest.raises(TypeError, match=r"^x\b"):
            cukde.depthwise_conv1d(backend.asarray(self.X.astype(complex)), self.W)
        with pytest.raises(TypeError, match=r"^kernel_size\b"):
            cukde.depthwise_conv1d_weight_grad(x, self.X, 2.0)

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({"stride": 2}, "input_length must be given with stride 2: inputs of several lengths have 10 outputs"),
            (
                {"stride": 2, "input_length": 18},
                "input_length must be from 19 to 20 for the 10 positions of dy; got 18",
            ),
            ({"input_length": 11}, r"^input_length\b"),
            ({"input_length": 0}, "input_length must be at least 1; got 0"),
            ({"padding": 7}, "dy must have more than 11 positions for padding=7; got 10"),
            ({"w": np.ones((2, 4))}, r"^w\b.*3"),
            ({"dy": np.ones((2, 3))}, r"^dy\b"),
            ({"layout": "CBL"}, r"^layout\b"),
        ],
    )
    def test_input_grad(self, backend: Backend, arguments: dict[str, Any], message: str) -> None:
        given = {"dy": self.X, "w": self.W} | arguments
        dy = backend.asarray(given.pop("dy"))
        with pytest.raises(ValueError, match=message):
            cukde.depthwise_conv1d_input_grad(dy, given.pop("w"), **given)

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({"padding": "valid"}, r"dy must have shape \(2, 3, 7\) like the convolution of x; got \(2, 3, 10\)"),
            ({"dy": np.ones((2, 4, 10))}, r"^dy\b.*3.*10"),
            ({"dy": np.ones((1, 3, 10))}, r"^dy\b.*3.*10"),
            ({"kernel_size": 0}, r"^kernel_size\b.*1.*0"),
            ({"kernel_size": 99, "padding": 2}, "99 taps of w must fit"),
            ({"padding": "none"}, r"^padding\b"),
        ],
    )
    def test_weight_grad(self, backend: Backend, arguments: dict[str, Any], message: str) -> None:
        given = {"dy": self.X, "kernel_size": 4} | arguments
        with pytest.raises(ValueError, match=message):
            cukde.depthwise_conv1d_weight_grad(backend.asarray(self.X), **given)


def test_examples() -> None:
    for module in (conv1d_api, activations):
        results = doctest.testmod(module)
        assert results.failed == 0
        assert results.attempted > 0
