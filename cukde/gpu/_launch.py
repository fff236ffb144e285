"""What launchers share: scalars as kernels take them, and launches worked out once, to be made again and again."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from cukde import _compile

BITS: dict[np.dtype, int] = {np.dtype(np.float16): 16, np.dtype(np.float32): 32, np.dtype(np.float64): 64}
"""Of a number in memory: ``STORAGE`` of ``storage.cuh``."""

ACTIVATIONS = {None: 0, "silu": 1, "gelu": 2}
"""As the kernels that apply one are told."""


def int32(*values: int) -> tuple[np.int32, ...]:
    """Scalars of a launch."""
    return tuple(map(np.int32, values))


class Launch(NamedTuple):
    """What a launch takes beside its arrays."""

    kernel: tuple[Any, ...]  # arguments of ``_compile.kernel``
    grid: tuple[int, ...]
    block: tuple[int, ...]
    scalars: tuple[Any, ...]

    def __call__(self, *arrays: Any) -> None:
        """Launch on the current device and stream; a kernel takes its arrays first."""
        _compile.kernel(*self.kernel)(self.grid, self.block, (*arrays, *self.scalars))
