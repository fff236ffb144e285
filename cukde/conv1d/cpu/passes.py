"""Depthwise convolution on the CPU: chunks of rows over threads, with direct sums in Numba or FFTs for many taps.

A chunk is a range of the batch, of the channels and of the positions. Its part of each array becomes rows in the dtype
of the arithmetic; float32 and float64 arrays of layout "BCL" need no copy.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from cukde.conv1d import plan as conv1d_plan
from cukde.conv1d.cpu import activations, fft, rows as conv1d_rows
from cukde.conv1d.geometry import Geometry
from cukde.core import dtypes
from cukde.core.cpu import float16, threads, transpose
from cukde.core.plan import note

__all__ = ["forward", "input_grad", "weight_grad"]

_ELEMENTS = 2**16  # in a chunk: its arrays stay in the second-level cache
_LINE = 32  # channels of a chunk of layout "BLC", so that whole cache lines are copied
_MOST = 2**20  # elements of a chunk by FFT, unless one row has more
_TASKS = 8  # of the weight gradient, for any number of threads, so that every run has the same bits


class _Chunk(NamedTuple):
    batch: slice
    channels: slice
    positions: slice


def forward(
    x: np.ndarray, w: np.ndarray, bias: np.ndarray | None, geometry: Geometry, activation: str | None
) -> np.ndarray:
    """Convolve.

    Parameters
    ----------
    x : ndarray, ``geometry.shape(geometry.length)``
        float16, float32 or float64, contiguous.
    w : ndarray (C, K)
        Of the dtype of x.
    bias : ndarray (C,), optional
        Of the dtype of the arithmetic.
    geometry : Geometry
        The sizes.
    activation : {None, "silu", "gelu"}
        Applied to each sum.

    Returns
    -------
    ndarray, ``geometry.shape(geometry.outputs)``
        Of the dtype of x.
    """
    g = geometry
    number = dtypes.arithmetic(x.dtype)
    y = np.empty(g.shape(g.outputs), x.dtype)
    taps = _taps(w, number, g.flip)
    _correlate(x, taps, np.zeros(g.channels, number) if bias is None else bias, g, y, activation)
    return y


def input_grad(dy: np.ndarray, w: np.ndarray, geometry: Geometry) -> np.ndarray:
    """Return the gradient with respect to x of the sum of dy times the convolution; arrays as in :func:`forward`."""
    g = geometry
    number = dtypes.arithmetic(dy.dtype)
    dx = np.empty(g.shape(g.length), dy.dtype)
    taps = _taps(w, number, g.flip)
    if g.stride == 1:  # the adjoint is a convolution with reversed taps
        reversed_taps = _taps(taps, number, True)
        _correlate(dy, reversed_taps, np.zeros(g.channels, number), conv1d_plan.adjoint(g), dx, None)
        return dx

    note("spread")

    def gradient(chunk: _Chunk) -> None:
        start, stop = chunk.positions.start, chunk.positions.stop
        # Output i depends on the inputs from i stride - before to i stride - before + reach.
        first = max(0, -((g.reach - g.before - start) // g.stride))
        last = min(g.outputs, (stop - 1 + g.before) // g.stride + 1)
        rows = _rows(dy, g, chunk, slice(first, max(first, last)), number)
        target = _part(dx, g, chunk, chunk.positions)
        out = _into(target, number)
        before = g.before + start - first * g.stride
        conv1d_rows.spread(rows, taps, chunk.channels.start, _count(chunk.channels), before, g.stride, g.dilation, out)
        _keep(out, target, g)

    threads.run(gradient, _chunks(g, g.length))
    return dx


def weight_grad(x: np.ndarray, dy: np.ndarray, geometry: Geometry, bias: bool) -> tuple[np.ndarray, np.ndarray | None]:
    """Return the gradients with respect to w and, with ``bias``, the bias, of the dtype of x.

    The sizes alone determine the order of the sums: every run has the same bits, with any number of threads.
    """
    g = geometry
    number = dtypes.arithmetic(x.dtype)
    tasks, parts = _fixed_tasks(g)
    length = conv1d_plan.transforms(g, number)
    note("fft" if length else "direct")
    dw = np.zeros((parts, g.channels, g.taps))
    db = np.zeros((parts, g.channels))

    def products(task: tuple[int, slice, slice, slice]) -> None:
        part, channels, batch, positions = task
        for chunk in _within(g, batch, channels, positions, length - g.reach if length else 0):
            start, stop = chunk.positions.start, chunk.positions.stop
            inputs, before = _window(g, start, stop)
            rows = _rows(x, g, chunk, inputs, number)
            gradient = _rows(dy, g, chunk, chunk.positions, number)
            count, out = _count(chunk.channels), dw[part, chunk.channels]
            if not length or not fft.tap_products(rows, gradient, count, before, g.dilation, length, out):
                conv1d_rows.tap_products(rows, gradient, count, before, g.stride, g.dilation, out)
            if bias:
                with np.errstate(invalid="ignore"):  # infinities of both signs
                    db[part, chunk.channels] += gradient.sum(axis=1, dtype=np.float64).reshape(-1, count).sum(axis=0)

    threads.run(products, tasks)
    with np.errstate(over="ignore", invalid="ignore"):
        total = dw.sum(axis=0).astype(x.dtype)
        return (
            np.ascontiguousarray(total[:, ::-1] if g.flip else total),
            db.sum(axis=0).astype(x.dtype) if bias else None,
        )


def _correlate(
    x: np.ndarray, taps: np.ndarray, bias: np.ndarray, g: Geometry, y: np.ndarray, activation: str | None
) -> None:
    """Write activation(bias + convolution) with taps (C, K), in the order of x, of the dtype of the arithmetic."""
    number = taps.dtype
    length = conv1d_plan.transforms(g, number)
    note("fft" if length else "direct")
    spectra = fft.spectra(taps, g.dilation, length) if length else None
    longest = 0 if length is None else length - g.reach

    def convolve(chunk: _Chunk) -> None:
        inputs, before = _window(g, chunk.positions.start, chunk.positions.stop)
        rows = _rows(x, g, chunk, inputs, number)
        target = _part(y, g, chunk, chunk.positions)
        out = _into(target, number)
        if spectra is None or not fft.correlate(rows, spectra[chunk.channels], bias[chunk.channels], before, out):
            first, count = chunk.channels.start, _count(chunk.channels)
            conv1d_rows.correlate(rows, taps, bias, first, count, before, g.stride, g.dilation, out)
        activations.apply(out, activation)
        _keep(out, target, g)

    threads.run(convolve, _chunks(g, y.shape[1 if g.channels_last else 2], longest))


def _taps(w: np.ndarray, number: np.dtype, flip: bool) -> np.ndarray:
    return np.ascontiguousarray(w[:, ::-1] if flip else w, number)


def _count(part: slice) -> int:
    return int(part.stop - part.start)


def _window(g: Geometry, start: int, stop: int) -> tuple[slice, int]:
    """Return the inputs of the outputs ``start`` to ``stop - 1``, and the number of zeros before these inputs."""
    first = start * g.stride - g.before
    low = min(max(0, first), g.length)
    high = min(g.length, (stop - 1) * g.stride + g.reach + 1 - g.before)
    return slice(low, max(low, high)), low - first


def _part(a: np.ndarray, g: Geometry, chunk: _Chunk, positions: slice) -> np.ndarray:
    """Return a view of a chunk, (batch, channels, positions)."""
    return (a.transpose(0, 2, 1) if g.channels_last else a)[chunk.batch, chunk.channels, positions]


def _rows(a: np.ndarray, g: Geometry, chunk: _Chunk, positions: slice, number: np.dtype) -> np.ndarray:
    """Return a chunk as contiguous rows in the dtype of the arithmetic, copied only if necessary."""
    part = _part(a, g, chunk, positions)
    if g.channels_last:
        rows = np.empty(part.shape, a.dtype)
        transpose.transpose(_bits(part).transpose(0, 2, 1), _bits(rows))
    else:
        rows = np.ascontiguousarray(part)
    if a.dtype != number:
        rows = float16.widen(rows)
    return rows.reshape(part.shape[0] * part.shape[1], part.shape[2])


def _into(target: np.ndarray, number: np.dtype) -> np.ndarray:
    """Return contiguous rows to write to: those of the target if it has such."""
    if target.flags.c_contiguous and target.dtype == number:
        return target.reshape(-1, target.shape[2])
    return np.empty((target.shape[0] * target.shape[1], target.shape[2]), number)


def _keep(rows: np.ndarray, target: np.ndarray, g: Geometry) -> None:
    """Copy rows to their target, unless they are the target."""
    if np.may_share_memory(rows, target):
        return
    shaped = rows.reshape(target.shape)
    if rows.dtype != target.dtype:
        shaped = target if target.flags.c_contiguous else np.empty(target.shape, target.dtype)
        float16.narrow(rows, shaped)
        if shaped is target:
            return
    if g.channels_last:
        transpose.transpose(_bits(shaped), _bits(target).transpose(0, 2, 1))
    else:
        target[...] = shaped


def _bits(a: np.ndarray) -> np.ndarray:
    """View float16 as integers, which Numba can copy on a CPU."""
    return a.view(np.uint16) if a.dtype == np.float16 else a


def _cut(whole: slice, size: int) -> Iterator[slice]:
    for start in range(whole.start, whole.stop, size):
        yield slice(start, min(start + size, whole.stop))


def _within(g: Geometry, batch: slice, channels: slice, positions: slice, longest: int = 0) -> Iterator[_Chunk]:
    """Cut ranges into chunks: positions of few channels, channels of one signal, or several signals of the batch."""
    fewest = min(_LINE, max(1, _MOST // (longest or 1))) if g.channels_last else 1
    # Each chunk reads the reach besides its own inputs, so it should be several times as long.
    length = min(_count(positions), longest or max(_ELEMENTS // fewest, 4 * g.reach))
    count = min(_count(channels), max(fewest, _ELEMENTS // length))
    whole = count == _count(channels) and length == _count(positions)
    signals = max(1, _ELEMENTS // (count * length)) if whole else 1
    for b, c, p in itertools.product(_cut(batch, signals), _cut(channels, count), _cut(positions, length)):
        yield _Chunk(b, c, p)


def _chunks(g: Geometry, positions: int, longest: int = 0) -> Iterator[_Chunk]:
    return _within(g, slice(0, g.batch), slice(0, g.channels), slice(0, positions), longest)


def _fixed_tasks(g: Geometry) -> tuple[list[tuple[int, slice, slice, slice]], int]:
    """Return tasks of the weight gradient, each a part of the sums and its ranges, and the number of parts."""
    groups = list(_cut(slice(0, g.channels), -(-g.channels // _TASKS)))
    parts = -(-_TASKS // len(groups))
    batch, outputs = slice(0, g.batch), slice(0, g.outputs)
    if g.batch >= parts:
        ranges = [(b, outputs) for b in _cut(batch, -(-g.batch // parts))]
    else:
        ranges = [(batch, p) for p in _cut(outputs, -(-g.outputs // parts))] if g.batch else []
    tasks = [(part, c, b, p) for part, (b, p) in enumerate(ranges) for c in groups]
    return tasks, len(ranges)
