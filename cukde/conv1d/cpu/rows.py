"""Depthwise convolution of rows in Numba: any stride is a sum of convolutions of stride 1.

Tap k of output i multiplies input i s + k d - before. Inputs p, p + s, p + 2 s, ... are phase p. Each tap reads one
phase. The taps of a phase are s / gcd(s, d) apart, and the inputs that they read are d / gcd(s, d) apart within the
phase, while outputs are adjacent. So a contiguous copy of a phase has a convolution of stride 1, which vectorises. The
input gradient likewise writes phases, and each tap of the weight gradient belongs to one phase.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import uint64

from cukde.core.cpu.jit import FUSED as _JIT, njit

__all__ = ["correlate", "spread", "tap_products"]

# Inner products may also be summed in vector lanes, in an order that depends only on their length.
_LANES = _JIT | {"fastmath": {"contract", "reassoc"}}

_BLOCK = 1024  # outputs that stay in the first-level cache for all taps


def correlate(
    x: Any, w: Any, bias: Any, channel: int, channels: int, before: int, stride: int, dilation: int, y: Any
) -> None:
    """Write the convolution of each row: the bias plus the sum over k of w[c, k] x[r, i stride + k dilation - before].

    x (R, n), w (C, K), bias (C,), y (R, m), all contiguous and of one dtype. Row r has the channel
    ``channel + r % channels``. Inputs before the first and after the last are zero.
    """
    if stride == 1:  # by itself, it compiles in two thirds of the time
        _correlate_adjacent(x, w, bias, channel, channels, before, dilation, y)
    else:
        _correlate_strided(x, w, bias, channel, channels, before, stride, dilation, y)


@njit(**_JIT)
def _correlate_adjacent(
    x: Any, w: Any, bias: Any, channel: int, channels: int, before: int, dilation: int, y: Any
) -> None:
    for r in range(y.shape[0]):
        c = channel + r % channels
        row = y[r]
        for i in range(row.size):
            row[i] = bias[c]
        _add_row(x[r], w[c], before, dilation, row)


@njit(**_JIT)
def _correlate_strided(
    x: Any, w: Any, bias: Any, channel: int, channels: int, before: int, stride: int, dilation: int, y: Any
) -> None:
    for r in range(y.shape[0]):
        c = channel + r % channels
        row = y[r]
        for i in range(row.size):
            row[i] = bias[c]
        for p in range(stride):
            first, step = _taps_of_phase(before + p, stride, dilation, w.shape[1])
            if first < w.shape[1]:
                phase = x[r, p::stride].copy()
                offset = (first * dilation - before - p) // stride
                _add_row(phase, w[c, first::step].copy(), -offset, dilation * step // stride, row)


@njit(**_JIT)
def spread(dy: Any, w: Any, channel: int, channels: int, before: int, stride: int, dilation: int, dx: Any) -> None:
    """Write the transpose of :func:`correlate`: the sum of w[c, k] dy[r, i] over i stride + k dilation - before = j.

    dy (R, m), w (C, K), dx (R, n).
    """
    for r in range(dx.shape[0]):
        c = channel + r % channels
        for p in range(stride):
            phase = np.zeros((dx.shape[1] - p + stride - 1) // stride, dx.dtype)
            first, step = _taps_of_phase(before + p, stride, dilation, w.shape[1])
            if first < w.shape[1]:
                # Input p + t stride reads outputs t + offset, t + offset - spacing, ...: reversed taps.
                taps = w[c, first::step][::-1].copy()
                spacing = dilation * step // stride
                offset = (before + p - first * dilation) // stride
                _add_row(dy[r], taps, (taps.size - 1) * spacing - offset, spacing, phase)
            for t in range(phase.size):
                dx[r, p + t * stride] = phase[t]


def tap_products(x: Any, dy: Any, channels: int, before: int, stride: int, dilation: int, dw: Any) -> None:
    """Add to dw[r % channels, k] the inner product of dy[r] and the inputs of tap k.

    x (R, n), dy (R, m) of one dtype; dw (channels, K) float64. Blocks are summed in the dtype of x, and their sums in
    float64.
    """
    if stride == 1:
        _adjacent_products(x, dy, channels, before, dilation, dw)
    else:
        _strided_products(x, dy, channels, before, stride, dilation, dw)


@njit(**_JIT)
def _adjacent_products(x: Any, dy: Any, channels: int, before: int, dilation: int, dw: Any) -> None:
    for r in range(dy.shape[0]):
        _add_products(x[r], dy[r], before, dilation, dw[r % channels], 0, 1)


@njit(**_JIT)
def _strided_products(x: Any, dy: Any, channels: int, before: int, stride: int, dilation: int, dw: Any) -> None:
    for r in range(dy.shape[0]):
        out = dw[r % channels]
        for p in range(stride):
            first, step = _taps_of_phase(before + p, stride, dilation, out.size)
            if first < out.size:
                phase = x[r, p::stride].copy()
                offset = (first * dilation - before - p) // stride
                _add_products(phase, dy[r], -offset, dilation * step // stride, out, first, step)


@njit(**_JIT)
def _taps_of_phase(place: int, stride: int, dilation: int, taps: int) -> tuple[int, int]:
    """Return the first k with k dilation = place modulo stride, or ``taps``, and the distance of such taps."""
    step = stride // math.gcd(stride, dilation)
    for k in range(min(step, taps)):
        if (k * dilation - place) % stride == 0:
            return k, step
    return taps, step


@njit(**_JIT)
def _add_row(x: Any, w: Any, before: int, dilation: int, y: Any) -> None:
    """Add to y[i] the sum over k of w[k] x[i + k dilation - before], block by block, eight taps at a time."""
    for start in range(0, y.size, _BLOCK):
        size = min(_BLOCK, y.size - start)
        k = 0
        while k < w.size:
            place = start + k * dilation - before
            left = w.size - k
            group = 8 if left >= 8 else 4 if left >= 4 else 2 if left >= 2 else 1
            low, high = _inside(x.size, place, place + (group - 1) * dilation, size)
            if low > 0 or high < size:  # at the ends of x, tap by tap
                for j in range(group):
                    _add_ends(x, w[k + j], place + j * dilation, y[start : start + size], low, high)
            if low < high:
                _add_taps(x, w, k, group, place + low, dilation, start + low, high - low, y)
            k += group


@njit(**_JIT)
def _inside(n: int, first: int, last: int, m: int) -> tuple[int, int]:
    """Return the range of 0 <= i < m for which first + i and last + i lie in 0 .. n - 1; first <= last."""
    low = min(max(0, -first), m)
    return low, max(low, min(m, n - last))


@njit(**_JIT)
def _add_ends(x: Any, w: Any, place: int, y: Any, low: int, high: int) -> None:
    """Add w x[place + i] to y[i] for i < low and i >= high, as far as x reaches."""
    for i in range(max(0, -place), min(low, x.size - place)):
        y[i] += w * x[place + i]
    for i in range(max(high, -place), min(y.size, x.size - place)):
        y[i] += w * x[place + i]


@njit(**_JIT)
def _add_taps(x: Any, w: Any, k: int, group: int, place: int, dilation: int, to: int, n: int, y: Any) -> None:
    """Add to y[to + i], i < n, the sum of w[k + j] x[place + i + j dilation] over j < group, which is 1, 2, 4 or 8."""
    # Unsigned, so that Numba does not test indices for negative ones; slices would count references.
    count, o, d = uint64(n), uint64(to), uint64(dilation)
    a = uint64(place)
    b = a + d
    w0 = w[k]
    if group == 1:
        for i in range(count):
            y[o + i] += w0 * x[a + i]
        return
    w1 = w[k + 1]
    if group == 2:
        for i in range(count):
            y[o + i] += w0 * x[a + i] + w1 * x[b + i]
        return
    c, e = b + d, b + d + d
    w2, w3 = w[k + 2], w[k + 3]
    if group == 4:
        for i in range(count):
            y[o + i] += w0 * x[a + i] + w1 * x[b + i] + w2 * x[c + i] + w3 * x[e + i]
        return
    f, g, h, m = e + d, e + d + d, e + d + d + d, e + d + d + d + d
    w4, w5, w6, w7 = w[k + 4], w[k + 5], w[k + 6], w[k + 7]
    for i in range(count):
        s = w0 * x[a + i] + w1 * x[b + i] + w2 * x[c + i] + w3 * x[e + i]
        t = w4 * x[f + i] + w5 * x[g + i] + w6 * x[h + i] + w7 * x[m + i]
        y[o + i] += s + t


@njit(**_JIT)
def _add_products(x: Any, dy: Any, before: int, dilation: int, dw: Any, first: int, step: int) -> None:
    """Add to dw[first + t step] the inner product of dy[i] and x[i + t dilation - before], eight t at a time."""
    taps = (dw.size - first + step - 1) // step
    for start in range(0, dy.size, _BLOCK):
        size = min(_BLOCK, dy.size - start)
        t = 0
        while t < taps:
            place = start + t * dilation - before
            group = 8 if taps - t >= 8 else 4 if taps - t >= 4 else 1
            low, high = _inside(x.size, place, place + (group - 1) * dilation, size)
            if low > 0 or high < size:
                for j in range(group):
                    ends = _end_products(x, place + j * dilation, dy[start : start + size], low, high)
                    dw[first + (t + j) * step] += ends
            if low < high:
                _add_inner(x, place + low, dilation, dy, start + low, high - low, group, dw, first + t * step, step)
            t += group


@njit(**_JIT)
def _end_products(x: Any, place: int, y: Any, low: int, high: int) -> Any:
    """Return the sum of x[place + i] y[i] over i < low and i >= high, as far as x reaches."""
    total = y.dtype.type(0)
    for i in range(max(0, -place), min(low, x.size - place)):
        total += x[place + i] * y[i]
    for i in range(max(high, -place), min(y.size, x.size - place)):
        total += x[place + i] * y[i]
    return total


@njit(**_LANES)
def _add_inner(
    x: Any, place: int, dilation: int, y: Any, to: int, n: int, group: int, dw: Any, first: int, step: int
) -> None:
    """Add to dw[first + j step] the sum over i < n of x[place + i + j dilation] y[to + i]; j < group: 1, 4 or 8."""
    count, o, d = uint64(n), uint64(to), uint64(dilation)
    a = uint64(place)
    zero = y.dtype.type(0)
    s0, s1, s2, s3, s4, s5, s6, s7 = zero, zero, zero, zero, zero, zero, zero, zero
    if group == 1:
        for i in range(count):
            s0 += x[a + i] * y[o + i]
        dw[first] += s0
        return
    b, c, e = a + d, a + d + d, a + d + d + d
    if group == 4:
        for i in range(count):
            v = y[o + i]
            s0 += x[a + i] * v
            s1 += x[b + i] * v
            s2 += x[c + i] * v
            s3 += x[e + i] * v
    else:
        f, g, h, m = e + d, e + d + d, e + d + d + d, e + d + d + d + d
        for i in range(count):
            v = y[o + i]
            s0 += x[a + i] * v
            s1 += x[b + i] * v
            s2 += x[c + i] * v
            s3 += x[e + i] * v
            s4 += x[f + i] * v
            s5 += x[g + i] * v
            s6 += x[h + i] * v
            s7 += x[m + i] * v
        dw[first + 4 * step] += s4
        dw[first + 5 * step] += s5
        dw[first + 6 * step] += s6
        dw[first + 7 * step] += s7
    dw[first] += s0
    dw[first + step] += s1
    dw[first + 2 * step] += s2
    dw[first + 3 * step] += s3
