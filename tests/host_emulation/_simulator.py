"""Numba's CUDA kernels on NumPy arrays: in Numba's simulator or, where a GPU works, on copies of the arrays there."""

from __future__ import annotations

import sys
import threading
from types import ModuleType
from typing import Any

import numpy as np
import pytest

# Of a block: each is a thread of Python.
_THREADS = 8

# Seconds that a thread of Python keeps the others waiting: the simulator asks them in turn whether they have come to a
# barrier.
_SWITCH_INTERVAL = 1e-5

_allocating = threading.Lock()


def use(monkeypatch: pytest.MonkeyPatch, numba_cuda: ModuleType) -> None:
    """Launch kernels with NumPy arrays, in small blocks, for one test."""
    monkeypatch.setattr("cukde.gpu.density_1d._THREADS", _THREADS)
    monkeypatch.setattr(numba_cuda, "place", lambda: ("host", 0))
    monkeypatch.setattr(numba_cuda, "_run", _run)
    monkeypatch.setattr(numba_cuda, "_load", lambda kernel, args: None)
    monkeypatch.setattr("numba.cuda.simulator.kernelapi.FakeCUDAShared.array", _shared_array)


def _run(kernel: Any, grid: tuple[int, ...], threads: int, args: tuple[Any, ...]) -> None:
    interval = sys.getswitchinterval()
    sys.setswitchinterval(_SWITCH_INTERVAL)
    try:
        kernel[grid, threads](*args)
    finally:
        sys.setswitchinterval(interval)


def _shared_array(self: Any, shape: int, dtype: Any) -> np.ndarray:
    """The array that the line of the caller has in the block, NaN at first.

    The simulator's own may give two threads an array each, where they come there at the same time.
    """
    caller = sys._getframe(1)
    line = caller.f_code.co_filename, caller.f_lineno
    with _allocating:
        if line not in self._allocations:
            array = np.empty(shape, str(dtype) if not isinstance(dtype, type) else dtype)
            array[...] = np.frombuffer(b"\xff" * array.itemsize, array.dtype)[0]
            self._allocations[line] = array
        return self._allocations[line]
