"""SD-KDE on Dask arrays over the GPUs of one machine, beside the same call on plain arrays on one, and the model.

python -m pytest benchmarks/perf/bench_scaling.py --record benchmarks/results/NAME.json
python -m pytest benchmarks/perf/bench_scaling.py --scaling n=40000,m=10000,d=4,workers=1+2,gpu=0   # on the CPU
"""

from __future__ import annotations

import contextlib
import functools
import gc
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

import cukde
from benchmarks import record
from benchmarks.tools.scaling import scaling
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
    workers: tuple[int, ...] = ()  # default 1, 2, 4, ... up to the GPUs that are there
    engines: tuple[str, ...] = ("cluster", "threads")

    @property
    def h(self) -> float:
        """Silverman's bandwidth of data of unit deviations."""
        return float((4 / (self.d + 2) / self.n) ** (1 / (self.d + 4)))

    @property
    def backend(self) -> str:
        return "gpu" if self.gpu else "cpu"

    @property
    def counts(self) -> tuple[int, ...]:
        """Numbers of workers."""
        if self.workers:
            return self.workers
        present = 2
        if self.gpu:
            import cupy

            present = cupy.cuda.runtime.getDeviceCount()
        return tuple(itertools.takewhile(lambda count: count <= present, (1, 2, 4, 8, 16)))


def sizes(text: str) -> Sizes:
    """Read ``--scaling``: names and values; of several, a plus between them."""
    given = dict(part.split("=", 1) for part in text.split(",") if part)
    made: dict[str, Any] = {}
    for name, value in given.items():
        if name == "engines":
            made[name] = tuple(value.split("+"))
        elif name == "workers":
            made[name] = tuple(map(int, value.split("+")))
        elif name == "gpu":
            made[name] = bool(int(value))
        else:
            made[name] = int(value)
    return replace(Sizes(), **made)


def bench_scaling(keep: Callable[..., None], without: Callable[..., None], request: pytest.FixtureRequest) -> None:
    of = sizes(request.config.getoption("--scaling"))
    if of.gpu and (reason := why_no_gpu()):
        pytest.skip(f"{reason}; on the CPU: --scaling gpu=0,n=40000,m=10000,d=4,workers=1+2")
    data = perf_workers.Mixture(0, of.n, of.d, of.blocks, of.gpu)
    queries = perf_workers.Mixture(1, of.m, of.d, of.query_blocks, of.gpu)
    exact = _error_of_plain(of)
    plain, expected = _plain(of, data, queries)
    keep(_row(of, "plain arrays", 1) | plain.row() | {"rel_err_max": exact} | _predicted(of))
    perf_workers.free(of.gpu)
    engines = {"cluster": _cluster, "threads": _threads}
    failures = [] if exact <= _TOLERANCE else [f"plain arrays are off by {exact}"]
    on_one: perf.Times | None = None
    for name, count in itertools.product(of.engines, of.counts):
        if name == "threads" and count > 1 and not of.gpu:
            continue  # of one process, they share one processor
        row = _row(of, name, count)
        try:
            with engines[name](of, count, data, queries) as engine:
                times, errors, more = engine(expected)
        except Exception as reason:  # the others are measured all the same
            without(row, record.reason(reason))
            if not isinstance(reason, ImportError):
                failures.append(f"{name} on {count}: {record.reason(reason)}")
            continue
        error, most = float(errors.max()), float(np.quantile(errors, 0.999))
        if error > 2 * _TOLERANCE or most > _TOLERANCE_OF_MOST:
            failures.append(f"{name} on {count} differs from plain arrays by {error}, 99.9% of queries by {most}")
        on_one = times if count == of.counts[0] else on_one
        speedup = plain.median_ms / times.median_ms
        row |= {"speedup": speedup, "efficiency": speedup / count}
        if on_one is not None and of.counts[0] == 1:
            row["speedup_over_one"] = on_one.median_ms / times.median_ms
        peer = {"name": "plain arrays on one", **plain.row(), "rel_err_max": exact}
        keep(row | times.row() | {"rel_err_max": error, "rel_err_of_most": most} | more | {"peer": peer})
    assert not failures


def _row(of: Sizes, engine: str, count: int) -> dict[str, Any]:
    shape: dict[str, Any] = {"n": of.n, "m": of.m, "d": of.d, "workers": count}
    if engine != "plain arrays":
        shape |= {"blocks": of.blocks, "query_blocks": of.query_blocks}
    op = f"sd_kde, {engine}"
    return {"op": op, "backend": of.backend, "shape": shape, "dtype": "float32", "precision": "float32"}


def _predicted(of: Sizes, count: int = 1, link: perf_workers.Link | None = None) -> dict[str, Any]:
    """What the model says, by the peaks of the processor and what was measured of the links."""
    shapes: dict[str, Any] = {"n": of.n, "m": of.m, "d": of.d, "dtype": "float32"}
    try:
        on = _measured_peaks() if of.gpu else _share(perf.peaks("cpu"), count)
    except ValueError as error:
        return {"no_prediction": record.reason(error)}
    if link is None:
        return {"predicted_ms": 1e3 * perf.predict("sd_kde", on, **shapes).seconds}
    found = scaling(
        *("sd_kde", on),
        workers=count,
        blocks=of.blocks,
        query_blocks=of.query_blocks,
        **link._asdict(),
        **shapes,
    )
    parts = {name: 1e3 * getattr(found, name) for name in ("compute", "imbalance", "transfer", "merge", "scheduling")}
    return {
        "predicted_ms": 1e3 * found.seconds,
        "predicted_speedup": found.speedup,
        "predicted_parts_ms": parts,
        "moved_mb": found.moved / 2**20,
        "tasks": found.tasks,
        "link": link._asdict(),
    }


