"""Run CUDA kernels on the host: their own source, compiled by g++, every CUDA thread a fiber.

For machines without a GPU. A launch ends with an exception where threads of a block deadlock at a barrier,
where an array is left or misaligned, where an integer overflows; shared memory is NaN until it is written.
Only kernels_cu/core/ptx.cuh, which is inline assembly, is replaced by C++ of the same meaning.
"""

from __future__ import annotations

from tests.host_emulation import _build
from tests.host_emulation._arrays import LaunchError
from tests.host_emulation._build import CompileError
from tests.host_emulation._kernel import from_source, kernel, prebuild
from tests.host_emulation._launch import EmulatedKernel
from tests.host_emulation._use import NumpyAsCupy, use

__all__ = [
    "CompileError",
    "EmulatedKernel",
    "LaunchError",
    "NumpyAsCupy",
    "available",
    "from_source",
    "kernel",
    "prebuild",
    "use",
]


def available() -> tuple[bool, str]:
    """Whether kernels can be emulated here, and the reason where they cannot."""
    reason = _build.unavailable()
    return reason is None, reason or ""
