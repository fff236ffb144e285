"""The passes of a backend, loaded by the first call that needs them."""

from __future__ import annotations

import functools
from types import ModuleType


@functools.cache
def pairs(backend: ModuleType) -> ModuleType:
    """Gaussian sums over all pairs."""
    if backend.name == "gpu":
        from cukde.density.pairs.gpu import passes as on_gpu

        return on_gpu
    from cukde.density.pairs.cpu import passes as on_cpu

    return on_cpu


@functools.cache
def radial(backend: ModuleType) -> ModuleType:
    """Sums of the other kernels over all pairs."""
    if backend.name == "gpu":
        from cukde.density.pairs.gpu import radial as on_gpu

        return on_gpu
    from cukde.density.pairs.cpu import radial as on_cpu

    return on_cpu


@functools.cache
def one_dimension(backend: ModuleType) -> ModuleType:
    """Gaussian sums of one column."""
    if backend.name == "gpu":
        from cukde.density.one_dimension.gpu import passes as on_gpu

        return on_gpu
    from cukde.density.one_dimension.cpu import passes as on_cpu

    return on_cpu


@functools.cache
def truncated(backend: ModuleType) -> ModuleType:
    """Gaussian sums to a tolerance."""
    if backend.name == "gpu":
        from cukde.density.truncated import gpu as on_gpu

        return on_gpu
    from cukde.density.truncated.cpu import passes as on_cpu

    return on_cpu
