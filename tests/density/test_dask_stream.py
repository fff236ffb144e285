"""Dask arrays whose data stay on the host while their queries are on a GPU, against the same calls on plain arrays."""

from __future__ import annotations

import itertools
import threading
import weakref
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import pytest

import cukde
from cukde.core import dispatch
from cukde.core.dask import chunks as dask_chunks
from cukde.dask import block_boxes
from tests import reference
from tests.conftest import Backend
from tests.density.test_dask import (
    CALLS as ALL_CALLS,
    COVARIANCE,
    FACTORS,
    Call,
    D,
    N,
    V,
    W,
    X,
    Y,
    blocks,
    computed,
    same,
)
from tests.density.test_dask_memory import little_memory

upload: Any = pytest.importorskip("cukde.core.gpu.upload", reason="needs CuPy")

CHUNKS = (0, 100, 1, 0, 99, 30)
SAME = 3e-11  # of float64, between two devices

CALLS = {name: call for name, call in ALL_CALLS.items() if "debias" not in name}
_backend = dispatch.backend  # as it is where no device is emulated


class OnDevice(np.ndarray):
    """Stands for an array on the GPU where that is emulated."""


@pytest.fixture
def on_gpu(device: Backend, monkeypatch: pytest.MonkeyPatch) -> Call:
    """Brings an array to the GPU; arrays are cut into pieces of 32 rows of three columns."""
    monkeypatch.setattr(upload, "_MOST_BYTES", 32 * D * 8)
    monkeypatch.setattr(upload, "_FEWEST_ROWS", 1)
    if device.name == "cupy":
        return device.asarray
    gpu, cpu = dispatch.backend(X), dispatch.named("cpu")
    monkeypatch.setattr(dispatch, "is_gpu_array", lambda a: isinstance(a, OnDevice))
    monkeypatch.setattr(dispatch, "named", lambda name: gpu if name == "gpu" else cpu)
    monkeypatch.setattr(gpu, "asarray", lambda a: a if isinstance(a, OnDevice) else cpu.asarray(a))
    monkeypatch.setattr(gpu, "asnumpy", lambda a: cpu.asnumpy(a).view(np.ndarray))
    return lambda a: a.view(OnDevice)


@pytest.fixture
def pieces(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Rows of all pieces that go to the GPU."""
    rows: list[int] = []
    fill = upload._fill

    def counted(slot: Any, arrays: Any, of: slice, copying: Any) -> Any:
        rows.append(of.stop - of.start)
        return fill(slot, arrays, of, copying)

    monkeypatch.setattr(upload, "_fill", counted)
    return rows


def host(a: Any) -> Any:
    """Results on the host, of a call whose results are on the device."""
    if isinstance(a, tuple):
        return tuple(map(host, a))
    return np.asarray(a.get() if hasattr(a, "get") else a)


def lazily(on_gpu: Call, y: np.ndarray, chunks: Any = (30, 0, 60)) -> da.Array:
    return da.from_array(on_gpu(y), chunks=(chunks, *y.shape[1:]))


def of_plain(call: Call, *args: Any, **options: Any) -> Any:
    """What the CPU makes of the same call."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dispatch, "backend", lambda *arrays, **others: dispatch.named("cpu"))
        return call(*args, **options)


OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "weights": {"weights": W},  # a piece, and a whole block, of rows without weight among them
    "deviations": {"h": [0.5, 0.3, 0.8]},
    "covariance": {"h": COVARIANCE},
}


@pytest.mark.parametrize(
    ("call", "options"),
    [pair for pair in itertools.product(CALLS, OPTIONS) if "kernel_sum" not in pair[0] or pair[1] != "weights"],
)
def test_equals_plain_arrays(on_gpu: Call, pieces: list[int], call: str, options: str) -> None:
    lazy = CALLS[call](blocks(X, CHUNKS), lazily(on_gpu, Y), **OPTIONS[options])
    same(host(computed(lazy)), of_plain(CALLS[call], X, Y, **OPTIONS[options]), SAME)
    assert max(pieces) <= 32
    assert len(pieces) > 2 * len(CHUNKS)


