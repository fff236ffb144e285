"""The source's kernel that Kendall's tau is measured against."""

from __future__ import annotations

from types import ModuleType

import numpy as np
import pytest

import cukde
from tests.compilation import ARCHITECTURES, LIKE_80, resources
from tests.conftest import launcher


@pytest.fixture
def pairs() -> ModuleType:
    return launcher("kendall.study_pairs")


@pytest.fixture
def emulated_pairs(pairs: ModuleType, emulated_device: None, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.setattr(pairs, "cp", np)
    return pairs


def _samples(p: int, n: int, values: int) -> np.ndarray:
    """Rows of at most ``values`` different numbers, infinities and both zeros among them."""
    rng = np.random.default_rng([p, n, values])
    numbers = np.r_[0.0, -0.0, np.inf, -np.inf, rng.standard_normal(values)].astype(np.float32)
    return rng.choice(numbers[:values], (p, n))


def _agreement(x: np.ndarray, y: np.ndarray) -> float:
    """(2 (C + Txy) - N) / N from the signs of all pairs of samples."""
    i, j = np.triu_indices(len(x), 1)
    of_x, of_y = ((v[j] > v[i]).astype(np.int64) - (v[j] < v[i]) for v in (x, y))
    return float((2 * (of_x == of_y).sum() - len(i)) / len(i))


@pytest.mark.parametrize("architecture", [a for a in ARCHITECTURES if a not in LIKE_80])
def test_it_compiles_without_spills(pairs: ModuleType, architecture: int) -> None:
    taken = resources(architecture, pairs.STEM)
    assert taken.spills == taken.stack == 0
    assert taken.shared <= 48 * 1024


@pytest.mark.parametrize(
    ("p", "q", "n", "values"),
    [(1, 1, 2, 9), (3, 2, 3, 3), (2, 3, 17, 5), (2, 2, 33, 1000), (1, 2, 100, 2), (2, 1, 257, 40)],
)
def test_it_counts_every_pair_once(emulated_pairs: ModuleType, p: int, q: int, n: int, values: int) -> None:
    a, b = _samples(p, n, values), _samples(q, n, values + 1)
    wanted = [[_agreement(x, y) for y in b] for x in a]
    np.testing.assert_array_equal(emulated_pairs.agreement(a, b), wanted)


def test_counts_of_concordance_make_it(emulated_pairs: ModuleType) -> None:
    a, b = _samples(3, 40, 8), _samples(2, 40, 6)
    counts, pairs = cukde.concordance(a.T, b.T), 40 * 39 // 2
    wanted = (2 * (counts.concordant + counts.tied_both) - pairs) / pairs
    np.testing.assert_array_equal(emulated_pairs.agreement(a, b), wanted)


def test_without_ties_it_is_tau(emulated_pairs: ModuleType) -> None:
    from scipy.stats import kendalltau

    a = np.random.default_rng(0).permuted(np.tile(np.arange(90, dtype=np.float32), (3, 1)), axis=1)
    wanted = [[kendalltau(x, y).statistic for y in a] for x in a]
    np.testing.assert_allclose(emulated_pairs.agreement(a, a), wanted, rtol=1e-14)
