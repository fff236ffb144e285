"""Causal depthwise convolution and its gradients as products with dense matrices, in NumPy: short sequences alone."""

from __future__ import annotations

import numpy as np


def _taps(L: int, K: int) -> np.ndarray:
    """(L, L): the tap by which output i (column) meets input j (row); K where none does."""
    k = np.arange(L)[:, None] - np.arange(L) + K - 1
    return np.where((k >= 0) & (k < K), k, K)


def forward(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    return _by_channel(x, _matrices(w, x.shape[2]))


def input_grad(dy: np.ndarray, w: np.ndarray) -> np.ndarray:
    return _by_channel(dy, _matrices(w, dy.shape[2]).transpose(0, 2, 1))


def weight_grad(x: np.ndarray, dy: np.ndarray, taps: int) -> np.ndarray:
    C, L = x.shape[1:]
    products = x.transpose(1, 2, 0) @ dy.transpose(1, 0, 2)  # (C, L, L), inputs with outputs
    where = (_taps(L, taps) + np.arange(C)[:, None, None] * (taps + 1)).ravel()
    sums = np.bincount(where, products.ravel(), C * (taps + 1)).reshape(C, -1)
    return sums[:, :taps].astype(x.dtype)


def _matrices(w: np.ndarray, L: int) -> np.ndarray:
    """(C, L, L) that rows of inputs are multiplied by."""
    K = w.shape[1]
    return np.pad(w, ((0, 0), (0, 1)))[:, _taps(L, K)]


def _by_channel(a: np.ndarray, matrices: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray((a.transpose(1, 0, 2) @ matrices).transpose(1, 0, 2))
