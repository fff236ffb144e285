"""Counts of concordant and discordant pairs of few samples on the CPU, by NumPy alone: integers, as of the passes."""

from __future__ import annotations

import sys

import numpy as np

from cukde.core.plan import note
from cukde.kendall import plan as kendall_plan
from cukde.kendall.counts import PairCounts, Ties
from cukde.kendall.statistics import statistics

__all__ = ["matrix", "pairs", "serves", "statistics"]

# Inversions within blocks of so many numbers are counted by comparing all with all.
_BLOCK = kendall_plan.BLOCK_OF_FEW

# Compiled code saves some 0.2 ms of a call, and takes 0.4 s to load where it is cached: so many calls do without.
_left = 200
_COMPILED = "cukde.kendall.cpu.passes"


def serves(variables: int, n: int) -> bool:
    """Whether a call with so many pairs of variables, of n samples, is taken here. Each question counts as a call."""
    global _left
    if not kendall_plan.few_on_cpu(variables, n) or _left <= 0 or _COMPILED in sys.modules:
        return False
    _left -= 1
    return True


def pairs(x: np.ndarray, y: np.ndarray) -> PairCounts:
    """See :func:`cukde.kendall.cpu.passes.pairs`."""
    note("few")
    return _counted([_pair(a, b) for a, b in zip(x, y, strict=True)], (len(x),))


def matrix(A: np.ndarray, B: np.ndarray | None = None, *, deletion: bool) -> PairCounts:
    """See :func:`cukde.kendall.cpu.passes.matrix`; all counts have the shape (p, q)."""
    note("few")
    x, y = A.T, A.T if B is None else B.T
    whole_x, whole_y = ([deletion or not _missing(a).any() for a in side] for side in (x, y))
    rows: list[_Row] = []
    for i, a in enumerate(x):
        for j, b in enumerate(y):
            if B is None and j < i:
                *counts, ties_a, ties_b = rows[j * len(y) + i]
                rows.append((*counts, ties_b, ties_a))  # type: ignore[arg-type]
            else:
                rows.append(_pair(a, b) if whole_x[i] and whole_y[j] else _NOTHING)
    return _counted(rows, (len(x), len(y)))


def pairs_meanwhile(x: np.ndarray, y: np.ndarray) -> PairCounts | None:
    """Return :func:`pairs`, or None of so many that compiling takes no longer."""
    return pairs(x, y) if kendall_plan.few_meanwhile(*x.shape) else None


def matrix_meanwhile(A: np.ndarray, B: np.ndarray | None = None, *, deletion: bool) -> PairCounts | None:
    """Return :func:`matrix`, or None of so many that compiling takes no longer."""
    p = A.shape[1]
    count = p * (p + 1) // 2 if B is None else p * B.shape[1]
    return matrix(A, B, deletion=deletion) if kendall_plan.few_meanwhile(count, len(A)) else None


_Row = tuple[int, int, int, Ties, Ties]  # fields of PairCounts, as numbers

_NO_TIES = Ties(0, 0.0, 0.0, 0)
_NOTHING: _Row = (0, 0, 0, _NO_TIES, _NO_TIES)


def _counted(rows: list[_Row], shape: tuple[int, ...]) -> PairCounts:
    def array(numbers: tuple[float, ...]) -> np.ndarray:
        return np.array(numbers, np.int64 if isinstance(numbers[0], int) else np.float64).reshape(shape)

    samples, concordant, discordant, x, y = zip(*rows, strict=True)
    ties_x, ties_y = (Ties(*map(array, zip(*side, strict=True))) for side in (x, y))
    return PairCounts(array(samples), array(concordant), array(discordant), ties_x, ties_y)


def _pair(x: np.ndarray, y: np.ndarray) -> _Row:
    """Count pairs of samples of two variables (n,), without those with NaN in either."""
    missing = _missing(x) | _missing(y)
    if missing.any():
        x, y = x[~missing], y[~missing]
    n = len(x)
    if n == 0:
        return _NOTHING
    (x, ties_x), (y, ties_y) = _ranked(x), _ranked(y)
    joint = 0
    if ties_x.pairs and ties_y.pairs:
        joint = _ties(np.unique(x * ties_y.classes + y, return_counts=True)[1]).pairs
    discordant = _inversions(x[np.lexsort((x, y))])
    return n, n * (n - 1) // 2 - ties_x.pairs - ties_y.pairs + joint - discordant, discordant, ties_x, ties_y


def _missing(a: np.ndarray) -> np.ndarray:
    out: np.ndarray = a != a
    return out


def _ranked(a: np.ndarray) -> tuple[np.ndarray, Ties]:
    """Numbers of distinct smaller values, and sums over ties."""
    _, ranks, sizes = np.unique(a, return_inverse=True, return_counts=True)
    return ranks, _ties(sizes)


def _ties(sizes: np.ndarray) -> Ties:
    """Sums over groups of so many equal values; exact, of few samples."""
    t = sizes[sizes > 1]
    pairs = t * (t - 1)
    return Ties(
        int(pairs.sum()) // 2, float((pairs * (t - 2)).sum()), float((pairs * (2 * t + 5)).sum()), int(sizes.size)
    )


def _inversions(a: np.ndarray) -> int:
    """Pairs of numbers from 0 to n - 1 of which the first is larger; in blocks, and then between sorted blocks."""
    n, width = len(a), _BLOCK
    count = 1 << max(0, -(-n // width) - 1).bit_length()  # a power of two
    blocks: np.ndarray = np.full((count, width), n)  # larger than all: what fills the last block adds no inversion
    blocks.reshape(-1)[:n] = a
    used = blocks[: -(-n // width)]
    total = int(np.count_nonzero(np.tril(used[:, None, :] > used[:, :, None], -1)))
    while len(blocks) > 1:
        blocks = np.sort(blocks, axis=1).reshape(-1, 2, width)
        for left, right in blocks:
            total += width * width - int(left.searchsorted(right, "right").sum())
        width *= 2
        blocks = blocks.reshape(-1, width)
    return total
