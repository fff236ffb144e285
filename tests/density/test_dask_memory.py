"""Blocks of Dask arrays for which memory runs out: computed in parts, with the same results and a warning."""

from __future__ import annotations

import gc
import re
import warnings
import weakref
from typing import Any

import dask.array as da
import numpy as np
import pytest

import cukde
from cukde.density.dask import memory
from cukde.density.dask.memory import WithinMemory
from cukde.density.problem import Problem
from tests import processes, reference
from tests.density.test_dask import CALLS, CHUNKS, M, N, W, X, Y, blocks, computed, same


@pytest.fixture
def few_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks may be cut down to 10 rows."""
    monkeypatch.setattr(memory, "_FEWEST_ROWS", 10)


def little_memory(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """Rows of queries and data of each pass from here on; there is memory for 40 of either."""
    monkeypatch.setattr(memory, "_FEWEST_ROWS", 10)
    made: list[tuple[int, int]] = []
    of = Problem.sums

    def sums(self: Problem, *args: Any, **options: Any) -> Any:
        n, m = len(self.X), len(self.X if self.Y is None else self.Y)
        made.append((m, n))
        if max(n, m) > 40:
            raise MemoryError(f"no memory for {m} x {n}")
        return of(self, *args, **options)

    monkeypatch.setattr(Problem, "sums", sums)
    return made


@pytest.fixture
def attempts(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    return little_memory(monkeypatch)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("call", CALLS)
def test_the_result_is_the_same(request: pytest.FixtureRequest, call: str, weighted: bool) -> None:
    options = {"weights": W} if weighted and "kernel_sum" not in call else {}
    want = CALLS[call](X, Y, **options)
    attempts = request.getfixturevalue("attempts")
    of_data, of_queries = CHUNKS["uneven and empty"]
    with pytest.warns(cukde.MemoryWarning) as warned:
        got = computed(CALLS[call](blocks(X, of_data), blocks(Y, of_queries), **options))
    same(got, want)
    assert max(max(one) for one in attempts) == 100
    assert max(max(one) for one in attempts if max(one) <= 40) > 20
    assert {warning.category for warning in warned} == {cukde.MemoryWarning}


def test_parts_of_blocks_leave_out_their_rows(request: pytest.FixtureRequest) -> None:
    want = cukde.kde(X, X, 0.3, weights=W, leave_one_out=True)
    request.getfixturevalue("attempts")
    x = blocks(X, (101, 129))
    with pytest.warns(cukde.MemoryWarning):
        same(computed(cukde.kde(x, x, 0.3, weights=W, leave_one_out=True)), want, 1e-11)


def test_one_warning_for_a_block_of_queries(attempts: list[tuple[int, int]]) -> None:
    with pytest.warns(cukde.MemoryWarning) as warned:
        same(computed(cukde.kde(blocks(X, (N,)), blocks(Y, (80, 10)), 0.5)), reference.kde(X, Y, 0.5))
    assert sorted(str(warning.message).partition(",")[0] for warning in warned) == [
        f"memory ran out at block {block} of the queries: it was computed in parts of at most 29 rows"
        for block in (0, 1)
    ]
    parts = [one for one in attempts if max(one) <= 40]
    assert sum(m * n for m, n in parts) == N * M
    assert len(attempts) - len(parts) == 2 * 3  # 230, 115, 58


def test_later_blocks_of_a_task_begin_with_parts(
    attempts: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cukde.core.dask.chunks._MANY_TASKS", 1)
    with pytest.warns(cukde.MemoryWarning) as warned:
        same(computed(cukde.kde(blocks(X, (80, 70, 80)), Y, 0.5)), reference.kde(X, Y, 0.5))
    assert len(warned) == 1
    assert [one for one in attempts if max(one) > 40] == [(90, 80), (45, 40)]


def test_parts_too_small_to_cut(attempts: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_FEWEST_ROWS", 50)
    message = r"memory ran out at parts of 50 rows, .*: free memory that .* \(no memory for \d+ x 50\)"
    with pytest.raises(MemoryError, match=message):
        computed(cukde.kde(blocks(X[:200], (200,)), Y, 0.5))


def test_what_a_failed_call_held_is_free_when_it_is_called_again(few_rows: None) -> None:
    class Array:
        points = range(20)

        def halves(self) -> list[Array]:
            return [self, self]

    held: list[weakref.ref[Any]] = []

    def compute(y: Any, x: Any) -> int:
        assert all(one() is None for one in held)
        taken = Array()
        held.append(weakref.ref(taken))
        if len(held) < 2:
            raise MemoryError
        return 1

    def release() -> None:
        assert held[-1]() is None

    x = Array()
    smaller: WithinMemory[int] = WithinMemory(release, sum, sum)
    with pytest.raises(RecursionError):  # halves that are no smaller
        smaller(compute, x, x)
    assert len(held) == 1


def test_a_merge_without_memory_is_made_once_more_has_gone_back(few_rows: None) -> None:
    class Rows:
        def __init__(self, points: range) -> None:
            self.points = points

        def halves(self) -> list[Rows]:
            half = len(self.points) // 2
            return [Rows(self.points[:half]), Rows(self.points[half:])]

    released: list[None] = []

    def compute(y: Rows, x: Rows) -> int:
        if max(len(y.points), len(x.points)) > 20:
            raise MemoryError
        released.clear()
        return len(y.points) * len(x.points)

    def merge(parts: list[int]) -> int:
        if not released:
            raise MemoryError
        return sum(parts)

    rows = Rows(range(70))
    assert WithinMemory(lambda: released.append(None), merge, merge)(compute, rows, rows) == 70 * 70


@pytest.mark.gpu
class TestDevice:
    """Where a GPU runs out of memory, or would."""

    @pytest.fixture(autouse=True)
    def _empty_pool(self) -> Any:
        import cupy as cp

        self.cp, self.pool = cp, cp.get_default_memory_pool()
        gc.collect()  # graphs of other tests, which would make room when they go
        self.pool.free_all_blocks()
        yield
        self.pool.set_limit(size=0)
        self.pool.free_all_blocks()

    @pytest.mark.parametrize("host", [False, True], ids=["on the GPU", "on the host"])
    def test_a_limit(self, host: bool) -> None:
        """Less than the call needs: operands of two float16 terms of X and Y, beside X where it comes from the host."""
        rows, d = 400_000, 64
        x, y = (np.random.default_rng(seed).standard_normal((rows, d), np.float32) for seed in (0, 1))
        X, Y = x if host else self.cp.asarray(x), self.cp.asarray(y)
        lazy = cukde.kde(da.from_array(X, chunks=(rows, d)), da.from_array(Y, chunks=(rows, d)), 2.0, log=True)
        with warnings.catch_warnings():
            warnings.simplefilter("error", cukde.MemoryWarning)
            want = computed(lazy).get()
        used = self.pool.used_bytes()
        assert self.pool.total_bytes() - used > 2 * rows * d * 4
        self.pool.free_all_blocks()
        self.pool.set_limit(size=used + rows * d * (8 if host else 6))
        with pytest.warns(cukde.MemoryWarning):
            got = computed(lazy).get()
        np.testing.assert_allclose(got, want, rtol=1e-6, atol=3e-5)

    def test_nothing_left(self) -> None:
        """In a process of its own: what other tests keep in parts of blocks of the pool counts against its limit."""
        code = """
import cupy as cp, dask.array as da
import cukde
lazy = cukde.kde(da.zeros((10_000, 4), chunks=-1), cp.zeros((5_000, 4)), 1.0)
pool = cp.get_default_memory_pool()
pool.free_all_blocks()
pool.set_limit(size=pool.used_bytes() + 2**14)
try:
    lazy.compute(scheduler="synchronous")
except MemoryError as error:
    print(error)
"""
        out, _ = processes.finished(processes.start("-c", code))
        assert re.search(r"memory ran out at parts of 1024 rows, .*Out of memory allocating", out)

    def test_a_stream_takes_the_memory_of_a_few_pieces(self) -> None:
        n, m, d = 12_000_000, 1_000, 16  # 768 MB
        X = np.zeros((n, d), np.float32)
        X[:] = np.linspace(-1, 1, n, dtype=np.float32)[:, None]
        Y = self.cp.zeros((m, d), np.float32)
        used = self.pool.total_bytes()
        for threads in (1, 8):
            lazy = cukde.kde(da.from_array(X, chunks=(n // 8, d), name=False), Y, 1.0)
            computed(lazy, scheduler="threads", num_workers=threads)
            assert self.pool.total_bytes() - used < 6 * min(threads, 2) * 2**26
