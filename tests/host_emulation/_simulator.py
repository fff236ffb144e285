"""Numba's CUDA kernels on NumPy arrays: in Numba's simulator or, where a GPU works, on copies of the arrays there.

What kernels find in ``cuda`` is the simulator's. Their threads are run here: Numba would ask all of them in turn
whether they have come to a barrier, and wrap the arrays, which takes ten times as long.
"""

from __future__ import annotations

import itertools
import math
import sys
import threading
from collections.abc import Sequence
from types import ModuleType
from typing import Any

import numpy as np
import pytest

_THREADS = 4  # of a block, a power of two; each is a thread of Python

_PATIENCE = 60.0  # seconds, for threads that do not come to a barrier


def use(monkeypatch: pytest.MonkeyPatch, numba_cuda: ModuleType) -> None:
    """Launch kernels with NumPy arrays, in small blocks, for one test."""
    monkeypatch.setattr("cukde.density.one_dimension.gpu.passes._THREADS", _THREADS)
    monkeypatch.setattr("cukde.density.plan.gpu.LINE_PAIRS_CDF", math.inf)  # its transform takes seconds here
    monkeypatch.setattr(numba_cuda, "place", lambda: ("host", 0))
    monkeypatch.setattr(numba_cuda, "_run", _run)
    monkeypatch.setattr(numba_cuda, "_Loaded", lambda kernel, types: object())
    monkeypatch.setattr(numba_cuda, "_held", {})


def _run(chosen: Any, grid: tuple[int, ...], threads: int, args: tuple[Any, ...]) -> None:
    """Launch a kernel."""
    kernel = chosen.make(*chosen.arguments)
    from numba.cuda.simulator.kernel import FakeCUDAKernel, _push_kernel_context
    from numba.cuda.simulator.kernelapi import FakeCUDAModule, swapped_cuda_module

    if not isinstance(kernel, FakeCUDAKernel):
        kernel[grid, threads](*args)
        return
    grid = (*grid, 1, 1)[:3]
    cuda = FakeCUDAModule(grid, (threads, 1, 1), 0)
    with _push_kernel_context(cuda), swapped_cuda_module(kernel.fn, cuda):
        team = _Team(kernel.fn, args, grid, threads)
        cuda._shared = team
        team.run()


class _Team:
    """The threads of a launch, who take one block after another together. It is their shared memory, too."""

    def __init__(self, function: Any, args: Sequence[Any], grid: tuple[int, ...], threads: int) -> None:
        self.function, self.args, self.grid = function, args, grid
        self.counts = np.zeros(threads, bool)
        self.error: BaseException | None = None
        self.barrier = threading.Barrier(threads, timeout=_PATIENCE)
        self._arrays: dict[tuple[str, int], np.ndarray] = {}
        self._lock = threading.Lock()
        self._threads = [_Thread(self, i) for i in range(threads)]

    def run(self) -> None:
        """Run all blocks; what goes wrong in a thread is raised here."""
        for thread in self._threads:
            thread.start()
        for thread in self._threads:
            thread.join()
        if self.error is not None:
            raise self.error

    def array(self, shape: int, dtype: Any) -> np.ndarray:
        """Return the array that the caller's line has in this block, NaN at first."""
        caller = sys._getframe(1)
        line = caller.f_code.co_filename, caller.f_lineno
        with self._lock:
            if line not in self._arrays:
                array = np.empty(shape, dtype if isinstance(dtype, type) else str(dtype))
                array[...] = np.frombuffer(b"\xff" * array.itemsize, array.dtype)[0]
                self._arrays[line] = array
            return self._arrays[line]

    def next_block(self) -> None:
        """Leave a block: its shared memory is gone."""
        self.barrier.wait()
        self._arrays = {}
        self.barrier.wait()


class _Thread(threading.Thread):
    """A thread of a block, as the simulator's module looks for it."""

    def __init__(self, team: _Team, number: int) -> None:
        super().__init__(daemon=True)
        self._team = team
        self.thread_id = number

    def run(self) -> None:
        from numba.cuda.simulator.kernelapi import Dim3

        self.threadIdx = Dim3(self.thread_id, 0, 0)
        try:
            with np.errstate(all="ignore"):  # a GPU does not warn
                for z, y, x in itertools.product(*map(range, reversed(self._team.grid))):
                    self.blockIdx = Dim3(x, y, z)
                    self._team.function(*self._team.args)
                    self._team.next_block()
        except threading.BrokenBarrierError as error:
            self._team.error = self._team.error or error
        except BaseException as error:
            self._team.error = error
            self._team.barrier.abort()

    def syncthreads(self) -> None:
        self._team.barrier.wait()

    def syncthreads_count(self, value: int) -> int:
        self._team.counts[self.thread_id] = value
        self._team.barrier.wait()
        count = int(self._team.counts.sum())
        self._team.barrier.wait()
        return count
