"""Dask arrays whose data stay on the host while their queries are on a GPU, against the same calls on plain arrays."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
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
from tests.density.test_dask import COVARIANCE, blocks, computed, same
from tests.density.test_dask_memory import little_memory

upload: Any = pytest.importorskip("cukde.core.gpu.upload", reason="needs CuPy")

N, M, D = 210, 40, 3
RNG = np.random.default_rng(12)
X, Y, V = (RNG.standard_normal(shape) for shape in ((N, D), (M, D), (N, 2)))
W = np.where(np.arange(N) < 50, 0.0, 10.0 ** RNG.uniform(-3, 3, N))
FACTORS = RNG.uniform(0.5, 2, N)
CHUNKS = (0, 100, 1, 0, 79, 30)
SAME = 3e-11  # of float64, between two devices

_backend = dispatch.backend  # as it is where no device is emulated

Call = Callable[..., Any]
CALLS: dict[str, Call] = {
    "kde": lambda X, Y, h=0.5, **o: cukde.kde(X, Y, h, **o),
    "log kde": lambda X, Y, h=0.5, **o: cukde.kde(X, Y, h, log=True, **o),
    "kde of local factors": lambda X, Y, h=0.5, **o: cukde.kde(X, Y, h, local_factors=FACTORS, **o),
    "score": lambda X, Y, h=0.5, **o: cukde.score(X, Y, h, **o),
    "density_and_score": lambda X, Y, h=0.5, **o: cukde.density_and_score(X, Y, h, **o),
    "sd_kde": lambda X, Y, h=0.5, **o: cukde.sd_kde(X, Y, h, **o),
    "sd_kde of another score": lambda X, Y, h=0.5, **o: cukde.sd_kde(X, Y, h, score_bandwidth=[0.4, 0.7, 0.5], **o),
    "laplace_kde": lambda X, Y, h=0.5, **o: cukde.laplace_kde(X, Y, h, **o),
    "score of local factors": lambda X, Y, h=0.5, **o: cukde.score(X, Y, h, local_factors=FACTORS, **o),
    "sd_kde of local factors": lambda X, Y, h=0.5, **o: cukde.sd_kde(X, Y, h, local_factors=FACTORS, **o),
    "kernel_sum": lambda X, Y, h=0.5, **o: cukde.kernel_sum(X, V, Y, h, **o),
    "kernel_sum of one column": lambda X, Y, h=0.5, **o: cukde.kernel_sum(X, V[:, 0], Y, h, **o),
}


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


def lazily(on_gpu: Call, y: np.ndarray, chunks: Any = (30, 0, 10)) -> da.Array:
    return da.from_array(on_gpu(y), chunks=(chunks, *y.shape[1:]))


def of_plain(call: Call, *args: Any, **options: Any) -> Any:
    """What the CPU makes of the same call."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dispatch, "backend", lambda *arrays, **others: dispatch.named("cpu"))
        return call(*args, **options)


@pytest.mark.parametrize("call", CALLS)
def test_equals_plain_arrays(on_gpu: Call, pieces: list[int], call: str) -> None:
    lazy = CALLS[call](blocks(X, CHUNKS), lazily(on_gpu, Y))
    same(host(computed(lazy)), of_plain(CALLS[call], X, Y), SAME)
    assert max(pieces) <= 32
    assert len(pieces) > 2 * len(CHUNKS)


