"""PyTorch, eager and compiled: Gram matrix, exponential, sums; the whole matrix in memory.

Settings are PyTorch's defaults: products of float32 without TF32, ``torch.compile`` in its default mode.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import cupy as cp
import torch


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


def _of_cupy(function: Callable[..., Any], X: Any, Y: Any, h: float) -> Any:
    return cp.from_dlpack(function(torch.from_dlpack(X), torch.from_dlpack(Y), h))


def _by_torch_compile(function: Callable[..., Any], X: Any, Y: Any, h: float) -> Any:
    return _of_cupy(_compiled(function), X, Y, h)


# Densities with the whole matrix in memory, of CuPy arrays.
kde, sd_kde, laplace_kde = (functools.partial(_of_cupy, of) for of in (_kde, _sd_kde, _laplace_kde))
compiled_kde, compiled_sd_kde, compiled_laplace_kde = (
    functools.partial(_by_torch_compile, of) for of in (_kde, _sd_kde, _laplace_kde)
)
