"""Ranks with ties and without, and products of signs pair by pair."""

from __future__ import annotations

import numpy as np

_PAIRS_AT_ONCE = 2**22

TIES = {
    "ties": lambda p: np.ones(p, bool),
    "none": lambda p: np.zeros(p, bool),
    "some": lambda p: np.arange(p) % 4 == 1,
}


def by_brute_force(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """C and D of every row of x with every row of y, pair by pair."""
    i, j = np.triu_indices(x.shape[1], 1)
    difference, untied = (np.zeros((len(x), len(y)), np.int64) for _ in range(2))
    step = max(1, _PAIRS_AT_ONCE // max(len(x), len(y), 1))
    for first in range(0, len(i), step):
        part = slice(first, first + step)
        # Products and partial sums are whole numbers below 2^53.
        s, t = (np.sign(r[:, j[part]].astype(np.int64) - r[:, i[part]]).astype(np.float64) for r in (x, y))
        difference += (s @ t.T).astype(np.int64)
        untied += (np.abs(s) @ np.abs(t).T).astype(np.int64)
    return (untied + difference) // 2, (untied - difference) // 2


def ranks(rows: int, n: int, tied: np.ndarray, seed: int = 0) -> np.ndarray:
    """Minimum ranks of random rows, with ties where `tied`."""
    rng = np.random.default_rng([seed, rows, n])
    out = np.empty((rows, n), np.uint32)
    for row in range(rows):
        values = rng.integers(0, max(1, n // 3), n) if tied[row] else rng.permutation(n)
        out[row] = np.searchsorted(np.sort(values), values)
    return out


def has_ties(r: np.ndarray) -> np.ndarray:
    return np.array([len(np.unique(row)) < len(row) for row in r], bool)
