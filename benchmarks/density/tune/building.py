"""Kernels of candidates, compiled by many processes into CuPy's cache on disk."""

from __future__ import annotations

import functools
import multiprocessing
import os
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import Any

from benchmarks import peers
from cukde.core.gpu import compile as core_compile
from tests.compilation import ARCHITECTURES, compile_for


def build(kernel: core_compile.Kernel) -> str | None:
    """Compile and load a kernel on the current device; return why it is of no use, or None."""
    try:
        compiled = core_compile.load(kernel)
    except Exception as error:  # whatever the compiler or the driver has against it
        return peers.reason(error)
    function: Any = compiled.func if isinstance(compiled, functools.partial) else compiled
    spilled = function.local_size_bytes
    return f"{spilled} bytes of local memory" if spilled else None


def build_for(kernel: core_compile.Kernel, architecture: int) -> str | None:
    """Compile a kernel for an architecture that need not be at hand; return why it must not be used, or None."""
    try:
        code, options = core_compile.code(kernel.stem, kernel.defines), core_compile.options(kernel.headers)
        took = compile_for(architecture, code, options, kernel.name)
    except AssertionError as error:
        return peers.reason(error)
    return f"sm_{architecture}: {took.stack} bytes of local memory" if took.stack or took.spills else None


def build_all(kernels: Sequence[core_compile.Kernel]) -> dict[core_compile.Kernel, str | None]:
    """:func:`build` of each kernel."""
    with _pool() as pool:
        return dict(zip(kernels, pool.map(build, kernels, chunksize=4), strict=True))


def build_everywhere(kernels: Sequence[core_compile.Kernel]) -> dict[core_compile.Kernel, str | None]:
    """:func:`build_for` of each kernel and every architecture with tensor cores, as the tests ask of all kernels."""
    tasks = [(kernel, architecture) for kernel in kernels for architecture in ARCHITECTURES if architecture >= 80]
    found: dict[core_compile.Kernel, str | None] = dict.fromkeys(kernels)
    with _pool() as pool:
        for (kernel, _), reason in zip(tasks, pool.map(build_for, *zip(*tasks, strict=True)), strict=True):
            found[kernel] = found[kernel] or reason
    return found


def _pool() -> ProcessPoolExecutor:
    """Processes: NVRTC takes one program at a time in each."""
    return ProcessPoolExecutor(os.cpu_count(), mp_context=multiprocessing.get_context("spawn"))
