r"""Rows that follow each other as those of a Markov chain: how many independent ones they are worth.

*Of a mean.* With autocorrelations :math:`r_k` the mean of n rows has the variance of
:math:`n / (1 + 2 \sum_k r_k)` independent ones. The sum ends by Geyer's initial positive sequence, and is kept from
rising by his initial monotone sequence, as in Stan and ArviZ (Vehtari et al. 2021, section 3.2).

*Of a density.* Neighbours of a chain count as one row in its mean, but as two in a density that tells them apart: whose
bandwidth h is less than their distance. For a normal process with standard deviation 1 the integrated covariance of
kernels at rows k steps apart is :math:`c_k = (4 \pi (h^2 + 1 - r_k))^{-d/2}`, minus the same with :math:`r = 0`. The
best bandwidth depends on how the variance falls with it, that is on the derivatives by :math:`\log h`. Their ratio is

.. math:: \frac{c_k'}{c_0'} = w(r_k) - w(0), \qquad w(r) = \Big(\frac{h^2}{h^2 + 1 - r}\Big)^{d/2 + 1},

so that the rows count as :math:`n / (1 + 2 \sum_k [w(r_k) - w(0)])`. Columns have autocorrelations of their own: w is
then a product over columns times a mean. Rows that stay, as where a proposal is refused, have w = 1; the others share
what is left of :math:`1 - r_k`.
"""

from __future__ import annotations

import math
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np


class Chain(NamedTuple):
    """What the rows of a chain have in common with those some steps before."""

    n: int
    correlations: np.ndarray  # (lags, d), from a lag of 1 on, as far as any column's goes
    ties: np.ndarray  # (lags,): share of rows that are the same, and have stayed so in between
    least: float  # effective number for the mean of a column, the least of them

    @classmethod
    def of(cls, points: Any, periods: np.ndarray | None, backend: ModuleType) -> Chain:
        """Take checked points, (n, d), in their order; ``periods`` are infinite where there is none."""
        xp = backend.xp
        n, d = points.shape
        each = []
        for k in range(d):
            period = math.inf if periods is None else float(periods[k])
            each.append(monotone(of_column(points[:, k], 1, backend, period)))
        lags = max(map(len, each))
        correlations = np.zeros((lags, d))
        for k, column in enumerate(each):
            correlations[: len(column), k] = column
        moved = xp.flatnonzero((points[1:] != points[:-1]).any(axis=1)) + 1
        ends = np.concatenate([[0], backend.asnumpy(moved), [n]])
        return cls(n, correlations, _stayed(np.diff(ends), lags), min(effective(n, column) for column in each))

    @property
    def step(self) -> int:
        """Rows so far apart are about independent."""
        return max(1, round(self.n / self.least))

    def share(self, h: float) -> float:
        """Share of the rows that count in a density whose bandwidth is ``h`` standard deviations of each column."""
        lags, d = self.correlations.shape
        moved = np.maximum(1 - self.ties, 1e-12)[:, None]
        apart = np.clip((1 - self.correlations) / moved, 0, None)
        near = h * h / (h * h + apart)
        alone = (h * h / (h * h + 1)) ** (d / 2 + 1)
        terms = moved[:, 0] * np.sqrt(near).prod(axis=1) * near.mean(axis=1) + self.ties - alone
        fewer = 1 - np.arange(1, lags + 1) / self.n
        return 1 / max(1.0, 1 + 2 * float(terms @ fewer))


def of_column(x: Any, chains: int, backend: ModuleType, period: float = math.inf) -> np.ndarray:
    """Autocorrelations of a column from a lag of 1 on, of several chains one after another; none if it is constant.

    They go as far as :func:`monotone` looks at them. What chains differ by counts as correlation. With a period they
    are those of points on a circle.
    """
    xp = backend.xp
    x = x.astype(xp.float64)
    series = [x]
    if math.isfinite(period):
        angles = (x - x[0]) * (2 * math.pi / period)
        series = [xp.cos(angles), xp.sin(angles)]
    n = len(series[0]) // chains
    size = 2 ** math.ceil(math.log2(2 * n))
    centred = [x - x.mean() for x in series]
    scale = max(float(abs(a).max()) for a in centred) or 1.0
    total: Any = 0.0
    between = 0.0
    for x in centred:
        a = (x / scale).reshape(chains, n)
        means = a.mean(axis=1)
        spectrum = xp.fft.rfft(a - means[:, None], size, axis=1)
        power = (spectrum.real**2 + spectrum.imag**2).mean(axis=0)
        total = total + xp.fft.irfft(power, size)[:n] / n
        between += float(means.var()) * chains / (chains - 1) if chains > 1 else 0.0
    within = float(total[0]) * n / (n - 1)
    variance = float(total[0]) + between
    if not variance > 0:
        return np.zeros(0)
    return np.asarray(backend.asnumpy(before_the_end(1 - (within - total[1:]) / variance)))


def before_the_end(correlations: Any) -> Any:
    """Autocorrelations up to the first pair, of lags 2 and 3 or later, whose sum is not positive, and with it.

    As a rule these are a handful of millions, and the others need not come to the host.
    """
    pairs = correlations[1 : len(correlations) - 1 + len(correlations) % 2].reshape(-1, 2)
    positive = pairs[:, 0] + pairs[:, 1] > 0
    end = int(positive.argmin()) if len(pairs) else 0
    return correlations if len(pairs) == 0 or bool(positive[end]) else correlations[: 2 * end + 3]


def monotone(correlations: np.ndarray) -> np.ndarray:
    """Autocorrelations as far as pairs of them are positive, and no pair above the one before.

    Sums of pairs, of lags 0 and 1, 2 and 3 and so on, are positive, fall and are convex for reversible chains.
    """
    whole = np.concatenate([[1.0], correlations])
    pairs = whole[: len(whole) // 2 * 2].reshape(-1, 2)
    sums = pairs.sum(axis=1)
    ends = np.flatnonzero(~(sums > 0))
    count = int(ends[0]) if len(ends) else len(sums)
    after = pairs[count, 0] if count < len(pairs) else 0.0
    sums = sums[:count]
    lowered = np.minimum.accumulate(sums)
    kept = np.where((lowered < sums)[:, None], lowered[:, None] / 2, pairs[:count])
    out: np.ndarray = kept.reshape(-1)[1:]
    return np.append(out, after / 2) if after > 0 and count else out  # as ArviZ counts it


def effective(n: int, correlations: np.ndarray) -> float:
    """Number of independent rows whose mean varies as much, at most n."""
    return n / max(1.0, 1 + 2 * float(correlations.sum()))


def _stayed(runs: np.ndarray, lags: int) -> np.ndarray:
    """Share of the pairs of rows, for each lag, that lie in one of the runs of these lengths."""
    counts = np.bincount(runs)
    n = int(runs.sum())
    # A run of length L has L - k pairs at a lag of k.
    longer = counts[::-1].cumsum()[::-1]  # runs of at least that length
    pairs = longer[::-1].cumsum()[::-1]  # at index k + 1 the pairs at lag k
    out = np.zeros(lags)
    held = pairs[2 : lags + 2]
    out[: len(held)] = held
    return np.asarray(out / (n - np.arange(1, lags + 1)))