def test_domains(on_gpu: Call) -> None:
    x, y = np.abs(X).astype(np.float32), np.abs(Y)
    x[0, 2] = np.float32(0.1)  # a little more than 0.1
    x[:, 2] = np.maximum(x[:, 2], x[0, 2])
    options: dict[str, Any] = {"bounds": [(0, None), None, (0.1, 5)], "periods": [None, 6.0, None]}
    for call in (cukde.kde, cukde.sd_kde):
        got = host(computed(call(blocks(x, (100, 130)), lazily(on_gpu, y), [0.2, 0.5, 0.1], **options)))
        np.testing.assert_allclose(got, of_plain(call, x, y, [0.2, 0.5, 0.1], **options), rtol=1e-9)


def test_steps(on_gpu: Call) -> None:
    """Points that have moved are data of the next pass; queries of it are the data."""
    options: dict[str, Any] = {"steps": 3, "score_bandwidth": 0.7}
    lazy = cukde.sd_kde(blocks(X, CHUNKS), lazily(on_gpu, Y), COVARIANCE, **options)
    same(host(computed(lazy)), of_plain(cukde.sd_kde, X, Y, COVARIANCE, **options), SAME)
    with pytest.raises(ValueError, match="own_point=False needs X where Y is; got X on the host and Y on the GPU"):
        cukde.sd_kde(blocks(X, CHUNKS), lazily(on_gpu, Y), 0.5, own_point=False)


@pytest.mark.parametrize("h", [[0.5, 0.3, 0.8], COVARIANCE], ids=["vector", "covariance"])
@pytest.mark.parametrize("call", ["kde", "score", "sd_kde", "kernel_sum"])
def test_bandwidths_of_every_form(on_gpu: Call, call: str, h: Any) -> None:
    lazy = CALLS[call](blocks(X, CHUNKS), lazily(on_gpu, Y), h)
    same(host(computed(lazy)), of_plain(CALLS[call], X, Y, h), SAME)


@pytest.mark.parametrize(
    ("call", "dtype"),
    [("sd_kde", "float32"), ("laplace_kde", "float32"), ("score", "float16"), ("kde", "int32"), ("kernel_sum", "bool")],
)
def test_dtypes(on_gpu: Call, call: str, dtype: str) -> None:
    """Data are converted on their way as plain arrays are: to what they have in common with the queries."""
    x, y = (3 * X).astype(dtype), (3 * Y).astype(np.float32)
    want = of_plain(CALLS[call], x, y, 1.5)
    got = CALLS[call](blocks(x, CHUNKS), lazily(on_gpu, y), 1.5)
    assert got.dtype == want.dtype == (np.float32 if dtype.startswith("float") else np.float64)
    same(host(computed(got)), want, SAME if got.dtype == np.float64 else 3e-4)


