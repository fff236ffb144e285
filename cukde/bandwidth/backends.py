"""The passes of a backend, loaded by the first call that needs them."""

from __future__ import annotations

import functools
from types import ModuleType


@functools.cache
def passes(backend: ModuleType) -> ModuleType:
    """Leave-one-out sums over all pairs."""
    if backend.name == "gpu":
        from cukde.bandwidth.gpu import passes as on_gpu

        return on_gpu
    from cukde.bandwidth.cpu import passes as on_cpu

    return on_cpu
