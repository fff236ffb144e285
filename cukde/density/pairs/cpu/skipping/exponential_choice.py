"""Whether sums of the exponential kernel on the CPU leave out pairs: by samples, then by what a few queries take."""

from __future__ import annotations

import numpy as np

from cukde.density.pairs import counting
from cukde.density.pairs.cpu.skipping import exponential

_FEW_PAIRS, _FEW_QUERIES = 2**20, 128  # up to so many, all pairs are taken before points could be brought in order
_TRIED = 32  # queries
_GAIN, _HOPE = 0.8, 0.9  # of the time of all pairs, at most: by queries that were tried, and by samples

# Far below what a square of single or double precision reaches: coordinates in bandwidths, and bandwidths.
_FURTHEST = {4: 1e15, 8: 1e60}
_BANDWIDTHS = {4: (1e-30, 1e30), 8: (1e-290, 1e290)}

# Times in pairs of the pass that takes all of them (two cores with AVX-512): of a pair that is not left out, by
# dimensions, and of a point to be put in order, (of one, and of each of its coordinates).
_PAIR = {4: {3: 1.05, 8: 1.3, 16: 1.3, 32: 1.5, 64: 1.8}, 8: {3: 0.82, 6: 0.95, 8: 1.1, 16: 1.3, 32: 1.5, 64: 1.7}}
_POINT = {4: (160.0, 20.0), 8: (80.0, 12.0)}
_BOXES = 0.03  # of all pairs, for the distances of boxes

# Up to so many dimensions boxes are narrow enough to be foretold by the share of single pairs. Beyond, queries are
# tried, where points are put in order in so short a time that it may be in vain: short, or not long and pairs are few.
_FEW_DIMENSIONS, _MORE_DIMENSIONS = 3, 6
_SHORT, _LONG, _FEW = 0.04, 0.08, 0.05


def posed(
    X: np.ndarray, Y: np.ndarray, h: float, log_weights: np.ndarray | None, *, rtol: float, atol: float
) -> exponential.Posed | None:
    """Pose the pass that leaves out pairs, or return None where all pairs are faster, or points are not numbers.

    Arguments are those of :func:`cukde.density.pairs.cpu.skipping.exponential.pose`, where tolerances may be 0.
    """
    (n, d), m, size = X.shape, len(Y), X.dtype.itemsize
    if n * m <= _FEW_PAIRS or m <= _FEW_QUERIES or max(rtol, atol) <= 0:
        return None
    low, high = _BANDWIDTHS[size]
    # Not a number in the data makes the largest one that, too.
    if not (low < h < high and all(np.abs(a).max() < _FURTHEST[size] * h for a in (X, Y))):
        return None
    of_mean = atol / (n if log_weights is None or atol == 0 else float(np.exp(log_weights).sum()))
    share = counting.exponential_share(X, Y, h, rtol, of_mean)
    row, coordinate = _POINT[size]
    order = (row + coordinate * d) * (n + m) / (n * m)
    pair = next((rate for most, rate in _PAIR[size].items() if d <= most), _PAIR[size][64])
    if d <= _FEW_DIMENSIONS:
        foretold = order + pair * (min(1.0, 1.2 * share + 0.02) + _BOXES)
        return exponential.pose(X, Y, h, log_weights, rtol=rtol, atol=atol) if foretold < _HOPE else None
    in_vain = _LONG if d <= _MORE_DIMENSIONS and share < _FEW else _SHORT
    if order > in_vain or order + pair * (2 * share + 0.1 + _BOXES) > _HOPE:
        return None
    whole = exponential.pose(X, Y, h, log_weights, rtol=rtol, atol=atol)
    tried = np.linspace(0, m - 1, _TRIED).astype(np.intp)
    taken = exponential.tried(whole, tried)
    screening = (d + 1) / (d + 10)  # of the time of a pair: its squared distance
    summed, screened = (count / (n * len(tried)) for count in (taken.summed, taken.screened))
    time = pair * (screening * screened + (1 - screening) * summed + _BOXES)
    return whole if time < _GAIN else None
