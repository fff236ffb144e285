"""causal-conv1d (Dao-AILab) on PyTorch's tensors: CUDA kernels of 2 to 4 taps.

A call is its ``causal_conv1d_fn(x, weight)``, without bias or activation, as its README has it. It has kernels for
sequences (B, C, L) that are contiguous along L, and others for those contiguous along C, which want a multiple of 8
channels; it chooses by the strides. Its backward pass, by ``torch.autograd.grad``, gives the gradients of x and of the
weights together; a time is of that pass alone.

Its kernels are compiled with ``nvcc`` at installation, beside PyTorch:
``CAUSAL_CONV1D_FORCE_BUILD=TRUE pip install --no-build-isolation causal-conv1d``.
Where it cannot be imported, :func:`require` says so.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import torch

TAPS = (2, 3, 4)
"""Numbers of taps that it has kernels for."""


def require(taps: int) -> Callable[..., Any]:
    """Its function; LookupError where it has none for so many taps or is not installed."""
    if taps not in TAPS:
        raise LookupError(f"causal-conv1d has kernels of {TAPS[0]} to {TAPS[-1]} taps; got {taps}")
    try:
        module = importlib.import_module("causal_conv1d")
    except (ImportError, OSError) as absent:  # it may be built for another PyTorch
        raise LookupError(
            f"causal_conv1d did not import ({type(absent).__name__}: {absent}); with nvcc and PyTorch it is built by "
            "CAUSAL_CONV1D_FORCE_BUILD=TRUE pip install --no-build-isolation causal-conv1d"
        ) from absent
    return module.causal_conv1d_fn  # type: ignore[no-any-return]


def forward(x: Any, w: Any) -> Any:
    """y (B, C, L)."""
    return require(w.shape[1])(x, w)


def graph(x: Any, w: Any) -> tuple[Any, Any, Any]:
    """y, x and w for :func:`gradients`, after a forward pass."""
    x, w = x.detach().requires_grad_(), w.detach().requires_grad_()
    return forward(x, w), x, w


def gradients(of: tuple[Any, Any, Any], dy: Any) -> tuple[Any, Any]:
    """dx (B, C, L) and dw (C, K), by its backward pass; ``of`` is of :func:`graph`."""
    y, x, w = of
    return torch.autograd.grad(y, (x, w), dy, retain_graph=True)  # type: ignore[no-any-return]