@pytest.mark.parametrize("call", [name for name in CALLS if "kernel_sum" not in name])
def test_weights(on_gpu: Call, call: str) -> None:
    """A piece, and a whole block, of rows without weight among them."""
    lazy = CALLS[call](blocks(X, (40, 60, 110)), lazily(on_gpu, Y), weights=W)
    same(host(computed(lazy)), of_plain(CALLS[call], X, Y, weights=W), SAME)


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
        same(host(computed(call(blocks(x, (100, 110)), lazily(on_gpu, y)))), of_plain(call, x, y), SAME)


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

    PLACES = np.repeat(np.arange(6.0), 35)[:, None] * [30.0, 0.0, 0.0]
    NEAR = Y[:20] + np.array([30.0, 0.0, 0.0])  # the second block

    @pytest.mark.parametrize("weighted", [False, True])
    @pytest.mark.parametrize("call", [name for name in CALLS if "kernel_sum" not in name and "factors" not in name])
    def test_few_pieces_and_the_same_result(self, on_gpu: Call, pieces: list[int], call: str, weighted: bool) -> None:
        x, w = X + self.PLACES, W if weighted else None
        boxes = block_boxes(blocks(x, 35), weights=w)
        lazy = CALLS[call](blocks(x, 35), on_gpu(self.NEAR), weights=w, boxes=boxes)
        same(host(computed(lazy)), of_plain(CALLS[call], x, self.NEAR, weights=w), SAME)
        assert sum(pieces) == 35 * (2 if "sd_kde" in call else 1)

    def test_queries_in_blocks_of_which_one_is_empty(self, on_gpu: Call, pieces: list[int]) -> None:
        x = X + self.PLACES
        y = lazily(on_gpu, self.NEAR, (10, 0, 10))
        lazy = cukde.kde(blocks(x, 35), y, 0.5, boxes=(block_boxes(blocks(x, 35)), block_boxes(y)))
        same(host(computed(lazy)), reference.kde(x, self.NEAR, 0.5), SAME)
        assert sum(pieces) == 2 * 35

    def test_rows_beyond_their_boxes(self, on_gpu: Call) -> None:
        boxes = block_boxes(blocks(X, 35))
        with pytest.raises(ValueError, match=r"boxes must be those of X, .* rows of block \d lie outside"):
            computed(cukde.kde(blocks(X[::-1], 35), on_gpu(Y), 0.5, boxes=boxes))
        bad = X.copy()
        bad[40] = np.nan
        with pytest.raises(ValueError, match=r"X must be finite; block 1 holds NaN or infinity in 1 of its rows"):
            computed(cukde.kde(blocks(bad, 35), on_gpu(Y), 0.5, boxes=boxes))


class TestWhatIsWrong:
    @staticmethod
    def spoiled(a: np.ndarray, row: Any, value: float = np.nan) -> np.ndarray:
        out = a.copy()
        out[row] = value
        return out

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
    def test_not_finite(self, on_gpu: Call, name: str, call: Call) -> None:
        """Rows of a block that go to the GPU in two pieces are named together."""
        message = (
            rf"{name} must be finite; block 1 holds NaN or infinity in 3 of its rows, the first: 23, 24, 99 "
            r"\(rows 123, 124, 199 of the array\)"
        )
        lazy = call(lambda a: self.spoiled(a, [123, 124, 199]), blocks(X, 100), on_gpu(Y))
        with pytest.raises(ValueError, match=message):
            computed(lazy)

    def test_unchecked(self, on_gpu: Call) -> None:
        y = self.spoiled(Y, 7)
        got = host(computed(cukde.kde(blocks(X, 100), lazily(on_gpu, y), 0.5, weights=W, check_finite=False)))
        same(np.delete(got, 7), np.delete(reference.kde(X, Y, 0.5, W), 7), SAME)

    def test_weights_and_factors(self, on_gpu: Call) -> None:
        x, y = blocks(X, 100), on_gpu(Y)
        with pytest.raises(ValueError, match=r"weights must not be negative; the smallest is -1 \(block 1 of X\)"):
            computed(cukde.kde(x, y, 0.5, weights=self.spoiled(W, 150, -1.0)))
        with pytest.raises(ValueError, match="weights must not all be zero"):
            computed(cukde.kde(x, y, 0.5, weights=0 * W))
        with pytest.raises(ValueError, match=r"local_factors must be positive; the smallest is 0 \(block 2 of X\)"):
            computed(cukde.kde(x, y, 0.5, local_factors=self.spoiled(FACTORS, 201, 0.0)))

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

    def test_blocks_beyond_memory_are_cut(self) -> None:
        rows = dask_chunks.rows_of_stream(16, queries=False)
        assert rows == 2**27 // 18
        assert len(dask_chunks.regular((4 * 10**8,), 2**18, rows)) == 54
        assert dask_chunks.regular((2**18,) * 100, 2**18, rows) == (2**18,) * 100
        assert dask_chunks.regular((2**16,) * 100, 2**18, rows) == (2**18,) * 25


def _tasks(lazy: da.Array, stage: str) -> int:
    return sum(key[0].startswith(f"cukde-{stage}-") for key in lazy.__dask_graph__())


class TestWithoutMemory:
    def test_passes(self, on_gpu: Call, monkeypatch: pytest.MonkeyPatch) -> None:
        attempts = little_memory(monkeypatch)
        with pytest.warns(cukde.MemoryWarning) as warned:
            got = host(computed(cukde.sd_kde(blocks(X, (N,)), on_gpu(Y), 0.5)))
        same(got, reference.sd_kde(X, Y, 0.5), SAME)
        assert len(warned) == 1  # of the data as queries
        assert max(attempts) == (N, 30)

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
        with pytest.warns(cukde.MemoryWarning, match="in parts of at most 10 rows"):
            got = host(computed(cukde.kde(blocks(X, (N,)), on_gpu(Y), 0.5)))
        same(got, reference.kde(X, Y, 0.5), SAME)
        assert wanted == [32, 16, 10]
