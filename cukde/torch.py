"""Functions of :mod:`cukde` for PyTorch's tensors, with gradients by passes of this library.

They take tensors of the host and of GPUs over the same memory, work on PyTorch's current stream, and return tensors
beside ``X``. Their gradients have no gradients: a second derivative is an error. ``docs/gradients.md`` is the page for
users.
"""

from cukde.gradients.api import depthwise_conv1d, evaluate, evaluate_grid, kde, kernel_sum, pwpa, score

__all__ = ["depthwise_conv1d", "evaluate", "evaluate_grid", "kde", "kernel_sum", "pwpa", "score"]


def __dir__() -> list[str]:
    return sorted(__all__)
