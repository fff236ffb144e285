"""Which kernels take a depthwise convolution, on both sides of each threshold.

A table with other names is printed by ``python -m tests.conv1d.test_plan``; a change of names is a change of speed, to
be measured by ``python -m benchmarks.conv1d.crossover``.
"""

from __future__ import annotations

import pprint
from typing import Any

import numpy as np
import pytest

from cukde.core.plan import Plan, only
from tests.private import Geometry, conv1d_engine, conv1d_plan, conv1d_transforms, sums_kernel

# By pass: dtype, batch, channels, length, taps, and where they are others stride, dilation and layout. The first that
# serves arrays that begin at multiples of 16 bytes, of a device of compute capability 9.0, and one that serves any.
ON_GPU: dict[str, dict[tuple[Any, ...], str]] = {
    "forward": {
        ("float16", 64, 256, 2048, 4): "few_taps, else rows",
        ("float16", 64, 256, 2048, 5): "toeplitz_short",
        ("float16", 64, 256, 2049, 4): "toeplitz_short",
        ("float16", 64, 256, 2048, 58): "toeplitz_short",
        ("float16", 64, 256, 2048, 59): "toeplitz",
        ("float16", 512, 256, 64, 31): "short_rows",
        ("float32", 64, 256, 1016, 4): "few_taps, else rows",
        ("float32", 64, 256, 1024, 4): "rows",
        ("float32", 5, 3, 255, 9): "short_rows",
        ("float32", 5, 3, 256, 9): "rows",
        ("float32", 3, 3, 64, 9): "strided",
        ("float32", 4, 3, 64, 9): "short_rows",
        ("float64", 5, 3, 127, 9): "strided",
        ("float64", 5, 3, 128, 9): "rows",
        ("float32", 65535, 1, 256, 9): "rows",
        ("float32", 65536, 1, 256, 9): "strided",
        ("float32", 16, 128, 4096, 112): "rows",
        ("float32", 16, 128, 4096, 113): "toeplitz",
        ("float32", 4, 8, 64, 9, 2): "strided",
        ("float32", 4, 8, 512, 9, 1, 2): "strided",
        ("float32", 4, 8, 8, 9, 1, 1, "BLC"): "channels_last",
        ("float32", 4, 8, 7, 9, 1, 1, "BLC"): "strided",
        ("float32", 4, 1, 300, 9, 1, 1, "BLC"): "rows",
        ("float32", 1, 2, 2**29 - 16, 9): "rows",
        ("float32", 1, 2, 2**29, 9): "strided",
        ("float64", 1, 64, 65536, 512): "rows",
        ("float64", 16, 128, 65536, 1024): "fft",
        ("float64", 16, 128, 65536, 512): "rows",
        ("float32", 2, 64, 65536, 8545): "toeplitz",
        ("float32", 2, 64, 65536, 8546): "fft",
    },
    "input_grad": {
        ("float16", 64, 256, 2048, 4): "few_taps, else rows",
        ("float32", 64, 256, 1024, 31): "rows",
        ("float32", 64, 256, 1024, 31, 2): "strided_input_grad",
        ("float32", 16, 128, 4096, 512): "toeplitz",
        ("float32", 4, 8, 64, 9, 1, 1, "BLC"): "channels_last",
    },
    "weight_grad": {
        ("float16", 8, 8, 504, 4): "weight_grad",
        ("float16", 8, 8, 512, 4): "weight_grad_few_taps, else weight_grad",
        ("float16", 8, 8, 512, 5): "weight_grad",
        ("float32", 8, 8, 512, 4): "weight_grad",
        ("float32", 2, 8, 256, 4): "weight_grad_short_rows",
        ("float32", 1, 8, 257, 4): "weight_grad",
        ("float32", 1, 8, 256, 4): "weight_grad",
        ("float32", 1, 8, 127, 4): "weight_grad_strided",
        ("float32", 1, 8, 128, 4): "weight_grad",
        ("float64", 9, 8, 63, 4): "weight_grad_strided",
        ("float64", 9, 8, 64, 4): "weight_grad",
        ("float32", 9, 8, 512, 4, 2): "weight_grad_strided",
        ("float32", 9, 8, 512, 4, 1, 1, "BLC"): "weight_grad_channels_last",
        ("float32", 16, 128, 65536, 65536): "fft",
    },
}

