"""Kendall's tau and its p-values from counts of pairs, on the CPU; the GPU's twin is ``kendall/statistics.cu``.

Where a variable is constant, or fewer than two samples are left, every statistic is NaN.
"""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from cukde.kendall import null as kendall_null
from cukde.kendall.counts import PairCounts

VARIANTS = ("a", "b", "c")
DISTRIBUTIONS = ("auto", "exact", "asymptotic")
ALTERNATIVES = ("two-sided", "less", "greater")


class Null(NamedTuple):
    """Method and alternative of the p-value of independence."""

    distribution: str  # "auto" or "asymptotic"; "exact" has :func:`exact_p_value`
    alternative: str


# NumPy's functions of plain numbers: those of one pair of variables take a tenth of the time of arrays of one entry.
_OF_NUMBERS = SimpleNamespace(
    **{"minimum": min, "maximum": max, "sqrt": math.sqrt, "isnan": math.isnan},
    where=lambda condition, yes, no: yes if condition else no,
    clip=lambda value, low, high: min(max(value, low), high),
)


def statistics(counts: PairCounts, variant: str, null: Null | None, complete: int) -> tuple[Any, Any | None]:
    """Return the statistic and, with ``null``, the p-value, float64; NaN for fewer samples than ``complete``."""
    if counts.samples.shape == (1,) and counts.x.pairs.shape == (1,):
        single = counts.map(lambda a: a.item())
        if single.samples < complete:
            single = single._replace(samples=0)
        p = None if null is None else np.array([p_value(single, null, _OF_NUMBERS)], np.float64)
        return np.array([tau(single, variant, _OF_NUMBERS)], np.float64), p
    counts = of_complete(counts, complete)
    return tau(counts, variant), None if null is None else p_value(counts, null)


def of_complete(counts: PairCounts, complete: int) -> PairCounts:
    """Set the samples of pairs of variables with fewer than ``complete`` to 0, so that their statistics are NaN."""
    return counts._replace(samples=np.where(counts.samples < complete, 0, counts.samples))


def tau(counts: PairCounts, variant: str, xp: Any = np) -> Any:
    """Return the statistic, float64.

    With N = n (n - 1) / 2 pairs of samples, of which T are tied in a variable, and m = min(m_x, m_y) classes::

        a   (C - D) / N
        b   (C - D) / sqrt((N - Tx) (N - Ty))
        c   2 (C - D) / (n^2 (m - 1) / m)

    All lie between -1 and 1.
    """
    x, y = _untied(counts, xp)
    if variant == "b":
        # The product of floats does not overflow: it is below 1e32 for 1e8 samples. The root of equal factors is exact,
        # and no root is below the smaller factor: perfect order gives 1, and nothing exceeds it.
        denominator = xp.sqrt(x * y)
    else:
        samples = counts.samples * 1.0
        if variant == "a":
            denominator = samples * (samples - 1) / 2
        else:
            classes = xp.maximum(xp.minimum(counts.x.classes, counts.y.classes), 2)
            # Exact for integer n / m, where tau can be 1.
            denominator = samples / classes * (samples * (classes - 1)) / 2
        denominator = xp.where(xp.isnan(x) | xp.isnan(y), math.nan, denominator)
    out = (counts.concordant - counts.discordant) / denominator
    return xp.clip(out, -1, 1) if variant == "c" else out  # for "c", n / m may have been rounded


def p_value(counts: PairCounts, null: Null, xp: Any = np) -> Any:
    """Return the p-value of independence, float64, which is the same for all variants of tau.

    As in SciPy, ``"auto"`` is exact without ties for up to 33 samples or at most one pair out of order.
    """
    n, fewest = counts.samples, xp.minimum(counts.concordant, counts.discordant)
    exact = _without_ties(counts) & (n > 1) & ((n <= kendall_null.LARGEST) | (fewest <= 1))
    if null.distribution == "asymptotic" or exact is False:
        return _asymptotic(counts, null.alternative, xp)
    tail = kendall_null.looked_up_cdf(n, _tail(counts, null.alternative, xp))
    tail = _of_tail(tail, null.alternative, xp)
    return tail if exact is True else np.where(exact, tail, _asymptotic(counts, null.alternative, xp))