def test_debiased_data_go_in_double_precision(on_gpu: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    dtypes: list[np.dtype] = []
    of = upload.Slots.__init__

    def make(self: Any, rows: int, widths: Any, kinds: list[np.dtype]) -> None:
        dtypes.extend(kinds)
        of(self, rows, widths, kinds)

    monkeypatch.setattr(upload.Slots, "__init__", make)
    computed(cukde.sd_kde(blocks(X.astype(np.float32), (N,)), on_gpu(Y.astype(np.float32)), 0.5))
    assert dtypes == [np.float32, np.float64]


def test_one_dimension(on_gpu: Call) -> None:
    x, y = np.sort(X[:, 0]), Y[:, 0]
    for call in (CALLS["kde"], CALLS["score"], lambda X, Y: cukde.sd_kde(X, Y, 0.5)):
        same(host(computed(call(blocks(x, (100, 130)), lazily(on_gpu, y)))), of_plain(call, x, y), SAME)


@pytest.mark.parametrize("order", ["rows reversed", "columns first", "a part of the columns"])
def test_memory_that_is_not_contiguous(on_gpu: Call, order: str) -> None:
    x = {"rows reversed": X[::-1], "columns first": np.asfortranarray(X), "a part of the columns": np.tile(X, 2)[:, :3]}
    lazy = cukde.kde(da.from_array(x[order], chunks=(100, -1)), on_gpu(Y), 0.5)
    same(host(computed(lazy)), reference.kde(x[order], Y, 0.5), SAME)


@pytest.mark.parametrize("lazy", ["X", "Y"])
def test_plain_arrays_beside(on_gpu: Call, lazy: str, pieces: list[int]) -> None:
    x, y = (blocks(X, 100), on_gpu(Y)) if lazy == "X" else (X, lazily(on_gpu, Y))
    same(host(computed(cukde.kde(x, y, 0.5))), reference.kde(X, Y, 0.5), SAME)
    assert sum(pieces) == N * (1 if lazy == "X" else 2)


def test_a_file_and_a_data_frame(on_gpu: Call, tmp_path: Path) -> None:
    """A memory map; and rows whose number is not known."""
    import dask.dataframe as dd
    import pandas as pd

    file = np.lib.format.open_memmap(tmp_path / "x.npy", mode="w+", dtype=np.float64, shape=X.shape)
    file[...] = X
    frame = dd.from_pandas(pd.DataFrame(X, columns=list("abc")), npartitions=3)
    for x in (da.from_array(np.load(tmp_path / "x.npy", mmap_mode="r"), chunks=(100, -1)), frame):
        for call in (cukde.kde, cukde.sd_kde):
            lazy = call(x, on_gpu(Y), 0.5)
            same(host(computed(lazy)), getattr(reference, call.__name__)(X, Y, 0.5), SAME)


def test_results_lie_with_the_queries(device: Backend, on_gpu: Call) -> None:
    lazy = cukde.density_and_score(blocks(X, 100), lazily(on_gpu, Y), 0.5)
    for a, got in zip(lazy, computed(lazy), strict=True):
        assert type(a._meta) is type(on_gpu(Y))
        device.asnumpy(got)


def test_float32_far_from_zero(on_gpu: Call) -> None:
    """Each piece is centred on its own rows."""
    x, y = (np.sort(a + 1e3, axis=0).astype(np.float32) for a in (X, Y))
    got = host(computed(cukde.kde(blocks(x, 100), lazily(on_gpu, y), 0.5, log=True)))
    want = reference.log_kde(x, y, 0.5)
    np.testing.assert_allclose(got, want, rtol=2.0**-23, atol=3e-5)


def test_many_threads(on_gpu: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many they are, few have pieces on the GPU."""
    most, alive, lock = 0, 0, threading.Lock()
    of = upload.Slots.__init__

    def make(self: Any, *args: Any) -> None:
        nonlocal most, alive
        of(self, *args)
        with lock:
            alive += 1
            most = max(most, alive)
        weakref.finalize(self, gone)

    def gone() -> None:
        nonlocal alive
        with lock:
            alive -= 1

    monkeypatch.setattr(upload.Slots, "__init__", make)
    lazy = cukde.kde(blocks(X, 30), lazily(on_gpu, Y, 10), 0.5)
    same(host(computed(lazy, scheduler="threads", num_workers=6)), reference.kde(X, Y, 0.5), SAME)
    assert alive == 0
    assert 1 <= most <= upload._AT_ONCE


class TestBoxes:
    """Blocks of data that no query needs do not go to the GPU."""

    PLACES = (np.arange(N) // 35)[:, None] * [30.0, 0.0, 0.0]
    NEAR = Y[:20] + np.array([30.0, 0.0, 0.0])  # the second block

    @pytest.mark.parametrize("weighted", [False, True])
    @pytest.mark.parametrize("call", [name for name in CALLS if "kernel_sum" not in name and "factors" not in name])
    def test_few_pieces_and_the_same_result(self, on_gpu: Call, pieces: list[int], call: str, weighted: bool) -> None:
        x, w = X + self.PLACES, W if weighted else None
        boxes = block_boxes(blocks(x, 35), weights=w)
        lazy = CALLS[call](blocks(x, 35), on_gpu(self.NEAR), weights=w, boxes=boxes)
        same(host(computed(lazy)), of_plain(CALLS[call], x, self.NEAR, weights=w), SAME)
        assert sum(pieces) == 35 * (2 if "sd_kde" in call else 1)

    def test_rows_beyond_their_boxes(self, on_gpu: Call) -> None:
        boxes = block_boxes(blocks(X, 35))
        with pytest.raises(ValueError, match=r"boxes must be those of X, .* rows of block \d lie outside"):
            computed(cukde.kde(blocks(X[::-1], 35), on_gpu(Y), 0.5, boxes=boxes))
        bad = X.copy()
        bad[40] = np.nan
        with pytest.raises(ValueError, match=r"X must be finite; block 1 holds NaN or infinity in 1 of its rows"):
            computed(cukde.kde(blocks(bad, 35), on_gpu(Y), 0.5, boxes=boxes))


class TestWhatIsWrong:
    @pytest.mark.parametrize(
        ("name", "call"),
        [
            ("X", lambda bad, x, y: cukde.kde(blocks(bad(X), 100), y, 0.5)),
            ("X", lambda bad, x, y: cukde.sd_kde(blocks(bad(X), 100), y, 0.5)),
            ("weights", lambda bad, x, y: cukde.kde(x, y, 0.5, weights=bad(W))),
            ("V", lambda bad, x, y: cukde.kernel_sum(x, bad(V), y, 0.5)),
            ("local_factors", lambda bad, x, y: cukde.kde(x, y, 0.5, local_factors=bad(FACTORS))),
        ],
    )
    def test_rows_of_two_pieces_are_named_together(self, on_gpu: Call, name: str, call: Call) -> None:
        def bad(a: np.ndarray) -> np.ndarray:
            out = a.copy()
            out[[123, 124, 199]] = np.nan
            return out

        with pytest.raises(
            ValueError, match=rf"{name} must be finite; block 1 .* 3 .*\(rows 123, 124, 199 of the array\)"
        ):
            computed(call(bad, blocks(X, 100), on_gpu(Y)))

    def test_unchecked(self, on_gpu: Call) -> None:
        y = Y.copy()
        y[7] = np.nan
        got = host(computed(cukde.kde(blocks(X, 100), lazily(on_gpu, y), 0.5, weights=W, check_finite=False)))
        same(np.delete(got, 7), np.delete(reference.kde(X, Y, 0.5, W), 7), SAME)

    @pytest.mark.parametrize(
        "options",
        [{"weights": -W}, {"weights": 0 * W}, {"local_factors": 0 * FACTORS}],
        ids=["negative", "zero", "factors"],
    )
    def test_weights_and_factors(self, on_gpu: Call, options: dict[str, Any]) -> None:
        with pytest.raises(ValueError, match=rf"^{next(iter(options))} must"):
            computed(cukde.kde(blocks(X, 100), on_gpu(Y), 0.5, **options))

    def test_arrays_beside_the_data_on_the_gpu(self, on_gpu: Call, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(dispatch, "backend", _backend)
        with pytest.raises(TypeError, match="weights is on the GPU but X is not"):
            cukde.kde(blocks(X, 100), on_gpu(Y), 0.5, weights=on_gpu(W))
        with pytest.raises(TypeError, match="Y is on the GPU but X is not"):
            cukde.kde(X, on_gpu(Y), 0.5)


class TestBlocks:
    def test_large_blocks_stay(self, on_gpu: Call) -> None:
        """Only what is on the GPU as a whole is cut."""
        rows = dask_chunks.rows_of_stream(2, queries=True)
        x, y = da.zeros((10**7, 2), chunks=-1), on_gpu(Y[:, :2])
        assert 10**7 > 2 * rows == 2**23
        assert dask_chunks.rows_of_stream(2, queries=False) == 2**25
        assert _tasks(cukde.kde(x, y, 0.5), "data") == 1
        assert _tasks(cukde.sd_kde(x, y, 0.5), "data") == 3


def _tasks(lazy: da.Array, stage: str) -> int:
    return sum(key[0].startswith(f"cukde-{stage}-") for key in lazy.__dask_graph__())


class TestWithoutMemory:
    def test_passes(self, on_gpu: Call, monkeypatch: pytest.MonkeyPatch) -> None:
        attempts = little_memory(monkeypatch)
        with pytest.warns(cukde.MemoryWarning) as warned:
            got = host(computed(cukde.sd_kde(blocks(X, (N,)), on_gpu(Y[:40]), 0.5)))
        same(got, reference.sd_kde(X, Y[:40], 0.5), SAME)
        assert len(warned) == 1  # of the data as queries
        assert max(attempts)[0] == N

    def test_pieces(self, on_gpu: Call, monkeypatch: pytest.MonkeyPatch) -> None:
        little_memory(monkeypatch)
        wanted: list[int] = []
        made = upload.Slots.__init__

        def make(self: Any, rows: int, *kinds: Any) -> None:
            wanted.append(rows)
            if rows > 12:
                raise MemoryError
            made(self, rows, *kinds)

        monkeypatch.setattr(upload.Slots, "__init__", make)
        with pytest.warns(cukde.MemoryWarning, match="in parts of at most \\d+ rows"):
            got = host(computed(cukde.kde(blocks(X, (N,)), on_gpu(Y), 0.5)))
        same(got, reference.kde(X, Y, 0.5), SAME)
        assert wanted[:2] == [32, 16]
        assert wanted[-1] <= 12
