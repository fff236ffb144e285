"""Data of 24 GiB in host memory against queries on one GPU, beside the rate of data that are on the GPU.

python -m pytest benchmarks/density/bench_out_of_core.py --record benchmarks/results/NAME.json

CUKDE_GIB sets the size of the data, in GiB.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import dask.array as da
import numpy as np
import pytest

import cukde
from cukde import perf
from tests.conftest import why_no_gpu

if why_no_gpu() is None:
    import cupy as cp

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(why_no_gpu() is not None, reason=str(why_no_gpu()))]

_GIB = int(os.environ.get("CUKDE_GIB", "24"))
_GIB_IN_MEMORY = 4
_ROWS = 2**24  # of a GiB of 16 columns in float32
_D, _M, _H = 16, 100_000, 0.8
_CHECKED = 50

# Of the density: what float32 is documented to keep.
_TOLERANCE = 3e-5

# Threads of Dask: one computes while the other sees to its blocks.
_THREADS = 2


def bench_out_of_core(keep: Callable[[dict[str, Any]], None]) -> None:
    base = _base(_ROWS)
    parts = [_shifted(base, k) for k in range(_GIB)]
    X = da.concatenate([da.from_array(part, chunks=-1, name=f"part-{k}") for k, part in enumerate(parts)])
    Y = cp.asarray(np.random.default_rng(1).standard_normal((_M, _D), np.float32))
    lazy = cukde.kde(X, Y, _H, log=True)

    def compute(lazy: da.Array) -> Any:
        out = lazy.compute(scheduler="threads", num_workers=_THREADS)
        cp.cuda.get_current_stream().synchronize()
        return out

    compute(cukde.kde(X[: 2**21], Y, _H, log=True))  # compiles
    pool = cp.get_default_memory_pool()
    pool.free_all_blocks()
    times = []
    with _least_free() as free:
        for _ in range(2):
            begun = time.perf_counter()
            got = compute(lazy)
            times.append(1e3 * (time.perf_counter() - begun))
    of_pool = pool.total_bytes()
    peak = free[0] - min(free)

    want = _log_density(base, Y[:_CHECKED])
    error = float(np.abs(np.expm1(cp.asnumpy(got[:_CHECKED]).astype(np.float64) - want)).max())
    # A logarithm is rounded to float32.
    assert error <= _TOLERANCE + 2.0**-24 * np.abs(want).max()
    assert max(peak, of_pool) < 6 * 2**30

    gib = min(_GIB_IN_MEMORY, _GIB)
    on_gpu = cp.concatenate([cp.asarray(part) for part in parts[:gib]])
    in_memory = perf.measure(lambda: cukde.kde(on_gpu, Y, _H, log=True), gpu=True, seconds=3, most=3)
    ours = perf.Times.of(times)
    in_memory_ms = in_memory.median_ms * _GIB / gib
    keep(
        {
            "op": "kde",
            "backend": "gpu",
            "shape": {"n": X.shape[0], "m": _M, "d": _D, "GiB on the host": _GIB},
            "dtype": "float32",
            "precision": "float32",
            "rel_err_max": error,
            "pairs_per_s": 1e3 * X.shape[0] * _M / ours.median_ms,
            "peak_mb": peak / 2**20,
            "pool_mb": of_pool / 2**20,
            "part_of_rate_in_memory": in_memory_ms / ours.median_ms,
            "peer": {"name": f"the rate of {gib} GiB on the GPU", "median_ms": in_memory_ms},
        }
        | ours.row()
    )


def _base(rows: int) -> np.ndarray:
    """Normal numbers, so rounded that their shifts are exact; drawn by many threads."""
    out = np.empty((rows, _D), np.float32)
    parts = np.array_split(out, 64)

    def draw(part: np.ndarray, seed: int) -> None:
        np.random.default_rng(seed).standard_normal(out=part, dtype=np.float32)
        np.multiply(part, 1024, out=part)
        np.rint(part, out=part)
        np.divide(part, 1024, out=part)

    _in_threads(draw, zip(parts, range(64), strict=True))
    return out


def _shifted(base: np.ndarray, k: int) -> np.ndarray:
    """A copy, every coordinate larger by k/64."""
    out = np.empty_like(base)
    parts = zip(*(np.array_split(a, 64) for a in (base, out)), strict=True)
    _in_threads(lambda a, b: np.add(a, np.float32(k / 64), out=b), parts)
    return out


def _in_threads(function: Callable[..., Any], arguments: Any) -> None:
    with ThreadPoolExecutor(16) as threads:
        for _ in threads.map(function, *zip(*arguments, strict=True)):
            pass


def _log_density(base: np.ndarray, some: Any) -> np.ndarray:
    """What the call is to give at some queries: the mean of the base's densities at queries shifted back, float64."""
    shifts = cp.arange(_GIB)[:, None, None] / 64
    back = (some.astype(np.float64)[None] - shifts).reshape(-1, _D)
    logs = cukde.kde(cp.asarray(base, np.float64), back, _H, log=True).reshape(_GIB, -1)
    largest = logs.max(axis=0)
    return cp.asnumpy(largest + cp.log(cp.exp(logs - largest).mean(axis=0)))


@contextmanager
def _least_free() -> Iterator[list[int]]:
    """Bytes of the device's memory that are free, looked at from the beginning to the end."""
    free = [cp.cuda.runtime.memGetInfo()[0]]
    done = threading.Event()
    device = cp.cuda.runtime.getDevice()

    def look() -> None:
        cp.cuda.runtime.setDevice(device)
        while not done.wait(0.01):
            free.append(cp.cuda.runtime.memGetInfo()[0])

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield free
    finally:
        done.set()
        thread.join()
