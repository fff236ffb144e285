"""Workers of Dask for benchmarks: processes with a GPU or some cores each, and blocks made on them."""

from __future__ import annotations

import contextlib
import gc
import os
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple
from unittest import mock

import dask.array as da
import numpy as np

_COMPONENTS = 8


class Mixture(NamedTuple):
    """Blocks of random rows from a standardised mixture of eight normals, the same wherever they are made."""

    seed: int
    rows: int  # of all blocks
    columns: int
    blocks: int
    gpu: bool

    @property
    def edges(self) -> list[int]:
        """Rows that blocks begin at, and the end."""
        return [self.rows * i // self.blocks for i in range(self.blocks + 1)]

    def block(self, i: int, device: int | None = None) -> Any:
        """Make a block, on a device of this process where one is named; the next does not begin before it is there."""
        rows = self.edges[i + 1] - self.edges[i]
        random = np.random.default_rng((self.seed, i))
        means = 2 * np.random.default_rng(0).standard_normal((_COMPONENTS, self.columns))
        x = random.standard_normal((rows, self.columns), dtype=np.float32)
        x += (means - means.mean(0)).astype(np.float32)[random.integers(_COMPONENTS, size=rows)]
        x /= np.sqrt(1 + means.var(0)).astype(np.float32)  # the deviations of the mixture
        if not self.gpu:
            return x
        import cupy

        with contextlib.nullcontext() if device is None else cupy.cuda.Device(device):
            made = cupy.asarray(x)
            cupy.cuda.get_current_stream().synchronize()
            return made

    def plain(self) -> Any:
        """All rows in one array."""
        return _module(self.gpu).concatenate([self.block(i) for i in range(self.blocks)])

    def array(self, devices: int | None = None) -> da.Array:
        """Make a lazy array of the blocks, the i-th on device i of so many of this process."""
        from dask.highlevelgraph import HighLevelGraph

        name = f"normal-{da.core.tokenize(self, devices)}"
        layer = {(name, i, 0): (self.block, i, None if devices is None else i % devices) for i in range(self.blocks)}
        chunks = (tuple(np.diff(self.edges).tolist()), (self.columns,))
        meta = _module(self.gpu).empty((0, 0), np.float32)
        return da.Array(HighLevelGraph.from_collections(name, layer, []), name, chunks, meta=meta)


def _module(gpu: bool) -> Any:
    if not gpu:
        return np
    import cupy

    return cupy


@contextlib.contextmanager
def cluster(workers: int, threads: int, *, gpu: bool) -> Iterator[Any]:
    """Client of so many processes, each with a GPU, or with its share of the cores."""
    from distributed import Client, LocalCluster

    common = {"threads_per_worker": threads, "dashboard_address": None}
    if gpu:
        from dask_cuda import LocalCUDACluster

        # A stream for each thread: what is sent need not wait for the pass that is under way. And blocks take a small
        # part of the memory: nothing is to be moved out of it.
        with mock.patch.dict(os.environ, {"CUPY_CUDA_PER_THREAD_DEFAULT_STREAM": "1"}):
            made = LocalCUDACluster(CUDA_VISIBLE_DEVICES=list(range(workers)), device_memory_limit=0, **common)
    else:
        cores = str(max(1, (os.cpu_count() or 1) // workers))
        environment = dict.fromkeys(("NUMBA_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), cores)
        made = LocalCluster(n_workers=workers, processes=True, env=environment, **common)
    with made, Client(made) as client:
        client.wait_for_workers(workers)
        yield client


def free(gpu: bool, devices: int = 1) -> None:
    """Give the memory of this process's first devices back."""
    gc.collect()
    if gpu:
        import cupy

        for device in range(devices):
            with cupy.cuda.Device(device):
                cupy.get_default_memory_pool().free_all_blocks()


def on_host(a: Any) -> np.ndarray:
    """A plain array of the host. Workers load this module for it, and none that sets up tests."""
    return np.asarray(a.get() if hasattr(a, "get") else a)


def timed(call: Callable[[], Any], runs: int) -> list[float]:
    """Milliseconds of calls that wait for their results."""
    times = []
    for _ in range(runs):
        begun = time.perf_counter()
        call()
        times.append(1e3 * (time.perf_counter() - begun))
    return times