# Dtype, channels, length, taps and stride.
ON_CPU: dict[tuple[Any, ...], str] = {
    ("float32", 128, 16384, 63): "direct",
    ("float32", 128, 16384, 64): "direct",
    ("float32", 128, 16384, 250): "direct",
    ("float32", 128, 16384, 251): "fft, else direct",
    ("float32", 128, 16384, 512): "fft, else direct",
    ("float64", 128, 16384, 512): "direct",
    ("float64", 128, 16384, 513): "fft, else direct",
    ("float16", 128, 16384, 512): "fft, else direct",
    ("float32", 128, 16384, 512, 2): "direct",
    ("float32", 128, 100, 512): "direct",
    ("float32", 128, 1024, 440): "direct",
    ("float32", 128, 1024, 441): "fft, else direct",
    ("float32", 128, 16384, 5000): "fft, else direct",
}


def geometry(
    batch: int, channels: int, length: int, taps: int, stride: int = 1, dilation: int = 1, layout: str = "BCL"
) -> Geometry:
    before = (taps - 1) * dilation
    return Geometry(batch, channels, length, taps, stride, dilation, before, 0, layout == "BLC", False)


def serving(plan: Plan, *conditions: str) -> str:
    """The candidate that serves, and where that depends on the data, the one for any."""
    first = plan.first(*conditions)
    return first if first == plan.sure else f"{first}, else {plan.sure}"


def on_gpu(way: Any, dtype: str, *sizes: Any) -> str:
    return serving(conv1d_plan.on_gpu(way, dtype, geometry(*sizes), (9, 0)), conv1d_plan.ALIGNED)


def on_cpu(dtype: str, *sizes: Any) -> str:
    return serving(conv1d_plan.on_cpu("forward", dtype, geometry(1, *sizes)), conv1d_plan.FINITE)


@pytest.mark.parametrize("way", ON_GPU)
def test_who_serves_on_a_gpu(way: str) -> None:
    assert {sizes: on_gpu(way, *sizes) for sizes in ON_GPU[way]} == ON_GPU[way]


def test_who_serves_on_the_cpu() -> None:
    assert {sizes: on_cpu(*sizes) for sizes in ON_CPU} == ON_CPU


def test_times_decide_between_sums_and_transforms() -> None:
    """Transforms of whole rows are less accurate, and must be faster by half."""
    plan = conv1d_plan.on_gpu("forward", "float32", geometry(16, 128, 65536, 16384), (9, 0))
    ms = {one.name: one.ms for one in plan.candidates if one.ms is not None}
    assert plan.sure == "fft"
    assert 1.5 * ms["fft"] < ms["toeplitz"] < ms["rows"]
    exact = conv1d_plan.on_gpu("forward", "float64", geometry(16, 128, 65536, 512), (9, 0))
    refused = next(one for one in exact.candidates if one.name == "fft").refused
    assert refused == "float64 of at most 512 taps: errors would be relative to whole rows"


def test_a_kernel_that_is_asked_for() -> None:
    g = geometry(64, 256, 2048, 4)
    with only("rows"):
        assert conv1d_engine("forward", "float16", g, (9, 0)) == "direct"
        assert sums_kernel("forward", g, 16, True) == "rows"
    with only("toeplitz_short"):
        assert conv1d_engine("forward", "float16", g, (9, 0)) == "toeplitz"
    long = geometry(4, 32, 16384, 600)
    with only("direct"):
        assert conv1d_transforms(long, np.dtype(np.float32)) is None
    assert conv1d_transforms(long, np.dtype(np.float32)) == 4096


def test_nothing_to_compute_has_a_plan() -> None:
    for way in ON_GPU:
        for sizes in ((0, 3, 8, 4), (3, 0, 8, 4)):
            assert conv1d_plan.on_gpu(way, "float32", geometry(*sizes), (9, 0)).sure  # type: ignore[arg-type]


if __name__ == "__main__":
    pprint.pp({way: {sizes: on_gpu(way, *sizes) for sizes in of} for way, of in ON_GPU.items()}, width=120)
    pprint.pp({sizes: on_cpu(*sizes) for sizes in ON_CPU}, width=120)
