"""Counts of pairs on the CPU against all pairs one by one, in int64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings, strategies as st

from cukde.core.plan import Candidate, Plan
from cukde.kendall.cpu import inversions as kendall_inversions, sign_products
from tests.private import (
    PairCounts,
    Ties,
    kendall_matrix_on_cpu,
    kendall_pairs_on_cpu,
    kendall_plan,
)


def signs(a: np.ndarray) -> np.ndarray:
    """Signs of a[j] - a[i], (n, n), by comparison in the dtype of the data."""
    return (a[None, :] > a[:, None]).astype(np.int64) - (a[None, :] < a[:, None])


def ties(a: np.ndarray) -> Ties:
    sizes = np.unique(a, return_counts=True)[1].tolist()
    return Ties(
        sum(t * (t - 1) // 2 for t in sizes),
        float(sum(t * (t - 1) * (t - 2) for t in sizes)),
        float(sum(t * (t - 1) * (2 * t + 5) for t in sizes)),
        len(sizes),
    )


def counts(x: np.ndarray, y: np.ndarray) -> PairCounts:
    """What is defined in ``_pair_counts``, for one pair of variables."""
    kept = ~(missing(x) | missing(y))
    x, y = x[kept], y[kept]
    product = np.triu(signs(x) * signs(y), 1)
    return PairCounts(len(x), (product > 0).sum(), (product < 0).sum(), ties(x), ties(y))


def missing(a: np.ndarray) -> np.ndarray:
    return np.isnan(a) if a.dtype.kind == "f" else np.zeros(a.shape, np.bool_)


def leaves(count: PairCounts, shape: tuple[int, ...]) -> list[np.ndarray]:
    """All arrays of a count, broadcast, with the dtype of each checked."""
    arrays = [*count[:3], *count.x, *count.y]
    kinds = [np.int64] * 3 + [np.int64, np.float64, np.float64, np.int64] * 2
    assert [a.dtype for a in arrays] == kinds
    return [np.broadcast_to(a, shape) for a in arrays]


def flat(count: PairCounts) -> list[Any]:
    return [*count[:3], *count.x, *count.y]


def check_pairs(X: np.ndarray, Y: np.ndarray) -> None:
    got = leaves(kendall_pairs_on_cpu(X, Y), (len(X),))
    for row, (x, y) in enumerate(zip(X, Y, strict=True)):
        assert [a[row] for a in got] == flat(counts(x, y))


def check_matrix(A: np.ndarray, B: np.ndarray | None, deletion: bool) -> None:
    other = A if B is None else B
    got = leaves(kendall_matrix_on_cpu(A, B, deletion=deletion), (A.shape[1], other.shape[1]))
    for i, a in enumerate(A.T):
        for j, b in enumerate(other.T):
            counted = deletion or not (missing(a).any() or missing(b).any())
            assert [g[i, j] for g in got] == (flat(counts(a, b)) if counted else [0] * 11)


def draw(name: str, shape: tuple[int, int], seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    normal = rng.standard_normal(shape)
    odd = rng.choice([0.0, -0.0, np.inf, -np.inf, np.nan, -np.nan, 5e-324, -5e-324, 1e308, 1.0], shape)
    wide = rng.integers(-(2**63), 2**63, shape)
    return {
        "float64": lambda: normal,
        "float32": lambda: normal.astype(np.float32),
        "float16": lambda: normal.astype(np.float16),
        "ties": lambda: np.round(normal, 1),
        "few classes": lambda: np.floor(normal),
        "offset": lambda: 1e9 + normal,
        "constant": lambda: np.full(shape, 3.5),
        "odd float64": lambda: odd,
        "odd float32": lambda: odd.astype(np.float32),
        "odd float16": lambda: odd.astype(np.float16),
        "NaN": lambda: np.where(rng.uniform(size=shape) < 0.2, np.nan, np.round(normal, 1)),
        "all NaN": lambda: np.full(shape, np.nan),
        "int64": lambda: wide,
        "int64 beyond 2^53": lambda: 2**62 + rng.integers(-3, 4, shape),
        "uint64": lambda: wide.view(np.uint64),
        "uint64 beyond 2^63": lambda: np.uint64(2**64 - 5) + rng.integers(0, 5, shape).astype(np.uint64),
        "int8": lambda: rng.integers(-128, 128, shape).astype(np.int8),
        "uint16": lambda: rng.integers(0, 2**16, shape).astype(np.uint16),
        "bool": lambda: normal > 0,
        "big-endian": lambda: normal.astype(">f4"),
    }[name]()


DATA = (
    "float64",
    "float32",
    "float16",
    "ties",
    "few classes",
    "offset",
    "constant",
    "odd float64",
    "odd float32",
    "odd float16",
    "NaN",
    "all NaN",
    "int64",
    "int64 beyond 2^53",
    "uint64",
    "uint64 beyond 2^63",
    "int8",
    "uint16",
    "bool",
    "big-endian",
)


@pytest.mark.filterwarnings("ignore:overflow encountered in cast:RuntimeWarning")  # 1e308 is infinite in fewer bits
class TestData:
    @pytest.mark.parametrize("other", ["float64", "ties", "NaN"])
    @pytest.mark.parametrize("name", DATA)
    def test_pairs(self, name: str, other: str) -> None:
        check_pairs(draw(name, (4, 131)), draw(other, (4, 131), seed=1))
        check_pairs(draw(other, (2, 64), seed=1), draw(name, (2, 64)))

    @pytest.mark.parametrize("deletion", [True, False])
    @pytest.mark.parametrize("name", DATA)
    def test_a_matrix_with_itself(self, name: str, deletion: bool) -> None:
        check_matrix(draw(name, (70, 5)), None, deletion)

    @pytest.mark.parametrize("deletion", [True, False])
    @pytest.mark.parametrize("name", DATA)
    def test_two_matrices(self, name: str, deletion: bool) -> None:
        check_matrix(draw(name, (70, 3)), draw("NaN", (70, 4), seed=1), deletion)
        check_matrix(draw("ties", (65, 2)), draw(name, (65, 3), seed=1), deletion)


@pytest.mark.parametrize("n", [0, 1, 2, 3, 63, 64, 65, 255, 256, 257])
@pytest.mark.parametrize("name", ["float64", "few classes", "NaN"])
def test_sizes(name: str, n: int) -> None:
    check_pairs(draw(name, (3, n)), draw(name, (3, n), seed=1))
    for deletion in (True, False):
        check_matrix(draw(name, (n, 3)), None, deletion)
        check_matrix(draw(name, (n, 3)), draw("float64", (n, 2), seed=1), deletion)


def test_nothing_to_count() -> None:
    empty = np.empty((0, 5))
    leaves(kendall_pairs_on_cpu(empty, empty), (0,))
    leaves(kendall_matrix_on_cpu(empty.T, deletion=True), (0, 0))
    leaves(kendall_matrix_on_cpu(empty.T, np.ones((5, 2)), deletion=False), (0, 2))
    leaves(kendall_matrix_on_cpu(np.ones((5, 2)), empty.T, deletion=True), (2, 0))


def test_nan_in_some_columns_only() -> None:
    """Ties depend on the pair of columns where there is NaN, and on the column alone where there is none."""
    A = draw("ties", (90, 6))
    A[[3, 50], [1, 4]] = np.nan
    check_matrix(A, None, True)
    check_matrix(A, None, False)
    check_matrix(A[:, :3], A[:, 2:], True)
    assert kendall_matrix_on_cpu(A[:, 2:4], deletion=True).x.pairs.shape == (2, 1)


def test_layouts() -> None:
    A = draw("ties", (60, 8))
    check_matrix(np.asfortranarray(A), None, True)
    check_matrix(A[::-2, ::3], A[::2, 1::2], True)
    check_pairs(A.T[:, ::2], A.T[:, 1::2])
    before = A.copy()
    kendall_matrix_on_cpu(A, deletion=True)
    kendall_pairs_on_cpu(A, A)
    assert (before == A).all()


@pytest.fixture(params=["bits", "trees"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """One of the two ways to count, whatever the size."""
    plan = Plan("", (Candidate(request.param),))
    monkeypatch.setattr(kendall_plan, "matrix_on_cpu", lambda *sizes, symmetric: plan)


@pytest.mark.usefixtures("way")
class TestBothWays:
    @pytest.mark.parametrize("room", [1, 5_000, 10**6])
    @pytest.mark.parametrize("name", ["float64", "few classes"])
    def test_parts_of_the_rows(self, name: str, room: int, monkeypatch: pytest.MonkeyPatch) -> None:
        """A row at a time, and more than one strip of a column's words."""
        monkeypatch.setattr(sign_products, "_ROOM", room)
        n = 130 if room == 1 else 400
        check_matrix(draw(name, (n, 3)), None, True)
        check_matrix(draw(name, (n, 2)), draw("ties", (n, 1), seed=1), False)

    @pytest.mark.parametrize("n", [1, 2, 63, 64, 65, 129])
    def test_tiles_of_columns(self, n: int) -> None:
        """More columns than a tile has, some with ties, some without and some with NaN."""
        A = np.concatenate([draw(name, (n, 9)) for name in ("float64", "few classes", "NaN")], axis=1)
        check_matrix(A[:, ::-1], None, True)
        check_matrix(A, A[:, :19], False)


