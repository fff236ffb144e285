"""What Dask adds: a density of Dask arrays beside that of plain ones, and graphs on their way to a scheduler.

python -m pytest benchmarks/density/bench_dask.py --record benchmarks/results/NAME.json

CUKDE_GIB sets the size of the data in files, in GiB.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import dask
import dask.array as da
import numpy as np
import pytest

import cukde
import cukde.dask
from cukde import perf
from cukde.core.dask import chunks as dask_chunks
from cukde.density.options import Options
from cukde.density.pairs.cpu import passes as pairs_passes
from cukde.density.sums import PartialSums
from tests import reference

_CHECKED = 200
_BLOCKS = 64
_GIB = float(os.environ.get("CUKDE_GIB", "1"))


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def bench_overhead_cpu(compare: Callable[..., None], dtype: str) -> None:
    n, d, h = 100_000, 8, 0.5
    X, Y = (np.random.default_rng(seed).standard_normal((n, d)).astype(dtype) for seed in (0, 1))
    lazy = cukde.kde(*(da.from_array(a, chunks=(25_000, d)) for a in (X, Y)), h)
    want = reference.kde(X, Y[:_CHECKED], h)

    def error(got: np.ndarray) -> float:
        return float(np.abs(got[:_CHECKED] / want - 1).max())

    row = {
        "op": "kde",
        "backend": "cpu",
        "shape": {"n": n, "m": n, "d": d, "blocks": 16},
        "dtype": dtype,
        "precision": dtype,
        "rel_err_max": error(lazy.compute(scheduler="threads")),
    }
    plain = error(cukde.kde(X, Y, h))
    assert max(plain, row["rel_err_max"]) <= {"float64": 1e-12, "float32": 1e-5}[dtype]
    compare(lambda: lazy.compute(scheduler="threads"), row, {"plain arrays": (lambda: cukde.kde(X, Y, h), plain)})


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("d", [8, 16])
def bench_mutual_sums_cpu(compare: Callable[..., None], d: int, dtype: str) -> None:
    """A pair of blocks: one pass for the sums at the points of both, beside a pass for each."""
    n, h = dask_chunks.rows_of_block(1, 1, d, gpu=False), 0.7 * d**0.25
    A, B = (np.random.default_rng(seed).standard_normal((n, d)).astype(dtype) for seed in (0, 1))
    squared_radius = max(float((of.astype(np.float64) ** 2).sum(axis=1).max()) for of in (A, B)) / h**2
    options = Options(dtype, centre=np.zeros(d), squared_radius=squared_radius)
    log_total = reference.log_kde(B, A[:_CHECKED], h) - reference.log_constant(h, d) + np.log(n)

    def error(sums: PartialSums) -> float:
        return float(np.abs((sums.reference + np.log(sums.total))[:_CHECKED] - log_total).max())

    def one_pass() -> PartialSums:
        return pairs_passes.mutual_sums(A, B, h, options, ratio=True)[0]

    def two_passes() -> PartialSums:
        pairs_passes.partial_sums(A, B, h, "moments", options, ratio=True)
        return pairs_passes.partial_sums(B, A, h, "moments", options, ratio=True)

    row = {
        "op": "mutual sums",
        "backend": "cpu",
        "shape": {"n": n, "m": n, "d": d},
        "dtype": dtype,
        "precision": dtype,
        "rel_err_max": error(one_pass()),
    }
    other = error(two_passes())
    assert max(other, row["rel_err_max"]) <= {"float64": 1e-12, "float32": 1e-5}[dtype]
    compare(one_pass, row, {"two passes": (two_passes, other)})


@pytest.mark.parametrize("method", ["kde", "sd_kde"])
def bench_submission(compare: Callable[..., None], method: str) -> None:
    """Make a graph of 64 x 64 blocks, and wait until the scheduler of a cluster has all of its tasks."""
    from distributed import Client, LocalCluster

    x, y = (da.zeros((100 * _BLOCKS, 8), chunks=(100, 8)) for _ in range(2))
    call = getattr(cukde, method)
    with (
        LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        tasks = cluster.scheduler.tasks
        bandwidths = iter(np.linspace(0.5, 0.6, 1000))  # never the same graph

        def submit() -> None:
            result = call(x, y, float(next(bandwidths)))
            future = client.compute(result.sum())
            while future.key not in tasks:
                time.sleep(0.001)
            future.cancel()
            while future.key in tasks:
                time.sleep(0.001)

        row = {
            "op": f"submit {method}",
            "backend": "cpu",
            "shape": {"blocks of data": _BLOCKS, "blocks of queries": _BLOCKS},
            "dtype": "float64",
            "precision": "float64",
        }
        compare(submit, row, {})


@pytest.mark.parametrize("d", [2, 8])
@pytest.mark.parametrize("method", ["kde", "sd_kde"])
def bench_boxes_cpu(compare: Callable[..., None], method: str, d: int) -> None:
    """64 blocks of clusters: beside a call on plain arrays, and for ``kde`` the same without boxes."""
    rows, h = 1_000, 0.3
    centres = np.random.default_rng(2).uniform(-100, 100, (_BLOCKS, 1, d))
    X, Y = ((centres + np.random.default_rng(s).standard_normal((_BLOCKS, rows, d))).reshape(-1, d) for s in (0, 1))
    x, y = (da.from_array(a, chunks=(rows, d)) for a in (X, Y))
    call, boxes = getattr(cukde, method), (cukde.dask.block_boxes(x), cukde.dask.block_boxes(y))
    want = call(X, Y, h)

    def computed(**options: object) -> np.ndarray:
        out: np.ndarray = call(x, y, h, **options).compute(scheduler="threads")
        return out

    def error(got: np.ndarray) -> float:
        return float(np.abs(got / want - 1).max())

    row = {
        "op": f"{method} with boxes",
        "backend": "cpu",
        "shape": {"n": len(X), "m": len(Y), "d": d, "blocks": _BLOCKS},
        "dtype": "float64",
        "precision": "float64",
        "pairs of blocks": _pairs(call(x, y, h, boxes=boxes)),
        "rel_err_max": error(computed(boxes=boxes)),
    }
    assert row["rel_err_max"] <= 1e-12
    peers = {
        "plain arrays": (lambda: call(X, Y, h), 0.0),
        "boxes": (lambda: cukde.dask.block_boxes(x), 0.0),
    }
    if method == "kde":
        peers["without boxes"] = computed, error(computed())
    compare(lambda: computed(boxes=boxes), row, peers)


def bench_files_cpu(compare: Callable[..., None], keep: Callable[..., None], tmp_path: Path) -> None:
    """Data in 64 files, tiles ordered by place, against queries in one corner: the files that matter are read.

    Of more than 1 GiB boxes and call are timed once, and no call takes all files.
    """
    m, h = 1_000, 0.2
    rows = int(_GIB * 2**30 / _BLOCKS / 16)
    read = []

    def load(i: int) -> np.ndarray:
        read.append(i)
        tile: np.ndarray = np.load(tmp_path / f"{i}.npy")
        return tile

    for i in range(_BLOCKS):
        corner = 10.0 * np.array([i % 8, i // 8])
        np.save(tmp_path / f"{i}.npy", corner + 10 * np.random.default_rng(i).uniform(size=(rows, 2)))
    loaded = dask.delayed(load)
    X = da.concatenate([da.from_delayed(loaded(i), (rows, 2), np.float64) for i in range(_BLOCKS)])
    Y = np.random.default_rng(99).uniform(0, 5, (m, 2))
    begun = time.perf_counter()
    boxes = cukde.dask.block_boxes(X)
    boxes_s = time.perf_counter() - begun
    read.clear()
    lazy = cukde.kde(X, Y, h, boxes=boxes)
    begun = time.perf_counter()
    got = lazy.compute(scheduler="threads")
    seconds = time.perf_counter() - begun
    files = len(set(read))
    near = np.concatenate([np.load(tmp_path / f"{i}.npy") for i in (0, 1, 8, 9)])
    want = cukde.kde(near, Y[:_CHECKED], h, rtol=0) * (4 / _BLOCKS)
    row = {
        "op": "kde of files with boxes",
        "backend": "cpu",
        "shape": {"n": X.shape[0], "m": m, "d": 2, "files": _BLOCKS},
        "dtype": "float64",
        "precision": "float64",
        "files read": files,
        "rel_err_max": float(np.abs(got[:_CHECKED] / want - 1).max()),
    }
    assert row["rel_err_max"] <= 1e-12
    assert 1 <= files <= 4
    if _GIB > 1:
        keep(row | perf.Times.of([1e3 * seconds]).row() | {"boxes_ms": 1e3 * boxes_s, "GiB": _GIB})
        return
    everything = cukde.kde(X, Y, h)
    peers = {
        "all files": (lambda: everything.compute(scheduler="threads"), 0.0),
        "boxes": (lambda: cukde.dask.block_boxes(X), 0.0),
    }
    compare(lambda: lazy.compute(scheduler="threads"), row, peers)


def _pairs(lazy: da.Array) -> int:
    return sum(key[0].startswith("cukde-sums-") for key in lazy.__dask_graph__())
