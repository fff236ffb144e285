"""The exact null distribution of Kendall's tau against integers."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from cukde.kendall import null
from tests.reference import permutations_by_inversions

TOLERANCE = 4e-15
"""Relative, of a probability; measured 3.3e-15 at n = 180, where most running sums are taken."""


def exact_cdf(n: int) -> np.ndarray:
    """P(at most k of the pairs are discordant) for every k, each rounded once."""
    orders = itertools.accumulate(permutations_by_inversions(n))
    return np.array([ways / math.factorial(n) for ways in orders])


def test_integers_count_permutations() -> None:
    for n in range(1, 7):
        inversions = [
            sum(a > b for a, b in itertools.combinations(order, 2)) for order in itertools.permutations(range(n))
        ]
        assert permutations_by_inversions(n) == np.bincount(inversions).tolist()


@pytest.mark.parametrize("n", [1, 2, 3, 4, 10, 33, 34, 60])
def test_cdf(n: int) -> None:
    expected = exact_cdf(n)
    actual = null.cdf(n, np.arange(len(expected)))
    np.testing.assert_allclose(actual, expected, rtol=TOLERANCE)
    assert actual[-1] == 1


def test_cdf_in_the_tail_of_many_samples() -> None:
    n, most = 180, 2000  # of 16110 pairs
    counts = np.zeros(most + 1, object)
    counts[0] = 1
    for j in range(2, n + 1):
        counts = np.cumsum(counts)
        counts[j:] -= counts[:-j].copy()
    k = np.arange(700, most + 1)  # below 1e-180
    expected = np.array([ways / math.factorial(n) for ways in np.cumsum(counts)[k]])
    np.testing.assert_allclose(null.cdf(n, k), expected, rtol=TOLERANCE)


@pytest.mark.parametrize(("n", "k", "expected"), [(170, 0, 1 / math.factorial(170)), (171, 0, 0), (172, 1, 0)])
def test_the_ends_of_many_samples(n: int, k: int, expected: float) -> None:
    pairs = n * (n - 1) // 2
    assert null.cdf(n, np.array([k])) == expected
    assert null.cdf(n, np.array([pairs - 1 - k])) == 1 - expected


def test_looked_up_for_few_samples() -> None:
    for n in range(1, null.LARGEST + 1):
        expected = exact_cdf(n)
        k = np.arange(len(expected))
        actual = null.looked_up_cdf(np.full_like(k, n), k)
        np.testing.assert_allclose(actual, expected, rtol=TOLERANCE)


@pytest.mark.parametrize("n", [34, 100, 170, 171, 172, 100_000_000])
def test_looked_up_at_the_ends(n: int) -> None:
    pairs = n * (n - 1) // 2
    k = np.array([0, 1, pairs - 1, pairs])
    expected = [1 / math.factorial(n) if n < 171 else 0, 1 / math.factorial(n - 1) if n < 172 else 0, 1, 1]
    np.testing.assert_allclose(null.looked_up_cdf(np.array(n), k), expected, rtol=TOLERANCE)
