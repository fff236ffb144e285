"""PyTorch, eager and compiled: Gram matrix, exponential, sums."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import cupy as cp
import torch


def _sums(X: Any, Y: Any, h: float) -> Any:
    squares = (Y * Y).sum(1)[:, None] + (X * X).sum(1) - 2 * (Y @ X.T)
    return torch.exp(squares * (-0.5 / h**2))


def _sd_kde(X: Any, Y: Any, h: float) -> Any:
    n, d = X.shape
    phi = _sums(X, X, h)
    moved = 0.5 * (X + phi @ X / phi.sum(1)[:, None])
    return _sums(moved, Y, h).sum(1) * (math.exp(-0.5 * d * math.log(2 * math.pi * h * h)) / n)


@functools.cache
def _compiled() -> Callable[..., Any]:
    return torch.compile(_sd_kde)


def sd_kde(X: Any, Y: Any, h: float) -> Any:
    """Density of the debiased data, the whole matrix in memory."""
    return cp.from_dlpack(_sd_kde(torch.from_dlpack(X), torch.from_dlpack(Y), h))


def compiled_sd_kde(X: Any, Y: Any, h: float) -> Any:
    """The same by ``torch.compile``."""
    return cp.from_dlpack(_compiled()(torch.from_dlpack(X), torch.from_dlpack(Y), h))
