"""Depthwise convolution on the CPU beside SciPy, each row checked before it is timed.

python -m pytest benchmarks/conv1d/bench_conv1d_cpu.py --record benchmarks/results/NAME.json

What is called, and what an error is of, stands in ``conv1d_cases.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from benchmarks.conv1d import cases

_SHAPE, _LONG = (8, 64, 2048), (4, 32, 16384)
_DTYPES = ("float32", "float64", "float16")


@pytest.mark.parametrize("layout", ["BCL", "BLC"])
@pytest.mark.parametrize("activation", [None, "silu", "gelu"])
@pytest.mark.parametrize("taps", [4, 31])
@pytest.mark.parametrize("dtype", _DTYPES)
def bench_forward_cpu(compare: Callable[..., None], dtype: str, taps: int, activation: Any, layout: Any) -> None:
    compare(*cases.forward(_SHAPE, taps, dtype, activation, layout))


@pytest.mark.parametrize("taps", [4, 31])
@pytest.mark.parametrize("dtype", _DTYPES)
def bench_input_grad_cpu(compare: Callable[..., None], dtype: str, taps: int) -> None:
    compare(*cases.input_grad(_SHAPE, taps, dtype))


@pytest.mark.parametrize("layout", ["BCL", "BLC"])
@pytest.mark.parametrize("taps", [4, 31])
@pytest.mark.parametrize("dtype", _DTYPES)
def bench_weight_grad_cpu(compare: Callable[..., None], dtype: str, taps: int, layout: Any) -> None:
    compare(*cases.weight_grad(_SHAPE, taps, dtype, layout))


@pytest.mark.parametrize("taps", [128, 256, 512, 1024, 4096])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def bench_long_taps_cpu(compare: Callable[..., None], dtype: str, taps: int) -> None:
    compare(*cases.long_taps(_LONG, taps, dtype))