@functools.cache
def _measured_peaks() -> perf.Peaks:
    return perf.measure_peaks("gpu")


def _share(on: perf.Peaks, count: int) -> perf.Peaks:
    """What each of so many processes has of a processor."""
    rates = {unit: rate / count for unit, rate in on.rates.items()}
    return replace(on, rates=rates, multiprocessors=max(1, on.multiprocessors // count))


def _error_of_plain(of: Sizes) -> float:
    """Worst relative error of the plain call, against sums in double precision over few rows."""
    X, Y = (
        perf_workers.Mixture(seed, min(rows, most), of.d, 1, of.gpu).plain()
        for seed, rows, most in ((2, of.n, _CHECKED_ROWS), (3, of.m, _CHECKED))
    )
    got, (x, y) = perf_workers.on_host(cukde.sd_kde(X, Y, of.h)), (perf_workers.on_host(X), perf_workers.on_host(Y))
    return float(np.abs(got / reference.sd_kde(x, y, of.h) - 1).max())


def _plain(of: Sizes, data: perf_workers.Mixture, queries: perf_workers.Mixture) -> tuple[perf.Times, np.ndarray]:
    """Times of the call on plain arrays on one processor, and its log densities."""
    X, Y = data.plain(), queries.plain()
    expected = perf_workers.on_host(cukde.sd_kde(X, Y, of.h, log=True))
    bandwidths = _bandwidths(of)
    times = perf_workers.timed(lambda: float(cukde.sd_kde(X, Y, next(bandwidths), log=True).sum()), of.runs)
    return perf.Times.of(times), expected


def _bandwidths(of: Sizes) -> Iterator[float]:
    """Bandwidths that differ so little that times and results do not, and that no graph is made twice."""
    return (of.h * (1 + 1e-9 * i) for i in itertools.count(1))


Engine = Callable[[np.ndarray], tuple[perf.Times, np.ndarray, dict[str, Any]]]


def _run(of: Sizes, X: Any, Y: Any, expected: np.ndarray) -> tuple[perf.Times, np.ndarray]:
    """Times of calls on Dask arrays that are there, and how far densities are from those expected, by query."""

    def lazy(h: float) -> Any:
        log_p = cukde.sd_kde(X, Y, h, log=True)  # from the device that a block is on
        return log_p.map_blocks(perf_workers.on_host, dtype=np.float32, meta=np.empty(0, np.float32))

    got = lazy(of.h).compute().astype(np.float64)  # and all is compiled
    errors = np.abs(np.expm1(got - expected))
    bandwidths = _bandwidths(of)

    def call() -> float:
        return float(lazy(next(bandwidths)).sum().compute())

    call()
    return perf.Times.of(perf_workers.timed(call, of.runs)), errors


@contextlib.contextmanager
def _cluster(of: Sizes, count: int, data: perf_workers.Mixture, queries: perf_workers.Mixture) -> Iterator[Engine]:
    """A process for each worker."""
    from distributed import wait

    with perf_workers.cluster(count, of.threads, gpu=of.gpu) as client:

        def engine(expected: np.ndarray) -> tuple[perf.Times, np.ndarray, dict[str, Any]]:
            link = perf_workers.link(client, gpu=of.gpu)
            before = perf_workers.left_mb(client, gpu=of.gpu, seconds=2.0)
            X, Y = (blocks.array().persist() for blocks in (data, queries))
            wait([X, Y])
            held = perf_workers.left_mb(client, gpu=of.gpu, seconds=0.0)
            times, errors = _run(of, X, Y, expected)
            between = perf_workers.left_mb(client, gpu=of.gpu, least=held) - held
            del X, Y
            left = perf_workers.left_mb(client, gpu=of.gpu, least=before) - before
            more = {"left_beside_blocks_mb": between, "left_mb": left, "threads": of.threads}
            return times, errors, more | _predicted(of, count, link)

        yield engine


@contextlib.contextmanager
def _threads(of: Sizes, count: int, data: perf_workers.Mixture, queries: perf_workers.Mixture) -> Iterator[Engine]:
    """Threads of this process, blocks on one GPU after the other."""
    host_threads = _THREADS_A_GPU * count
    with dask.config.set(scheduler="threads", num_workers=host_threads):

        def engine(expected: np.ndarray) -> tuple[perf.Times, np.ndarray, dict[str, Any]]:
            before = perf_workers.used_mb(of.gpu, count)
            X, Y = (blocks.array(count).persist() for blocks in (data, queries))
            times, errors = _run(of, X, Y, expected)
            del X, Y
            gc.collect()
            bandwidth = perf_workers.peer_bandwidth() if of.gpu and count > 1 else float("inf")
            link = perf_workers.Link(bandwidth, 0.0, _OVERHEAD_OF_THREAD)
            left = perf_workers.used_mb(of.gpu, count) - before
            perf_workers.free(of.gpu, count)
            return times, errors, {"left_mb": left, "threads": host_threads} | _predicted(of, count, link)

        yield engine


# Seconds of a task of the threaded scheduler: some 100 us by Dask's own pages.
_OVERHEAD_OF_THREAD = 1e-4
