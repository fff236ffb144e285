"""PyTorch's elementary functions and activations on its tensors, as a network calls them.

All have their defaults: ``torch.nn.functional.gelu`` its exact form by the error function (``approximate="none"``),
``softplus`` its beta 1 and its threshold 20, above which it is the identity. Of float16 it computes in float32.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "gelu": torch.nn.functional.gelu,
    "silu": torch.nn.functional.silu,
    "softplus": torch.nn.functional.softplus,
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "erf": torch.erf,
    "exp": torch.exp,
    "log": torch.log,
}
"""By the names of ``cukde.functions``."""


def tensor(a: Any) -> Any:
    """The same memory as a tensor."""
    return torch.from_dlpack(a)
