"""Depthwise convolution on the GPU beside a copy, the source's kernels and PyTorch; a row is checked, then timed.

python -m pytest benchmarks/conv1d/bench_conv1d_gpu.py -m gpu --record benchmarks/results/NAME.json

Causal convolutions of normal numbers. Each call takes the next of several buffers, and results are kept as long, so
that all together are many times the L2 cache; a time is of several calls in a row that begin when all are launched. The
bound of a row is a copy from device to device, timed just before, that reads and writes as much as the path
must: a sequence and a result, or x and dy, beside which the gradient of the weights is small. The error of a row is the
largest |y - exact| / sum of the terms' absolute values, in float64, over some of the channels.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import cukde
from benchmarks import record
from benchmarks.conv1d import exact as conv1d_exact, s4convd
from benchmarks.conv1d.study_cost import SOURCE_SPEEDUP, SOURCE_STEP_SPEEDUP, VARIANTS
from benchmarks.peers import Peer, fft_conv1d
from cukde import perf
from cukde.perf._measure import Rotating
from examples import s4_like_classifier as model
from tests.conftest import why_no_gpu

if why_no_gpu() is None:
    import cupy as cp

    from benchmarks.conv1d import study

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(why_no_gpu() is not None, reason=str(why_no_gpu()))]

SHORT, LONG, SMALL = s4convd.OTHER, (16, 128, 4096), (2, 8, 64)  # B, C, L
LONG_TAPS = 512
S4CONVD = s4convd.SHAPE
BATCH, CHANNELS = 1024, 64  # of a step of training
CALLS = 6  # in a row
_BYTES = 4e8  # at least, of the buffers together
_CHECKED, _CHECKED_SEQUENCES = 4, 64  # channels of a convolution, sequences of a step of training
_TOLERANCE = {"float32": 2e-6, "float16": 6e-4}
_GRADIENT_TOLERANCE = 2e-5
_PATHS = ("forward", "input_grad", "weight_grad")

Shape = tuple[int, int, int]
Buffers = tuple[list[Any], ...]  # of each argument
Call = tuple[Callable[..., Any], Buffers]


class Data(NamedTuple):
    """Buffers that calls take in turns."""

    x: list[Any]
    dy: list[Any]
    w: Any  # (C, K)
    layout: str

    @property
    def taps(self) -> int:
        return int(self.w.shape[1])


@functools.lru_cache(maxsize=1)
def _data(shape: Shape, taps: int, dtype: str, layout: str, count: int | None = None) -> Data:
    B, C, L = shape
    count = count or max(3, math.ceil(_BYTES / (B * C * L * np.dtype(dtype).itemsize)))
    rng = cp.random.default_rng(taps)

    def sequences() -> Any:
        return rng.standard_normal(shape if layout == "BCL" else (B, L, C), np.float32).astype(dtype)

    w = rng.standard_normal((C, taps), np.float32).astype(dtype)
    return Data([sequences() for _ in range(count)], [sequences() for _ in range(count)], w, layout)


def _rotating(call: Callable[..., Any], buffers: Buffers) -> Callable[[], None]:
    """The call of the buffers in turn."""
    return Rotating(call, zip(*buffers, strict=True))


def _first(call: Callable[..., Any], buffers: Buffers) -> Any:
    return call(*(b[0] for b in buffers))


def _ours(path: str, of: Data) -> Call:
    w, layout = of.w, of.layout
    if path == "forward":
        return lambda x: cukde.depthwise_conv1d(x, w, layout=layout), (of.x,)
    if path == "input_grad":
        return lambda dy: cukde.depthwise_conv1d_input_grad(dy, w, layout=layout), (of.dy,)
    return lambda x, dy: cukde.depthwise_conv1d_weight_grad(x, dy, of.taps, layout=layout), (of.x, of.dy)


def _of_study(variant: str, path: str, of: Data) -> Call:
    if path == "forward":
        return lambda x: study.forward(variant, x, of.w), (of.x,)
    if path == "input_grad":
        return lambda dy: study.input_grad(variant, dy, of.w), (of.dy,)
    return lambda x, dy: study.weight_grad(variant, x, dy, of.taps), (of.x, of.dy)


def _error(path: str, of: Data, found: Any) -> float:
    """Of a result for the first buffers."""
    step = max(1, len(of.w) // _CHECKED)
    x, dy, w = (
        _channels_first(of.x[0], of.layout)[:, ::step],
        _channels_first(of.dy[0], of.layout)[:, ::step],
        of.w[::step],
    )
    found = found[::step] if path == "weight_grad" else _channels_first(found, of.layout)[:, ::step]
    x, dy, w, found = (cp.asarray(a, np.float64) for a in (x, dy, w, found))
    exact, size = _exactly(path, x, dy, w), _exactly(path, abs(x), abs(dy), abs(w))
    return float((abs(found - exact) / cp.maximum(size, np.finfo(np.float64).tiny)).max())


def _channels_first(a: Any, layout: str) -> Any:
    return a if layout == "BCL" else a.transpose(0, 2, 1)


def _exactly(path: str, x: Any, dy: Any, w: Any) -> Any:
    if path == "weight_grad":
        return conv1d_exact.weight_grad(x, dy, w.shape[1])
    return conv1d_exact.forward(x, w) if path == "forward" else conv1d_exact.input_grad(dy, w)


def _bound(of: Data) -> dict[str, Any]:
    turns = [(cp.empty_like(x), x) for x in of.x]
    return {"bound_ms": perf.measure(cp.copyto, gpu=True, calls=CALLS, rotate=turns).median_ms, "bound": "a copy"}


def _row(op: str, shape: Shape, taps: int, dtype: str, error: float, tolerance: float, **more: Any) -> dict[str, Any]:
    assert error <= tolerance
    return {
        "op": op,
        "backend": "gpu",
        "shape": dict(zip("BCL", shape, strict=True)) | {"K": taps} | more,
        "dtype": dtype,
        "precision": dtype,
        "rel_err_max": error,
    }


# -------------------------------------------------------------------------------------------------- rivals


def _torch(path: str, of: Data) -> Peer | str:
    try:
        from benchmarks.peers import torch_conv1d

        x, dy = (torch_conv1d.tensors(a, of.layout) for a in (of.x, of.dy))
        w = torch_conv1d.torch.from_dlpack(of.w)
        if path == "forward":
            return _peer(path, of, lambda x: torch_conv1d.result(torch_conv1d.forward(x, w), of.layout), x)
        gradient = getattr(torch_conv1d, path)
        padded = [torch_conv1d.padded(a, of.taps) for a in dy]
        return _peer(path, of, lambda x, dy: torch_conv1d.result(gradient(dy, x, w), of.layout), x, padded)
    except Exception as reason:  # whatever it is, the record says it
        return record.reason(reason)


def _causal_conv1d(path: str, of: Data) -> dict[str, Peer | str]:
    """Its one backward pass, which gives both gradients, is beside each of ours."""
    name = "causal-conv1d" if path == "forward" else "causal-conv1d, both gradients"
    try:
        from benchmarks.peers import causal_conv1d as peer, torch_conv1d

        peer.require(of.taps)
        x, dy = (torch_conv1d.tensors(a, of.layout) for a in (of.x, of.dy))
        w = torch_conv1d.torch.from_dlpack(of.w)
        if path == "forward":
            return {name: _peer(path, of, lambda x: torch_conv1d.result(peer.forward(x, w), of.layout), x)}
        graphs, chosen = [peer.graph(a, w) for a in x], _PATHS.index(path) - 1

        def gradient(graph: Any, dy: Any) -> Any:
            return torch_conv1d.result(peer.gradients(graph, dy)[chosen], of.layout)

        return {name: _peer(path, of, gradient, graphs, dy)}
    except Exception as failed:  # whatever it is, the record says it
        return {name: record.reason(failed)}


def _peer(path: str, of: Data, call: Callable[..., Any], *buffers: list[Any]) -> Peer:
    found = _first(call, buffers)
    error = _error(path, of, found if isinstance(found, cp.ndarray) else cp.from_dlpack(found))
    return _rotating(call, buffers), error


def _cupy_fft(of: Data) -> Peer:
    reversed_w, dtype = cp.ascontiguousarray(of.w[:, ::-1]), of.w.dtype
    return _peer("forward", of, lambda x: fft_conv1d.forward(cp.fft, x, reversed_w).astype(dtype, copy=False), of.x)


def _torch_fft(of: Data) -> Peer | str:
    try:
        import torch

        x, reversed_w, half = [torch.from_dlpack(a) for a in of.x], torch.from_dlpack(of.w).flip(1), of.w.dtype == "f2"
        return _peer("forward", of, lambda x: fft_conv1d.forward(torch.fft, x, reversed_w, power_of_two=half), x)
    except Exception as reason:  # whatever it is, the record says it
        return record.reason(reason)


# ---------------------------------------------------------------------------------------------- the library


@pytest.mark.parametrize("path", _PATHS)
@pytest.mark.parametrize("layout", ["BCL", "BLC"])
@pytest.mark.parametrize("taps", [4, 31])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def bench_short(compare: Callable[..., None], dtype: str, taps: int, layout: str, path: str) -> None:
    of = _data(SHORT, taps, dtype, layout)
    _bench(compare, path, SHORT, of, {"PyTorch": _torch(path, of)} | _causal_conv1d(path, of))


@pytest.mark.parametrize("path", _PATHS)
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def bench_long(compare: Callable[..., None], dtype: str, path: str) -> None:
    of = _data(LONG, LONG_TAPS, dtype, "BCL")
    by_fft = {"CuPy FFT": _cupy_fft(of), "PyTorch FFT": _torch_fft(of)} if path == "forward" else {}
    _bench(compare, path, LONG, of, {"PyTorch": _torch(path, of)} | by_fft)


@pytest.mark.parametrize("path", _PATHS)
def bench_small_call(compare: Callable[..., None], path: str) -> None:
    """A call by itself, most of which is the host's time to launch it."""
    of = _data(SMALL, 4, "float32", "BCL", 3)
    _bench(compare, path, SMALL, of, {"PyTorch": _torch(path, of)} | _causal_conv1d(path, of), calls=1)


