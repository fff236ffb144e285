"""Calls that several GPUs share, ``devices=``, beside the plain call on one of them, in one run.

python -m pytest benchmarks/perf/bench_devices.py --record benchmarks/results/NAME.json
python -m pytest benchmarks/perf/bench_devices.py --scaling n=400000,m=100000,runs=2 -k sd_kde

SD-KDE of the mixture of ``bench_scaling.py`` at a bandwidth that leaves out no pair and at one that leaves out most;
and the density of 10^8 points of three dimensions, in one call. Speed-ups are medians over the plain call's.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import cukde
from benchmarks.perf import (
    bench_scaling,
    workers as perf_workers,  # which needs Dask, as bench_scaling does
)
from benchmarks.sources import exact
from cukde import perf
from cukde.core.plan import traced
from tests.conftest import why_no_gpu

BANDWIDTHS = {"all pairs": 2.0, "few pairs": 0.5}
"""Multiples of Silverman's bandwidth."""

_TOLERANCE = 6e-4  # of a density, twice what sd_kde states for float32: sums of shares are rounded in another order
_POINTS, _QUERIES, _CHECKED = 10**8, 2**20, 8
_ERROR = 3e-5  # of a density in float32 on a GPU


@pytest.fixture
def counts(request: pytest.FixtureRequest) -> list[int]:
    """Numbers of GPUs that share a call: 2, 4, 8, and all that there are."""
    if reason := why_no_gpu():
        pytest.skip(reason)
    import cupy

    present = int(cupy.cuda.runtime.getDeviceCount())
    asked = bench_scaling.sizes(request.config.getoption("--scaling")).workers
    found = sorted({count for count in asked or (2, 4, 8, present) if 1 < count <= present})
    return found or pytest.skip("one GPU shares nothing")


@pytest.mark.parametrize("name", BANDWIDTHS)
def bench_sd_kde(keep: Callable[..., None], counts: list[int], name: str, request: pytest.FixtureRequest) -> None:
    of = bench_scaling.sizes(request.config.getoption("--scaling"))
    X, Y = (perf_workers.Mixture(seed, rows, of.d, of.blocks, True).plain() for seed, rows in ((0, of.n), (1, of.m)))
    h = BANDWIDTHS[name] * of.h
    row = {"backend": "gpu", "dtype": "float32", "precision": "float32", "h": h}
    shape = {"n": of.n, "m": of.m, "d": of.d, "bandwidth": name}

    def timed(call: Callable[[], Any]) -> perf.Times:
        return perf.Times.of(perf_workers.timed(lambda: float(call().sum()), of.runs))

    def plain() -> Any:
        return cukde.sd_kde(X, Y, h, log=True)

    want, left_out = _looked_at(plain)
    assert (left_out == 0) == (name == "all pairs"), left_out
    times = timed(plain)
    keep({"op": "sd_kde", "shape": shape | {"gpus": 1}, "share_left_out": left_out} | row | times.row())
    for count in counts:

        def shared(count: int = count) -> Any:
            return cukde.sd_kde(X, Y, h, log=True, devices=range(count))

        error = float(abs(np.expm1(shared().astype(np.float64) - want)).max())
        assert error <= _TOLERANCE
        of_several = timed(shared)
        speedup = times.median_ms / of_several.median_ms
        more = {"difference_max": error, "speedup": speedup, "efficiency": speedup / count}
        peer = {"name": "plain call on one", **times.row()}
        keep(
            {"op": "sd_kde, devices", "shape": shape | {"gpus": count}} | row | of_several.row() | more | {"peer": peer}
        )


def _looked_at(call: Callable[[], Any]) -> tuple[Any, float]:
    """The result of a call, float64, and the share of the pairs that its passes leave out, the most of any pass."""
    with traced() as ran:
        result = call().astype(np.float64)
    return result, 1 - min((one.found["share"]() for one in ran if one.name == "skipping"), default=1.0)


def bench_many_points(keep: Callable[..., None], counts: list[int]) -> None:
    """10^8 points of a mixture in three dimensions, at a quarter of Silverman's bandwidth, on one and on all GPUs.

    SD-KDE, whose score is of 10^16 pairs, on all alone.
    """
    import cupy

    random = cupy.random.default_rng(0)
    X, Y = (
        random.standard_normal((rows, 3), dtype=np.float32) + 3 * random.integers(0, 3, (rows, 1)).astype(np.float32)
        for rows in (_POINTS, _QUERIES)
    )
    h = 0.25 * float(X.std()) * (4 / 5 / _POINTS) ** (1 / 7)
    some = slice(None, None, _QUERIES // _CHECKED)
    logs, _ = exact.log_sums_and_shift(X, Y[some], h)
    want = logs - np.log(_POINTS) - 1.5 * np.log(2 * np.pi * h * h)
    calls: dict[str, tuple[Callable[..., Any], tuple[int, ...]]] = {
        "kde": (lambda **options: cukde.kde(X, Y, h, log=True, **options), (1, max(counts))),
        "sd_kde": (lambda **options: cukde.sd_kde(X, Y, h, log=True, **options), (max(counts),)),
    }
    for op, (call, wanted) in calls.items():
        one: float | None = None
        for count in wanted:
            options = {} if count == 1 else {"devices": range(count)}
            perf_workers.free(True, count)
            begun = time.perf_counter()
            got = call(**options)
            cupy.cuda.get_current_stream().synchronize()
            taken = 1e3 * (time.perf_counter() - begun)
            row: dict[str, Any] = {
                "op": op if count == 1 else f"{op}, devices",
                "backend": "gpu",
                "shape": {"n": _POINTS, "m": _QUERIES, "d": 3, "gpus": count},
                "dtype": "float32",
                "precision": "float32",
                "h": h,
                **perf.Times.of([taken]).row(),
                "memory_mb": [_held_mb(device) for device in range(count)],
            }
            if op == "kde":
                error = float(abs(np.expm1(got[some].astype(np.float64) - want)).max())
                assert error <= _ERROR
                row["rel_err_max"] = error
            if one is not None:
                row["speedup"] = one / taken
            one = taken if count == 1 else one
            keep(row)
            del got


def _held_mb(device: int) -> float:
    """Memory of a device that CuPy holds after a call: the most that the call had, as nothing was given back."""
    import cupy

    with cupy.cuda.Device(device):
        return float(cupy.get_default_memory_pool().total_bytes()) / 2**20