def test_tied_in_both() -> None:
    x, y = draw("few classes", (1, 80)), draw("few classes", (1, 80), seed=1)
    both = np.triu((signs(x[0]) == 0) & (signs(y[0]) == 0), 1).sum()
    assert kendall_pairs_on_cpu(x, y).tied_in_both.tolist() == [both]


VALUES = st.sampled_from([0.0, -0.0, 1.0, -1.0, 2.0, np.inf, -np.inf, np.nan]) | st.floats(width=32)


@given(st.lists(st.tuples(VALUES, VALUES), max_size=300))
@settings(max_examples=150, deadline=None)
def test_any_numbers(samples: list[tuple[float, float]]) -> None:
    A = np.array(samples, np.float64).reshape(-1, 2)
    check_pairs(A.T[:1], A.T[1:])
    check_matrix(A, None, True)


INTEGERS = st.integers(-(2**63), 2**63 - 1) | st.integers(2**62, 2**62 + 3) | st.integers(-2, 2)


@given(st.lists(st.tuples(INTEGERS, st.integers(0, 2**64 - 1) | st.integers(2**64 - 3, 2**64 - 1)), max_size=300))
@settings(max_examples=100, deadline=None)
def test_any_integers(samples: list[tuple[int, int]]) -> None:
    x = np.array([[a for a, _ in samples]], np.int64)
    y = np.array([[b for _, b in samples]], np.uint64)
    check_pairs(x, y)


