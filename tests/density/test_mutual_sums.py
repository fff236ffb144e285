"""Sums of two arrays of points at each other, every exponential taken once: on the CPU, and on a GPU."""

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
from tests import reference, tolerances
from tests.density.conftest import Modules
from tests.density.samples import SHIFT, TOTAL
from tests.tolerances import DENSITY, Tolerance, check, log_error

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


BLOCKS = [(1, 300), (300, 1), (129, 270), (260, 70)]
"""Rows of the blocks: off the edges of tiles and blocks of rows, the one longer and the other."""

ROOT_SHIFT = {
    "exact": Tolerance(1.5e-4, "phi in 11 bits times |z|, and z in 11 bits; measured 1.3e-4"),
    "split": Tolerance(1.5e-4, "z in 11 bits; measured 9e-5"),
    "one-term": Tolerance(4e-4, "the same beside the error of phi; measured 3e-4"),
}
"""Worst error of the merged mean shift: bandwidths times the root of the scaled squared radius (``samples.SHIFT``)."""

MODES = {
    ("float32", False): "exact",
    ("float32", True): "split",
    ("tf32", False): "one-term",
    ("tf32", True): "one-term",
}
"""Whose tolerances hold, by precision and whether only the ratio is wanted."""


def blocks(n: int, m: int, d: int, dtype: str = "float32") -> tuple[np.ndarray, np.ndarray, float]:
    """Points around 3, and a bandwidth at which points have neighbours whatever the dimension."""
    rng = np.random.default_rng([n, m, d])
    X = (3 + rng.standard_normal((n + m, d))).astype(dtype)
    return X[:n], X[n:], 0.35 * d**0.5


def formula(X: np.ndarray, Y: np.ndarray, h: float) -> PartialSums:
    """All rows of ``X`` at the points of ``Y``, of reference 0."""
    log_total = reference.log_kde(X, Y, h) - reference.log_constant(h, X.shape[1]) + np.log(len(X))
    total = np.exp(log_total)
    return PartialSums(np.zeros(len(Y)), total, total[:, None] * h**2 * reference.score(X, Y, h))


def squared_radius_of(A: np.ndarray, B: np.ndarray, h: float) -> tuple[np.ndarray, float]:
    """Centre of both, and the largest squared distance to it in bandwidths."""
    X = np.concatenate((A, B)).astype(float)
    centre = X.mean(axis=0)
    return centre, float(((X - centre) ** 2).sum(axis=1).max() / h**2)


def computed(
    gpu: Modules, A: np.ndarray, B: np.ndarray, h: float, known: bool = True, *, precision: str, ratio: bool
) -> list[PartialSums]:
    """By the function under test, with centre and squared radius or without, on the host."""
    centre, squared_radius = squared_radius_of(A, B, h)
    where = {"centre": gpu.asarray(centre), "squared_radius": squared_radius} if known else {}
    sums = gpu.passes.mutual_sums(gpu.asarray(A), gpu.asarray(B), h, Options(precision, **where), ratio=ratio)
    return [PartialSums(*map(gpu.asnumpy, at)) for at in sums]


def check_block(found: PartialSums, X: np.ndarray, Y: np.ndarray, h: float, total: float, shift: float) -> None:
    """Errors relative to the totals with the other points of ``Y``, which are at least 1."""
    for a, shape in zip(found, ((len(Y),), (len(Y),), Y.shape), strict=True):
        assert a.shape == shape
        assert a.dtype == np.float64
    want = formula(X, Y, h)
    merged = want.total + formula(Y, Y, h).total
    factor = np.exp(found.reference)
    tolerances.check(np.abs(factor * found.total - want.total), total * merged, "total")
    off = np.abs(factor[:, None] * found.moments - want.moments)
    tolerances.check(off, shift * h * merged[:, None], "moments")


def check_both_blocks(
    found: list[PartialSums], A: np.ndarray, B: np.ndarray, h: float, total: float, shift: float
) -> None:
    at_A, at_B = found
    check_block(at_A, B, A, h, total, shift)
    check_block(at_B, A, B, h, total, shift)


def check_as_of_two_passes(found: list[PartialSums], A: np.ndarray, B: np.ndarray, h: float, precision: str) -> None:
    """Logarithms of the totals themselves, and shifts, however far the points lie."""
    for at, X, Y in ((found[0], B, A), (found[1], A, B)):
        log_total = reference.log_kde(X, Y, h) - reference.log_constant(h, X.shape[1]) + np.log(len(X))
        near = reference.nearness(X, Y, h)
        allowed = tolerances.log_error("gpu", precision, near.exponent)
        tolerances.check(np.abs(at.reference + np.log(at.total) - log_total), allowed, "log total")
        error = at.moments / at.total[:, None] / h - h * reference.score(X, Y, h)
        tolerances.check_score(np.linalg.norm(error, axis=1), allowed, near.reach)


def never(*_: object, **__: object) -> None:
    raise AssertionError("another engine is to take these")


