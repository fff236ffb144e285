"""SD-KDE that several GPUs share, as ``devices=`` and on Dask arrays, beside the plain call on one of them.

python -m pytest benchmarks/perf/bench_scaling.py --record benchmarks/results/NAME.json
python -m pytest benchmarks/perf/bench_scaling.py --scaling n=40000,m=10000,d=4,workers=1+2,gpu=0   # on the CPU

The density of 10^8 points of three dimensions, too, in one call; ``points=500000000`` takes more. Speed-ups are medians
over the plain call's.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

import cukde
from benchmarks import peers, record
from benchmarks.sources import exact
from cukde import perf
from tests import reference
from tests.conftest import why_no_gpu

dask = pytest.importorskip("dask", reason="no Dask: install the dask extra")

from benchmarks.perf import workers as perf_workers  # noqa: E402  which needs Dask

# What sd_kde states for float32, beside sums in double precision; two such results are twice as far apart at most, and
# all but one query in a thousand are much nearer.
_TOLERANCE = 3e-4
_TOLERANCE_OF_MOST = 1e-4
_CHECKED_ROWS, _CHECKED = 3_000, 50

# A thread that has a task waits for its GPU: so many that no GPU is without, as tasks are given out in any order.
_THREADS_A_GPU = 8

_QUERIES = 2**20


@dataclass(frozen=True)
class Sizes:
    """What is run; options of ``--scaling`` have these names."""

    n: int = 4_194_304
    m: int = 1_048_576
    d: int = 16
    blocks: int = 8
    query_blocks: int = 8
    runs: int = 5
    threads: int = 2  # of a worker's process: one computes while the other's results are sent
    gpu: bool = True
    points: int = 10**8  # of the density of many
    factor: float = 1.0  # of Silverman's bandwidth: 2 leaves out no pair of SD-KDE, 0.5 most
    workers: tuple[int, ...] = ()  # default 1, 2, 4, ... up to the GPUs that are there
    engines: tuple[str, ...] = ("devices", "blocks", "cluster", "threads")

    @property
    def h(self) -> float:
        """A multiple of Silverman's bandwidth of data of unit deviations."""
        return self.factor * float((4 / (self.d + 2) / self.n) ** (1 / (self.d + 4)))

    @property
    def backend(self) -> str:
        return "gpu" if self.gpu else "cpu"

    @property
    def counts(self) -> tuple[int, ...]:
        """Numbers of workers."""
        present = 2
        if self.gpu and not self.workers:
            import cupy

            present = cupy.cuda.runtime.getDeviceCount()
        return self.workers or tuple(itertools.takewhile(lambda count: count <= present, (1, 2, 4, 8, 16)))


def sizes(text: str) -> Sizes:
    """Read ``--scaling``: names and values; of several, a plus between them."""
    read: dict[str, Callable[[str], Any]] = {
        "engines": lambda value: tuple(value.split("+")),
        "workers": lambda value: tuple(map(int, value.split("+"))),
        "gpu": lambda value: bool(int(value)),
        "factor": float,
    }
    given = dict(part.split("=", 1) for part in text.split(",") if part)
    return replace(Sizes(), **{name: read.get(name, int)(value) for name, value in given.items()})


def bench_scaling(keep: Callable[..., None], without: Callable[..., None], request: pytest.FixtureRequest) -> None:
    of = sizes(request.config.getoption("--scaling"))
    if of.gpu and (reason := why_no_gpu()):
        pytest.skip(f"{reason}; on the CPU: --scaling gpu=0,n=40000,m=10000,d=4,workers=1+2")
    data = perf_workers.Mixture(0, of.n, of.d, of.blocks, of.gpu)
    queries = perf_workers.Mixture(1, of.m, of.d, of.query_blocks, of.gpu)
    off = _error_of_plain(of)
    plain, expected = _devices(of, 1, data, queries)
    keep(_row(of, "plain arrays", 1) | plain.row() | {"rel_err_max": off})
    failures = [] if off <= _TOLERANCE else [f"plain arrays are off by {off}"]
    for name, count in itertools.product(of.engines, of.counts):
        if (name in ("devices", "blocks") and count == 1) or (name != "cluster" and count > 1 and not of.gpu):
            continue  # the plain call again, or threads that share one processor
        perf_workers.free(of.gpu, count)
        row = _row(of, name, count)
        try:
            times, found = ENGINES[name](of, count, data, queries)
        except Exception as failed:  # the others are measured all the same
            without(row, peers.reason(failed))
            if not isinstance(failed, ImportError):
                failures.append(f"{name} on {count}: {peers.reason(failed)}")
            continue
        errors = np.abs(np.expm1(found.astype(np.float64) - expected))
        error, most = float(errors.max()), float(np.quantile(errors, 0.999))
        if error > 2 * _TOLERANCE or most > _TOLERANCE_OF_MOST:
            failures.append(f"{name} on {count} differs from plain arrays by {error}, 99.9% of queries by {most}")
        speedup = plain.median_ms / times.median_ms
        row |= {"speedup": speedup, "efficiency": speedup / count, "difference_max": error, "difference_of_most": most}
        keep(row | times.row() | {"peer": {"name": "plain arrays on one", **plain.row(), "rel_err_max": off}})
    assert not failures


def _row(of: Sizes, engine: str, count: int) -> dict[str, Any]:
    shape: dict[str, Any] = {"n": of.n, "m": of.m, "d": of.d, "workers": count, "factor": of.factor}
    if engine in ("blocks", "cluster", "threads"):
        shape |= {"blocks": of.blocks, "query_blocks": of.query_blocks}
    op = f"sd_kde, {engine}"
    return {"op": op, "backend": of.backend, "shape": shape, "dtype": "float32", "precision": "float32"}


