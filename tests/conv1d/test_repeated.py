"""Repeated convolutions on a GPU: the same results, and the errors of the first call."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import cukde


@pytest.fixture
def kept(emulated_device: None, monkeypatch: pytest.MonkeyPatch) -> dict[Any, Any]:
    """Calls that are kept; NumPy arrays count as the GPU's."""
    from cukde.conv1d.gpu import passes
    from cukde.core.gpu.repeated import Repeated

    monkeypatch.setattr("cukde.core.dispatch.is_gpu_array", lambda a: isinstance(a, np.ndarray))
    monkeypatch.setattr(passes, "REPEATED", calls := Repeated(1024))
    return calls.kept


def arrays(dtype: str = "float32", length: int = 64) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return tuple(rng.standard_normal(shape).astype(dtype) for shape in ((2, 8, length), (8, 4), (8,)))  # type: ignore[return-value]


def test_a_repeated_call_gives_the_same(kept: dict[Any, Any]) -> None:
    x, w, b = arrays()
    options = (
        {},
        {"bias": b},
        {"padding": "same"},
        {"padding": 2, "flip": True},
        {"activation": "silu"},
        {"stride": 2},
    )
    for count, named in enumerate(options, 1):
        first = cukde.depthwise_conv1d(x, w, **named)
        assert len(kept) == count
        again, other = cukde.depthwise_conv1d(x, w, **named), cukde.depthwise_conv1d(2 * x, w, **named)
        assert len(kept) == count
        np.testing.assert_array_equal(again, first)
        assert again is not first
        assert (other != first).any()
    for dtype, length in itertools.product(("float16", "float64"), (64, 61)):
        x, w, _ = arrays(dtype, length)
        np.testing.assert_array_equal(cukde.depthwise_conv1d(x, w), cukde.depthwise_conv1d(x, w))


def test_what_is_converted_is_not_kept(kept: dict[Any, Any]) -> None:
    x, w, b = arrays()
    for arguments, named in (
        ((x, w.astype(np.float64)), {}),
        ((x.transpose(0, 2, 1), w[:, ::-1]), {"layout": "BLC"}),
        ((x, w), {"bias": b.astype(np.float64)}),
        ((x[:0], w), {}),
        ((x, w), {"return_state": True}),
    ):
        cukde.depthwise_conv1d(*arguments, **named)
    assert not kept


@pytest.mark.parametrize(
    "wrong",
    [
        {"stride": 1.0},
        {"stride": True},
        {"dilation": True},
        {"padding": 3.0},
        {"padding": ["causal"]},
        {"layout": ["BCL"]},
        {"activation": {}},
        {"flip": "no"},
        {"bias": [1.0] * 7},
        {"state": np.zeros((2, 8, 4))},
    ],
)
def test_errors_are_those_of_a_first_call(kept: dict[Any, Any], wrong: dict[str, Any]) -> None:
    x, w, _ = arrays()
    cukde.depthwise_conv1d(x, w, padding=3)
    with pytest.raises((TypeError, ValueError)) as first:
        cukde.depthwise_conv1d(x, w, **wrong)
    cukde.depthwise_conv1d(x, w)
    with pytest.raises(type(first.value)) as second:
        cukde.depthwise_conv1d(x, w, **wrong)
    assert str(first.value) == str(second.value)
    with pytest.raises(ValueError, match=r"^w\b.*8"):
        cukde.depthwise_conv1d(x, w[:7])


def test_calls_are_forgotten(kept: dict[Any, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    from cukde.conv1d.gpu import passes

    monkeypatch.setattr(passes.REPEATED, "_most", 2)
    x, w, _ = arrays()
    for padding in (0, 1, 2):
        cukde.depthwise_conv1d(x, w, padding=padding)
    assert len(kept) == 1


@pytest.mark.gpu
def test_on_a_gpu() -> None:
    import cupy as cp

    x, w, _ = map(cp.asarray, arrays())
    first = cukde.depthwise_conv1d(x, w)
    cp.cuda.Device().synchronize()
    with cp.cuda.Stream(non_blocking=True) as stream:
        for scale in (1, 2, 1):
            np.testing.assert_array_equal(cp.asnumpy(cukde.depthwise_conv1d(scale * x, w)), scale * cp.asnumpy(first))
        stream.synchronize()