@pytest.mark.parametrize(("n", "m"), BLOCKS)
@pytest.mark.parametrize("d", [2, 16, 17, 64])
@pytest.mark.parametrize(("precision", "ratio"), MODES)
def test_sums_match_the_formula(
    gpu: Modules, monkeypatch: pytest.MonkeyPatch, precision: str, ratio: bool, d: int, n: int, m: int
) -> None:
    monkeypatch.setattr(gpu.passes, "prepare", never)
    A, B, h = blocks(n, m, d)
    found = computed(gpu, A, B, h, precision=precision, ratio=ratio)
    for at in found:
        np.testing.assert_array_equal(at.reference, 0)
    mode = MODES[precision, ratio]
    # Exact sums are as good as the exponents, which a device makes less well than the emulation that TOTAL is for.
    total = tolerances.DENSITY["gpu", "float32"].value if mode == "exact" and not gpu.emulated else TOTAL[mode].value
    check_both_blocks(found, A, B, h, total, ROOT_SHIFT[mode].value * squared_radius_of(A, B, h)[1] ** 0.5)


@pytest.mark.parametrize(("n", "m"), [*BLOCKS, (1, 1), (128, 128), (257, 193)])
def test_equal_points_count_each_other_once(gpu: Modules, n: int, m: int) -> None:
    A, B = np.full((n, 16), 7.0, np.float32), np.full((m, 16), 7.0, np.float32)
    at_A, at_B = computed(gpu, A, B, 1.0, precision="float32", ratio=True)
    np.testing.assert_allclose(at_A.total, m, rtol=1e-6)
    np.testing.assert_allclose(at_B.total, n, rtol=1e-6)
    for at in (at_A, at_B):
        np.testing.assert_allclose(at.moments, 0, atol=1e-4)


@pytest.mark.parametrize("chunk", [64, 320])
@pytest.mark.parametrize("d", [16, 20, 33, 64])
def test_every_pair_is_summed_once_whatever_the_chunks(gpu: Modules, d: int, chunk: int) -> None:
    """And in every layout, the last block of rows reaching into the other block of data or not."""
    n, m = 300, 400
    A, B = np.full((n, d), 7.0, np.float32), np.full((m, d), 7.0, np.float32)
    operand = gpu.operands.prepare_two(*map(gpu.asarray, (A, B, np.zeros(d))), 100.0, split=True)
    for of in gpu.f16_symmetric.every_layout(gpu.operands.depth_of(d), 3):
        S, _ = gpu.f16_symmetric.launch(operand, own_rows=384, chunk=chunk, tiling=of)
        np.testing.assert_allclose(gpu.asnumpy(S)[:n] / 2**13, m, rtol=1e-4)
        np.testing.assert_allclose(gpu.asnumpy(S)[384 : 384 + m] / 2**13, n, rtol=1e-4)
        assert not gpu.asnumpy(S)[n:384].any()
        assert not gpu.asnumpy(S)[384 + m :].any()


@pytest.mark.parametrize("ratio", [False, True])
@pytest.mark.parametrize("precision", ["float32", "tf32"])
def test_blocks_so_far_apart_that_no_term_is_left(gpu: Modules, precision: str, ratio: bool) -> None:
    A, B, _ = blocks(70, 150, 2)
    B = B + np.float32(20)
    for at in computed(gpu, A, B, 1.0, precision=precision, ratio=ratio):
        for a in at:
            np.testing.assert_array_equal(a, 0)


@pytest.mark.parametrize(("precision", "ratio"), MODES)
def test_merged_with_the_blocks_themselves_they_are_the_sums_of_the_whole(
    gpu: Modules, precision: str, ratio: bool
) -> None:
    A, B, h = blocks(210, 140, 5)
    parts = [gpu.asarray(part) for part in (A[:130], A[130:], B)]
    X = np.concatenate((A, B))
    centre, squared_radius = squared_radius_of(A, B, h)
    options = Options(precision, centre=gpu.asarray(centre), squared_radius=squared_radius)
    sums = [[gpu.passes.partial_sums(part, None, h, "moments", options, ratio=ratio)] for part in parts]
    for i, j in ((0, 1), (0, 2), (1, 2)):
        for of, at in zip((i, j), gpu.passes.mutual_sums(parts[i], parts[j], h, options, ratio=ratio), strict=True):
            sums[of].append(at)
    merged = [density_sums.merge(of, gpu.xp) for of in sums]
    total, moments = (np.concatenate([gpu.asnumpy(one[field]) for one in merged]) for field in (1, 2))
    whole = gpu.passes.partial_sums(gpu.asarray(X), None, h, "moments", options, ratio=ratio)
    # The same exponents and products, rounded the same; what differs is the order of float32 sums.
    np.testing.assert_allclose(total, gpu.asnumpy(whole.total), rtol=2e-5)
    shift = gpu.asnumpy(whole.moments) / gpu.asnumpy(whole.total)[:, None]
    np.testing.assert_allclose(moments / total[:, None] / h, shift / h, atol=2e-5)
    want = formula(X, X, h)
    mode = MODES[precision, ratio]
    off = np.abs(moments / total[:, None] - want.moments / want.total[:, None]) / h
    tolerances.check(off, np.asarray(ROOT_SHIFT[mode].value * squared_radius**0.5), "shift")


