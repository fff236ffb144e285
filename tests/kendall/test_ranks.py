"""Ranks and ties of columns on the device, and the sort under them, against sorts by NumPy and sums over groups."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np
import pytest

from tests import host_emulation
from tests.conftest import Backend
from tests.private import kernels_folder, merge_tiles

MISSING = np.uint32(0xFFFFFFFF)
TILE = 4096  # keys of the largest tile of uint64


@pytest.fixture
def launchers(device: Backend) -> SimpleNamespace:
    """The modules of the launchers, on the device."""
    from tests.private import kendall_ranks as ranks, merge_sort

    return SimpleNamespace(merge_sort=merge_sort, ranks=ranks)


def expected_ranks(column: np.ndarray) -> np.ndarray:
    """Number of smaller values; NaN has none."""
    present = column == column
    ranks = np.full(column.shape, MISSING)
    ranks[present] = np.searchsorted(np.sort(column[present]), column[present])
    return ranks


def sums_of(lengths: list[int]) -> tuple[int, int, int, int]:
    """Pairs, triples, variance and classes of runs, in Python's integers."""
    return (
        sum(t * (t - 1) // 2 for t in lengths),
        sum(t * (t - 1) * (t - 2) for t in lengths),
        sum(t * (t - 1) * (2 * t + 5) for t in lengths),
        len(lengths),
    )


def expected_ties(column: np.ndarray) -> tuple[int, int, int, int]:
    """The sums over the groups of equal values that are no NaN."""
    return sums_of(np.unique(column[column == column], return_counts=True)[1].tolist())


def check(device: Backend, got: Any, columns: np.ndarray) -> None:
    values, integers, reals = map(device.asnumpy, got)
    assert (integers.dtype, reals.dtype) == (np.int64, np.float64)
    (samples, pairs, classes), (triples, variance) = integers, reals
    for k, column in enumerate(columns):
        np.testing.assert_array_equal(values[k], expected_ranks(column).astype(values.dtype), err_msg=f"column {k}")
        assert samples[k] == np.count_nonzero(column == column)
        of_pairs, of_triples, of_variance, of_classes = expected_ties(column)
        assert (pairs[k], classes[k]) == (of_pairs, of_classes)
        np.testing.assert_allclose([triples[k], variance[k]], [float(of_triples), float(of_variance)], rtol=1e-15)


def columns_of(n: int) -> np.ndarray:
    """Columns of every shape of ties and of order, float64."""
    rng = np.random.default_rng(n)
    distinct = rng.permutation(n).astype(float)
    with_nan = np.where(rng.random(n) < 0.3, np.nan, distinct // 3)
    with_infinity = rng.choice([-np.inf, -1.5, -0.0, 0.0, 2.0, np.inf, np.nan], n)
    return np.stack(
        [
            distinct - n / 2,
            np.arange(n, dtype=float),
            -np.arange(n, dtype=float),
            np.zeros(n),
            np.full(n, np.nan),
            np.floor(rng.standard_normal(n) * 3),
            np.arange(n) // 700.0,
            with_nan,
            with_infinity,
        ]
    )


@pytest.mark.parametrize("n", [0, 1, 2, 31, 32, 33, 1023, 1024, 1025, 2049])
def test_ranks_of_one_tile(device: Backend, launchers: SimpleNamespace, n: int) -> None:
    columns = columns_of(n)
    check(device, launchers.ranks.ranks(device.asarray(columns)), columns)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("n", [TILE - 1, TILE, TILE + 1, 3 * TILE + 5])
def test_ranks_of_tiles_that_are_merged(device: Backend, launchers: SimpleNamespace, n: int, dtype: str) -> None:
    columns = columns_of(n)[:: 1 if n > TILE else 4].astype(dtype)
    check(device, launchers.ranks.ranks(device.asarray(columns)), columns)


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "b1"])
def test_every_dtype(device: Backend, launchers: SimpleNamespace, dtype: str) -> None:
    """At the ends of the range, and next to each other there."""
    rng = np.random.default_rng(0)
    of = np.dtype(dtype)
    if of.kind == "f":
        limits = np.finfo(of)
        ends = [np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0, limits.max, -limits.max, limits.tiny, -limits.tiny]
        tiny = limits.smallest_subnormal
        values = np.array([*ends, tiny, -tiny, 1.0, np.nextafter(of.type(1), of.type(2))], of)
    elif of.kind == "b":
        values = np.array([False, True])
    else:
        top = np.iinfo(of)
        values = np.array([top.min, top.min + 1, 0, 1, top.max - 1, top.max], of)
    columns = np.stack([values[rng.integers(len(values), size=200)] for _ in range(2)])
    check(device, launchers.ranks.ranks(device.asarray(columns)), columns)


