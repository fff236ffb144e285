"""From a CUDA source to an emulated kernel."""

from __future__ import annotations

import functools
from collections.abc import Callable

from cukde.core.gpu import compile as core_compile
from tests.host_emulation import _build
from tests.host_emulation._launch import EmulatedKernel


def kernel(stem: str, name: str, defines: core_compile.Defines, shared_bytes: int = 0) -> Callable[..., None]:
    """Compile one specialisation of ``kernels_cu/<stem>.cu``, as ``cukde.core.gpu.compile.load`` does."""
    path = core_compile.folder() / f"{stem}.cu"
    compiled = from_source(path.read_text(), name, defines, origin=str(path))
    return functools.partial(compiled, shared_mem=shared_bytes) if shared_bytes else compiled


def prebuild(stem: str, name: str, defines: core_compile.Defines) -> None:
    """Put what :func:`kernel` compiles into the cache."""
    path = core_compile.folder() / f"{stem}.cu"
    _build.built(path.read_text(), str(path), name, defines)


@functools.cache
def from_source(
    source: str, name: str, defines: core_compile.Defines = (), *, origin: str = "kernel.cu"
) -> EmulatedKernel:
    """Compile the kernel ``name`` of a CUDA source text; ``origin`` is the file that messages are to name."""
    return EmulatedKernel(_build.library(source, origin, name, defines), name)
