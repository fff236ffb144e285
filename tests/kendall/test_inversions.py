"""Concordant and discordant pairs from ranks on the device, against signs of all pairs in int64."""

from __future__ import annotations

from types import ModuleType
from typing import Any
from unittest import mock

import numpy as np
import pytest

from tests.conftest import Backend
from tests.kendall.test_ranks import MISSING, columns_of, expected_ranks, expected_ties, inversions_of

TILE = 8192  # keys of the largest tile of uint32


@pytest.fixture
def inversions(device: Backend) -> ModuleType:
    """The launcher, on the device."""
    from cukde.kendall.gpu import inversions as kendall_inversions

    return kendall_inversions


def signs(ranks: np.ndarray) -> np.ndarray:
    return np.sign(ranks[None, :].astype(np.int64) - ranks[:, None].astype(np.int64))


def concordant_and_discordant(x: np.ndarray, y: np.ndarray) -> tuple[int, int]:
    """By all pairs; of many samples by the inversions that sorting by x, then by y, leaves in y."""
    if len(x) > 3000:
        discordant = inversions_of(y[np.lexsort((y, x))].astype(np.int64))
        of_both = np.unique(np.stack([x, y]), axis=1, return_counts=True)[1]
        tied = expected_ties(x)[0] + expected_ties(y)[0] - int((of_both * (of_both - 1) // 2).sum())
        return len(x) * (len(x) - 1) // 2 - tied - discordant, discordant
    product = signs(x) * signs(y)
    return np.count_nonzero(product > 0) // 2, np.count_nonzero(product < 0) // 2


def check(device: Backend, got: Any, pairs: list[tuple[np.ndarray, np.ndarray]]) -> None:
    samples, concordant, discordant = (device.asnumpy(a) for a in got[:3])
    assert samples.dtype == concordant.dtype == discordant.dtype == np.int64
    assert samples.shape == concordant.shape == discordant.shape == (len(pairs),)
    ties = [[device.asnumpy(a) for a in of] for of in (got.x, got.y)]
    for k, (x, y) in enumerate(pairs):
        left = (x != MISSING) & (y != MISSING)
        assert samples[k] == left.sum()
        assert (concordant[k], discordant[k]) == concordant_and_discordant(x[left], y[left]), f"pair {k}"
        for of, z in zip(ties, (x[left], y[left]), strict=True):
            pairs_, triples, variance, classes = expected_ties(z)
            assert (of[0][k], of[3][k]) == (pairs_, classes)
            np.testing.assert_allclose([of[1][k], of[2][k]], [float(triples), float(variance)], rtol=1e-15)


def ranks_of(n: int) -> np.ndarray:
    """Of columns of every shape of ties and of order; of the eighth and the ninth some samples are missing."""
    return np.stack([expected_ranks(column) for column in columns_of(n)])


@pytest.mark.parametrize("n", [0, 1, 2, 3, 33, 1023, 1024, 1025, 2050])
def test_all_pairs_of_columns(device: Backend, inversions: ModuleType, n: int) -> None:
    x, y = ranks_of(n), ranks_of(n)[:, ::-1].copy()
    i, j = np.divmod(np.arange(len(x) * len(y)), len(y))
    i, j = (i[::3], j[::3]) if n > 1000 else (i, j)
    got = inversions.counts(*map(device.asarray, (x, y, i, j)))
    check(device, got, list(zip(x[i], y[j], strict=True)))


@pytest.mark.parametrize("n", [4095, 4096, 4097, TILE + 1, 3 * TILE + 5])
def test_tiles_that_are_merged(device: Backend, inversions: ModuleType, n: int) -> None:
    """Row by row, of numbers of tiles that are no powers of two."""
    x = ranks_of(n)
    y = np.roll(x, 1, axis=0)
    check(device, inversions.counts(device.asarray(x), device.asarray(y)), list(zip(x, y, strict=True)))


def test_rows_of_one_side(device: Backend, inversions: ModuleType) -> None:
    x, y = ranks_of(100), ranks_of(100)[[5, 3]]
    rows = np.array([7, 0])
    check(
        device,
        inversions.counts(device.asarray(x), device.asarray(y), device.asarray(rows)),
        list(zip(x[rows], y, strict=True)),
    )
    check(
        device,
        inversions.counts(device.asarray(y), device.asarray(x), None, device.asarray(rows)),
        list(zip(y, x[rows], strict=True)),
    )


@pytest.mark.parametrize("by_rows", [False, True])
def test_batches_of_pairs(device: Backend, inversions: ModuleType, by_rows: bool) -> None:
    x, y = ranks_of(300), ranks_of(300)[::-1].copy()
    rows = (device.asarray(np.arange(len(x))),) * 2 if by_rows else ()
    with mock.patch("cukde.core.merge_tiles._SCRATCH_BYTES", 4 * 24 * 300):
        got = inversions.counts(device.asarray(x), device.asarray(y), *rows)
    check(device, got, list(zip(x, y, strict=True)))


def test_no_pairs(device: Backend, inversions: ModuleType) -> None:
    x = device.asarray(ranks_of(5))
    none = device.asarray(np.zeros(0, np.int64))
    check(device, inversions.counts(x, x, none, none), [])


def test_samples_missing_at_both_ends_and_everywhere(device: Backend, inversions: ModuleType) -> None:
    """Ties and counts are those of the samples that are left in the pair."""
    x, y = ranks_of(64)[[5, 5, 3, 4]], ranks_of(64)[[6, 4, 5, 4]]
    x[0, :20], y[0, -20:], x[2, 1:] = MISSING, MISSING, MISSING
    check(device, inversions.counts(device.asarray(x), device.asarray(y)), list(zip(x, y, strict=True)))


@pytest.mark.gpu
@pytest.mark.parametrize("n", [10**6, 10**7])
def test_many_samples(n: int) -> None:
    """Against the number that makes every pair of samples count once, and a permutation whose inversions are known."""
    import cupy as cp

    from cukde.kendall.gpu import inversions as kendall_inversions
    from tests.private import kendall_ranks

    x = cp.random.RandomState(0).permutation(n)
    block = 1000  # y reverses blocks of x
    y = x // block * block + (block - 1 - x % block)
    ranked = kendall_ranks.ranks(cp.stack([x, y]))
    got = kendall_inversions.counts(ranked.values[:1], ranked.values[1:])
    discordant = n // block * (block * (block - 1) // 2)
    assert int(got.discordant[0]) == discordant
    assert int(got.concordant[0]) == n * (n - 1) // 2 - discordant


@pytest.mark.gpu
def test_the_same_bits_on_every_run() -> None:
    import cupy as cp

    from cukde.kendall.gpu import inversions as kendall_inversions
    from tests.private import kendall_ranks

    values = cp.random.default_rng(0).integers(0, 300, (2, 300_000))
    runs = []
    for _ in range(3):
        ranked = kendall_ranks.ranks(values)
        got = kendall_inversions.counts(ranked.values[:1], ranked.values[1:])
        runs.append(b"".join(a.tobytes() for a in (*ranked, *got[:3], *got.x, *got.y)))
    assert runs[0] == runs[1] == runs[2]
