"""PyTorch, eager and compiled: Gram matrix, exponential, sums; the whole matrix in memory, or 4,096 rows at a time.

Settings are PyTorch's defaults: products of float32 without TF32, ``torch.compile`` in its default mode. The rows of a
piece are our choice.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import cupy as cp
import torch

_CHUNK = 4096  # rows of the matrix in memory at a time


def _exponents(X: Any, Y: Any, h: float) -> Any:
    squares = (Y * Y).sum(1)[:, None] + (X * X).sum(1) - 2 * (Y @ X.T)
    return squares * (-0.5 / h**2)


def _constant(X: Any, h: float) -> float:
    n, d = X.shape
    return math.exp(-0.5 * d * math.log(2 * math.pi * h * h)) / n


def _kde(X: Any, Y: Any, h: float) -> Any:
    return torch.exp(_exponents(X, Y, h)).sum(1) * _constant(X, h)


def _sd_kde(X: Any, Y: Any, h: float) -> Any:
    phi = torch.exp(_exponents(X, X, h))
    moved = 0.5 * (X + phi @ X / phi.sum(1)[:, None])
    return _kde(moved, Y, h)


def _laplace_kde(X: Any, Y: Any, h: float) -> Any:
    exponents = _exponents(X, Y, h)
    return (torch.exp(exponents) * (exponents + (1 + X.shape[1] / 2))).sum(1) * _constant(X, h)


@functools.cache
def _compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    return torch.compile(function)


def kde(X: Any, Y: Any, h: float) -> Any:
    """Density, the whole matrix in memory, as of all here but the chunked."""
    return _of_cupy(_kde, X, Y, h)


def sd_kde(X: Any, Y: Any, h: float) -> Any:
    """Density of the debiased data."""
    return _of_cupy(_sd_kde, X, Y, h)


def laplace_kde(X: Any, Y: Any, h: float) -> Any:
    """Laplace-corrected density."""
    return _of_cupy(_laplace_kde, X, Y, h)


def compiled_kde(X: Any, Y: Any, h: float) -> Any:
    """Density by ``torch.compile``."""
    return _of_cupy(_compiled(_kde), X, Y, h)


def compiled_sd_kde(X: Any, Y: Any, h: float) -> Any:
    """Density of the debiased data by ``torch.compile``."""
    return _of_cupy(_compiled(_sd_kde), X, Y, h)


def compiled_laplace_kde(X: Any, Y: Any, h: float) -> Any:
    """Laplace-corrected density by ``torch.compile``."""
    return _of_cupy(_compiled(_laplace_kde), X, Y, h)


def chunked_kde(X: Any, Y: Any, h: float) -> Any:
    """Density by ``torch.compile``, 4,096 queries at a time."""
    return _of_cupy(_chunked_kde, X, Y, h)


def chunked_sd_kde(X: Any, Y: Any, h: float) -> Any:
    """Density of the debiased data by ``torch.compile``, 4,096 rows at a time."""
    return _of_cupy(_chunked_sd_kde, X, Y, h)


def _chunked_kde(X: Any, Y: Any, h: float) -> Any:
    density = _compiled_for(X.shape[1])[0]
    return torch.cat([density(X, y, h) for y in Y.split(_CHUNK)])


def _chunked_sd_kde(X: Any, Y: Any, h: float) -> Any:
    moved = _compiled_for(X.shape[1])[1]
    return _chunked_kde(torch.cat([moved(X, x, h) for x in X.split(_CHUNK)]), Y, h)


def _moved(X: Any, x: Any, h: float) -> Any:
    phi = torch.exp(_exponents(X, x, h))
    return 0.5 * (x + phi @ X / phi.sum(1)[:, None])


@functools.lru_cache(maxsize=1)
def _compiled_for(d: int) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Density and debiased points of some rows: for each number of dimensions anew, without dynamic shapes."""
    torch._dynamo.reset()  # or it would compile no more after a few
    return torch.compile(_kde, dynamic=False), torch.compile(_moved, dynamic=False)


def _of_cupy(function: Callable[..., Any], X: Any, Y: Any, h: float) -> Any:
    return cp.from_dlpack(function(torch.from_dlpack(X), torch.from_dlpack(Y), h))
