"""What Dask adds: a density of Dask arrays beside that of plain ones, and graphs on their way to a scheduler.

python -m pytest benchmarks/density/bench_dask.py --record benchmarks/results/NAME.json
"""

from __future__ import annotations

import time
from collections.abc import Callable

import dask.array as da
import numpy as np
import pytest

import cukde
from cukde.core.dask import chunks as dask_chunks
from cukde.density.options import Options
from cukde.density.pairs.cpu import passes as pairs_passes
from cukde.density.sums import PartialSums
from tests import reference

_CHECKED = 200
_BLOCKS = 64


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