def _bench(
    compare: Callable[..., None], path: str, shape: Shape, of: Data, peers: dict[str, Peer | str], calls: int = CALLS
) -> None:
    call, buffers = _ours(path, of)
    found, dtype = _first(call, buffers), of.w.dtype.name
    assert found.dtype == dtype
    error = _error(path, of, found)
    row = _row(path, shape, of.taps, dtype, error, _TOLERANCE[dtype], layout=of.layout) | _bound(of)
    compare(_rotating(call, buffers), row, peers, calls=calls)


# ----------------------------------------------------------------------------------------------- the source


@pytest.mark.parametrize("path", [*_PATHS, "all"])
@pytest.mark.parametrize("taps", [4, 31])
def bench_study(compare: Callable[..., None], taps: int, path: str) -> None:
    """The last of the source's kernels beside those before it and ours, on each path and on all three in turn."""
    _bench_study(compare, SHORT, taps, path)


@pytest.mark.parametrize("path", [*_PATHS, "all"])
def bench_study_s4convd(compare: Callable[..., None], path: str) -> None:
    """The same at the sizes of the model that the source trains."""
    _bench_study(compare, S4CONVD, s4convd.TAPS, path)


def _bench_study(compare: Callable[..., None], shape: Shape, taps: int, path: str) -> None:
    of = _data(shape, taps, "float32", "BCL")
    paths = _PATHS if path == "all" else (path,)
    calls = {variant: _in_turn(paths, of, functools.partial(_of_study, variant)) for variant in study.VARIANTS}
    calls["cukde"] = _in_turn(paths, of, _ours)
    last, error = calls.pop(study.VARIANTS[-1])
    bound = _bound(of)
    row = _row(f"study, {path}", shape, taps, "float32", error, _TOLERANCE["float32"], layout="BCL") | bound
    row |= {"variant": study.VARIANTS[-1], "bound_ms": len(paths) * bound["bound_ms"]}
    compare(last, row | ({"source_speedup": SOURCE_SPEEDUP} if path == "all" else {}), calls, calls=3)


