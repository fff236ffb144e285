"""Blocks of Dask arrays that are moved to GPUs."""

from __future__ import annotations

import contextlib
import importlib

import dask.array as da
import numpy as np
import pandas as pd
import pytest

import cukde
import cukde.dask
from tests.conftest import why_no_gpu

X = np.random.default_rng(5).standard_normal((90, 3))


def test_blocks_go_round_the_devices(emulated_device: None, monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = importlib.import_module("cukde.core.gpu.arrays")
    turns: list[int] = []

    def device(turn: int) -> contextlib.AbstractContextManager[None]:
        turns.append(turn)
        return contextlib.nullcontext()

    monkeypatch.setattr(gpu, "device", device)
    monkeypatch.setattr("cukde.core.dispatch.why_no_gpu", lambda: None)
    lazy = da.from_array(X, chunks=((40, 0, 30, 20), (2, 1)))
    moved = cukde.dask.to_gpu(lazy)
    assert (moved.chunks, moved.dtype) == (lazy.chunks, lazy.dtype)
    np.testing.assert_array_equal(moved.compute(scheduler="synchronous"), X)
    assert sorted(turns) == [0, 0, 1, 1, 2, 2, 3, 3]


@pytest.mark.parametrize("a", [X, [1.0, 2.0], None])
def test_what_is_no_collection(a: object) -> None:
    with pytest.raises(TypeError, match=r"a must be a Dask array or a Dask data frame; got .*: write cupy.asarray"):
        cukde.dask.to_gpu(a)


@pytest.mark.skipif(why_no_gpu() is None, reason="there is a GPU")
def test_without_a_gpu() -> None:
    with pytest.raises(RuntimeError, match="needs a working CUDA GPU"):
        cukde.dask.to_gpu(da.from_array(X))


@pytest.mark.parametrize("scheduler", ["synchronous", "threads"])
def test_one_task_has_all_blocks(scheduler: str) -> None:
    """Of data, queries and weights; a collection that is both is one array; results have the form of the function."""
    blocks, weights = da.from_array(X, chunks=(40, 2)), np.arange(1.0, 91)
    got = cukde.density_and_score(blocks, blocks[:7], 0.5, weights=da.from_array(weights, chunks=25), devices="all")
    want = cukde.density_and_score(X, X[:7], 0.5, weights=weights)
    for lazy, plain in zip(got, want, strict=True):
        assert (lazy.shape, lazy.dtype, lazy.npartitions) == (plain.shape, plain.dtype, 1)
        np.testing.assert_array_equal(lazy.compute(scheduler=scheduler), plain)
    without = cukde.dask.kde(blocks, blocks, 0.5, leave_one_out=True, devices="all").compute(scheduler=scheduler)
    np.testing.assert_array_equal(without, cukde.kde(X, X, 0.5, leave_one_out=True))
    frame = importlib.import_module("dask.dataframe").from_pandas(pd.DataFrame(X), npartitions=3)
    found = cukde.debias(frame, 0.5, devices="all").compute(scheduler=scheduler)
    np.testing.assert_array_equal(found, cukde.debias(X, 0.5))
    interval = cukde.density_interval(blocks, blocks[:7], 0.5, devices="all")
    assert type(interval) is cukde.DensityInterval
    for one, other in zip(interval, cukde.density_interval(X, X[:7], 0.5), strict=True):
        np.testing.assert_array_equal(one, other)


def test_one_task_is_refused_what_plain_arrays_are() -> None:
    blocks = da.from_array(X, chunks=(40, 3))
    with pytest.raises(TypeError, match='devices must be "all", None or numbers of GPUs'):
        cukde.kde(blocks, blocks, 0.5, devices="some")
    with pytest.raises(ValueError, match="h must be positive"):
        cukde.kde(blocks, blocks, -0.5, devices="all")
    with pytest.raises(ValueError, match='devices must be "all" or None for arrays on the CPU'):
        cukde.kde(blocks, blocks, 0.5, devices=[0]).compute()


@pytest.mark.gpu
class TestDevices:
    """On as many GPUs as there are."""

    def test_blocks_lie_on_one_after_the_other(self) -> None:
        import cupy

        frame = importlib.import_module("dask.dataframe").from_pandas(pd.DataFrame(X), npartitions=4)
        moved = cukde.dask.to_gpu(frame).persist(scheduler="threads")
        like = np.empty((0, 0), int)
        numbers = moved.map_blocks(lambda block: np.full((1, 1), block.device.id), dtype=int, meta=like).compute()
        count = cupy.cuda.runtime.getDeviceCount()
        assert numbers[:, 0].tolist() == [i % count for i in range(4)]
        np.testing.assert_array_equal(moved.map_blocks(cupy.asnumpy).compute(), X)

    @pytest.mark.parametrize(("dtype", "tolerance"), [("float64", 1e-11), ("float32", 5e-3)])
    def test_passes_over_blocks_of_several_devices(self, dtype: str, tolerance: float) -> None:
        """Nothing is read across devices but by copies, of which CuPy would warn."""
        import cupy

        points = np.random.default_rng(6).standard_normal((18_000, 3)).astype(dtype)
        blocks = cukde.dask.to_gpu(da.from_array(points, chunks=(4500, 3)))
        lazy = [
            cukde.debias(blocks, 0.5),
            cukde.score(blocks, blocks, 0.5),
            cukde.sd_kde(blocks, blocks, 0.5, log=True),
        ]
        got = [of.map_blocks(cupy.asnumpy).compute(scheduler="threads", num_workers=4) for of in lazy]
        x = cupy.asarray(points)
        want = [cukde.debias(x, 0.5), cukde.score(x, x, 0.5), cukde.sd_kde(x, x, 0.5, log=True)]
        for one, other in zip(got, want, strict=True):
            np.testing.assert_allclose(one, cupy.asnumpy(other), rtol=tolerance, atol=tolerance)
        together = cukde.sd_kde(blocks, blocks, 0.5, log=True, devices="all").compute(scheduler="threads")
        np.testing.assert_allclose(cupy.asnumpy(together), got[2], rtol=tolerance, atol=tolerance)
