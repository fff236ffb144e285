"""Workers of Dask for benchmarks: processes with a GPU or some cores each, blocks made on them, and their links."""

from __future__ import annotations

import contextlib
import gc
import os
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple
from unittest import mock

import dask.array as da
import numpy as np

from cukde.density.sums import PartialSums

_COMPONENTS = 8
_REPEATS = 5
_ROWS = 2**19  # of sums that are sent: 70 MB
_COLUMNS = 16
_TASKS = 500


class Link(NamedTuple):
    """What :func:`benchmarks.tools.scaling.scaling` asks of the workers, measured."""

    bandwidth: float  # bytes a second, of sums that go from one worker to another
    latency: float  # seconds
    overhead: float  # seconds a task


class Mixture(NamedTuple):
    """Blocks of random rows from the mixture of ``mixture.py``, the same wherever they are made."""

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
        xp = _module(self.gpu)
        return xp.concatenate([self.block(i) for i in range(self.blocks)])

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


def link(client: Any, *, gpu: bool) -> Link:
    """Measure what tasks and transfers cost; with one worker there are no transfers."""
    addresses = list(client.scheduler_info(n_workers=-1)["workers"])
    here, there = addresses[0], addresses[-1]
    begun = time.perf_counter()
    client.gather(client.map(_nothing, range(_TASKS), workers=[here], pure=False))
    overhead = (time.perf_counter() - begun) / _TASKS
    if here == there:
        return Link(float("inf"), 0.0, overhead)

    def seconds(rows: int, taken_at: str) -> float:
        times = []
        for _ in range(_REPEATS + 1):
            made = client.submit(_sums, rows, gpu, workers=[here], pure=False)
            client.submit(_rows_of, made, workers=[here], pure=False).result()
            begun = time.perf_counter()
            client.submit(_rows_of, made, workers=[taken_at], pure=False).result()
            times.append(time.perf_counter() - begun)
        return statistics.median(times[1:])

    latency = max(0.0, seconds(1, there) - seconds(1, here))
    large = seconds(_ROWS, there) - seconds(1, there)
    return Link(_ROWS * 8 * (2 + _COLUMNS) / max(large, 1e-9), latency, overhead)


def peer_bandwidth(size: int = 2**28) -> float:
    """Bytes a second from the first GPU of this process to the second."""
    import cupy

    with cupy.cuda.Device(0):
        source = cupy.zeros(size, np.uint8)
        cupy.cuda.Device().synchronize()
    with cupy.cuda.Device(1):
        target = cupy.empty(size, np.uint8)
        times = []
        for _ in range(_REPEATS + 1):
            begun = time.perf_counter()
            target.data.copy_from_device_async(source.data, size, cupy.cuda.get_current_stream())
            cupy.cuda.Device().synchronize()
            times.append(time.perf_counter() - begun)
    return size / statistics.median(times[1:])


def used_mb(gpu: bool, devices: int = 1) -> float:
    """Memory of its first devices that arrays of this process hold, MB of 2^20 bytes; 0 without a GPU."""
    if not gpu:
        return 0.0
    import cupy

    pool, used = cupy.get_default_memory_pool(), 0
    for device in range(devices):  # a context on any other would take memory there
        with cupy.cuda.Device(device):
            used += pool.used_bytes()
    return float(used) / 2**20


def free(gpu: bool, devices: int = 1) -> None:
    """Give the memory of this process's first devices back."""
    gc.collect()
    if gpu:
        import cupy

        for device in range(devices):
            with cupy.cuda.Device(device):
                cupy.get_default_memory_pool().free_all_blocks()


def left_mb(client: Any, *, gpu: bool, seconds: float = 10.0, least: float = 0.0) -> float:
    """Memory that all workers still hold, once it is no more than ``least`` or the time is over."""
    end = time.perf_counter() + seconds
    while True:
        left = sum(client.run(used_mb, gpu).values())
        if left <= least or time.perf_counter() > end:
            return float(left)
        time.sleep(0.1)


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


def _nothing(_: int) -> None:
    pass


def _sums(rows: int, gpu: bool) -> PartialSums:
    xp = _module(gpu)
    made = PartialSums(xp.zeros(rows), xp.ones(rows), xp.ones((rows, _COLUMNS)))
    if gpu:
        xp.cuda.get_current_stream().synchronize()
    return made


def _rows_of(sums: PartialSums) -> int:
    return len(sums.total)