def _error_of_plain(of: Sizes) -> float:
    """Worst relative error of the plain call, against sums in double precision over few rows."""
    X, Y = (
        perf_workers.Mixture(seed, min(rows, most), of.d, 1, of.gpu).plain()
        for seed, rows, most in ((2, of.n, _CHECKED_ROWS), (3, of.m, _CHECKED))
    )
    got, x, y = map(perf_workers.on_host, (cukde.sd_kde(X, Y, of.h), X, Y))
    return float(np.abs(got / reference.sd_kde(x, y, of.h) - 1).max())


def _bandwidths(of: Sizes) -> Iterator[float]:
    """Bandwidths that differ so little that times and results do not, and that no graph is made twice."""
    return (of.h * (1 + 1e-9 * i) for i in itertools.count(1))


Blocks = perf_workers.Mixture
Found = tuple[perf.Times, np.ndarray]  # and the log densities


def _devices(of: Sizes, count: int, data: Blocks, queries: Blocks) -> Found:
    """Plain arrays on one GPU; of several, shares of the call on each."""
    X, Y = data.plain(), queries.plain()
    options: dict[str, Any] = {"log": True} | ({"devices": range(count)} if count > 1 else {})
    log_p = perf_workers.on_host(cukde.sd_kde(X, Y, of.h, **options))
    bandwidths = _bandwidths(of)
    times = perf_workers.timed(lambda: float(cukde.sd_kde(X, Y, next(bandwidths), **options).sum()), of.runs)
    return perf.Times.of(times), log_p


def _lazily(of: Sizes, X: Any, Y: Any, **options: Any) -> Found:
    """Calls on Dask arrays that are there."""

    def lazy(h: float) -> Any:
        log_p = cukde.sd_kde(X, Y, h, log=True, **options)  # from the device that a block is on
        return log_p.map_blocks(perf_workers.on_host, dtype=np.float32, meta=np.empty(0, np.float32))

    log_p = lazy(of.h).compute()  # and all is compiled
    bandwidths = _bandwidths(of)

    def call() -> float:
        return float(lazy(next(bandwidths)).sum().compute())

    call()
    return perf.Times.of(perf_workers.timed(call, of.runs)), log_p


def _cluster(of: Sizes, count: int, data: Blocks, queries: Blocks) -> Found:
    """A process for each worker."""
    from distributed import wait

    with perf_workers.cluster(count, of.threads, gpu=of.gpu):
        X, Y = (blocks.array().persist() for blocks in (data, queries))
        wait([X, Y])
        return _lazily(of, X, Y)


def _threads(of: Sizes, count: int, data: Blocks, queries: Blocks) -> Found:
    """Threads of this process, blocks on one GPU after the other."""
    with dask.config.set(scheduler="threads", num_workers=_THREADS_A_GPU * count):
        return _lazily(of, *(blocks.array(count).persist() for blocks in (data, queries)))


def _blocks(of: Sizes, count: int, data: Blocks, queries: Blocks) -> Found:
    """One task that has all blocks, which lie on one GPU after the other."""
    with dask.config.set(scheduler="threads", num_workers=_THREADS_A_GPU * count):
        X, Y = (blocks.array(count).persist() for blocks in (data, queries))
        return _lazily(of, X, Y, devices=range(count) if of.gpu else "all")


ENGINES: dict[str, Callable[[Sizes, int, Blocks, Blocks], Found]] = {
    "devices": _devices,
    "blocks": _blocks,
    "cluster": _cluster,
    "threads": _threads,
}


@pytest.mark.gpu
@pytest.mark.skipif(why_no_gpu() is not None, reason=str(why_no_gpu()))
def bench_many_points(keep: Callable[..., None], request: pytest.FixtureRequest) -> None:
    """Points of three dimensions, at a quarter of Silverman's bandwidth, on one and on all GPUs."""
    import cupy

    points = sizes(request.config.getoption("--scaling")).points
    present = int(cupy.cuda.runtime.getDeviceCount())
    random = cupy.random.default_rng(0)
    X, Y = (
        random.standard_normal((rows, 3), dtype=np.float32) + 3 * random.integers(0, 3, (rows, 1)).astype(np.float32)
        for rows in (points, _QUERIES)
    )
    h = 0.25 * float(X.std()) * (4 / 5 / points) ** (1 / 7)
    some = slice(None, None, _QUERIES // 8)
    want = exact.log_sums(X, Y[some], h) - np.log(points) - 1.5 * np.log(2 * np.pi * h * h)
    for count in sorted({1, present}):
        options: dict[str, Any] = {} if count == 1 else {"devices": range(count)}
        perf_workers.free(True, count)
        begun = time.perf_counter()
        got = cukde.kde(X, Y, h, log=True, **options)
        cupy.cuda.get_current_stream().synchronize()
        times = perf.Times.of([1e3 * (time.perf_counter() - begun)])
        row = {"op": "kde", "backend": "gpu", "shape": {"n": points, "m": _QUERIES, "d": 3, "gpus": count}}
        row |= {"dtype": "float32", "precision": "float32", "h": h, "memory_mb": _memory_mb(count)} | times.row()
        row["rel_err_max"] = float(abs(np.expm1(got[some].astype(np.float64) - want)).max())
        keep(record.checked(row, 3e-5))


def _memory_mb(count: int) -> float:
    """The most memory that a GPU has given to CuPy, which keeps it for later."""
    import cupy

    def held(number: int) -> int:
        with cupy.cuda.Device(number):
            return int(cupy.get_default_memory_pool().total_bytes())

    return max(map(held, range(count))) / 1e6
