"""Densities on product grids by Fourier transforms, as :mod:`cukde.density.grids.plan` plans them."""

from __future__ import annotations

import math
from types import ModuleType
from typing import Any

import numpy as np

from cukde.density.grids import exact, spread
from cukde.density.grids.plan import Axis, Plan

_LARGEST_LOG = 709.0
_ROUNDING = 2e-14  # of the transforms, relative to the largest density: more than was measured


def density(
    x: Any, weights: Any, covariance: np.ndarray, plan: Plan, backend: ModuleType, *, judged: bool
) -> tuple[Any, float]:
    """Return the density on the grid, float64, and, where it is asked for, how far off it is at most, in its units.

    That waits for the GPU.
    """
    xp = backend.xp
    loops = exact.loops(backend)
    mass = spread.spread(x, weights, plan, xp) if loops is None else loops.spread(x, weights, plan)
    counted = float(mass.sum()) if judged else 1.0
    fft, threaded = _fourier(backend)
    transform = fft.rfftn(mass, **threaded)
    _convolve(transform, covariance, plan, xp)
    # Of two dimensions or more the transform is the larger part of the memory: what it is made of is let go first.
    del mass
    everywhere = fft.irfftn(transform, plan.cells, axes=tuple(range(len(plan.cells))), **threaded)
    error = math.nan
    if judged:
        left_out = max(0.0, 1 - counted) * plan.left_out * peak(covariance)
        error = (plan.error + _ROUNDING) * float(everywhere.max()) + left_out
    return _at_coordinates(everywhere, plan, backend), error


def peak(covariance: np.ndarray) -> float:
    """Density of a Gaussian at its centre; a determinant may be out of range where this is not."""
    log_peak = -0.5 * (len(covariance) * math.log(2 * math.pi) + float(np.linalg.slogdet(covariance)[1]))
    return math.exp(log_peak) if log_peak < _LARGEST_LOG else math.inf


def _fourier(backend: ModuleType) -> tuple[Any, dict[str, Any]]:
    """What has transforms of all axes, and their options: threads share them, and what they are made of is spoilt."""
    if backend.name == "gpu":
        return backend.xp.fft, {}
    from scipy import fft

    from cukde.core.cpu import threads  # which loads Numba

    return fft, {"workers": threads.count(), "overwrite_x": True}


def _convolve(transform: Any, covariance: np.ndarray, plan: Plan, xp: Any) -> None:
    """Multiply by the kernel's transform, and divide by the splines'."""
    d = len(plan.axes)
    frequencies = [np.fft.fftfreq(axis.cells) for axis in plan.axes]
    frequencies[-1] = np.fft.rfftfreq(plan.axes[-1].cells)
    waves = [2 * np.pi / axis.step * u for axis, u in zip(plan.axes, frequencies, strict=True)]
    separable = not np.any(covariance - np.diag(np.diag(covariance)))
    for k, (axis, u) in enumerate(zip(plan.axes, frequencies, strict=True)):
        times = plan.order * (1 if axis.places is None else 2)
        factor = 1 / (axis.step * np.sinc(u) ** times)
        if separable:
            factor *= np.exp(-0.5 * covariance[k, k] * waves[k] ** 2)
        transform *= _along(xp.asarray(factor), k, d)
    if not separable:
        exponent = xp.zeros(transform.shape)
        for k in range(d):
            for j in range(k + 1):
                product = _along(xp.asarray(waves[k]), k, d) * _along(xp.asarray(waves[j]), j, d)
                exponent -= (0.5 if j == k else 1.0) * covariance[k, j] * product
        transform *= xp.exp(exponent, out=exponent)


def _at_coordinates(everywhere: Any, plan: Plan, backend: ModuleType) -> Any:
    """Take the cells of the coordinates, and interpolate where they are no cells."""
    chosen = tuple(axis.chosen if axis.places is None else slice(None) for axis in plan.axes)
    out = everywhere[chosen]
    for k, axis in enumerate(plan.axes):
        if axis.places is not None:
            out = _interpolated(out, k, axis, plan.order, backend)
    reversal = tuple(slice(None, None, -1 if axis.places is None and axis.reversed else 1) for axis in plan.axes)
    return backend.xp.maximum(out[reversal], 0)


def _interpolated(a: Any, k: int, axis: Axis, order: int, backend: ModuleType) -> Any:
    """Values at places along an axis between cells."""
    positions = np.asarray(axis.places) + 0.5 * order
    last = np.floor(positions)
    values = spread.spline(positions - last, order, np)
    first = last.astype(np.int64) - (order - 1)
    loops = exact.loops(backend)
    if loops is not None:
        return loops.interpolate(a, k, first, values)
    xp = backend.xp
    first, values = xp.asarray(first), xp.asarray(values)
    out: Any = 0
    for i in range(order):
        out = out + xp.take(a, first + i, axis=k) * _along(values[:, i], k, a.ndim)
    return out


def _along(a: Any, k: int, d: int) -> Any:
    """Make a vector one along an axis of several."""
    return a.reshape([-1 if axis == k else 1 for axis in range(d)])
