"""Sums of two arrays of points at each other on the CPU, every exponential taken once."""

from __future__ import annotations

import threading
import tracemalloc
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from cukde.core.cpu import threads as core_threads
from cukde.core.cpu.workers import WorkerPool
from cukde.core.plan import only, traced
from cukde.density import sums as density_sums
from cukde.density.options import Options
from cukde.density.pairs.cpu import differences, pair_blocks, passes as pairs_passes, query_blocks, tiles
from cukde.density.sums import Output, PartialSums
from tests import reference
from tests.tolerances import DENSITY, check, log_error

SIZES = [(191, 300, d) for d in (1, 2, 16, 17, 64)] + [
    (n, m, 3) for n, m in ((300, 191), (1, 300), (300, 1), (64, 1100))
]


def sample(n: int, m: int, d: int, dtype: str, *, offset: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng([n, m, d])
    A, B = rng.standard_normal((n, d)) + offset, 1.2 * rng.standard_normal((m, d)) + offset + 0.1
    return A.astype(dtype), B.astype(dtype)


def mutual(A: np.ndarray, B: np.ndarray, h: float, precision: str, **options: Any) -> list[PartialSums]:
    return list(pairs_passes.mutual_sums(A, B, h, Options(precision, **options), ratio=False))


def check_both(sums: list[PartialSums], A: np.ndarray, B: np.ndarray, h: float, precision: str) -> None:
    for of, X, Y in zip(sums, (B, A), (A, B), strict=True):
        check_sums(of, X, Y, h, precision)


def check_sums(of: PartialSums, X: np.ndarray, Y: np.ndarray, h: float, precision: str) -> None:
    """Against the oracle where a sum is not small beside the sum of the points themselves, which is at least 1."""
    near = reference.nearness(X, Y, h)
    log_total = reference.log_kde(X, Y, h) - reference.log_constant(h, X.shape[1]) + np.log(len(X))
    want = np.exp(log_total)
    allowed = np.expm1(np.minimum(1, log_error("cpu", precision, near.exponent))) * want
    allowed = allowed + len(X) * np.exp2(tiles.NEGLIGIBLE[np.float32 if precision == "float32" else np.float64])
    scale = np.exp(of.reference)
    check(np.abs(scale * of.total - want), allowed, "total")
    if of.moments is None or not of.moments.shape[1]:
        return
    error = np.linalg.norm((scale[:, None] * of.moments) - want[:, None] * reference.score(X, Y, h) * h**2, axis=1)
    check(error, h * near.reach * allowed, "moments")


@pytest.mark.parametrize(("n", "m", "d"), SIZES)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_matches_reference(dtype: str, n: int, m: int, d: int) -> None:
    A, B = sample(n, m, d, dtype)
    h = 0.7 * d**0.25
    sums = mutual(A, B, h, dtype)
    assert [(of.total.shape, of.moments.shape) for of in sums] == [((n,), (n, d)), ((m,), (m, d))]
    assert all(a.dtype == np.float64 for of in sums for a in of)
    assert not any(of.reference.any() for of in sums)
    check_both(sums, A, B, h, dtype)


@pytest.mark.parametrize(("dtype", "h"), [("float32", 0.25), ("float32", 1e-5), ("float64", 0.02)])
def test_narrow_bandwidths(dtype: str, h: float) -> None:
    """Some points are the same in both."""
    A, B = sample(200, 250, 4, dtype)
    B[:150] = A[:150] + (0.3 * h * np.random.default_rng(0).standard_normal((150, 4))).astype(dtype)
    check_both(mutual(A, B, h, dtype), A, B, h, dtype)


@pytest.mark.parametrize("precision", ["tf32", "ieee"])
def test_other_precisions(precision: str) -> None:
    A, B = sample(300, 200, 3, "float32")
    check_both(mutual(A, B, 0.6, precision), A, B, 0.6, precision)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_data_far_from_zero(dtype: str) -> None:
    A, B = sample(300, 200, 3, dtype, offset=1e3)
    check_both(mutual(A, B, 0.8, dtype), A, B, 0.8, dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_blocks_that_are_far_apart_leave_nothing(dtype: str) -> None:
    d = 8  # along which the distance is spread, as single precision asks for
    A, B = sample(100, 130, d, dtype)
    reach = {"float32": 20, "float64": 100}[dtype]
    step = np.full(d, reach / np.sqrt(d))
    A, B = 0.1 * A, 0.1 * B + step.astype(dtype)
    squared_radius = (reach / 2 + 2) ** 2
    assert np.exp(np.asarray(-0.5 * (reach - 2) ** 2, dtype)) == 0
    for of in mutual(A, B, 1.0, dtype, centre=step / 2, squared_radius=squared_radius):
        assert not of.total.any()
        assert not of.moments.any()
        assert not of.reference.any()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_merges_with_blocks_at_themselves(dtype: str) -> None:
    """Two blocks that overlap little: the sums of each over both are those of one call."""
    X = np.random.default_rng(3).standard_normal((500, 6)).astype(dtype)
    X = X[np.argsort(X[:, 0])]
    A, B, h = X[:230], X[230:], 0.9

    def own(of: np.ndarray) -> PartialSums:
        return pairs_passes.partial_sums(of, None, h, "moments", Options(dtype))

    merged = [density_sums.merge([own(of), sums], np) for of, sums in zip((A, B), mutual(A, B, h, dtype), strict=True)]
    whole = pairs_passes.partial_sums(X, None, h, "moments", Options(dtype))
    ratio = np.concatenate([of.moments / of.total[:, None] for of in merged])
    log_total = np.concatenate([of.reference + np.log(of.total) for of in merged])
    error = DENSITY["cpu", dtype].value
    check(np.abs(log_total - whole.reference - np.log(whole.total)), error, "log total")
    check(np.abs(ratio - whole.moments / whole.total[:, None]), 8 * h * error, "mean shift")


def counted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Pairs of each step that takes exponentials once."""
    taken, add_once = [], differences.add_once

    def call(of: differences.Points, begin: int, end: int, *others: Any) -> None:
        taken.append(len(of.queries) * (end - begin))
        add_once(of, begin, end, *others)

    monkeypatch.setattr(differences, "add_once", call)
    return taken


def test_memory_is_that_of_results() -> None:
    A, B = sample(8192, 8192, 8, "float64")
    mutual(A[:600], B[:600], 1.0, "float64")  # compiles, and leaves each thread its tile
    tracemalloc.start()
    try:
        mutual(A, B, 1.0, "float64")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 6 * (A.nbytes + B.nbytes) + core_threads.count() * 2**20


class TestThreads:
    @pytest.fixture
    def workers(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[WorkerPool]:
        workers = WorkerPool(lambda: 3)
        monkeypatch.setattr(core_threads, "_workers", workers)
        yield workers
        workers.close()

    @pytest.mark.parametrize("dtype", ["float32", "float64"])
    def test_same_bits_on_every_run(self, monkeypatch: pytest.MonkeyPatch, workers: WorkerPool, dtype: str) -> None:
        A, B = sample(600, 800, 5, dtype)
        monkeypatch.setattr(core_threads, "count", lambda: 3)
        first = mutual(A, B, 0.8, dtype)
        for _ in range(3):
            for of, again in zip(first, mutual(A, B, 0.8, dtype), strict=True):
                np.testing.assert_array_equal(of.total, again.total)
                np.testing.assert_array_equal(of.moments, again.moments)
        check_both(first, A, B, 0.8, dtype)

    @pytest.mark.parametrize("threads", [1, 2, 3])
    @pytest.mark.parametrize(
        ("n", "m"), [(0, 5), (5, 0), (1, 1), (1, 2000), (2000, 1), (700, 2000), (2000, 700), (999, 999)]
    )
    def test_all_pairs_meet_once_and_no_block_twice_at_a_time(
        self, monkeypatch: pytest.MonkeyPatch, workers: WorkerPool, n: int, m: int, threads: int
    ) -> None:
        monkeypatch.setattr(core_threads, "count", lambda: threads)
        met = np.zeros((n, m), np.int64)
        lock, busy = threading.Lock(), set()

        def task(rows: slice, columns: slice) -> None:
            own = {("row", rows.start), ("column", columns.start)}
            with lock:
                assert not own & busy
                busy.update(own)
            met[rows, columns] += 1
            with lock:
                busy.difference_update(own)

        pair_blocks.run_between(task, n, m)
        assert (met == 1).all()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("n", "threads"), [(1500, 1), (1111, 3), (70, 2)])
@pytest.mark.parametrize(("d", "output"), [(5, "moments"), (9, "moments"), (2, "sum")])
def test_data_at_their_own_points(
    monkeypatch: pytest.MonkeyPatch, d: int, output: Output, n: int, threads: int, dtype: str
) -> None:
    """Each exponential once but for blocks at themselves, where every thread's part is some tiles."""
    taken = counted(monkeypatch)
    monkeypatch.setattr(pairs_passes, "_TILES_OF_STRETCH", 1)
    monkeypatch.setattr(core_threads, "count", lambda: threads)
    X, h = np.concatenate(sample(n - n // 3, n // 3, d, dtype)), 0.8
    with only("each pair once"):
        sums = pairs_passes.partial_sums(X, None, h, output, Options(dtype))
    assert not sums.reference.any()
    check_sums(sums, X, X, h, dtype)
    blocks = min(max(8, 2 * threads), n // 64)
    assert sum(taken) == pytest.approx(n * n * (0.5 + 0.5 / blocks), rel=0.01)


def test_far_points_of_their_own_blocks() -> None:
    """Stretches of a block at itself that are nothing to a point are nothing, and no NaN."""
    X = np.linspace(0, 60, 4096 * core_threads.count())[:, None] * np.ones(2)
    sums = pairs_passes.partial_sums(X, None, 0.5, "moments", Options("float64"))
    want = pairs_passes.partial_sums(X, X.copy(), 0.5, "moments", Options("float64"))
    np.testing.assert_allclose(np.log(sums.total), want.reference + np.log(want.total), atol=1e-12)
    shift = want.moments / want.total[:, None]
    np.testing.assert_allclose(sums.moments / sums.total[:, None], shift, atol=1e-12)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("output", ["sum", "moments"])
def test_rows_without_their_own_pairs(output: Output, dtype: str) -> None:
    """Of most rows each pair once; rows far from all others are taken again, as references are no longer 0."""
    X = np.random.default_rng(5).standard_normal((700, 4))
    X[::50] *= 30
    X, h = X.astype(dtype), 0.7
    with only("each pair once"), traced() as ran:
        sums = pairs_passes.partial_sums(X, None, h, output, Options(dtype, own=np.arange(700)))
    assert [one.name for one in ran] == ["each pair once", "again"]
    assert 0 < np.count_nonzero(sums.reference) < 30
    for i in (*range(0, 700, 50), *range(1, 700, 23)):
        others = np.delete(X, i, axis=0)
        exponent = reference.nearness(others, X[i : i + 1], h).exponent
        log_total = reference.log_kde(others, X[i : i + 1], h) - reference.log_constant(h, 4) + np.log(699)
        check(np.abs(sums.reference[i] + np.log(sums.total[i]) - log_total), log_error("cpu", dtype, exponent), "log")
        if output == "moments":
            shift = sums.moments[i] / sums.total[i] / h**2
            size = reference.nearness(others, X[i : i + 1], h).reach / h
            error = np.linalg.norm(shift - reference.score(others, X[i : i + 1], h)[0])
            check(np.array(error), size * log_error("cpu", dtype, exponent), "score")


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("more", "d"), [(1, 40), (8, 33), (5, 72)])
def test_last_queries_of_a_block_by_rows(more: int, d: int, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of many columns few queries take data as they are: nothing reads columns that nobody has written."""
    empty = np.empty

    def undefined(*arguments: Any, **options: Any) -> np.ndarray:
        out = empty(*arguments, **options)
        if out.dtype.kind == "f":
            out.fill(np.nan)
        return out

    monkeypatch.setattr(core_threads, "count", lambda: 2)
    rows = 8 * (query_blocks.TILE_QUERIES + more)  # of eight blocks, each with so few queries beyond a tile
    X = np.random.default_rng([rows, d]).standard_normal((rows, d)).astype(dtype)
    X[::97] *= 40  # far from all others
    h, x = 0.7 * d**0.5, X.astype(np.float64)
    options = Options(dtype, centre=x.mean(0), squared_radius=float(((x - x.mean(0)) ** 2).sum(1).max()) / h**2)
    with only("each pair once"):  # compiled before the memory of calls is filled
        pairs_passes.partial_sums(X, None, h, "moments", options)
        monkeypatch.setattr(np, "empty", undefined)
        sums = pairs_passes.partial_sums(X, None, h, "moments", options)
    for i in (*range(0, rows, 97), *range(rows - more, rows)):
        weights = np.exp(-((x - x[i]) ** 2).sum(1) / (2 * h * h))
        want = weights @ (x - x[i]) / weights.sum()
        found = sums.moments[i] / sums.total[i]
        np.testing.assert_allclose(found, want, rtol=0, atol=(3e-5 if dtype == "float32" else 1e-11) * h)