def _in_turn(paths: tuple[str, ...], of: Data, made: Callable[[str, Data], Call]) -> tuple[Callable[[], Any], float]:
    """A call that goes all the paths, and the largest error."""
    calls = [made(path, of) for path in paths]
    errors = [_error(path, of, _first(*call)) for path, call in zip(paths, calls, strict=True)]
    assert max(errors) <= _TOLERANCE["float32"]
    rotating = [_rotating(*call) for call in calls]
    return lambda: [call() for call in rotating], max(errors)


@pytest.mark.parametrize("convolution", [*VARIANTS, "cukde"])
def bench_training_step(compare: Callable[..., None], convolution: str) -> None:
    """A step of the example's training, and what its convolutions take of it by themselves: times of the device.

    Launched from Python one by one, the small passes of a step take some milliseconds more: ``alone_ms``.
    """
    chosen = model.library() if convolution == "cukde" else _convolution(convolution)
    rng, start = np.random.default_rng(0), model.parameters(CHANNELS)
    sequences = cp.asarray(rng.standard_normal((BATCH, model.STEPS), np.float32))
    labels = cp.asarray(rng.integers(model.LABELS, size=BATCH))
    p = {name: cp.asarray(of) for name, of in start.items()}
    exactly = {name: cp.asarray(of, np.float64) for name, of in start.items()}
    error = _gradient_error(p, exactly, sequences[:_CHECKED_SEQUENCES], labels[:_CHECKED_SEQUENCES], chosen)

    noted: list[Callable[[], Any]] = []
    model.loss_and_gradients(p, sequences, labels, _noting(chosen, noted))
    adam = model.Adam(p)

    def step() -> None:
        adam.step(model.loss_and_gradients(p, sequences, labels, chosen)[1], rate=0.0)

    def median(call: Callable[[], Any], calls: int) -> float:
        return perf.measure(call, gpu=True, seconds=0.5, calls=calls).median_ms

    convolutions, whole = median(lambda: [call() for call in noted], CALLS), median(step, CALLS)
    shape = (BATCH, CHANNELS, model.STEPS)
    more = {"blocks": model.BLOCKS, "convolution": convolution}
    row = _row("training step", shape, model.TAPS, "float32", error, _GRADIENT_TOLERANCE, **more) | {
        "convolution_ms": convolutions,
        "convolution_share": convolutions / whole,
        "alone_ms": median(step, 1),
        "source_step_speedup": SOURCE_STEP_SPEEDUP,
    }
    compare(step, row, {}, calls=CALLS)


def _gradient_error(p: Any, exactly: Any, sequences: Any, labels: Any, of: model.Convolution) -> float:
    """Largest of any parameter's gradient, a part of that gradient's largest component."""
    exact = model.Convolution(conv1d_exact.forward, conv1d_exact.input_grad, conv1d_exact.weight_grad)
    wanted = model.loss_and_gradients(exactly, sequences.astype(np.float64), labels, exact)[1]
    found = model.loss_and_gradients(p, sequences, labels, of)[1]
    return max(float(abs(found[name] - g).max() / abs(g).max()) for name, g in wanted.items())


def _noting(of: model.Convolution, calls: list[Callable[[], Any]]) -> model.Convolution:
    """The same, putting each call among ``calls``, to be made again."""

    def noting(function: Callable[..., Any], *arguments: Any) -> Any:
        calls.append(functools.partial(function, *arguments))
        return function(*arguments)

    return model.Convolution(*(functools.partial(noting, function) for function in of))


def _convolution(variant: str) -> model.Convolution:
    return model.Convolution(
        *(functools.partial(f, variant) for f in (study.forward, study.input_grad, study.weight_grad))
    )
