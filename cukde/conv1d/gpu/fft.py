"""Depthwise convolution of very many taps on the GPU: by Fourier transforms of whole rows, through CuPy (cuFFT).

For every dtype, stride, dilation and layout. float16 is computed in float32 and float32 in float64. Blocks of rows are
transformed at a time, so that memory beside the arguments and the result is at most about ``_WORKSPACE`` bytes, or what
one row takes.

Accuracy before the one rounding of the result: of the norm of the row of x times that of its channel's taps, 3e-7 for
float16, 1e-15 for float32 and float64 (measured with NumPy's transforms: 7e-9 and 2e-17), and not of the terms of an
output: numbers that are smaller than that beside large ones in a row are lost. What is not finite anywhere in a row
makes the whole row NaN. The same bits on every run.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import cupy as cp
import numpy as np

from cukde.conv1d.geometry import Geometry
from cukde.conv1d.plan import fast_length

_WORKSPACE = 2**28  # bytes
_ARRAYS = 5  # of a padded row's size that are there at a time: two rows, two spectra, cuFFT's own

_WIDE = {np.dtype(f"f{2 * size}"): np.dtype(f"f{min(8, 4 * size)}") for size in (1, 2, 4)}  # of the transforms


def forward(x: Any, w: Any, bias: Any | None, geometry: Geometry, activation: str | None) -> Any:
    """Return y = act(bias + sum), as :func:`cukde.conv1d.gpu.passes.forward`."""
    x = _channels_first(x, geometry)
    batch, channels, length = x.shape
    y = cp.empty((batch, channels, geometry.outputs), x.dtype)
    n = fast_length(length + geometry.reach)
    for some, rows in _blocks(batch, channels, n, w.dtype):
        spectrum = cp.fft.rfft(_wide(x[rows, some]), n)
        spectrum *= cp.fft.rfft(_taps(w[some], geometry), n).conj()
        sums = cp.fft.irfft(spectrum, n)
        z = _picked(sums, -geometry.before, geometry.stride, geometry.outputs, -geometry.reach, length)
        y[rows, some] = _activated(z if bias is None else z + bias[some, None], activation)
    return _laid_out(y, geometry)


def input_grad(dy: Any, w: Any, geometry: Geometry) -> Any:
    """Return dx of dy, as :func:`cukde.conv1d.gpu.passes.input_grad`."""
    dy = _spread(_channels_first(dy, geometry), geometry.stride)
    batch, channels, length = dy.shape
    dx = cp.empty((batch, channels, geometry.length), dy.dtype)
    n = fast_length(length + geometry.reach)
    for some, rows in _blocks(batch, channels, n, w.dtype):
        spectrum = cp.fft.rfft(_wide(dy[rows, some]), n)
        spectrum *= cp.fft.rfft(_taps(w[some], geometry), n)
        sums = cp.fft.irfft(spectrum, n)
        dx[rows, some] = _picked(sums, geometry.before, 1, geometry.length, 0, length + geometry.reach)
    return _laid_out(dx, geometry)


def weight_grad(x: Any, dy: Any, geometry: Geometry, bias: bool) -> tuple[Any, Any | None]:
    """(dw, dbias) of dy, as :func:`cukde.conv1d.gpu.passes.weight_grad`."""
    x, dy = _channels_first(x, geometry), _channels_first(dy, geometry)
    spread = _spread(dy, geometry.stride)
    batch, channels, length = x.shape
    dw = cp.zeros((channels, geometry.taps), _WIDE[dy.dtype])
    n = fast_length(length + spread.shape[-1])
    first, step = -geometry.before, geometry.dilation
    for some, rows in _blocks(batch, channels, n, x.dtype):
        spectrum = cp.fft.rfft(_wide(spread[rows, some]), n).conj()
        spectrum *= cp.fft.rfft(_wide(x[rows, some]), n)
        sums = cp.fft.irfft(spectrum.sum(axis=0), n)
        dw[some] += _picked(sums, first, step, geometry.taps, 1 - spread.shape[-1], length)
    if geometry.flip:
        dw = dw[:, ::-1]
    dbias = dy.sum(axis=(0, 2), dtype=dw.dtype).astype(dy.dtype) if bias else None
    return cp.ascontiguousarray(dw.astype(dy.dtype)), dbias


def _blocks(batch: int, channels: int, n: int, dtype: np.dtype) -> Iterator[tuple[slice, slice]]:
    """Slices of channels and of the batch that memory suffices for, if it does for a row."""
    most = max(1, _WORKSPACE // (n * _WIDE[dtype].itemsize * _ARRAYS))
    at_a_time = max(1, min(batch, most))
    columns = most // at_a_time
    for first in range(0, channels, columns):
        for top in range(0, batch, at_a_time):
            yield slice(first, first + columns), slice(top, top + at_a_time)


def _taps(w: Any, geometry: Geometry) -> Any:
    """In the order in which inputs meet them, with the zeros of dilation."""
    return _spread(_wide(w[:, ::-1] if geometry.flip else w), geometry.dilation)


def _wide(a: Any) -> Any:
    return a.astype(_WIDE[a.dtype], copy=False)


def _channels_first(a: Any, geometry: Geometry) -> Any:
    return a.transpose(0, 2, 1) if geometry.channels_last else a


def _laid_out(a: Any, geometry: Geometry) -> Any:
    return cp.ascontiguousarray(a.transpose(0, 2, 1)) if geometry.channels_last else a


def _spread(a: Any, step: int) -> Any:
    """The last axis with step - 1 zeros between neighbours."""
    if step == 1 or a.shape[-1] < 2:
        return a
    out = cp.zeros((*a.shape[:-1], (a.shape[-1] - 1) * step + 1), a.dtype)
    out[..., ::step] = a
    return out


def _picked(sums: Any, first: int, step: int, count: int, low: int, high: int) -> Any:
    """Columns first, first + step, .. of what has a period; zeros but for the columns from low to high - 1."""
    n = sums.shape[-1]
    columns = first + step * np.arange(count)
    exist = (columns >= low) & (columns < high)
    picked = cp.take(sums, cp.asarray(np.where(exist, columns, 0) % n), axis=-1)
    return picked if exist.all() else picked * cp.asarray(exist.astype(sums.dtype))


def _activated(z: Any, activation: str | None) -> Any:
    if activation == "silu":
        return z / (1 + cp.exp(-z))
    return 0.5 * z * _erfc(-np.sqrt(0.5).astype(z.dtype) * z) if activation == "gelu" else z


def _erfc(z: Any) -> Any:
    from cupyx.scipy.special import erfc

    return erfc(z)
