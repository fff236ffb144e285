"""Which pairs of blocks can matter, by bounds that hold for every query of a block and every row of another.

Distances are those of the bandwidth. Below, p is a part of a block of data with n_p rows (or that much weight), y a
query in a part q of a block of queries, and r the distance from y to a row:

- p adds at most n_p f(r_p) exp(-r_p^2 / 2) to the sum at y, where r_p is the least distance of the boxes of p and q;
- it adds at least n_p exp(-m / 2), where m is the mean of r^2 over p, by Jensen's inequality, as exp is convex. At the
  worst y of q, m is the squared distance from the mean of p to the far end of q, and the variance of p.

f(r) is 1 for sums, 1 + max(r, 1) for sums and moments together, and 2 + d/2 + r^2/2 for sums and those with the factors
1 + d/2 - r^2/2 of the Laplace correction together: what follows from that for both is said at the top of
:mod:`cukde.density.pairs.cpu.skipping.queries`. For sums and moments with the factors 2 + d/2 - r^2/2 it is
1 + s (2 + d/2 + s^2/2), s = max(r, 2). Times exp(-r^2 / 2) it is no larger further out. Blocks are left out while the
sum of what they may add at y is within a tolerance of what all blocks add at least. Gray and Moore (2003) bound boxes
of data likewise; the lower bound by the mean is sharper than theirs, by the largest distance, where boxes are wide.
"""

from __future__ import annotations

import itertools
import math
from typing import NamedTuple

import numpy as np

from cukde.density.dask.parts import BlockBoxes
from cukde.density.sums import Output

# What the bounds may lose by rounding: sums over the columns, and means of coordinates far from the origin.
_ROUNDING, _ROUNDING_OF_MEANS = 1e-9, 8 * float(np.finfo(np.float64).eps)

# What a mean shift may be off, relative to its bound and in bandwidths; and relative to the extent of the data where
# tensor cores take coordinates of 11 bits.
_ROUNDING_OF_SHIFTS, _ROUNDING_OF_POINTS = 1e-3, 2.0**-11


class Metric(NamedTuple):
    """Bounds of a bandwidth's distance: squares lie between ``least`` and ``most`` times those in ``deviations``."""

    deviations: np.ndarray  # (d,)
    least: float = 1.0
    most: float = 1.0


class Needed(NamedTuple):
    """What a call needs."""

    pairs: np.ndarray  # (blocks of queries, blocks of data), bool
    log_least: np.ndarray  # (parts of queries,): logarithm of the least sum at a query, in rows or weight


def metric(bandwidth: np.ndarray, d: int) -> Metric:
    """Metric of a bandwidth: a number, (d,) deviations, or a (d, d) covariance by the ends of its spectrum."""
    if bandwidth.ndim < 2:
        return Metric(np.broadcast_to(bandwidth, d).astype(np.float64))
    deviations = np.sqrt(np.diag(bandwidth))
    spectrum = np.linalg.eigvalsh(bandwidth / deviations / deviations[:, None])
    lost = 10 * d * float(np.finfo(np.float64).eps) * spectrum[-1]
    least = spectrum[0] - lost
    return Metric(deviations, 1 / (spectrum[-1] + lost), 1 / least if least > 0 else math.inf)


def needed(
    queries: BlockBoxes,
    data: BlockBoxes,
    bandwidth: np.ndarray,
    output: Output,
    tolerance: float,
    *,
    itself: bool = False,
    moved: np.ndarray | None = None,
) -> Needed:
    """Find the pairs of blocks beside which all others add at most ``tolerance`` times what they do.

    Parameters
    ----------
    output : {"sum", "moments", "laplace", "laplace_moments"}
        See the top.
    itself : bool
        The queries are the data, without weights: each adds 1 to its own sum.
    moved : array, shape (parts of data,), optional
        The rows of a part lie at most so far from where the boxes say, in bandwidths.
    """
    d = data.low.shape[1]
    by = metric(bandwidth, d)
    pairs = np.zeros((len(queries.rows), len(data.rows)), bool)
    log_least = np.empty(len(queries.block))
    ends = np.searchsorted(queries.block, np.arange(len(queries.rows) + 1))
    starts = np.flatnonzero(np.diff(data.block, prepend=-1))
    allowed = math.log(tolerance) - math.log1p(tolerance)
    with np.errstate(all="ignore"):  # of unchecked points, and of parts that are very far
        for i, (start, end) in enumerate(itertools.pairwise(ends)):
            if start == end:
                continue
            low, high = queries.low[start:end], queries.high[start:end]
            near, mean = _distances(low, high, data, by, moved)
            least = data.log_mass - 0.5 * mean
            most = data.log_mass - 0.5 * near
            if output == "moments":
                most += np.log1p(np.maximum(np.sqrt(near), 1))
            elif output == "laplace":
                most += np.log(2 + 0.5 * d + 0.5 * near)
            elif output == "laplace_moments":
                squares = np.maximum(near, 4)
                most += np.log1p(np.sqrt(squares) * (2 + 0.5 * d + 0.5 * squares))
            log_least[start:end] = np.logaddexp.reduce(least, axis=1)
            if itself:
                log_least[start:end] = np.maximum(log_least[start:end], 0)
            parts = np.exp(most - (log_least[start:end, None] + allowed))
            parts[np.isnan(parts)] = np.inf  # nothing is known of them
            pairs[i, data.block[starts]] = ~_beside(np.add.reduceat(parts, starts, axis=1)).all(axis=0)
    return Needed(pairs, log_least)