ORDERED = [
    pytest.param("float64", "float64", 3, 1.0, False, id="float64"),
    pytest.param("float64", "float64", 3, 1.0, True, id="float64-ratio"),
    pytest.param("float64", "float64", 70, 1.0, True, id="float64-d70"),
    pytest.param("float32", "ieee", 3, 1.0, True, id="ieee"),
    pytest.param("float32", "float32", 1, 1.0, True, id="d1"),
    pytest.param("float32", "float32", 65, 1.0, True, id="d65"),
    pytest.param("float32", "float32", 16, 0.2, False, id="exact-beyond-the-fast-form"),
    pytest.param("float32", "float32", 16, 0.1, True, id="beyond-the-squared_radius"),
]
"""Dtype, precision, dimensions, factor of the bandwidth, and whether the ratio is wanted: what two passes take."""


@pytest.mark.parametrize(("dtype", "precision", "d", "narrower", "ratio"), ORDERED)
def test_what_the_one_pass_does_not_take_is_two(
    gpu: Modules,
    monkeypatch: pytest.MonkeyPatch,
    dtype: str,
    precision: str,
    d: int,
    narrower: float,
    ratio: bool,
) -> None:
    monkeypatch.setattr(gpu.f16_symmetric, "launch", never)
    A, B, h = blocks(90, 140, d, dtype)
    h *= narrower
    found = computed(gpu, A, B, h, precision=precision, ratio=ratio)
    if d == 65:  # in many dimensions sums of which only the ratio is wanted have tolerances of their own
        check_both_blocks(found, A, B, h, TOTAL["split"].value, SHIFT["split"].value)
        return
    check_as_of_two_passes(found, A, B, h, precision)


@pytest.mark.parametrize(("offset", "beyond"), [(0.0, False), (60.0, True)])
@pytest.mark.parametrize("precision", ["float32", "tf32"])
def test_a_radius_that_the_device_finds(gpu: Modules, precision: str, offset: float, beyond: bool) -> None:
    """Without a centre, too; of blocks far apart the distance of the means is what carries them beyond the limit."""
    A, B, h = blocks(140, 210, 4)
    B = B + np.float32(offset)
    found = computed(gpu, A, B, h, known=False, precision=precision, ratio=True)
    if beyond:
        check_as_of_two_passes(found, A, B, h, "ieee")
        return
    mode = MODES[precision, True]
    check_both_blocks(found, A, B, h, TOTAL[mode].value, ROOT_SHIFT[mode].value * squared_radius_of(A, B, h)[1] ** 0.5)
    for at in found:
        np.testing.assert_array_equal(at.reference, 0)


def test_without_a_radius_there_are_two_passes(gpu: Modules, monkeypatch: pytest.MonkeyPatch) -> None:
    """While a stream is captured nothing may wait for it."""
    monkeypatch.setattr(gpu.f16_symmetric, "launch", never)
    monkeypatch.setattr("cukde.core.gpu.device.capturing", lambda: True)
    A, B, h = blocks(70, 90, 16)
    found = computed(gpu, A, B, h, known=False, precision="float32", ratio=False)
    check_both_blocks(found, A, B, h, tolerances.DENSITY["gpu", "float32"].value, SHIFT["exact"].value)


def test_blocks_of_two_types(gpu: Modules) -> None:
    A, B, h = blocks(70, 200, 6, "float64")
    found = computed(gpu, A.astype(np.float32), B, h, precision="float32", ratio=True)
    shift = ROOT_SHIFT["split"].value * squared_radius_of(A, B, h)[1] ** 0.5
    check_both_blocks(found, A.astype(np.float32), B, h, TOTAL["split"].value, shift)


@pytest.mark.parametrize("d", [16, 32, 48, 64])
@pytest.mark.parametrize(
    ("rows", "columns"), [(128, 128), (128, 2**20), (2**20, 128), (16384, 65536), (2**20, 2**20), (2**22, 2**29 - 8192)]
)
def test_split_covers_every_column_and_bounds_what_a_block_adds_up(
    gpu: Modules, rows: int, columns: int, d: int
) -> None:
    for terms in (1, 3):
        of = gpu.f16_symmetric.layout(d, terms)
        cut = gpu.f16_symmetric.split_mutual(rows, columns, of, 132)
        assert cut.chunk % 64 == 0
        assert 64 <= cut.chunk <= 8192
        row_blocks, chunks = cut.grid
        assert (row_blocks - 1) * of.rows < rows <= row_blocks * of.rows
        assert (chunks - 1) * cut.chunk < columns <= chunks * cut.chunk
        assert chunks <= 65535
        if rows * columns >= 2**26:
            assert row_blocks * chunks >= 132
