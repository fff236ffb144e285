"""The exact null distribution of Kendall's tau: the number of discordant pairs of n samples in random order.

The Mahonian numbers count the orders of n samples that have k inversions. Divided by n! they are a distribution f_n,
that of a sum of independent variables, uniform on 0, ..., j - 1 for j = 2, ..., n. Hence

    f_j(k) = (f_{j-1}(k) + f_{j-1}(k - 1) + ... + f_{j-1}(k - j + 1)) / j

and differences of cumulative sums give each f_j in O(k). It is symmetric: f_n(k) = f_n(n (n - 1) / 2 - k).

Source: Kendall, M. G. (1938). A new measure of rank correlation. Biometrika 30, 81-93.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

LARGEST = 33
"""Most samples for which the distribution is tabulated and the distribution "auto" is exact."""

LARGEST_FACTORIAL = 170
"""For larger n, 1 / n! is below the normal numbers of float64 and is taken as 0."""


def masses(n: int, most: int) -> np.ndarray:
    """Probabilities f_n(0), ..., f_n(most), normalised at every step to avoid factorials."""
    f = np.zeros(most + 1)
    f[0] = 1
    for j in range(2, n + 1):
        f = np.cumsum(f)
        f[j:] -= f[:-j].copy()
        f /= j
    return f


def cdf(n: int, k: np.ndarray) -> np.ndarray:
    """P(at most k of the pairs are discordant), k int64 in 0, ..., n (n - 1) / 2; on the host, in O(n k).

    The shorter tail is summed. Relative error against integers 4e-15 up to n = 180 (``tests/kendall/test_null.py``).
    """
    pairs = n * (n - 1) // 2
    left = 2 * k < pairs
    tail = np.where(left, k, pairs - 1 - k)  # -1 where the other tail is empty
    out = np.empty(k.shape)
    near = tail <= 1
    out[near] = [0.0 if i < 0 else reciprocal_factorial(n - i) for i in tail[near].tolist()]
    if not near.all():
        out[~near] = np.cumsum(masses(n, int(tail.max())))[tail[~near]]
    return np.where(left, out, 1 - out)


def reciprocal_factorial(n: int) -> float:
    """1 / n!: f_n(0), and for n - 1 the sum f_n(0) + f_n(1)."""
    return 1 / math.factorial(n) if n <= LARGEST_FACTORIAL else 0.0


@functools.cache
def table() -> np.ndarray:
    """Concatenate the distribution functions of n = 0, ..., LARGEST, then 1 / n! down to 0, then 1."""
    functions = [cdf(n, np.arange(n * (n - 1) // 2 + 1)) for n in range(LARGEST + 1)]
    return np.concatenate([*functions, [reciprocal_factorial(n) for n in range(LARGEST_FACTORIAL + 2)], [1.0]])


def looked_up_cdf(n: Any, k: Any) -> Any:
    """P(at most k of the pairs are discordant) where n <= LARGEST, or where k is within 1 of either end.

    ``n`` and ``k`` are int64 arrays. Elsewhere the result is meaningless.
    """
    one = table().size - 1
    factorials = one - (LARGEST_FACTORIAL + 2)
    small = np.minimum(n, LARGEST)
    within = small * (small - 1) * (small - 2) // 6 + small + k  # the tables before that of n have C(n, 3) + n entries
    # Where k is 1 below the top the probability is 1 - 1/n!, which is 1 for n > LARGEST.
    beyond = np.where(k <= 1, factorials + np.minimum(n - k, LARGEST_FACTORIAL + 1), one)
    return table()[np.clip(np.where(n <= LARGEST, within, beyond), 0, one)]
