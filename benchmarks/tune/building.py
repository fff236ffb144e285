"""Kernels of candidates, compiled by many processes into CuPy's cache on disk."""

from __future__ import annotations

import functools
import multiprocessing
import os
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor

from benchmarks import record
from cukde import _compile


def build(kernel: _compile.Kernel) -> str | None:
    """Compile and load a kernel on the current device; return why it is of no use, or None."""
    try:
        compiled = _compile.load(kernel)
    except Exception as error:  # whatever the compiler or the driver has against it
        return record.reason(error)
    function = compiled.func if isinstance(compiled, functools.partial) else compiled
    spilled = function.local_size_bytes
    return f"{spilled} bytes of local memory" if spilled else None


def build_all(kernels: Sequence[_compile.Kernel]) -> dict[_compile.Kernel, str | None]:
    """:func:`build` of each kernel; NVRTC takes one program at a time in a process."""
    with ProcessPoolExecutor(os.cpu_count(), mp_context=multiprocessing.get_context("spawn")) as pool:
        return dict(zip(kernels, pool.map(build, kernels, chunksize=4), strict=True))