@given(st.integers(1, 300), st.integers(0, 2**32 - 1), st.floats(0, 1))
@settings(max_examples=100, deadline=None)
def test_any_ties_and_gaps(n: int, seed: int, gaps: float) -> None:
    rng = np.random.default_rng(seed)
    A = rng.integers(0, rng.integers(1, n + 1, 3), (n, 3)).astype(np.float32)
    A[rng.uniform(size=A.shape) < gaps] = np.nan
    check_matrix(A, None, True)


@pytest.mark.parametrize("n", [4097, 80_000, 100_000, 2**17 + 1])
@pytest.mark.parametrize("decimals", [1, 15])
def test_as_scipy_counts(n: int, decimals: int) -> None:
    """C - D from SciPy's tau-b, whose own counts are exact at these sizes."""
    rng = np.random.default_rng(n)
    x = np.round(rng.standard_normal(n), decimals)
    y = np.round(x + rng.standard_normal(n), decimals)
    count = kendall_pairs_on_cpu(x[None], y[None])
    total = int(count.pairs[0])
    left = [total - int(t.pairs[0]) for t in (count.x, count.y)]
    expected = scipy.stats.kendalltau(x, y).statistic * np.sqrt(left[0]) * np.sqrt(left[1])
    assert abs(int(count.concordant[0]) - int(count.discordant[0]) - expected) < 0.25 + 1e-14 * total
    assert count.x.pairs[0] == ties(x).pairs


def test_pairs_of_samples_beyond_int32() -> None:
    """Known without counting: y runs against x but for one sample."""
    n = 200_001
    x = np.arange(n)[None]
    y = -x
    y[0, 0] = -n  # below all: it agrees with every other
    count = kendall_pairs_on_cpu(x, y)
    assert (count.concordant[0], count.discordant[0]) == (n - 1, (n - 1) * (n - 2) // 2)


@pytest.mark.parametrize("n", [256, 257, 511, 1000, 2100])
def test_parting_by_high_bits(n: int) -> None:
    """What more ranks than share a tree of counters need, with trees of 2^8."""
    ranks = np.random.default_rng(n).permutation(n).astype(np.int32)
    expected = np.triu(ranks[:, None] > ranks[None, :], 1).sum()
    inversions, others = 0, np.empty_like(ranks)
    for bit in range(11, 7, -1):
        inversions += kendall_inversions._part(ranks, others, n, bit)
        ranks, others = others, ranks
    assert (ranks >> 8 == np.arange(n) >> 8).all()
    for first in range(0, n, 256):
        inversions += kendall_inversions._insert(ranks, first, min(first + 256, n))
    assert inversions == expected


def test_a_million_and_more() -> None:
    """Ranks beyond one tree of counters: a permutation whose inversions are known."""
    n = 2**20 + 12_345
    x = np.arange(n)
    y = x // 1000 * 1000 + 999 - x % 1000  # blocks of 1,000 ascend, and within each the values descend
    size, last = n // 1000, n % 1000
    count = kendall_pairs_on_cpu(x[None], y[None])
    assert count.discordant[0] == size * (1000 * 999 // 2) + last * (last - 1) // 2
    assert count.concordant[0] == n * (n - 1) // 2 - count.discordant[0]
