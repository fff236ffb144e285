"""Causal depthwise convolution and its gradients by their formulas, a tap at a time, on float64 arrays of any module.

Sequences are (B, C, L), weights (C, K); ``ago`` is how many steps before its output an input lies.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def forward(x: Any, w: Any) -> Any:
    L, y = x.shape[2], 0 * x
    for k, ago in _taps(L, w.shape[1]):
        y[..., ago:] += w[:, k, None] * x[..., : L - ago]
    return y


def input_grad(dy: Any, w: Any) -> Any:
    L, dx = dy.shape[2], 0 * dy
    for k, ago in _taps(L, w.shape[1]):
        dx[..., : L - ago] += w[:, k, None] * dy[..., ago:]
    return dx


def weight_grad(x: Any, dy: Any, taps: int) -> Any:
    L, dw = x.shape[2], 0 * x[0, :, :1].repeat(taps, axis=1)
    for k, ago in _taps(L, taps):
        dw[:, k] = (x[..., : L - ago] * dy[..., ago:]).sum(axis=(0, 2))
    return dw


def _taps(L: int, K: int) -> Iterator[tuple[int, int]]:
    """Those that some output meets within the sequence."""
    return ((K - 1 - ago, ago) for ago in range(min(K, L)))