def exact_p_value(counts: PairCounts, alternative: str) -> Any:
    """Return the p-value by the exact distribution without ties, for any n; NaN elsewhere."""
    k, n, x, y = np.broadcast_arrays(_tail(counts, alternative), counts.samples, counts.x.pairs, counts.y.pairs)
    out = np.full(k.shape, np.nan)
    defined = (n > 1) & (x == 0) & (y == 0)
    for samples in np.unique(n[defined]).tolist():
        chosen = defined & (n == samples)
        out[chosen] = _of_tail(kendall_null.cdf(samples, k[chosen]), alternative)
    return out


def tied(counts: PairCounts) -> Any:
    """Whether a pair of variables that has a statistic has ties, for which the distribution "exact" has no answer."""
    x, y = _untied(counts, np)
    return ~(np.isnan(x) | np.isnan(y) | _without_ties(counts))


def _untied(counts: PairCounts, xp: Any) -> tuple[Any, Any]:
    """Return N - Tx and N - Ty, the pairs of samples that differ in x and in y, as float64, with NaN for 0."""
    pairs = counts.pairs
    x, y = pairs - counts.x.pairs, pairs - counts.y.pairs
    return xp.where(x > 0, x * 1.0, math.nan), xp.where(y > 0, y * 1.0, math.nan)


def _without_ties(counts: PairCounts) -> Any:
    return (counts.x.pairs == 0) & (counts.y.pairs == 0)


def _asymptotic(counts: PairCounts, alternative: str, xp: Any) -> Any:
    """Return the p-value by the normal distribution of C - D, with a variance that accounts for ties.

    Over the groups of t equal values of each variable, let T be the sum of t (t - 1) / 2, ``triples`` that of
    t (t - 1) (t - 2), and ``variance`` that of t (t - 1) (2 t + 5). For n samples the variance of C - D is ::

        (n (n - 1) (2 n + 5) - variance_x - variance_y) / 18
            + 2 T_x T_y / (n (n - 1)) + triples_x triples_y / (9 n (n - 1) (n - 2))

    Source: Kendall, M. G. (1970). Rank correlation methods, 4th edition, chapter 4.
    """
    x, y = counts.x, counts.y
    n = counts.samples * 1.0
    m = xp.maximum(n * (n - 1), 1)
    variance = (m * (2 * n + 5) - x.variance - y.variance) / 18
    variance = variance + (2 / m) * x.pairs * y.pairs
    variance = variance + x.triples / (9 * m * xp.maximum(n - 2, 1)) * y.triples  # no triples where n < 3
    differ_x, differ_y = _untied(counts, xp)
    undefined = xp.isnan(differ_x) | xp.isnan(differ_y)
    if undefined is True:  # of one pair
        return math.nan
    variance = xp.where(undefined, math.nan, variance)
    z = (counts.concordant - counts.discordant) / xp.sqrt(variance)
    if alternative == "two-sided":
        return 2 * _normal_cdf(-abs(z))
    return _normal_cdf(z if alternative == "less" else -z)


def _normal_cdf(z: Any) -> Any:
    """Probabilities of the standard normal distribution; SciPy's function takes longer to import than most to call."""
    if isinstance(z, float):
        return 0.5 * math.erfc(z * -math.sqrt(0.5))  # with all digits on the left
    return np.array([_normal_cdf(value) for value in z.ravel().tolist()]).reshape(z.shape)


def _tail(counts: PairCounts, alternative: str, xp: Any = np) -> Any:
    """Return the k for which P(D <= k) is the one-sided p-value: without ties C = N - D is distributed like D."""
    if alternative == "two-sided":
        return xp.minimum(counts.concordant, counts.discordant)
    return counts.concordant if alternative == "less" else counts.discordant


def _of_tail(probability: Any, alternative: str, xp: Any = np) -> Any:
    return xp.minimum(2 * probability, 1) if alternative == "two-sided" else probability
