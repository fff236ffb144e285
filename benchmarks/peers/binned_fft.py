"""A binned density in one dimension by FFT, in CuPy: what KDEpy's FFTKDE does, on a GPU; CuPy arrays.

Linear binning and the kernel sampled at the steps of the grid are those of Wand and Jones, *Kernel Smoothing* (1995),
pages 182-192, which KDEpy names as its source. The grid goes four bandwidths beyond data and queries. Its 2^12 points
are those of :mod:`benchmarks.peers.kdepy`; KDEpy calls 2^10 typical. Those of 2^16 are 16 times as close, and the
error goes as the square of the step. Grid and transform are in float64, as KDEpy's; queries are interpolated linearly.
Debiasing takes its score from the kernel and its derivative on that grid; the Laplace correction has its own kernel.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import cupy as cp

_GRID, _FINE_GRID = 2**12, 2**16
_MARGIN = 4.0  # bandwidths


def kde(X: Any, Y: Any, h: float) -> Any:
    """Density."""
    return _density(X, Y, h, _GRID)


def sd_kde(X: Any, Y: Any, h: float) -> Any:
    """Density of the debiased data."""
    return _density(_debiased(X, h, _GRID), Y, h, _GRID)


def laplace_kde(X: Any, Y: Any, h: float) -> Any:
    """Laplace-corrected density."""
    return _at(X, Y, h, _GRID, [_laplace])[0].astype(X.dtype, copy=False)


def fine_kde(X: Any, Y: Any, h: float) -> Any:
    """Density by the finer grid, as the two below."""
    return _density(X, Y, h, _FINE_GRID)


def fine_sd_kde(X: Any, Y: Any, h: float) -> Any:
    """Density of the debiased data."""
    return _density(_debiased(X, h, _FINE_GRID), Y, h, _FINE_GRID)


def fine_laplace_kde(X: Any, Y: Any, h: float) -> Any:
    """Laplace-corrected density."""
    return _at(X, Y, h, _FINE_GRID, [_laplace])[0].astype(X.dtype, copy=False)


def _gaussian(z: Any) -> Any:
    return cp.exp(-0.5 * z * z)


def _slope(z: Any) -> Any:
    return -z * cp.exp(-0.5 * z * z)


def _laplace(z: Any) -> Any:
    return (1.5 - 0.5 * z * z) * cp.exp(-0.5 * z * z)


def _density(X: Any, Y: Any, h: float, points: int) -> Any:
    return _at(X, Y, h, points, [_gaussian])[0].astype(X.dtype, copy=False)


def _debiased(X: Any, h: float, points: int) -> Any:
    density, slope = _at(X, X, h, points, [_gaussian, _slope])
    return X + (0.5 * h * slope / density).reshape(X.shape).astype(X.dtype, copy=False)


def _at(X: Any, Y: Any, h: float, points: int, kernels: list[Callable[[Any], Any]]) -> list[Any]:
    """Means over the data of kernels of (y - x) / h, over h sqrt(2 pi), interpolated from the grid."""
    x, y = X.ravel().astype(cp.float64), Y.ravel().astype(cp.float64)
    low, high = cp.minimum(x.min(), y.min()) - _MARGIN * h, cp.maximum(x.max(), y.max()) + _MARGIN * h
    step = (high - low) / (points - 1)
    place = (x - low) / step
    cell = cp.minimum(place.astype(cp.int64), points - 2)
    right = place - cell
    counts = cp.bincount(cell, weights=1 - right, minlength=points)
    counts += cp.bincount(cell + 1, weights=right, minlength=points)
    size = 2 * points  # zeros enough that nothing comes round
    transformed = cp.fft.rfft(counts, size)
    offsets = cp.fft.fftfreq(size, 1 / size) * (step / h)
    grid = low + step * cp.arange(points)
    scale = 1 / (len(x) * h * math.sqrt(2 * math.pi))
    smoothed = (cp.fft.irfft(transformed * cp.fft.rfft(kernel(offsets)), size)[:points] for kernel in kernels)
    return [cp.interp(y, grid, s) * scale for s in smoothed]