def shifts(
    data: BlockBoxes, log_least: np.ndarray, bandwidth: np.ndarray, of_score: np.ndarray, *, single: bool
) -> np.ndarray:
    """Bound the way of each part's rows by debiasing, in units of the ``bandwidth`` that comes next, (parts,).

    ``log_least`` is of the sums at the rows with the bandwidth ``of_score``. By the shares that points of total weight
    W have in a sum S, the mean of r^2 / 2 is log(W / S) less the relative entropy of the shares to the weights. So the
    mean shift is at most sqrt(2 log(W / S)) bandwidths. ``single`` says that passes are not in double precision.
    """
    d = data.low.shape[1]
    longest = np.sqrt(2 * np.maximum(data.log_total - log_least, 0)) * (1 + _ROUNDING_OF_SHIFTS) + _ROUNDING_OF_SHIFTS
    if single:
        longest = longest + _ROUNDING_OF_POINTS * _extent(data, of_score)
    return 0.5 * _ratio(bandwidth, of_score, d) * longest


def _extent(data: BlockBoxes, bandwidth: np.ndarray) -> float:
    """Bound the distance of two rows, in bandwidths."""
    by = metric(bandwidth, data.low.shape[1])
    sides = (data.high.max(axis=0) - data.low.min(axis=0)) / by.deviations
    return float(np.sqrt(by.most * (sides * sides).sum()))


def _ratio(bandwidth: np.ndarray, of_score: np.ndarray, d: int) -> float:
    """Norm of H Hs^-1 as a map from lengths in bandwidths of the score, Hs, to those in bandwidths, H."""
    if bandwidth.ndim < 2 and of_score.ndim < 2:
        return float((np.broadcast_to(bandwidth, d) / of_score).max())
    factor, other = (
        np.linalg.cholesky(h) if h.ndim == 2 else np.diag(np.broadcast_to(h, d)) for h in (bandwidth, of_score)
    )
    return float(np.linalg.norm(np.linalg.solve(other, factor), 2))


def _distances(
    low: np.ndarray, high: np.ndarray, data: BlockBoxes, by: Metric, moved: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    """Squared distances of parts of queries and of data, (parts of queries, parts of data), with room for rounding.

    The least, and the largest over the queries of the mean over the data.
    """
    near, mean = np.zeros((2, len(low), len(data.low)))
    for c, h in enumerate(by.deviations):
        begin, end, lows, highs = low[:, c, None], high[:, c, None], data.low[:, c], data.high[:, c]
        gap = np.maximum(np.maximum(lows - end, begin - highs), 0) / h
        near += gap * gap
        middle = data.mean[:, c]
        reach = np.maximum(end - middle, middle - begin)
        reach = (reach + _ROUNDING_OF_MEANS * (np.abs(middle) + highs - lows)) / h
        mean += reach * reach + data.variance[:, c] / h / h
    near *= by.least * (1 - _ROUNDING)
    mean *= by.most * (1 + _ROUNDING)
    if moved is not None:
        # The mean of (r + s)^2 is at most the square of the root of the mean of r^2, and s.
        near = np.maximum(np.sqrt(near) - moved, 0) ** 2
        mean = (np.sqrt(mean) + moved) ** 2
    return near, mean


def _beside(shares: np.ndarray) -> np.ndarray:
    """Which entries of each row can go, the least first, as long as their sum is at most 1."""
    order = np.argsort(shares, axis=1)
    out = np.empty(shares.shape, bool)
    np.put_along_axis(out, order, np.take_along_axis(shares, order, axis=1).cumsum(axis=1) <= 1, axis=1)
    return out
