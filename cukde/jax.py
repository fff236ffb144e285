"""Functions of :mod:`cukde` for JAX's arrays, with gradients by passes of this library; also under ``jax.jit``.

They are the functions of :mod:`cukde.torch`, which know arrays by their type. JAX calls back to the host, with copies
of the arrays, and copies results. Gradients are in reverse mode, and have no gradients. ``docs/gradients.md`` is the
page for users.
"""

from cukde.gradients.api import depthwise_conv1d, evaluate, evaluate_grid, kde, kernel_sum, pwpa, score

__all__ = ["depthwise_conv1d", "evaluate", "evaluate_grid", "kde", "kernel_sum", "pwpa", "score"]


def __dir__() -> list[str]:
    return sorted(__all__)