def test_the_largest_integers_are_no_padding(device: Backend, launchers: SimpleNamespace) -> None:
    """Their keys are all ones, as those that fill a tile up."""
    for dtype in (np.int32, np.int64, np.uint64):
        columns = np.full((2, 100), np.iinfo(dtype).max, dtype)
        columns[1, ::3] -= 1
        check(device, launchers.ranks.ranks(device.asarray(columns)), columns)


def test_columns_in_batches_and_in_any_layout(device: Backend, launchers: SimpleNamespace) -> None:
    columns = columns_of(300)
    with mock.patch.object(merge_tiles, "_SCRATCH_BYTES", 4 * 24 * 300):
        check(device, launchers.ranks.ranks(device.asarray(np.asfortranarray(columns))), columns)
    assert [s.stop - s.start for s in merge_tiles.batches(3, 2**40)] == [1, 1, 1]


def test_no_columns(device: Backend, launchers: SimpleNamespace) -> None:
    got = launchers.ranks.ranks(device.asarray(np.zeros((0, 5))))
    assert got.values.shape == (0, 5)
    assert (got.integers.shape, got.reals.shape) == ((3, 0), (2, 0))


SUMS = """
#include "runs.cuh"
extern "C" __global__ void sums(const long long* lengths, long long* counts, double* reals, int runs) {
    TieSums sums;
    for (int i = 0; i < runs; i++) sums.add(lengths[i]);
    counts[0] = sums.words[TieSums::PAIRS];
    counts[1] = sums.words[TieSums::CLASSES];
    reals[0] = triples(sums.words);
    reals[1] = variance(sums.words);
}
"""


@pytest.mark.parametrize(
    "lengths",
    [[1], [2, 3, 1], [10321] * 9, [100_000_000], [3_000_000] * 30 + [1], [4_000_000_000, 200_000_000]],
    ids=str,
)
def test_sums_over_long_runs(emulated_device: None, lengths: list[int]) -> None:
    """Longer than a test can sort."""
    counts, reals = np.zeros(2, np.int64), np.zeros(2)
    kernel = host_emulation.from_source(SUMS, "sums", origin=str(kernels_folder() / "kendall" / "sums.cu"))
    kernel((1,), (1,), (np.array(lengths), counts, reals, np.int32(len(lengths))))
    pairs, triples, variance, classes = sums_of(lengths)
    assert counts.tolist() == [pairs, classes]
    np.testing.assert_allclose(reals, [float(triples), float(variance)], rtol=1e-15)


def test_a_constant_column_of_many_tiles(device: Backend, launchers: SimpleNamespace) -> None:
    columns = np.ones((1, device.size(10_000_000, 40_000)), np.float32)
    check(device, launchers.ranks.ranks(device.asarray(columns)), columns)


def inversions_of(row: np.ndarray) -> int:
    return sum(int(np.count_nonzero(row[:i] > row[i])) for i in range(1, len(row)))


@pytest.mark.parametrize("n", [1, 17, 1024, 1500, 8191, 8192, 8193, 3 * 8192 + 5])
def test_inversions(device: Backend, launchers: SimpleNamespace, n: int) -> None:
    """Random keys of few values and of many, and the order that has the most."""
    rng = np.random.default_rng(n)
    rows = [rng.integers(max(n // 9, 1), size=n), rng.integers(2**32, size=n), np.arange(n)[::-1], np.zeros(n)]
    keys = np.stack(rows).astype(np.uint32)
    counted = device.asarray(np.full(len(keys), 5, np.uint64))
    got = launchers.merge_sort.count_inversions(device.asarray(keys.copy()), counted)
    np.testing.assert_array_equal(device.asnumpy(got), np.sort(keys, axis=1))
    assert device.asnumpy(counted).tolist() == [5 + inversions_of(row) for row in keys]
    assert device.asnumpy(counted)[2] == 5 + n * (n - 1) // 2


@pytest.mark.parametrize("dtype", ["float32", "int64"])
def test_ranks_of_several_matrices(device: Backend, launchers: SimpleNamespace, dtype: str) -> None:
    """As if they were one; batches end within them."""
    one, other = (np.random.default_rng(i).integers(0, 40, (3 + i, 300)).astype(dtype) for i in range(2))
    want = [expected_ranks(column) for column in np.concatenate([one, other])]
    for rows in (7, 4, 2):
        with mock.patch.object(merge_tiles, "_SCRATCH_BYTES", rows * 24 * 300):
            got = launchers.ranks.values_of(device.asarray(one), device.asarray(other))
        np.testing.assert_array_equal(device.asnumpy(got), want)


def test_few_launches(emulated_device: None) -> None:
    from benchmarks.perf import launched
    from tests.private import kendall_ranks

    with launched.noted() as found:
        kendall_ranks.ranks(np.zeros((3, 1000)))
    assert sorted(name for _, name, _ in found) == ["column_ties", "order_keys", "rank_runs", "sort_tiles"]
    assert dict(next(d for _, name, d in found if name == "sort_tiles"))["THREADS"] == "64"
