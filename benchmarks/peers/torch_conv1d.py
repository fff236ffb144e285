"""PyTorch's causal depthwise convolution and its gradients, on its tensors, by ``groups=C``; without TF32.

Settings are PyTorch's defaults, cuDNN's own choice of algorithm among them, but for TF32, which would make of a float32
convolution another one.
"""

from __future__ import annotations

from typing import Any

import torch

torch.backends.cudnn.allow_tf32 = False


def tensors(arrays: list[Any], layout: str) -> list[Any]:
    """Sequences as (B, C, L): those of layout "BLC" are views, as a user has them."""
    found = [torch.from_dlpack(a) for a in arrays]
    return found if layout == "BCL" else [a.transpose(1, 2) for a in found]


def result(a: Any, layout: str) -> Any:
    """What a call gives, in the layout of its input."""
    return a if a.dim() == 2 or layout == "BCL" else a.transpose(1, 2)


def padded(dy: Any, taps: int) -> Any:
    """Gradients with zeros for the outputs that :func:`forward` leaves out."""
    return torch.nn.functional.pad(dy, (0, taps - 1))


def forward(x: Any, w: Any) -> Any:
    """y (B, C, L). It computes taps - 1 outputs more, which is less than a copy with zeros in front."""
    y = torch.nn.functional.conv1d(x, w[:, None], padding=w.shape[1] - 1, groups=len(w))
    return y[..., : x.shape[2]]


def input_grad(dy: Any, x: Any, w: Any) -> Any:
    """dx (B, C, L), of ``dy`` from :func:`padded`."""
    return _backward(dy, x, w, (True, False, False))[0]


def weight_grad(dy: Any, x: Any, w: Any) -> Any:
    """dw (C, K), of ``dy`` from :func:`padded`."""
    return _backward(dy, x, w, (False, True, False))[1][:, 0]


def _backward(dy: Any, x: Any, w: Any, wanted: tuple[bool, bool, bool]) -> Any:
    C, K = w.shape
    return torch.ops.aten.convolution_backward(dy, x, w[:, None], None, [1], [K - 1], [1], False, [0], C, list(wanted))
